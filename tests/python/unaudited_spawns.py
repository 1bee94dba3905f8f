"""Starts a child in a way that the guard cannot see, or that a wrapper shows it; run as a program of its own.

Prints what the child got for the session's key, what the guard counted, and what it refused, as JSON.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

KEY = "HERMES_SESSION_KEY"


def key(*_: Any) -> str | None:
    return os.environ.get(KEY)


def send_key(to: Any) -> None:
    to.send(key())


def by_multiprocessing(context: Any) -> str | None:
    ours, theirs = context.Pipe()
    child = context.Process(target=send_key, args=(theirs,))
    child.start()
    child.join()
    got: str | None = ours.recv()
    return got


def by_pool(context: Any) -> str | None:
    with context.Pool(1) as pool:
        got: str | None = pool.map(key, [0])[0]
        return got


def by_executor(context: Any) -> str | None:
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(key).result()


def by_fork_exec() -> str | None:
    import inspect
    from multiprocessing.util import spawnv_passfds

    assert inspect.getsource(spawnv_passfds).count("_posixsubprocess.fork_exec") == 1
    out_read, out_write = os.pipe()
    code = f"import os; os.write({out_write}, os.environ.get({KEY!r}, '').encode())"
    pid = spawnv_passfds(os.fsencode(sys.executable), [sys.executable, "-c", code], [out_write])
    os.waitpid(pid, 0)
    os.close(out_write)
    return os.read(out_read, 100).decode()


def by_the_c_library() -> str | None:
    import ctypes

    ctypes.CDLL(None).system(f'printf %s "${KEY}" > {sys.argv[2]}'.encode())
    return open(sys.argv[2]).read()


def by_putenv() -> str | None:
    del os.environ[KEY]
    os.putenv(KEY, "stale")
    return subprocess.run([SHELL, "-c", f'printf %s "${KEY}"'], capture_output=True, text=True, check=True).stdout


def by_a_command_line() -> str | None:
    del os.environ[KEY]
    arguments = ["env", f"{KEY}=stale", SHELL, "-c", f'printf %s "${KEY}"']
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout


def on_uvloop(guarded: bool, shell: bool) -> str | None:
    import uvloop

    from hermes_env_bridge.unaudited import guard_loop

    async def main() -> str:
        if guarded:
            loop = asyncio.get_running_loop()
            assert guard_loop(guard_loop(loop)) is loop
        script = f'printf %s "${KEY}"'
        pipe = subprocess.PIPE
        if shell:
            child = await asyncio.create_subprocess_shell(script, stdout=pipe)
        else:
            child = await asyncio.create_subprocess_exec(SHELL, "-c", script, stdout=pipe, env=dict(os.environ))
        return (await child.communicate())[0].decode()

    got: str = uvloop.run(main())
    return got


SHELL = "/bin/sh"


def ways() -> dict[str, Callable[[], str | None]]:
    from hermes_env_bridge.unaudited import guarded_context

    bare = multiprocessing.get_context
    made: dict[str, Callable[[], str | None]] = {
        "fork_exec": by_fork_exec,
        "the C library": by_the_c_library,
        "putenv": by_putenv,
        "a command line": by_a_command_line,
    }
    for method in ("spawn", "forkserver"):
        for what, of in (("bare", bare), ("guarded", guarded_context)):
            made[f"{what} {method}"] = partial(by_multiprocessing, of(method))
            made[f"{what} {method} pool"] = partial(by_pool, of(method))
            made[f"{what} {method} executor"] = partial(by_executor, of(method))
    for guarded in (False, True):
        for shell in (False, True):
            name = f"{'guarded' if guarded else 'bare'} uvloop{' shell' if shell else ''}"
            made[name] = partial(on_uvloop, guarded, shell)
    return made


def main() -> None:
    from hermes_env_bridge import ForeignIdentityError, guard, report, session_context

    way, mode = sys.argv[1], sys.argv[3]
    contextvars.Context().run(session_context.set_session_vars, session_key="some session's")
    os.environ[KEY] = "stale"
    guard(mode)  # type: ignore[arg-type]
    got, refused = None, None
    try:
        got = ways()[way]()
    except ForeignIdentityError as error:
        refused = list(error.names)
    sys.stdout.write(json.dumps({"got": got, "refused": refused, "foreign": report().foreign}))


if __name__ == "__main__":
    main()
