//! The records of a run, as Python classes. The rules are the core's.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyString, PyTuple, PyType};

use crate::error::RunContextError;
use crate::run::{ChatId, OmniusRunContext, TelegramRunContext};

impl From<RunContextError> for PyErr {
    fn from(error: RunContextError) -> Self {
        PyValueError::new_err(error.to_string())
    }
}

/// Which run a task works for: plain data that never changes. It identifies, and permits nothing.
///
/// Raises ValueError, which names the field as it is called in JSON, if a text is empty or has a NUL, or if *surface* is
/// not one of tui, telegram, api, scheduler and background.
#[pyclass(frozen, eq, hash, name = "OmniusRunContext", module = "hermes_env_bridge")]
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Run(Arc<OmniusRunContext>);

#[pymethods]
impl Run {
    /// The fields in order, for a pattern.
    #[classattr]
    fn __match_args__(py: Python<'_>) -> PyResult<Py<PyTuple>> {
        let names = ["run_id", "surface", "project_root", "owner_kind", "owner_id", "telegram"];
        PyTuple::new(py, names).map(Bound::unbind)
    }

    #[new]
    #[pyo3(signature = (*, run_id, surface, project_root = None, owner_kind = None, owner_id = None, telegram = None))]
    fn new(
        run_id: &Bound<'_, PyAny>,
        surface: &Bound<'_, PyAny>,
        project_root: Option<&Bound<'_, PyAny>>,
        owner_kind: Option<&Bound<'_, PyAny>>,
        owner_id: Option<&Bound<'_, PyAny>>,
        telegram: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let mut run =
            OmniusRunContext::builder(text("runId", "run_id", run_id)?, text("surface", "surface", surface)?.parse()?);
        if let Some(path) = project_root {
            run = run.project_root(text("projectRoot", "project_root", path)?);
        }
        if let Some(kind) = owner_kind {
            run = run.owner_kind(text("ownerKind", "owner_kind", kind)?);
        }
        if let Some(id) = owner_id {
            run = run.owner_id(text("ownerId", "owner_id", id)?);
        }
        if let Some(chat) = telegram {
            let chat = chat.cast::<Telegram>().map_err(|_| mistyped("telegram", "a TelegramRunContext", chat))?;
            run = run.telegram(chat.get().0.clone());
        }
        Ok(Self(Arc::new(run.build()?)))
    }

    /// The id of the run.
    #[getter]
    fn run_id(&self) -> &str {
        self.0.run_id()
    }

    /// Where the run was started: tui, telegram, api, scheduler or background.
    #[getter]
    fn surface(&self) -> &'static str {
        self.0.surface().as_str()
    }

    /// The directory of the project for which the run works.
    #[getter]
    fn project_root(&self) -> Option<&str> {
        self.0.project_root()
    }

    /// What kind of owner the run has, such as user.
    #[getter]
    fn owner_kind(&self) -> Option<&str> {
        self.0.owner_kind()
    }

    /// The owner of the run.
    #[getter]
    fn owner_id(&self) -> Option<&str> {
        self.0.owner_id()
    }

    /// The chat for which the run works, if it works for one on Telegram.
    #[getter]
    fn telegram(&self) -> Option<Telegram> {
        self.0.telegram().map(|chat| Telegram(chat.clone()))
    }

    /// Return the same record with some fields changed, and with those that are not known here.
    ///
    /// Raises TypeError for a name that is no field, and what the class raises for a value.
    #[pyo3(signature = (**changes))]
    fn replace<'py>(slf: &Bound<'py, Self>, changes: Option<&Bound<'py, PyDict>>) -> PyResult<Self> {
        let new = changed(slf.as_any(), changes)?.cast_into::<Self>()?;
        Ok(Self(Arc::new((*new.get().0).clone().keeping_unknown(&slf.get().0))))
    }

    /// As ``replace``, for ``copy.replace``.
    #[pyo3(signature = (**changes))]
    fn __replace__<'py>(slf: &Bound<'py, Self>, changes: Option<&Bound<'py, PyDict>>) -> PyResult<Self> {
        Self::replace(slf, changes)
    }

    /// Return the record as ``JSON.stringify`` writes it, with the fields that are not known here.
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    /// Return the record that a program has written; fields that are not known here are kept.
    ///
    /// Raises ValueError, which names the field and has no values.
    #[staticmethod]
    #[pyo3(signature = (json, /))]
    fn from_json(json: &Bound<'_, PyString>) -> PyResult<Self> {
        Ok(Self(Arc::new(OmniusRunContext::from_json(&text_of_json(json)?)?)))
    }

    /// Return the keywords of ``set_session_vars`` for the session of Hermes that corresponds to this run.
    ///
    /// What is not among them is cleared by a bind.
    fn to_session_vars<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let keywords = PyDict::new(py);
        for (keyword, value) in self.0.hermes_variables() {
            keywords.set_item(keyword, value)?;
        }
        keywords.set_item("cwd", self.0.project_root().unwrap_or_default())?;
        keywords.set_item("async_delivery", self.0.has_async_delivery())?;
        Ok(keywords)
    }

    /// Return the run that corresponds to a session of Hermes: *bound* has its variables by environment name.
    ///
    /// *run_id*, *tool_context* and *project_root* are what those variables do not have; *tool_context* is needed where
    /// there is a chat. Raises ValueError, which names the field, if no run corresponds.
    #[staticmethod]
    #[pyo3(signature = (bound, *, run_id, tool_context = None, project_root = None))]
    fn from_session_vars(
        bound: HashMap<String, String>,
        run_id: &Bound<'_, PyAny>,
        tool_context: Option<&Bound<'_, PyAny>>,
        project_root: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let stated = |field, keyword, value: Option<&Bound<'_, PyAny>>| {
            value.map(|value| text(field, keyword, value)).transpose()
        };
        let run = OmniusRunContext::from_hermes_variables(
            move |name| bound.get(name).cloned(),
            stated("projectRoot", "project_root", project_root)?.as_deref(),
            &text("runId", "run_id", run_id)?,
            &stated("telegram.toolContext", "tool_context", tool_context)?.unwrap_or_default(),
        )?;
        Ok(Self(Arc::new(run)))
    }

    /// The record as its JSON.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((slf.getattr("from_json")?, (slf.get().to_json(),)))
    }

    /// The run, the surface, and the names of what else is stated: values may be secrets.
    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        shown(slf.as_any(), &["run_id", "surface"])
    }
}

