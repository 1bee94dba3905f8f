"""Fifty sessions publish twenty jobs each, in turns, and see whose each was: ``python publish.py [JOB]``.

JOB is ``whose`` (the session goes in a header), ``whose_mapping`` or ``whose_snapshot`` (it is an argument).
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import jobs

from hermes_env_bridge import session_context, snapshot

SESSIONS, EACH = 50, 20


async def one_session(number: int, job: str) -> list[tuple[dict[str, str], Any]]:
    """Bind a session and publish its jobs; return what was bound with each job's result."""
    session_context.set_session_vars(platform="telegram", session_key=f"session-{number}", chat_name="Zoë & co: 100 %")
    session = snapshot()
    arguments = {"whose": (), "whose_mapping": (session.to_mapping(),), "whose_snapshot": (session,)}[job]
    published = []
    for _ in range(EACH):
        published.append((session.to_mapping(), getattr(jobs, job).delay(*arguments)))
        await asyncio.sleep(0)
    return published


async def every_session(job: str) -> list[tuple[dict[str, str], Any]]:
    """Run all sessions at the same time."""
    each = await asyncio.gather(*(one_session(number, job) for number in range(SESSIONS)))
    return [published for session in each for published in session]


def main(job: str = "whose") -> int:
    """Publish, and print what the workers report; return 0 if each job had its own session, state by state."""
    published = asyncio.run(every_session(job))
    reports = [(session, result.get(timeout=60, interval=0.01)) for session, result in published]
    missing = sum(report["key"] in ("", "nobody") for _, report in reports)
    foreign = sum(report["session"] != session for session, report in reports) - missing
    processes = len({report["process"] for _, report in reports})
    print(f"{len(reports)} jobs in {processes} processes: {foreign} foreign, {missing} missing")
    return int(foreign + missing > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
