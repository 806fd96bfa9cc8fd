"""The way of one call, as docs/design.md tells it."""

import inspect
from pathlib import Path

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine.program import printed
from stodyn.models.kubo import kubo

PACKAGE = str(Path(sd.__file__).parent)


def test_ten_frames_from_the_door_to_the_compiled_function(monkeypatch):
    """Each is named under "Follow one call"."""
    stacks = []

    def step(self, *arguments):
        stacks.append([frame.function for frame in inspect.stack() if frame.filename.startswith(PACKAGE)])
        return original(self, *arguments)

    original = printed._Work.step
    monkeypatch.setattr(printed._Work, "step", step)
    sd.simulate(
        kubo(), "Heun", t=(0, 1), dt=0.1, paths=8, seed=1, threads=1, progress=False, collect=st.Moments(at=[1])
    )
    ways = {tuple(stack[: stack.index("simulate")]) for stack in stacks}  # `step` above is not in the package
    assert ways == {("advance", "gone_through", "paths", "block", "compute", "one", "map", "merged", "_carry_out")}
