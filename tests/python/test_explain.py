"""Explanations and profiles, over the real Hermes and over the package's own module."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import run_python

import hermes_env_bridge


def told(code: str, install: bool) -> Any:
    """What *code* prints as JSON, in an interpreter of its own."""
    start = "import json, os, hermes_env_bridge as bridge\n" + ("bridge.install()\n" if install else "")
    result = run_python(start + "import hermes_env_bridge.session_context as sc\n" + code)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("install", [True, False])
def test_each_state_has_its_layer_and_what_a_child_gets(install: bool) -> None:
    seen = told(
        """
name = "HERMES_SESSION_CHAT_ID"
def of():
    e = bridge.explain(name); return [e.state, e.layer, e.child]
seen = [of()]
os.environ[name] = "stale"; seen.append(of())
sc.set_session_vars(chat_id="1"); seen.append(of())
sc.clear_session_vars([]); seen.append(of())
sc.reset_session_vars(); seen.append(of())
sc.set_session_vars(chat_id=None); seen.append(of())
e = bridge.explain("PATH"); seen.append([e.state, e.layer, e.child])
print(json.dumps(seen))
""",
        install,
    )
    assert seen == [
        ["unset", "default", "absent"],
        ["unset", "environment", "keep"],
        ["set", "task", "set"],
        ["cleared", "task", "empty"],
        ["unset", "environment", "strip"],
        ["set", "task", "empty"],
        ["unset", "environment", "keep"],
    ]


@pytest.mark.parametrize("install", [True, False])
def test_values_are_told_only_if_they_were_asked_for(install: bool) -> None:
    seen = told(
        """
sc.set_session_vars(session_key="secret")
texts = [str(bridge.explain("HERMES_SESSION_KEY")), repr(bridge.explain("HERMES_SESSION_KEY", values=True)),
         str(bridge.explain_all()), json.dumps(bridge.explain_all().to_json())]
shown = [bridge.explain("HERMES_SESSION_KEY", values=True).value, str(bridge.explain_all(values=True)),
         json.dumps(bridge.explain_all(values=True).to_json())]
print(json.dumps([["secret" in t for t in texts], ["secret" in t for t in shown]]))
""",
        install,
    )
    assert seen == [[False] * 4, [True] * 3]


@pytest.mark.parametrize("install", [True, False])
def test_what_a_child_gets_is_what_hermes_own_function_makes_of_the_environment(install: bool) -> None:
    seen = told(
        """
def rule(env):
    for name, var in sc._VAR_MAP.items():
        value = var.get()
        if value is not sc._UNSET: env[name] = "" if value is None else str(value)
        elif sc.session_context_engaged(): env.pop(name, None)
    return env
wrong = []
os.environ["HERMES_SESSION_KEY"] = os.environ["HERMES_CRON_AUTO_DELIVER_PLATFORM"] = "stale"
bind, clear = lambda: sc.set_session_vars(chat_id="1"), lambda: sc.clear_session_vars([])
for step in (lambda: None, bind, clear, sc.reset_session_vars):
    step()
    child = rule(dict(os.environ))
    for e in bridge.explain_all(values=True).variables:
        got = child.get(e.name)
        right = {"set": got == str(e.value), "empty": got == "", "strip": got is None, "absent": got is None,
                 "keep": got == os.environ.get(e.name)}[e.child]
        if not right: wrong.append([e.name, e.child, got])
print(json.dumps(wrong))
""",
        install,
    )
    assert seen == []


def test_a_name_that_is_no_string_is_refused_by_name_of_its_type() -> None:
    with pytest.raises(TypeError, match="not int"):
        hermes_env_bridge.explain(3)  # type: ignore[arg-type]


def test_the_profile_of_the_installed_hermes_has_its_keywords_and_only_native_verbs() -> None:
    seen = told("print(json.dumps(bridge.profile().to_json()))", install=True)
    assert seen["module"] == "gateway.session_context"
    keywords = {variable["name"]: variable["keyword"] for variable in seen["variables"]}
    assert keywords["HERMES_UI_SESSION_ID"] == "ui_session_id"
    assert keywords["HERMES_SESSION_ID"] == "session_id"
    assert keywords["HERMES_CRON_AUTO_DELIVER_CHAT_ID"] is None
    assert all(variable["ours"] and variable["attribute"] for variable in seen["variables"])
    assert {verb["name"] for verb in seen["verbs"] if verb["native"]} >= {"set_session_vars", "get_session_env"}
    assert [verb["name"] for verb in seen["verbs"] if not verb["native"]] == []


def test_the_own_modules_keywords_bind_the_variables_that_its_profile_says() -> None:
    seen = told(
        """
wrong = []
for v in bridge.profile().variables:
    if v.keyword:
        sc.set_session_vars(**{v.keyword: "marked"})
        bound = [name for name, var in sc._VAR_MAP.items() if var.get() == "marked"]
        if bound != [v.name]: wrong.append([v.name, bound])
print(json.dumps([wrong, sum(bool(v.keyword) for v in bridge.profile().variables)]))
""",
        install=False,
    )
    assert seen == [[], 19]
