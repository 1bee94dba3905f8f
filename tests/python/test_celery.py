"""Sessions through Celery: real worker processes on a broker that is a folder, and each way to start a job."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import run_python

from hermes_env_bridge._core import VARIABLES

EXAMPLE = Path(__file__).parents[2] / "examples" / "celery_sessions"

# A worker that was started by somebody's session.
FOREIGN = {name: "the worker's own" for name, _ in VARIABLES}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of publishers, with a worker of four processes at work."""
    folder = tmp_path_factory.mktemp("celery")
    environment = {**os.environ, "CELERY_SESSIONS": str(folder), "C_FORCE_ROOT": "1"}
    command = [sys.executable, "-m", "celery", "-A", "jobs", "worker", "--concurrency", "4", "--loglevel", "warning"]
    with (folder / "log").open("w") as log:
        worker = subprocess.Popen(
            command, cwd=EXAMPLE, env=environment | FOREIGN, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield environment
        finally:
            worker.terminate()
            try:
                worker.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()
    assert "Signal handler" not in (folder / "log").read_text()


@pytest.mark.parametrize("job", ["whose", "whose_mapping", "whose_snapshot"])
def test_a_thousand_jobs_of_fifty_sessions_run_in_several_processes_each_as_its_own(
    broker: dict[str, str], job: str
) -> None:
    command = [sys.executable, "publish.py", job]
    result = subprocess.run(command, cwd=EXAMPLE, env=broker, capture_output=True, text=True, timeout=100, check=False)
    assert re.fullmatch(r"1000 jobs in [2-4] processes: 0 foreign, 0 missing\n", result.stdout), result
    assert result.returncode == 0


JOBS = """
import json, logging, os, sys

import hermes_env_bridge as bridge
if sys.argv[1] == "install":
    bridge.install()
import hermes_env_bridge.celery
from hermes_env_bridge import Snapshot, session_context as sc, snapshot
from celery import Celery, chain
from celery.contrib.testing.worker import start_worker

app = Celery("jobs", broker="memory://", backend="cache+memory://")
app.conf.update(
    broker_transport_options={"polling_interval": 0.01}, worker_enable_remote_control=False,
    worker_hijack_root_logger=False,
)
hermes_env_bridge.celery.connect()
hermes_env_bridge.celery.connect()  # once is enough, twice no harm

KEY, CHAT, CRON = "HERMES_SESSION_KEY", "HERMES_SESSION_CHAT_ID", "HERMES_CRON_AUTO_DELIVER_PLATFORM"

def read():
    return [sc.get_session_env(name, "none") for name in (KEY, CHAT, CRON)]

@app.task
def whose(*_):
    return read()

@app.task
def states():
    return snapshot().to_mapping()

@app.task(bind=True, max_retries=3)
def retried(self, seen):
    seen = [*seen, read()]
    sc.clear_session_vars([])  # as a handler does when it is done
    if len(seen) < 3:
        raise self.retry(args=[seen], countdown=0)
    return seen

@app.task
def publishes():
    return whose.delay().id

@app.task
def binds_another():
    sc.set_session_vars(session_key="left behind")
    return read()

@app.task
def session_id():
    os.environ["HERMES_SESSION_ID"] = "of a job that started later"
    return sc.get_session_env("HERMES_SESSION_ID", "none")

@app.task
def calls_an_eager_one():
    inner = whose.apply().get()
    other = whose.apply(headers={"hermes-session": KEY + "=inner"}).get()
    binds_another.apply()
    return [inner, other, read()]

def job(task, *args, **options):
    return task.apply_async(args, **options).get(timeout=20, interval=0.01)

def as_session(key, function, *args):
    return Snapshot.from_mapping({KEY: key, CHAT: ""}).run(function, *args)

errors = []
class Errors(logging.Handler):
    def emit(self, record):
        if record.levelno >= logging.ERROR:
            errors.append(record.getMessage())
logging.getLogger().addHandler(Errors())

told = {}
with start_worker(app, perform_ping_check=False, shutdown_timeout=20):
    told["clean"] = as_session("a", job, states)
    os.environ.update({KEY: "the worker's", CHAT: "the worker's", CRON: "the worker's"})
    told["header"] = as_session("a", job, whose)
    told["states"] = as_session("a", job, states)
    told["another"] = as_session("b", job, whose)
    told["given"] = as_session("a", lambda: job(whose, headers={"Hermes-Session": KEY + "=given"}))
    told["retried"] = as_session("a", job, retried, [])
    told["chained"] = as_session("a", lambda: chain(whose.s(), whose.s(), whose.s())().get(timeout=20, interval=0.01))
    told["published"] = app.AsyncResult(as_session("a", job, publishes)).get(timeout=20, interval=0.01)
    told["before"] = as_session("a", job, binds_another)
    told["nobody"] = Snapshot().run(job, whose)
    told["mirror"] = Snapshot().run(job, session_id)
    told["inside"] = as_session("a", job, calls_an_eager_one)
    told["errors before"] = list(errors)
    told["bad header"] = as_session("a", lambda: job(whose, headers={"hermes-session": KEY + "=%"}))
    told["large"] = as_session("x" * 9000, job, whose)
    told["no text"] = as_session("a", lambda: (sc._VAR_MAP[CHAT].set(7), job(whose))[1])
    told["after"] = as_session("c", job, whose)
    hermes_env_bridge.celery.disconnect()
    told["disconnected"] = as_session("a", job, whose)
told["errors"] = errors
hermes_env_bridge.celery.connect()
app.conf.task_always_eager = True
def eager():
    return [whose.delay().get(), whose.apply_async(headers={"hermes-session": KEY + "=given"}).get(),
            retried.delay([]).get(), binds_another.delay().get(), read()]
told["eager"] = as_session("a", eager)
print(json.dumps(told))
"""


@pytest.fixture(scope="module", params=["install", "own"])
def told(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What jobs read that were started in every way, in a worker whose environment is a session's."""
    result = run_python(JOBS, request.param, timeout=120)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])  # type: ignore[no-any-return]


