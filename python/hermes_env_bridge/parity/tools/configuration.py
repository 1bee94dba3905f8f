"""The configuration file of the worker's Hermes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def configured(text: str) -> Iterator[None]:
    """Give Hermes the configuration *text*, which is YAML, and take it away again."""
    file = Path(os.environ["HERMES_HOME"], "config.yaml")
    file.write_text(text + "\n", encoding="utf-8")
    try:
        yield
    finally:
        file.unlink()