/// The message for which a run works: its chat, thread and user, as plain data. The message itself is not in here.
///
/// Raises ValueError, which names the field as it is called in JSON, if a text is empty or has a NUL, if an id has more
/// than 64 bits, or if *chat_type* is not one of private, group, supergroup and channel.
#[pyclass(frozen, eq, hash, name = "TelegramRunContext", module = "hermes_env_bridge")]
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Telegram(Arc<TelegramRunContext>);

#[pymethods]
impl Telegram {
    /// The fields in order, for a pattern.
    #[classattr]
    fn __match_args__(py: Python<'_>) -> PyResult<Py<PyTuple>> {
        let names =
            ["chat_id", "chat_type", "message_id", "thread_id", "user_id", "username", "session_key", "tool_context"];
        PyTuple::new(py, names).map(Bound::unbind)
    }

    // The fields are those of the document.
    #[allow(clippy::too_many_arguments)]
    #[new]
    #[pyo3(signature = (*, chat_id, chat_type, message_id = None, thread_id = None, user_id = None, username = None, session_key, tool_context))]
    fn new(
        chat_id: &Bound<'_, PyAny>,
        chat_type: &Bound<'_, PyAny>,
        message_id: Option<&Bound<'_, PyAny>>,
        thread_id: Option<&Bound<'_, PyAny>>,
        user_id: Option<&Bound<'_, PyAny>>,
        username: Option<&Bound<'_, PyAny>>,
        session_key: &Bound<'_, PyAny>,
        tool_context: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let chat_id: ChatId = if chat_id.is_instance_of::<PyString>() {
            text("telegram.chatId", "chat_id", chat_id)?.parse()?
        } else {
            id("telegram.chatId", "chat_id", chat_id)?.into()
        };
        let stated =
            |field, keyword, value: Option<&Bound<'_, PyAny>>| value.map(|value| id(field, keyword, value)).transpose();
        let mut chat = TelegramRunContext::builder(
            chat_id,
            text("telegram.chatType", "chat_type", chat_type)?.parse()?,
            text("telegram.sessionKey", "session_key", session_key)?,
            text("telegram.toolContext", "tool_context", tool_context)?,
        )
        .message_id(stated("telegram.messageId", "message_id", message_id)?)
        .thread_id(stated("telegram.threadId", "thread_id", thread_id)?)
        .user_id(stated("telegram.userId", "user_id", user_id)?);
        if let Some(name) = username {
            chat = chat.username(text("telegram.username", "username", name)?);
        }
        Ok(Self(Arc::new(chat.build()?)))
    }

