"""What Hermes decides by the surface that a session is on: approvals, skills, the last check of an answer."""

from __future__ import annotations

from typing import Any

from ..modules import hermes
from ..observation import observe
from ..outcome import Observations
from .configuration import configured
from .tool import Tool


def approval() -> Observations:
    """Ask for the session key and the surface that approvals are for."""
    module = hermes("tools.approval")

    def own_key_first() -> Any:
        token = module.set_current_session_key("approval's own")
        inner = module.get_current_session_key()
        module.reset_current_session_key(token)
        return [inner, module.get_current_session_key()]

    return observe(
        {
            "get_current_session_key()": module.get_current_session_key,
            "get_current_session_key(default)": lambda: module.get_current_session_key("given"),
            "its own key first": own_key_first,
            "_get_session_platform": module._get_session_platform,
            "_is_gateway_approval_context": module._is_gateway_approval_context,
        }
    )


def skills() -> Observations:
    """Ask for the platform and for the skills that it turns off."""
    tool, utilities = hermes("tools.skills_tool"), hermes("agent.skill_utils")
    reads = {
        "_is_gateway_surface": tool._is_gateway_surface,
        "_get_session_platform": tool._get_session_platform,
        "_is_skill_disabled": lambda: [tool._is_skill_disabled(name) for name in ("never", "chatty", "quiet")],
        "get_disabled_skill_names": utilities.get_disabled_skill_names,
        "commands' platform": hermes("agent.skill_commands")._resolve_skill_commands_platform,
        "prompt's platform": hermes("agent.prompt_builder")._current_session_platform_hint,
    }
    disabled = "{telegram: [chatty], discord: [quiet], '7': [odd]}"
    with configured(f"skills: {{disabled: [never], platform_disabled: {disabled}}}"):
        return observe(reads)


def agent() -> Observations:
    """Ask whether the agent talks on a messaging surface, checks its last answer, and what its source is."""
    stop, module = hermes("agent.verification_stop"), hermes("run_agent")
    return observe(
        {
            "messaging surface": stop._session_is_messaging_surface,
            "verify on stop": lambda: stop.verify_on_stop_enabled({"agent": {"verify_on_stop": "auto"}}),
            "session source": lambda: [module._session_source_for_agent(name) for name in (None, "cron")],
        }
    )


TOOLS = (
    Tool("approval: session key and surface", approval),
    Tool("skills: surface, platform, disabled names", skills),
    Tool("agent: messaging surface and source", agent),
)
