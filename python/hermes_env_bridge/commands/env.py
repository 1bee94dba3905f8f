"""``hermes-env-bridge env``: the environment that a child would get, and why; or a program run with it."""

from __future__ import annotations

import argparse
import errno
import importlib
import json
import os
import signal
import sys
from typing import Any, get_args

from hermes_env_bridge import child_env, shell_exports
from hermes_env_bridge._find import OWN
from hermes_env_bridge.children import Policy
from hermes_env_bridge.commands import refuse
from hermes_env_bridge.commands.explain import install_if_there_is_hermes
from hermes_env_bridge.credentials import Spawn
from hermes_env_bridge.spawn import prepared

DESCRIPTION = """\
Shows which names a child process would get of this shell's environment, by the rule of the installed Hermes' session
module; where there is no Hermes, of the package's own. With a command, runs it so, in the place of this process.

examples:
  hermes-env-bridge env --engaged --explain            what a gateway's child gets, and why
  hermes-env-bridge env --policy minimal --values      with the values, which may be secrets
  hermes-env-bridge env --credentials terminal --explain | grep strip
  hermes-env-bridge env --policy detached -- sh -c env
  eval "$(hermes-env-bridge env --export)"             the names that a shell takes, for a shell

exit status: 0, the command's, 127 if there is no such command, 126 if it cannot be run, 2 if there is no such
environment
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``env`` to *parser*."""
    parser.usage = "%(prog)s [options] [-- COMMAND [ARGUMENT ...]]"
    parser.add_argument("--policy", choices=get_args(Policy), default="inherit", help="default: %(default)s")
    parser.add_argument("--allow", action="append", default=[], metavar="NAME", help="let a name pass")
    parser.add_argument("--deny", action="append", default=[], metavar="NAME", help="keep a name from the child")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", type=_pair, help="add a variable")
    parser.add_argument(
        "--credentials", choices=get_args(Spawn), help="keep from the child what Hermes keeps from such a one"
    )
    parser.add_argument("--engaged", action="store_true", help="as in a process that has bound sessions")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--explain", action="store_true", help="every name, with what is decided and why")
    shown.add_argument("--values", action="store_true", help="show the values as well, which may be secrets")
    shown.add_argument("--export", action="store_true", help="print lines for a shell, with the values")
    shown.add_argument("--json", action="store_true", help="print JSON, as with --explain")
    parser.add_argument("--debug", action="store_true", help="show the traceback of what made it impossible")
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="what to run, after --")


def run(arguments: argparse.Namespace) -> int:
    """Print the environment and return 0, or become the command. Raises what makes the environment impossible."""
    shown = [f"--{name}" for name in ("explain", "values", "export", "json") if getattr(arguments, name)]
    if arguments.command and shown:
        text = (
            f"{shown[0]} shows the environment and {arguments.command[0]!r} is a command to run in it; give one of them"
        )
        return refuse("env", f"{text}, and look for a name with grep")
    install_if_there_is_hermes()
    if arguments.engaged:
        importlib.import_module(OWN)._session_context_engaged = True  # type: ignore[attr-defined]
    options: dict[str, Any] = {
        "policy": arguments.policy,
        "allow": arguments.allow,
        "deny": arguments.deny,
        "extra": dict(arguments.set),
        "credentials": arguments.credentials,
    }
    if arguments.command:
        return _become(arguments.command, prepared(arguments.command, options)["env"])
    env, report = child_env(explain=True, **options)
    if arguments.json:
        print(json.dumps([vars(decision) for decision in report], indent=2))
    elif arguments.explain:
        print(*report, sep="\n")
    elif arguments.export:
        nameable = {name: value for name, value in env.items() if name.isascii() and name.isidentifier()}
        sys.stdout.buffer.write(os.fsencode(shell_exports(nameable)))
    else:
        print(*(f"{name}={value}" if arguments.values else name for name, value in env.items()), sep="\n")
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=VALUE")
    return name, value


def _become(command: list[str], env: dict[str, str]) -> int:
    """Run *command* in the place of this process; return a shell's status for one that cannot be run."""
    # Python ignores these for itself, and what it becomes would inherit that.
    for ignored in ("SIGPIPE", "SIGXFSZ"):
        if hasattr(signal, ignored):
            signal.signal(getattr(signal, ignored), signal.SIG_DFL)
    try:
        if not command[0]:
            raise FileNotFoundError(errno.ENOENT, "the empty name is no command's")
        os.execvpe(command[0], command, env)
    except OSError as error:
        refuse("env", f"{command[0]}: {error.strerror}")
        return 127 if isinstance(error, FileNotFoundError) else 126