A = ["a", "", ""]


def test_a_job_runs_in_the_session_that_published_it(told: dict[str, Any]) -> None:
    assert told["header"] == A
    assert told["another"] == ["b", "", ""]
    assert told["after"] == ["c", "", ""]


def test_what_a_job_leaves_unset_stays_unset_and_the_workers_environment_does_not_show(told: dict[str, Any]) -> None:
    states = {"HERMES_SESSION_KEY": "a", "HERMES_SESSION_CHAT_ID": ""}
    assert told["clean"] == told["states"] == states


def test_a_header_that_the_caller_gives_goes_before_the_session_of_the_moment(told: dict[str, Any]) -> None:
    assert told["given"] == ["given", "", ""]


def test_a_retry_has_the_jobs_own_session_whatever_the_try_before_did_to_it(told: dict[str, Any]) -> None:
    assert told["retried"] == [A, A, A]


def test_chained_jobs_and_jobs_of_jobs_keep_the_session(told: dict[str, Any]) -> None:
    assert told["chained"] == A
    assert told["published"] == A


def test_a_job_without_a_session_has_neither_the_workers_nor_the_one_before_its(told: dict[str, Any]) -> None:
    assert told["before"][0] == "left behind"
    assert told["nobody"] == ["", "", ""]
    assert told["mirror"] == ""


def test_an_eager_job_runs_in_its_callers_session_and_leaves_nothing_in_it(told: dict[str, Any]) -> None:
    given, own = ["given", "the worker's", "the worker's"], ["a", "", "the worker's"]
    eager = told["eager"]
    assert eager[0] == own
    assert eager[1][0] == given[0]
    assert [tried[0] for tried in eager[2]] == ["a", "a", "a"]
    assert eager[3][0] == "left behind"
    assert eager[4] == own


def test_an_eager_job_inside_a_job_does_not_lift_the_mask(told: dict[str, Any]) -> None:
    assert told["inside"] == [A, ["inner", "", ""], A]


def test_a_session_that_cannot_be_carried_is_nobodys_and_celery_logs_why(told: dict[str, Any]) -> None:
    assert told["errors before"] == []
    assert [told[case] for case in ("bad header", "large", "no text")] == [["", "", ""]] * 3
    said = "\n".join(told["errors"])
    for words in ("is not percent-encoded", "limit is 8192", "HERMES_SESSION_CHAT_ID holds int"):
        assert said.count(words) == 1
    assert "xxx" not in said


def test_after_a_disconnect_nothing_is_carried(told: dict[str, Any]) -> None:
    assert told["disconnected"] == ["the worker's"] * 3
