"""Celery: a job runs in the session of whoever published it.

The module that makes the ``Celery`` app calls :func:`connect`, so that publishers and workers both do. The session goes
along in the message's headers, by Celery's own signals: retries and chained jobs keep it, and eager jobs run in their
caller's.
"""

from __future__ import annotations

import os
from typing import Any

from celery import signals

from hermes_env_bridge._snapshot import Snapshot, remember, snapshot

# What Hermes writes into the environment while a session is at work, so possibly after another one's job has started.
MIRROR = "HERMES_SESSION_ID"


def connect() -> None:
    """Have each job that this process publishes take the session along, and each that it runs be in that session.

    A header that a message has already stands: that of a retry, and one that the caller gave as ``headers=``. In a
    worker a job without a header, or with one that cannot be read, runs in no session; and the worker's own environment
    stands in for nobody's: what the job leaves unset and the environment has is cleared.

    A session that cannot go into a header (no text, or more than 8 KiB) is not sent. Celery logs an error for it, as
    for whatever a signal's receiver raises, and goes on.
    """
    for signal, receiver in _RECEIVERS:
        signal.connect(receiver)


def disconnect() -> None:
    """Undo :func:`connect`."""
    for signal, receiver in _RECEIVERS:
        signal.disconnect(receiver)


def _publish(headers: dict[str, Any], **_: Any) -> None:
    try:
        stands = Snapshot.extract(headers) is not None
    except (TypeError, ValueError):
        return  # it stands as well, and the worker says what is wrong with it
    if not stands:
        snapshot().inject(headers)


def _start(task: Any, **_: Any) -> None:
    request = task.request
    request.put_session_back = remember()
    session = None
    try:
        session = Snapshot.extract(request.headers or {})
    finally:
        # Whatever was raised, the job must not run in the session of the one before it.
        if session is not None or not request.is_eager:
            (session or Snapshot()).restore(masking={*os.environ, MIRROR})


def _end(task: Any, **_: Any) -> None:
    task.request.put_session_back()


_RECEIVERS = ((signals.before_task_publish, _publish), (signals.task_prerun, _start), (signals.task_postrun, _end))