    /// The chat: a number, or a text such as a channel's @name.
    #[getter]
    fn chat_id<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        let id = self.0.chat_id();
        match id.as_number() {
            Some(number) => PyInt::new(py, number).into_any(),
            None => PyString::new(py, &id.to_string()).into_any(),
        }
    }

    /// The kind of chat: private, group, supergroup or channel.
    #[getter]
    fn chat_type(&self) -> &'static str {
        self.0.chat_type().as_str()
    }

    /// The message that started the run, to reply to.
    #[getter]
    fn message_id(&self) -> Option<i64> {
        self.0.message_id()
    }

    /// The topic in the chat.
    #[getter]
    fn thread_id(&self) -> Option<i64> {
        self.0.thread_id()
    }

    /// The user who wrote the message.
    #[getter]
    fn user_id(&self) -> Option<i64> {
        self.0.user_id()
    }

    /// The user's name.
    #[getter]
    fn username(&self) -> Option<&str> {
        self.0.username()
    }

    /// The key under which the host keeps the chat's session.
    #[getter]
    fn session_key(&self) -> &str {
        self.0.session_key()
    }

    /// The host's name for the context in which tools work in this chat; it permits nothing.
    #[getter]
    fn tool_context(&self) -> &str {
        self.0.tool_context()
    }

    /// Return the same record with some fields changed, and with those that are not known here.
    ///
    /// Raises TypeError for a name that is no field, and what the class raises for a value.
    #[pyo3(signature = (**changes))]
    fn replace<'py>(slf: &Bound<'py, Self>, changes: Option<&Bound<'py, PyDict>>) -> PyResult<Self> {
        let new = changed(slf.as_any(), changes)?.cast_into::<Self>()?;
        Ok(Self(Arc::new((*new.get().0).clone().keeping_unknown(&slf.get().0))))
    }

    /// As ``replace``, for ``copy.replace``.
    #[pyo3(signature = (**changes))]
    fn __replace__<'py>(slf: &Bound<'py, Self>, changes: Option<&Bound<'py, PyDict>>) -> PyResult<Self> {
        Self::replace(slf, changes)
    }

    /// Return the record as ``JSON.stringify`` writes it, with the fields that are not known here.
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    /// Return the record that a program has written; fields that are not known here are kept.
    ///
    /// Raises ValueError, which names the field and has no values.
    #[staticmethod]
    #[pyo3(signature = (json, /))]
    fn from_json(json: &Bound<'_, PyString>) -> PyResult<Self> {
        Ok(Self(Arc::new(TelegramRunContext::from_json(&text_of_json(json)?)?)))
    }

    /// The record as its JSON.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((slf.getattr("from_json")?, (slf.get().to_json(),)))
    }

    /// The kind of chat, and the names of what else is stated: values may be secrets.
    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        shown(slf.as_any(), &["chat_type"])
    }
}

/// A text. What Python can hold and no other language can, half a surrogate pair, is none.
fn text(field: &'static str, keyword: &str, text: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = text.cast::<PyString>().map_err(|_| mistyped(keyword, "a str", text))?;
    Ok(text.to_str().map(str::to_owned).map_err(|_| RunContextError::NotText { field })?)
}

fn text_of_json(json: &Bound<'_, PyString>) -> PyResult<String> {
    let reason = || "it has half a surrogate pair in it".to_owned();
    Ok(json.to_str().map(str::to_owned).map_err(|_| RunContextError::Malformed { reason: reason() })?)
}

/// A numeric id.
fn id(field: &'static str, keyword: &str, id: &Bound<'_, PyAny>) -> PyResult<i64> {
    if id.is_instance_of::<PyBool>() || !id.is_instance_of::<PyInt>() {
        return Err(mistyped(keyword, "an int", id));
    }
    Ok(id.extract().map_err(|_| RunContextError::NotAnId { field })?)
}

fn mistyped(keyword: &str, right: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let wrong = value.get_type().name().map_or_else(|_| "that".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("argument '{keyword}' is {right}, not {wrong}"))
}

/// The fields of a record's class, in order.
fn fields<'py>(record: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyString>>> {
    record.getattr("__match_args__")?.extract()
}

/// A new record of the same class, with the fields that are not changed.
fn changed<'py>(record: &Bound<'py, PyAny>, changes: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
    let keywords = PyDict::new(record.py());
    for field in fields(record)? {
        keywords.set_item(&field, record.getattr(&field)?)?;
    }
    if let Some(changes) = changes {
        keywords.update(changes.as_mapping())?;
    }
    let class: Bound<'py, PyType> = record.get_type();
    class.call((), Some(&keywords))
}

/// The record for a person: the values of some fields, and `...` for the others that are stated.
fn shown(record: &Bound<'_, PyAny>, with_value: &[&str]) -> PyResult<String> {
    let mut stated = Vec::new();
    for field in fields(record)? {
        let value = record.getattr(&field)?;
        if with_value.contains(&field.to_str()?) {
            stated.push(format!("{field}={}", value.repr()?));
        } else if !value.is_none() {
            stated.push(format!("{field}=..."));
        }
    }
    Ok(format!("{}({})", record.get_type().name()?, stated.join(", ")))
}
