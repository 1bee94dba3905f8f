"""A pytest plugin: ``-p hermes_env_bridge.pytest_plugin`` runs any suite on the drop-in, unchanged."""

from __future__ import annotations

import sys

import pytest

from hermes_env_bridge import InstallError, __version__, install


def pytest_load_initial_conftests() -> None:
    """Install the drop-in before a conftest can import Hermes, and after the suite's ``pythonpath`` is in place."""
    _join_option(sys.argv)
    _install()


def pytest_configure() -> None:
    """Install the drop-in where the plugin was loaded too late for the hook above, by a conftest for instance."""
    _install()


def pytest_report_header() -> str:
    """Say on what the suite runs."""
    return f"hermes_env_bridge: {__version__}, in place of {install().__name__}"


def _install() -> None:
    """Raises pytest's usage error, a line, if the drop-in cannot be put in place: then no test may run."""
    try:
        install()
    except InstallError as error:
        raise pytest.UsageError(f"hermes_env_bridge: {error}") from None


def _join_option(argv: list[str]) -> None:
    """Write our ``-p NAME`` as ``-pNAME``: Hermes takes any program's ``-p`` for its own option, a profile's name."""
    for at in reversed(range(len(argv) - 1)):
        if argv[at] == "-p" and argv[at + 1] == __name__:
            argv[at : at + 2] = [argv[at] + argv[at + 1]]
