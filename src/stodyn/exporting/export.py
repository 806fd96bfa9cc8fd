"""stodyn.export: a stepping model as files for other programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stodyn.arguments import check_positive, checks_arguments, suggestion
from stodyn.exporting import c_file, fmu, numpy_file
from stodyn.exporting.stepping import Stepping, stepping
from stodyn.methods.contract import Catalogued, Method

SUFFIXES = (".c", ".fmu", ".py")
RESERVED = ("seed", "path", "time")  # what every model has


@checks_arguments
def export(
    problem: Any,
    method: Catalogued | str | None = None,
    *,
    dt: float,
    to: str | Path,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] | Mapping[str, Callable[..., Any]] | None = None,
    t0: float = 0.0,
    seed: int = 0,
    fmi: str = "2.0",
    platforms: Sequence[str] = (),
) -> list[Path]:
    """Write one path of a problem, with its method, step and noise, as a program for other simulators.

    Path p of the exported model has the numbers of path p of `simulate` with the same seed, method and dt, to the last
    bit on the same kind of processor.

    Parameters
    ----------
    problem : problem or noise
        Any problem whose steps are printed, a loop of `with_loop` among them. Its start is given as numbers, or by
        `from_normals`; its params become parameters of the model. Or a noise by itself: a Coloured, delayed noise,
        noise.gyro(...), accelerometer or imu, per_sample, density, or noise.white(Q, host=...). A gyro's reading is
        that of the parameter "truth", which may be an input.
    method : str or method, optional
        As in `simulate`; a noise has none.
    dt : float
        The step, which is a part of the model; the time between the samples of a noise.
    to : str or path
        A file that ends in .c (a header is written beside it), in .fmu, or, for a noise, in .py, which needs NumPy
        alone.
    inputs : sequence of str, optional
        The params that the host sets before every step; they are held over it. An array stands for its entries, of
        which "truth[0]" is one.
    outputs : sequence of str or mapping, optional
        The components to show, or name -> function(t, x[, params]); by default all components. A noise shows all of its
        outputs.
    t0 : float, optional
        The time at which the model begins.
    seed : int, optional
        The seed that the model has until its host sets another one.
    fmi : str, optional
        "2.0" or "3.0": the version of the Functional Mock-up Interface.
    platforms : sequence of str, optional
        For which platforms a unit holds a library: some of x86_64-linux, aarch64-linux, x86_64-windows, x86_64-darwin
        and aarch64-darwin. Those other than this machine are compiled by zig (pip install ziglang). By default this
        machine alone, by $CC or cc; the sources are always inside.

    Returns
    -------
    list of Path
        The files that were written.

    Raises
    ------
    ValueError
        If an input or an output does not exist, if paths differ in their starts or parameters by draws of NumPy, or if
        the steps of the method cannot be printed for this problem.

    Examples
    --------
    >>> import stodyn as sd
    >>> import tempfile, pathlib
    >>> decay = sd.SDE(lambda t, x, p: p["u"] - x, lambda t, x: 0.1, start=1.0, params={"u": 0.0})
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> [file.name for file in sd.export(decay, "Heun", dt=0.01, to=folder / "decay.c", inputs=["u"])]
    ['decay.c', 'decay.h']
    """
    check_positive("a step", dt=dt)
    file = Path(to)
    if file.suffix not in SUFFIXES:
        raise ValueError(f"to: expected a file that ends in {', '.join(SUFFIXES)}, got {str(to)!r}")
    if not file.parent.is_dir():
        raise ValueError(f"to: there is no folder {str(file.parent)!r}; make it, or name another one")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise ValueError(f"seed: expected a whole number from 0 to 2^64 - 1, got {seed!r}")
    if isinstance(t0, str) or not math.isfinite(t0):
        raise ValueError(f"t0: expected the time at which the model begins, a finite number, got {t0!r}")
    model = stepping(problem, method, dt, _checked_outputs(outputs), t0, bool(inputs))
    inputs = _entries(model, inputs)
    _check_inputs(model, inputs)
    _check_names(model, inputs)
    name = c_file.identifier(file.stem)
    if file.suffix == ".py":
        file.write_text(numpy_file.text(model, name, int(seed)), encoding="utf-8")
        return [file]
    if file.suffix == ".fmu":
        return [fmu.write(model, name, inputs, file, int(seed), fmi, platforms)]
    header = file.with_suffix(".h")
    file.write_text(c_file.source(model, name, inputs, header.name), encoding="utf-8")
    header.write_text(c_file.header(model, name, inputs), encoding="utf-8")
    return [file, header]


def _checked_outputs(outputs: Any) -> Any:
    if isinstance(outputs, str):
        raise TypeError(f"outputs: expected a list of names such as [{outputs!r}], got the word {outputs!r}")
    if isinstance(outputs, Mapping) and not outputs:
        raise ValueError("outputs: no function given; name at least one, or leave outputs out for all components")
    return outputs


def _entries(model: Stepping, inputs: Sequence[str]) -> list[str]:
    """The inputs with each array among them as its entries."""
    if isinstance(inputs, str):
        raise TypeError(f"inputs: expected a list of names such as [{inputs!r}], got the word {inputs!r}")
    known = [p.name for p in model.parameters]
    return [entry for name in inputs for entry in [p for p in known if p.partition("[")[0] == name] or [name]]


def _check_inputs(model: Stepping, inputs: Sequence[str]) -> None:
    known = [p.name for p in model.parameters]
    for k, name in enumerate(inputs):
        if name in inputs[:k]:
            raise ValueError(f"inputs: {name!r} is given twice; name each input once")
        _check_input(model, name, known)
    if inputs and model.starting_steps:
        raise ValueError(
            f"inputs: {model.spec.record['method']} keeps derivatives from before a jump of an input, and its error "
            "would be of order 1; take a method of one step such as RK4 or Heun"
        )
    if inputs and model.keeps_more and type(model.spec.method).after_jump is Method.after_jump:
        raise ValueError(
            f"inputs: {model.spec.record['method']} carries more than the components of this problem from step to "
            "step, and does not say how it goes on after a jump of an input; take one such as RK4 or Heun"
        )


def _check_input(model: Stepping, name: str, known: Sequence[str]) -> None:
    """Refuse what a host cannot set."""
    if name.partition(".")[0] in model.fixed:
        raise ValueError(
            f"inputs: {name!r} multiplies the state or the noise, and the matrices of a step of "
            f"{model.spec.method.name} are made for its value; take RK4, whose steps read it anew"
        )
    word = name.partition("[")[0]
    if word in model.set_inside:
        part = model.set_inside[word]
        raise ValueError(
            f"inputs: {word!r} is written by the part {part!r} of the loop, which would write over what the host sets. "
            f"Name a parameter that no part writes, or leave {part!r} out of the loop"
        )
    whole = {word: value for word, value in model.common_params if value.dtype.kind != "f"}
    if word in whole:
        raise ValueError(
            f"inputs: params[{word!r}] is {whole[word]!s}, a whole number, and an input is a real one; give "
            f"{whole[word].astype(float)!s}"
        )
    if name not in known:
        raise ValueError(
            f"inputs: the problem has no parameter {name!r}; it has {', '.join(known) or 'none'}. Read the input in "
            f"the equations from params, and give it a value there{suggestion(name, known)}"
        )


def _check_names(model: Stepping, inputs: Sequence[str]) -> None:
    """Refuse names that stand for two numbers, as they are or as C spells them."""
    known = [p.name for p in model.parameters]
    for argument, own in (("outputs", (*inputs, *model.outputs)), ("params", known)):
        names = (*own, *RESERVED)
        words = [c_file.identifier(name) for name in names]
        twice = sorted({name for name, word in zip(names, words, strict=True) if words.count(word) > 1})
        if twice:
            raise ValueError(
                f"{argument}: {', '.join(map(repr, twice))} would stand for two numbers of the model, which has "
                f"{', '.join(RESERVED)} of its own; in C, names are made of the letters a to z, digits and _. Give "
                "other names"
            )
