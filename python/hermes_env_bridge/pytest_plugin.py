"""A pytest plugin: ``-p hermes_env_bridge.pytest_plugin`` runs any suite on the drop-in, unchanged."""

from __future__ import annotations

from hermes_env_bridge import __version__, install


def pytest_load_initial_conftests() -> None:
    """Install the drop-in before a conftest can import Hermes, and after the suite's ``pythonpath`` is in place."""
    install()


def pytest_report_header() -> str:
    """Say on what the suite runs."""
    return f"hermes_env_bridge: {__version__}, in place of gateway.session_context"
