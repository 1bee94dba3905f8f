"""The argument parser of a command."""

from __future__ import annotations

import argparse
from types import ModuleType
from typing import NoReturn

from hermes_env_bridge.commands import NAME


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in a line, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        """Say *message* on stderr and leave with status 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def parser_for(name: str, command: ModuleType) -> Parser:
    """The parser of the command called *name*, whose module is *command*."""
    parser = Parser(
        prog=f"{NAME} {name}",
        description=command.DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    return parser
