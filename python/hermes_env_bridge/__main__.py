"""The command line: ``hermes-env-bridge``, and ``python -m hermes_env_bridge``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hermes_env_bridge import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that *arguments* (by default ``sys.argv``) name, and return the exit status."""
    from hermes_env_bridge.parity import command as parity

    parser = argparse.ArgumentParser(prog="hermes-env-bridge", description="Whose session is this?")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    added = commands.add_parser(
        "parity",
        help="compare the drop-in with Hermes' own module",
        description=parity.DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parity.add_arguments(added)
    added.set_defaults(run=parity.run)
    chosen = parser.parse_args(arguments)
    status: int = chosen.run(chosen)
    return status


if __name__ == "__main__":
    sys.exit(main())
