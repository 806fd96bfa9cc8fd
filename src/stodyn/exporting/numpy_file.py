"""A noise or a sensor as one file of Python that needs NumPy alone."""

from __future__ import annotations

import inspect
import keyword
from typing import Any

import numpy as np

from stodyn.engine.record.identity import versions
from stodyn.exporting import stepper
from stodyn.exporting.noises import DRIVE, SAMPLE
from stodyn.exporting.stepping import Stepping
from stodyn.noise import from_normals
from stodyn.noise.stream import STREAMS


def text(model: Stepping, name: str, seed: int) -> str:
    """The file: the stepper as it stands, and the numbers of the model."""
    if model.noise is None:
        raise ValueError(
            "to: a file of NumPy holds a noise or a sensor by itself: a Coloured, delayed noise, noise.gyro(...), "
            f"noise.imu(...), per_sample, density or noise.white(...), got {model.spec.record['problem']}. "
            "Export C, which ctypes loads"
        )
    word = name if not keyword.iskeyword(name) else f"{name}_"
    lines = "\n".join(f"    {key!r}: {_spelled(value)}," for key, value in _numbers(model, seed).items())
    return f'''# {name}: {model.title}. Written by stodyn {versions()["stodyn"]}.
{inspect.getsource(stepper)}

OUTPUTS = {model.outputs!r}
MODEL = {{
{lines}
}}


def {word}(paths=(0,), seed=None):
    """Instances of {model.title}."""
    return Stepper(MODEL, paths, seed)
'''


def _numbers(model: Stepping, seed: int) -> dict[str, Any]:
    noise = model.noise
    assert noise is not None
    recursion, limits = noise.recursion, noise.range
    streams = {"drive": STREAMS[DRIVE], "sample": STREAMS[SAMPLE], "start": STREAMS[from_normals.STREAM]}
    return {
        "dt": model.dt,
        "t0": model.begins_at,
        "seed": seed,
        "Phi": recursion.Phi,
        "drive": recursion.drive,
        "C": recursion.C,
        "start": recursion.start,
        "white": noise.white,
        "response": noise.response,
        "resolution": noise.resolution,
        "limits": None if limits is None else tuple(map(float, limits)),
        "streams": streams,
        "is_by_time": model.is_by_time,
    }


def _spelled(value: Any) -> str:
    """A value as Python writes it, arrays with their shapes."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    return f"np.array({value.ravel().tolist()!r}, float).reshape({value.shape!r})"
