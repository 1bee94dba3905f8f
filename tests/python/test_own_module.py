"""The package's own module does what the model of the newest Hermes does, over random sequences."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import OWN_FILE, load

pytest.importorskip("hypothesis")

from hermes_env_bridge.parity import differential


@pytest.mark.parametrize("seed", range(3))
def test_the_own_module_equals_the_model(seed: int) -> None:
    own = load(OWN_FILE, "own_to_compare")
    model = load(Path(__file__).with_name("session_model.py"), "model_to_compare")
    # What the own module is built from has no counterpart.
    vars(model).update(_core=own._core, _declared=own._declared)

    section = differential.run(own, model, steps=6000, seed=seed)

    assert section.ok, [line for check in section.checks for line in check.differences]
    assert sum(check.compared for check in section.checks) > 6000
