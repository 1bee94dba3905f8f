"""The command line: ``hermes-env-bridge``, and ``python -m hermes_env_bridge``."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from hermes_env_bridge import GuardError, __version__
from hermes_env_bridge._guard import from_environment
from hermes_env_bridge.commands import NAME, refuse

# A command's module is imported when it is chosen, so that a program that is run waits for no other command's imports.
COMMANDS = {
    "run": ("hermes_env_bridge.commands.run", "run a program with the drop-in installed"),
    "doctor": ("hermes_env_bridge.commands.doctor", "say what is installed here, and what is wrong"),
    "explain": ("hermes_env_bridge.commands.explain", "say which layer answers a read, and what a child gets"),
    "env": ("hermes_env_bridge.commands.env", "show the environment that a child gets, or run a program with it"),
    "parity": ("hermes_env_bridge.parity.command", "compare the drop-in with Hermes' own module"),
}

_LISTED = "\n".join(f"  {name:9} {summary}" for name, (_, summary) in COMMANDS.items())

HELP = f"""\
usage: {NAME} [--help] [--version] COMMAND ...

Whose session is this? A drop-in for Hermes Agent's gateway.session_context.

commands:
{_LISTED}

examples:
  {NAME} doctor                        is all well here?
  {NAME} run hermes gateway            Hermes, with the drop-in
  {NAME} run --children -m my.bot      a module, and its Python children too
  {NAME} explain HERMES_SESSION_KEY    who answers a read of this name
  {NAME} env --engaged --explain       what a gateway's child gets, and why
  {NAME} COMMAND --help                a command's options and examples
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that *arguments* (by default ``sys.argv``) name, and return the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = given[0] if given else ""
    if name != "run":
        _open_output()
    if name in ("-h", "--help", "--version"):
        try:
            print(HELP if name != "--version" else f"{NAME} {__version__}\n", end="", flush=True)
        except BrokenPipeError:
            return _nobody_reads()
        return 0
    if name not in COMMANDS:
        what = f"there is no {name!r}" if name else "name a command"
        return refuse("", f"{what}; the commands are {', '.join(COMMANDS)}; see {NAME} --help")
    try:
        from_environment()
    except (ValueError, GuardError) as error:
        return refuse(name, str(error))
    command = importlib.import_module(COMMANDS[name][0])
    # A program's arguments are its own, so `run` tells them from its own without argparse.
    status: int = command.main(given[1:]) if name == "run" else _run(name, command, given[1:])
    return status


def _run(name: str, command: ModuleType, given: list[str]) -> int:
    from hermes_env_bridge.commands.parser import parser_for

    chosen = parser_for(name, command).parse_args(given)
    try:
        status: int = command.run(chosen)
        sys.stdout.flush()
    except BrokenPipeError:
        return _nobody_reads()
    except Exception as error:
        return refuse(name, error, debug=chosen.debug)
    return status


def _nobody_reads() -> int:
    """The reader of our output has gone, as ``head`` does: return the status of a death by SIGPIPE."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 128 + 13


def _open_output() -> None:
    """Have an output that takes any text, and one at all where it was closed."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for the life of the process
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
