"""One of Hermes' tools, as it is driven in a worker."""

from __future__ import annotations

from dataclasses import dataclass

from ..worker import Scenario


@dataclass(frozen=True)
class Tool:
    """A tool: its title in the report, and the scenario that drives it."""

    title: str
    drive: Scenario

    @property
    def name(self) -> str:
        """The name of the scenario."""
        return self.drive.__name__
