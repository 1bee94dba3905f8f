"""``hermes-env-bridge explain``: what a read of a session variable returns in a fresh process, and why."""

from __future__ import annotations

import argparse
import json
from importlib.machinery import PathFinder

from hermes_env_bridge import InstallError, explain, explain_all, install
from hermes_env_bridge._find import HERMES

DESCRIPTION = """\
Says which layer answers a read (the task, the environment or the default) and what a child process gets, in a fresh
process with the drop-in over the installed Hermes; where there is no Hermes, with the package's own module.

examples:
  hermes-env-bridge explain                               every session variable
  hermes-env-bridge explain HERMES_SESSION_KEY --values   one, with what is read
  hermes-env-bridge explain --json                        for a program

exit status: 0, or 2 if the installed Hermes cannot be explained
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``explain`` to *parser*."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="a variable's name (default: every session variable)")
    parser.add_argument("--values", action="store_true", help="show the values as well, which may be secrets")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--debug", action="store_true", help="show the traceback of what made it impossible")


def run(arguments: argparse.Namespace) -> int:
    """Print what holds in this process; return 0. Raises InstallError if there is a Hermes that cannot be adapted."""
    install_if_there_is_hermes()
    if not arguments.names:
        every = explain_all(values=arguments.values)
        print(json.dumps(every.to_json(), indent=2) if arguments.json else every)
        return 0
    named = [explain(name, values=arguments.values) for name in arguments.names]
    if arguments.json:
        told = [explanation.to_json() for explanation in named]
        print(json.dumps(explain_all().to_json() | {"variables": told}, indent=2))
    else:
        print(*named, sep="\n")
    return 0


def install_if_there_is_hermes() -> None:
    """Install the drop-in; where there is no Hermes, the package's own module serves.

    Raises InstallError if there is a Hermes that cannot be adapted.
    """
    try:
        install()
    except InstallError:
        if _hermes_is_there():
            raise


def _hermes_is_there() -> bool:
    """Whether an import of Hermes' session module would find something, be it of no use."""
    package, _, _ = HERMES.partition(".")
    spec = PathFinder.find_spec(package)
    return spec is not None and PathFinder.find_spec(HERMES, spec.submodule_search_locations) is not None
