"""The example of a gateway does what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "telegram_gateway.py"


def test_phase_3_two_chats_at_once_and_each_tool_finds_its_own() -> None:
    """Phase 3: the task-local path works without the current message being passed through every helper."""
    result = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, timeout=60, check=True)
    sent = result.stdout.splitlines()
    of = {
        chat: [line.removeprefix(chat) for line in sent if line.startswith(chat)] for chat in ("chat 1: ", "chat 2: ")
    }
    assert of == {
        "chat 1: ": ["re 10: hello", "media/1/last.png is a cat", "file report.pdf", "re 10: bye"],
        "chat 2: ": ["re 20: hi", "media/2/last.png is a cat", "re 20: no files for you", "re 20: thanks"],
    }
    assert len(sent) == 8
