"""The collector rests while a step is traced and printed, and is as it was afterwards, whatever happens."""

import gc

import pytest

import stodyn as sd
from stodyn.engine.collector import without_collection


@pytest.mark.parametrize("enabled", [True, False])
def test_it_is_as_it_was_afterwards(enabled):
    states = []

    def drift(t, x):
        states.append(gc.isenabled())
        return -x

    try:
        (gc.enable if enabled else gc.disable)()
        sd.simulate(sd.SDE(drift, lambda t, x: 0.1, 1.0), "Heun", t=(0, 1), dt=0.5, paths=2, seed=1)
        assert gc.isenabled() == enabled
        assert not all(states)  # in the trace of the step
        with pytest.raises(ZeroDivisionError):
            without_collection(lambda: 1 / 0)()
        assert gc.isenabled() == enabled
    finally:
        gc.enable()
