"""What the sources of the context types may not have, and what the document that asked for them wants to be there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import hermes_env_bridge
from hermes_env_bridge import OmniusRunContext, TelegramRunContext

ROOT = Path(__file__).parents[2]
PACKAGE = Path(hermes_env_bridge.__file__).parent
SOURCES = [PACKAGE / f"{name}.py" for name in ("run_context", "_run_scope", "entry", "asgi")]
CONSTANT = re.compile(r"TypeVar|ParamSpec|ContextVar|getLogger|object\(\)|MutableMapping|Callable")


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_phase_5_no_source_of_a_context_has_a_global_that_changes(source: Path) -> None:
    """Phase 5: source tests prevent direct global current-message variables if any are introduced."""
    tree = ast.parse(source.read_text())
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Global)]
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            text = ast.unparse(node)
            assert CONSTANT.search(text), text


def test_no_record_can_hold_a_message_object() -> None:
    for kind in (OmniusRunContext, TelegramRunContext):
        assert "__dict__" not in vars(kind)
        with pytest.raises(TypeError, match="not an acceptable base type"):
            type("Message", (kind,), {})


def test_no_function_decides_by_a_context_what_is_allowed() -> None:
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                assert not re.search(r"allow|authori[sz]|permit|permission|grant|admin|^can_", node.name), node.name


def test_the_table_of_the_docs_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "architecture" / "run-context.md").read_text()
    named = {name.removeprefix("test_") for name in re.findall(r"`((?:test_)?(?:required|phase_\d|c\d\d)_\w+)`", text)}
    assert len(named) > 25
    sources = [*(ROOT / "tests").rglob("*.rs"), *(ROOT / "tests" / "python").glob("*.py")]
    there = set(re.findall(r"(?:fn|def) (?:test_)?(\w+)", "\n".join(source.read_text() for source in sources)))
    assert named <= there, sorted(named - there)
