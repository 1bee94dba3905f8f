"""``hermes-env-bridge run``: a program, with the drop-in installed before it imports anything."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_env_bridge import InstallError, install
from hermes_env_bridge.commands import refuse
from hermes_env_bridge.commands.program import ProgramError, find_program

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Runs a program in this process with the drop-in in the place of its Hermes' session module. Arguments, exit status,
signals and tracebacks are as without it. What follows the program's name is the program's.

  COMMAND       a console script of this Python environment, found on PATH or beside the interpreter, or by its path
  -m MODULE     a module or a package, as `python -m` runs it
  FILE.py       a file, as `python` runs it; also a folder or an archive with a __main__.py

examples:
  hermes-env-bridge run hermes --version
  hermes-env-bridge run --children hermes gateway run
  hermes-env-bridge run -m hermes_cli.main --version
  hermes-env-bridge run my_bot.py --verbose

exit status: the program's; 2 if the drop-in cannot be installed, and then the program is not started
"""

# The only file in it is a sitecustomize.py.
CHILDREN = os.path.join(os.path.dirname(__file__), "children")


@dataclass
class Request:
    """What to run: the words that name the program, the arguments among them, and the command's own options."""

    words: list[str]
    children: bool = False
    debug: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``run`` to *parser*; the program's own arguments never reach it."""
    parser.usage = "%(prog)s [--children] [--debug] [--] {COMMAND | -m MODULE | FILE.py} [ARGUMENT ...]"
    parser.add_argument(
        "--children",
        action="store_true",
        help="Python children install the drop-in too; those of an interpreter without this package go on without it",
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of what made it impossible")


def main(words: list[str]) -> int:
    """Run what *words*, the arguments of ``run``, ask for, and return its exit status."""
    own, program = divide(words)
    if not program or not set(own) <= {"--children", "--debug"}:
        # Help or an error, so there is time for argparse.
        from hermes_env_bridge.commands.parser import parser_for

        parser = parser_for("run", sys.modules[__name__])
        parser.parse_args(own)
        parser.error("name a program to run")
    return run(Request(program, children="--children" in own, debug="--debug" in own))


def divide(words: list[str]) -> tuple[list[str], list[str]]:
    """The options before the program's name, and the rest."""
    for at, word in enumerate(words):
        if word == "--":
            return words[:at], words[at + 1 :]
        if word == "-m" or not word.startswith("-"):
            return words[:at], words[at:]
    return words, []


def run(arguments: Request) -> int:
    """Run the program; return 0 if it ends, 2 if it cannot be started. Raises whatever the program raises."""
    try:
        program = find_program(arguments.words)
        # First, as it decides which Hermes is found: a checkout's may lie in the program's folder.
        program.set_up()
        program.make_way()
        install()
    except (ProgramError, InstallError, OSError) as error:
        return refuse("run", error, debug=arguments.debug)
    if arguments.children:
        _reach_children()
    program.execute()
    return 0


def _reach_children() -> None:
    """Let children find our ``sitecustomize`` first; it hands over to the one that they would have found."""
    before = os.environ.get("PYTHONPATH", "")
    if CHILDREN not in before.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [CHILDREN, before]))
