"""The session's fields in log records: a filter for ``logging``, a processor for ``structlog``.

Both add what the running task has bound, and nothing else: a variable that is unset or cleared is no field, whatever
the environment says. They may be set up before :func:`hermes_env_bridge.install`: the session module in use is looked
up at each record and never imported from here, which would make a later install refuse.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from types import ModuleType
from typing import Any

from hermes_env_bridge._module import ABSENT, held, state_of, unset_of

MODULE = "hermes_env_bridge.session_context"
NAMES = ("platform", "chat_id", "user_id", "session_key", "session_id")
PREFIX = "hermes_"

Processor = Callable[[Any, str, MutableMapping[str, Any]], MutableMapping[str, Any]]


class SessionFilter(logging.Filter):
    """Adds the session's fields to each record, and lets every record pass.

    On a handler it serves all loggers; where the handler works in another thread, as behind a ``QueueHandler``, the
    filter belongs on the ``QueueHandler``. An attribute that the record has already is left as it is.
    """

    def __init__(
        self,
        names: Iterable[str] = NAMES,
        *,
        prefix: str = PREFIX,
        defaults: str | None = None,
        module: ModuleType | None = None,
    ) -> None:
        """Add the fields *names*, as attributes of these names with *prefix* in front.

        A name is one of the environment (``HERMES_SESSION_CHAT_ID``) or a keyword of ``set_session_vars``
        (``chat_id``). *defaults* is the text for fields that are not bound, for a formatter that names them; without
        it they are not added. *module* is the session module, if not the one in use. Raises TypeError if *names* is
        a text.
        """
        super().__init__()
        self._fields = _Fields(names, prefix, defaults, module)

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields; return True. Never raises."""
        self._fields.add_to(record.__dict__)
        return True


def session_processor(
    names: Iterable[str] = NAMES,
    *,
    prefix: str = PREFIX,
    defaults: str | None = None,
    module: ModuleType | None = None,
) -> Processor:
    """Return a processor for ``structlog`` that adds the session's fields to the event; it never raises.

    The arguments are those of :class:`SessionFilter`. A key that the event has already is left as it is.
    """
    fields = _Fields(names, prefix, defaults, module)

    def add_session(_logger: Any, _method: str, event_dict: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        fields.add_to(event_dict)
        return event_dict

    return add_session


class _Fields:
    """Which fields are added, under which keys."""

    def __init__(self, names: Iterable[str], prefix: str, defaults: str | None, module: ModuleType | None) -> None:
        if isinstance(names, str):
            raise TypeError(f"names is {names!r}; it has to be a sequence of names")
        self._keys = tuple((name, prefix + name) for name in names)
        self._defaults = defaults
        self._module = module
        # A variable of a fork's own class may log when it is read, which would come back here.
        self._reading = threading.local()

    def add_to(self, target: MutableMapping[str, Any]) -> None:
        """Add to *target* what it lacks of the fields that are bound here, and of the others if there is a default."""
        bound: dict[str, Any] = {}
        if not getattr(self._reading, "now", False):
            self._reading.now = True
            try:
                bound = self._bound()
            except Exception:
                bound = {}  # a log record is not the place to hear of what is wrong with a session module
            finally:
                self._reading.now = False
        for _, key in self._keys:
            value = bound.get(key, self._defaults if self._defaults is not None else ABSENT)
            if value is not ABSENT:
                target.setdefault(key, value)

    def _bound(self) -> dict[str, Any]:
        module = self._module or sys.modules.get(MODULE)
        variables = getattr(module, "_VAR_MAP", None)
        if not isinstance(variables, Mapping):
            return {}
        unset = unset_of(module)
        values = ((key, _value(variables, name, unset)) for name, key in self._keys)
        return {key: value for key, value in values if value is not ABSENT}


def _value(variables: Mapping[Any, Any], name: str, unset: object) -> Any:
    """What this context holds for *name*; ``ABSENT`` if that is nothing, cleared, or cannot be said."""
    # Whatever a fork's variables do, a log record is not the place to hear of it.
    try:
        variable = _variable(variables, name)
        value = ABSENT if variable is None else held(variable, unset)
        return value if state_of(value) == "set" else ABSENT
    except Exception:
        return ABSENT


def _variable(variables: Mapping[Any, Any], name: str) -> Any:
    """The variable called *name*; for a keyword that of ``…_SESSION_<KEYWORD>``, else that of ``…_<KEYWORD>``."""
    if name in variables:
        return variables[name]
    for start in _starts(variables):
        for full in (f"{start}SESSION_{name.upper()}", start + name.upper()):
            if full in variables:
                return variables[full]
    return None


def _starts(variables: Mapping[Any, Any]) -> Iterator[str]:
    """What this module's names start with: what most of them do, and no less, or a delivery's user would do as one."""
    yield "HERMES_"
    names = [name for name in variables if isinstance(name, str)]
    starts = Counter(name[: end + 1] for name in names for end, letter in enumerate(name) if letter == "_")
    common = [start for start, count in starts.items() if 2 * count > len(names)]
    yield from sorted(common, key=lambda start: (starts[start], len(start)), reverse=True)
