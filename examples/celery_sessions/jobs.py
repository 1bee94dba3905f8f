"""The Celery app: jobs that say in whose session they run.

The broker is a folder, so there is no server to start; with another one only the app's settings differ.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from celery import Celery

import hermes_env_bridge.celery
from hermes_env_bridge import Snapshot, session_context, snapshot

FOLDER = Path(os.environ.get("CELERY_SESSIONS", Path(tempfile.gettempdir(), "celery_sessions")))
for name in ("jobs", "control", "results"):
    (FOLDER / name).mkdir(parents=True, exist_ok=True)

app = Celery("jobs", broker="filesystem://", backend=f"file://{FOLDER}/results")
app.conf.update(
    broker_transport_options={
        "data_folder_in": str(FOLDER / "jobs"),
        "data_folder_out": str(FOLDER / "jobs"),
        "control_folder": str(FOLDER / "control"),
    },
    accept_content=["json", "pickle"],  # pickle for whose_snapshot alone, and only where every publisher is one's own
    worker_enable_remote_control=False,
)
hermes_env_bridge.celery.connect()

Report = dict[str, Any]


def report() -> Report:
    """Who reads here, in which process, and all of the session."""
    return {
        "key": session_context.get_session_env("HERMES_SESSION_KEY", "nobody"),
        "process": os.getpid(),
        "session": snapshot().to_mapping(),
    }


@app.task
def whose() -> Report:
    """Report the session that came in the message's headers."""
    return report()


@app.task
def whose_mapping(session: dict[str, str]) -> Report:
    """Report one that comes as an argument, a dict of text."""
    with Snapshot.from_mapping(session).bound(masking=os.environ):
        return report()


@app.task(serializer="pickle")
def whose_snapshot(session: Snapshot) -> Report:
    """Report one that comes as an argument, pickled."""
    with session.bound(masking=os.environ):
        return report()
