"""What a child of each start method begins with; run as a program of its own, by ``test_threads.py``."""

from __future__ import annotations

import json
import multiprocessing
import sys
from typing import Any

from hermes_env_bridge import session_context
from hermes_env_bridge.threads import after_fork_in_child

KEY = "HERMES_SESSION_KEY"


def begin(to: Any, anew: bool) -> None:
    if anew:
        after_fork_in_child()
    to.send([session_context.get_session_env(KEY, "default"), session_context.session_context_engaged()])


def main() -> None:
    session_context.set_session_vars(session_key="P")
    session_context._CRON_AUTO_DELIVER_CHAT_ID.set("42")
    context: Any = multiprocessing.get_context(sys.argv[1])
    told = []
    for anew in (False, True):
        ours, theirs = context.Pipe()
        child = context.Process(target=begin, args=(theirs, anew))
        child.start()
        child.join()
        told.append(ours.recv())
    told.append([session_context.get_session_env(KEY), session_context.session_context_engaged()])
    print(json.dumps(told))


if __name__ == "__main__":
    main()
