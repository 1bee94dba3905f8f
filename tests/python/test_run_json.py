"""The JSON of a run: what TypeScript programs write, what the schema says, and what is read here are the same."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings

from hermes_env_bridge import OmniusRunContext

ROOT = Path(__file__).parents[2]
VALIDATOR = jsonschema.Draft202012Validator(
    json.loads((ROOT / "schema" / "omnius-run-context.schema.json").read_text())
)

SAFE = 2**53 - 1
characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
texts = st.text(characters, min_size=1, max_size=20)
ids = st.integers(-SAFE, SAFE) | st.integers(-(2**63), 2**63 - 1).filter(lambda number: abs(number) > SAFE).map(str)
surfaces = st.sampled_from(["tui", "telegram", "api", "scheduler", "background"])
kinds = st.sampled_from(["private", "group", "supergroup", "channel"])
numbers = st.floats(allow_nan=False, allow_infinity=False)
unknown = st.fixed_dictionaries({}, optional={"traceId": texts, "weights": st.lists(numbers, max_size=3)})


def described(fields: dict[str, Any], *required: str) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with *fields* in their order, and behind them some that are not known here."""
    known = st.fixed_dictionaries(
        {name: fields[name] for name in required},
        optional={name: fields[name] for name in fields if name not in required},
    )
    return st.tuples(known, unknown).map(
        lambda both: {name: both[0][name] for name in fields if name in both[0]} | both[1]
    )


chats = described(
    {
        "chatId": ids | texts,
        "chatType": kinds,
        "messageId": ids,
        "threadId": ids,
        "userId": ids,
        "username": texts,
        "sessionKey": texts,
        "toolContext": texts,
    },
    "chatId",
    "chatType",
    "sessionKey",
    "toolContext",
)
runs = described(
    {
        "runId": texts,
        "surface": surfaces,
        "projectRoot": texts,
        "ownerKind": texts,
        "ownerId": texts,
        "telegram": chats,
    },
    "runId",
    "surface",
)


@given(runs)
def test_what_is_read_here_is_what_the_schema_takes_and_comes_back_the_same(run: dict[str, Any]) -> None:
    written = OmniusRunContext.from_json(json.dumps(run)).to_json()
    assert json.loads(written) == run
    VALIDATOR.validate(json.loads(written))
    assert OmniusRunContext.from_json(written).to_json() == written


@pytest.mark.parametrize(
    "change",
    [
        {"runId": ""},
        {"runId": None},
        {"runId": 5},
        {"surface": "web"},
        {"ownerId": "a\0"},
        {"telegram": {}},
        {"telegram": {"chatId": 1.5, "chatType": "private", "sessionKey": "k", "toolContext": "t"}},
        {"telegram": {"chatId": 2**53, "chatType": "private", "sessionKey": "k", "toolContext": "t"}},
        {"telegram": {"chatId": 5, "chatType": "dm", "sessionKey": "k", "toolContext": "t"}},
        {"telegram": {"chatId": 5, "chatType": "group", "sessionKey": "k", "toolContext": "t", "userId": "007"}},
    ],
)
def test_what_is_refused_here_the_schema_refuses(change: dict[str, Any]) -> None:
    run = {"runId": "r", "surface": "api"} | change
    with pytest.raises(ValueError, match="run context"):
        OmniusRunContext.from_json(json.dumps(run))
    assert not VALIDATOR.is_valid(run)


STRINGIFY = """
const lines = require("fs").readFileSync(0, "utf8").split("\\n").filter(Boolean);
for (const line of lines) console.log(JSON.stringify(JSON.parse(line)));
"""


@settings(max_examples=20, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.lists(runs, min_size=50, max_size=50))
def test_what_node_writes_comes_back_byte_for_byte(some: list[dict[str, Any]]) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("1000 records are not compared: there is no node")
    result = subprocess.run(
        [node, "-e", STRINGIFY],
        input="\n".join(json.dumps(run) for run in some),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    lines = result.stdout.removesuffix("\n").split("\n")
    assert len(lines) == 50
    for line in lines:
        assert OmniusRunContext.from_json(line).to_json() == line
