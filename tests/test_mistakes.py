"""At least 116 typical mistakes: none is silent, none raw; each names the argument and the way out before a run.

A mistake is told well where its message says what is wrong, where (the argument), and how to fix it. Each row holds the
call, the argument, and words of the way out.
"""

import inspect
import math
import re
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas
import pytest
import scipy.sparse
import scipy.stats
import xarray as xr

import stodyn as sd
from stodyn import statistics as st
from stodyn.arguments import RENAMED
from stodyn.models.kubo import KUBO


def drift(t, x):
    return jnp.array([x[1], -x[0]])


def kick(t, x):
    return jnp.array([[0.0], [0.3]])


OSCILLATOR = sd.SDE(drift, kick, [1.0, 0.0], names=("q", "p"))


RC = sd.circuits.read("low pass\nv1 in 0 1\nr1 in a 1k\nc1 a 0 1n\n.end")
LATE = sd.Level(9.0, of="q")
FRAME = sd.Mechanical.from_matrices([1.0], [0.1], [[1.0]])


def sde(f, g=kick, start=(1.0, 0.0), **options):
    return sd.SDE(f, g, start, **options)


def damped(f, **options):
    return sd.SDE(f, lambda t, x, p: jnp.array([[0.1]]), [1.0], **options)


def run(problem=OSCILLATOR, method="Heun", **options):
    return sd.simulate(problem, method, **({"t": (0, 1), "dt": 0.1, "paths": 8, "seed": 1} | options))


def sweep(over, problem=KUBO.problem):
    return sd.sweep(problem, "Heun", over=over, t=(0, 1), dt=0.1, paths=8, seed=1)


class Pendulum(NamedTuple):
    gravity: float


def in_place(t, x):
    x[0] = 0.0
    return x


def entry_by_entry(t, x):
    rates = np.zeros(2)
    rates[0] = x[1]
    return rates


READ = sd.Sensor("y", of="q", noise=sd.per_sample(0.1), unit="m")


def data_of(
    verb=sd.filtered, values=(0.1, 0.2, 0.3), times=(1.0, 2.0, 3.0), sensors=READ, problem=OSCILLATOR, **options
):
    return verb(problem, data={"y": (times, values)}, sensors=sensors, **options)


def fit_of(free, **options):
    params = {"k": 1.0, "spare": 1.0, "r": 0.1}
    pushed = sd.SDE(
        lambda t, x, p: jnp.array([x[1], -p["k"] * x[0]]), kick, [1.0, 0.0], names=("q", "p"), params=params
    )
    sensors = sd.Sensor("y", of="q", noise=sd.per_sample("r"))
    return data_of(sd.fit, sensors=sensors, problem=pushed, free=free, **options)


def feedback(t, own, seen, p):
    return own, -seen["y"]


def looped(reads="y", writes="u", update=feedback, drift=lambda t, x, p: p["u"] - x, unit=None, **reading):
    plant = damped(drift, params={"u": 0.0}, units={"x0": unit} if unit else None)
    part = sd.Part("c", every=0.1, reads=reads, writes=writes, state={}, update=update)
    return sd.with_loop(plant, sd.Sensor("y", **{"of": "x0", "every": 0.1} | reading), part)


# what was done: (call, the argument the message names, the way out it offers)
MISTAKES = {
    # shapes
    "start too short": (lambda: run(sde(drift, start=[1.0])), "drift", "check the length of the vector"),
    "start is a number": (lambda: run(sde(drift, start=1.0)), "drift", "x is a number where start is one"),
    "start is a matrix": (lambda: run(sde(drift, start=np.ones((8, 2)))), "start", "PerPath(values)"),
    "drift too short": (lambda: run(sde(lambda t, x: x[:1])), "drift", "expected (2,), the shape of start"),
    "drift is a list": (lambda: run(sde(lambda t, x: [x[1], -x[0]])), "drift", "jnp.array([...])"),
    "drift returns nothing": (lambda: run(sde(lambda t, x: None)), "drift", "expected one array. Is its `return`"),
    "a component by its name": (
        lambda: run(sde(lambda t, x: jnp.array([x["p"], -x[0]]), names=("q", "p"))), "drift", "write x[1]."),
    "a component as an attribute": (
        lambda: run(sde(lambda t, x: jnp.array([x.speed, -x[0]]), names=("q", "p"))),
        "drift", "write x[0] for the first; the components are q, p"),
    "Observable of a name": (
        lambda: run(collect=st.Observable(lambda t, x: x["q"], name="e")), "Observable e", "write x[0] for the first"),
    "a Level collected": (lambda: run(collect=LATE), "collect", "statistics.Passage(level)"),
    "noise where there is none": (
        lambda: run(method=sd.ExactNoise("RK4")), "method", "make one with stodyn.with_noise(sde, noise, into)"),
    "an expansion of an SDE": (
        lambda: run(method="Galerkin"), "method", "takes RandomDAE problems, but the problem is of type SDE"),
    "nothing to expand": (
        lambda: sd.simulate(sd.RandomDAE([[1.0]], lambda t, x, p: -x, [1.0], {"a": 1.0}), t=(0, 1), dt=0.1),
        "params", "Give distributions in params"),
    "a sweep of another argument": (
        lambda: sweep({"damper": [1.0]}, lambda d: OSCILLATOR), "over", "but it is function(d)"),
    "lags by default": (
        lambda: run(collect=st.Autocorrelation()), "Autocorrelation", "lags=50 (the default), expected from 1 to 10"),
    "one step": (lambda: run(dt=0.7), "dt", "and 1 (1 step)"),
    "phase noise of a run": (lambda: sd.plot.phase_noise(run()), "result", "expected a result of analysis.phase_noise"),
    "jitter of a run": (lambda: sd.plot.jitter(run()), "result", "expected a result of analysis.phase_noise"),
    "cycle of a run": (lambda: sd.plot.cycle(run()), "result", "expected a result of analysis.phase_noise"),
    "noise density of a run": (lambda: sd.plot.noise_density(run()), "sampled", "a pair (frequency, density)"),
    "diffusion is a vector": (lambda: run(sde(drift, lambda t, x: 0.1 * x)), "diffusion", "write [:, None]"),
    "diffusion is a number": (
        lambda: run(sde(drift, lambda t, x: 0.1)), "diffusion", "jnp.full((2, 1), g) for one channel"),
    "noise of a vector of one": (
        lambda: run(sde(lambda t, x: -x, lambda t, x: 0.1, [1.0])), "diffusion", "jnp.array([[g]]), or give numbers"),
    "a constant as diffusion": (
        lambda: run(sde(lambda t, x: -x, 0.1, [1.0])), "diffusion", "lambda t, x: jnp.array([[0.1]])"),
    "a constant for a number": (lambda: run(sde(lambda t, x: -x, 0.1, 1.0)), "diffusion", "lambda t, x: 0.1"),
    "an array as diffusion": (lambda: run(sde(drift, np.eye(2))), "diffusion", "lambda t, x: array"),
    "diffusion transposed": (lambda: run(sde(drift, lambda t, x: 0.1 * x[None])), "diffusion", "write .T"),
    "places of sparse noise": (
        lambda: run(sde(drift, lambda t, x: sd.sparse([0, 2], [0, 1], [0.1, 0.1], (2, 2)))),
        "diffusion: sparse: rows", "expected numbers from 0 to 1"),
    "a sparse matrix of SciPy": (
        lambda: run(sde(drift, lambda t, x: scipy.sparse.eye_array(2))), "diffusion", "sd.sparse(A.row, A.col"),
    "Observable of a matrix": (
        lambda: run(collect=st.Observable(lambda t, x: jnp.ones((2, 2)), name="e")),
        "Observable e", "or a vector of them"),
    "matrices of two sizes": (
        lambda: sd.Mechanical.from_matrices([1.0, 1.0], None, np.eye(3)), "K", "expected the same"),
    # kinds of numbers
    "complex start": (lambda: sde(drift, start=[1j, 0.0]), "start", "expected a number, a vector"),
    "start of words": (lambda: sde(drift, start=["a", "b"]), "start", "expected a number, a vector"),
    "start is not finite": (lambda: run(sde(drift, start=[np.nan, 0.0])), "start", "Give finite values"),
    "a distribution of another kind": (
        lambda: run(sde(drift, start=scipy.stats.Normal(mu=0.0, sigma=1.0))), "start", "scipy.stats.norm(0, 1)"),
    "a family of distributions": (lambda: run(sde(drift, start=scipy.stats.norm)), "start", "scipy.stats.norm(...)"),
    "a word among params": (
        lambda: run(damped(lambda t, x, p: -x, params={"a": "fast"})),
        "params['a']", "expected numbers"),
    "a deviation below 0": (lambda: run(sde(drift, start=scipy.stats.norm([0, 0], -1))), "start", "scale must be > 0"),
    "a shape below 0": (
        lambda: run(damped(lambda t, x, p: -x, params={"a": scipy.stats.gamma(-1)})), "params['a']", "the range of a"),
    "a random parameter that is none": (
        lambda: sd.RandomDAE([[1.0]], lambda t, x, p: -p["a"] * x, [1.0], {"a": scipy.stats.norm(0, -1)}),
        "params['a']", "scale must be > 0"),
    "half precision": (lambda: run(dtype="float16"), "dtype", '"float64" or "float32"'),
    # NumPy and Python inside of functions
    "np.sin": (lambda: run(sde(lambda t, x: -np.sin(x))), "drift", "jnp.sin for np.sin"),
    "np.abs": (lambda: run(sde(lambda t, x: -np.abs(x))), "drift", "jnp.abs for np.abs"),
    "np in a score": (
        lambda: sd.rare(OSCILLATOR, event=LATE, before=1.0, dt=0.1, seed=1, score=lambda t, x: np.sin(x[0])),
        "score", "jnp.sin for np.sin"),
    "a score of two numbers": (
        lambda: sd.rare(OSCILLATOR, event=LATE, before=1.0, dt=0.1, seed=1, score=lambda t, x: x),
        "score", "expected one number"),
    "a measurement as a function": (
        lambda: sd.with_measurement(OSCILLATOR, lambda t, x: x[0], [[0.1]]), "H", "statistics.Observable"),
    "np.linalg.norm": (lambda: run(sde(lambda t, x: x * np.linalg.norm(x))), "drift", "jnp.linalg.norm for np.linalg"),
    "a function of SciPy": (
        lambda: run(sde(lambda t, x: scipy.special.erf(x))), "drift", "jax.scipy.special.erf for scipy.special.erf"),
    "a name of nothing": (lambda: run(sde(lambda t, x: stiffness * x)), "`stiffness`", "pass its value in params"),  # noqa: F821
    "a list by x": (lambda: run(sde(lambda t, x: [1.0, 2.0][x[0]] * x)), "`[1.0, 2.0][x[0]]`", "jnp.array(values)[i]"),
    "a dict of results": (
        lambda: run(collect=st.Observable(lambda t, x: {"a": x[0]}, name="e")), "Observable e", "Return one array"),
    "entries of an array of NumPy": (lambda: run(sde(entry_by_entry)), "`rates[0]`", "jnp.array([...]) of all entries"),
    "a product that does not fit": (
        lambda: run(sde(lambda t, x: jnp.eye(3) @ x)), "`jnp.eye(3) @ x`", "x has shape (2,)"),
    "np.sin without params": (
        lambda: run(sde(lambda t, x, p: -np.sin(x), lambda t, x: jnp.eye(2))), "drift", "jnp.sin for np.sin"),
    "float of x": (lambda: run(sde(lambda t, x: x * float(x[0]))), "`float(x[0])`", "leave float() out"),
    "max of x": (lambda: run(sde(lambda t, x: max(x[0], 0.0) * x)), "`max(x[0], 0.0)`", "jnp.maximum for max"),
    "math.sin": (lambda: run(sde(lambda t, x: x * math.sin(x[0]))), "drift", "jnp.sin for math.sin"),
    "a random number inside": (
        lambda: run(sde(lambda t, x: -x + np.random.default_rng().normal())), "drift", "Put randomness into"),
    "assignment in place": (lambda: run(sde(in_place)), "drift", "x = x.at[0].set(value)"),
    "if on x": (lambda: run(sde(lambda t, x: -x if x[0] > 0 else x)), "`x[0] > 0`, line", "jnp.where or lax.cond"),
    "if on params": (
        lambda: run(damped(lambda t, x, p: -x if p["a"] > 0 else x, params={"a": 1.0})),
        "drift", "jnp.where or lax.cond"),
    "range of x": (lambda: run(sde(lambda t, x: sum(x for _ in range(int(x[0]))))), "`int(x[0])`", "lax.fori_loop"),
    "and in an Observable": (
        lambda: run(collect=st.Observable(lambda t, x: x[0] > 0 and x[1] > 0, name="e")),
        "Observable e", "& for `and`"),
    # names
    "paths of an estimate": (
        lambda: sd.estimate(OSCILLATOR, lambda t, x: x[0], t=(0, 1), error=0.1, seed=1, paths=8),
        "paths", "It takes problem, f, t, error"),
    "steps of an estimate": (
        lambda: sd.estimate(OSCILLATOR, lambda t, x: x[0], t=(0, 1), error=0.1, seed=1, dt=0.1),
        "dt", "steps=N fixes those of its coarsest level"),
    "params of pandas": (
        lambda: damped(lambda t, x, p: -p["a"] * x, params=pandas.Series({"a": 1.0})), "params", "series.to_dict()"),
    "params in a table": (
        lambda: damped(lambda t, x, p: -p["a"] * x, params=pandas.DataFrame({"a": [1.0]})),
        "params", "frame.iloc[0].to_dict()"),
    "a component of a mean": (lambda: run()["mean"]["q"], "'q'", "run['mean'].sel(component='q')"),
    "a component of a run": (lambda: run()["q"], "'q'", "run['mean'].sel(component='q')"),
    "a method misspelt": (lambda: run(method="Hein"), "method", "Heun"),
    "a name misspelt": (lambda: sd.simulat, "simulat", "simulate"),
    "a keyword misspelt": (lambda: run(n_paths=8), "n_paths", "did you mean 'paths'?"),
    "a component misspelt": (lambda: run(stop=sd.Stop(sd.Level(1.0, of="angle"))), "of", "the components are q, p"),
    "an entry of params misspelt": (
        lambda: run(damped(lambda t, x, p: -p["gravty"] * x, params={"gravity": 9.81})),
        "params", "did you mean 'gravity'?"),
    "an entry among entries misspelt": (
        lambda: run(damped(lambda t, x, p: -p["body"]["mas"] * x, params={"body": {"mass": 1.0}})),
        "params", "p['body'] has no entry 'mas'. It has 'mass'; did you mean 'mass'?"),
    "an entry of params as an attribute": (
        lambda: run(damped(lambda t, x, p: -p.gravity * x, params={"gravity": 9.81})), "params", "write p['gravity']"),
    "a field of params misspelt": (
        lambda: run(damped(lambda t, x, p: -p.gravty * x, params=Pendulum(9.81))), "params", "did you mean 'gravity'?"),
    "an entry that a quantity misspells": (
        lambda: run(damped(lambda t, x, p: -x, params={"a": 1.0}),
                    collect=st.Observable(lambda t, x, p: p["b"], name="e")),
        "Observable e", "It has 'a'"),
    "a component of a picture misspelt": (lambda: sd.plot.band(run(), "Q"), "component", "the components are q, p"),
    "a list among params": (
        lambda: run(damped(lambda t, x, p: -p["a"] * x, params={"a": [1.0, 2.0]})),
        "drift", "numpy.array([...])"),
    "a variable of a run misspelt": (lambda: sd.interval(run(), "varience"), "name", "Did you mean 'variance'?"),
    "a coordinate misspelt": (
        lambda: sd.with_elements(FRAME, sd.elements.Gap(at="x", stiffness=1.0, gap=0.1)), "at", "Did you mean 'x0'?"),
    "a swept name nearly right": (lambda: sweep({"bta": [1.0]}), "over", "Did you mean 'beta'?"),
    "a swept name misspelt": (lambda: sweep({"rate": [1.0]}), "over", "beta, nu"),
    "a parameter of a model": (lambda: KUBO(nope=1.0), "nope", "it has beta, nu"),
    "an option of a method": (lambda: sd.method("ThetaEuler")(thetta=0.5), "thetta", "theta"),
    "calculus by another word": (lambda: sde(drift, calculus="strat"), "calculus", "'ito', 'stratonovich'"),
    "one name for two components": (lambda: sde(drift, names=("q",)), "names", "expected 2 different names"),
    # units
    "a unit of nothing": (lambda: sde(drift, names=("q", "p"), units={"y": "m"}), "units", "are q, p; 'time' may"),
    "too few units": (lambda: sde(drift, names=("q", "p"), units=("m",)), "units", "one per component, 2 in all"),
    # missing, swapped and impossible arguments
    "problem and method swapped": (lambda: run("Heun", OSCILLATOR), "problem", "The problem comes first"),
    "a function as problem": (lambda: run(drift), "problem", "stodyn.SDE(drift, diffusion, start)"),
    "no dt": (lambda: sd.simulate(OSCILLATOR, "Heun", t=(0, 1), paths=8, seed=1), "dt", "call it as simulate(problem"),
    "no paths": (
        lambda: sd.simulate(OSCILLATOR, "Heun", t=(0, 1), dt=0.1),
        "simulate() needs paths and seed", "paths=..., seed=...)"),
    "no paths of a sweep": (
        lambda: sd.sweep(KUBO.problem, over={"nu": [1.0]}, t=(0, 1), dt=0.1, seed=1),
        "sweep() needs paths", "paths=..., seed=...)"),
    "no start": (lambda: sd.SDE(drift, kick), "start", "call it as SDE(drift, diffusion, start)"),
    "nothing but a name": (lambda: sd.Hamiltonian(names=["q"]), "H", "call it as Hamiltonian(H, h, start=(q0, p0))"),
    "an old keyword": (lambda: sd.RandomDAE([[1.0]], random={"a": 1.0}), "random", "It is called 'params' now"),
    "an old keyword of an analysis": (
        lambda: sd.analysis.linear.step_map(OSCILLATOR, "Heun", h=0.1), "h", "It is called 'dt' now"),
    "a start twice": (lambda: sd.SDE(drift, kick, [1.0, 0.0], start=[1.0, 0.0]), "start", "by position and by name"),
    "too many in a row": (
        lambda: sd.simulate(OSCILLATOR, "Heun", (0, 1), 0.1), "problem, method; got 4", "Give t, dt"),
    "no seed": (lambda: run(seed=None), "simulate() needs seed", "paths=..., seed=..."),
    "no seed for a prepared run": (
        lambda: sd.prepare(OSCILLATOR, t=(0, 1), dt=0.1, paths=8)(),
        "ready() needs seed", "call it as ready(seed=...)"),
    "a seed by position": (
        lambda: sd.prepare(OSCILLATOR, t=(0, 1), dt=0.1, paths=8)(2),
        "ready() takes 0", "Give seed, params, start by name"),
    "an option of a circuit": (
        lambda: RC.noise_spectrum("a", freq=[1e3]), "freq", "did you mean 'frequency'?"),
    "a seed below 0": (lambda: run(seed=-1), "seed", "such as seed=1"),
    "t is a number": (lambda: run(t=8), "t", "such as t=(0, 8)"),
    "t goes backwards": (lambda: run(t=(8, 0)), "t", "start < end"),
    "dt does not divide": (lambda: run(dt=0.3), "dt", "the nearest that do are 0.25"),
    "dt below 0": (lambda: run(dt=-0.1), "dt", "expected a positive step"),
    "half a path": (lambda: run(paths=10.5), "paths", "expected a whole number >= 1"),
    "times for an interval": (lambda: run(t=np.linspace(0, 1, 11)), "t", "t=(0, 1) and the step as dt="),
    "times of an estimate": (
        lambda: sd.estimate(OSCILLATOR, lambda t, x: x[0], t=np.linspace(0, 1, 11), error=0.1, seed=1),
        "t", "t=(0, 1)"),
    "a start in a call": (lambda: run(start=1.0), "start", "dataclasses.replace(problem, start=...)"),
    "a level in words": (lambda: st.Passage("1"), "level", "such as 1.5"),
    "readings without times": (
        lambda: sd.filtered(OSCILLATOR, data=np.arange(9.0), sensors=READ), "data", "(dt * np.arange("),
    "a statistic by its class": (lambda: run(collect=[st.Moments]), "collect", "call it: Moments()"),
    "times outside of the run": (lambda: run(collect=st.Moments(at=[5.0])), "at=5", "Give times inside it"),
    "a percentage as quantile": (
        lambda: sd.quantile(run(collect=st.Histogram([-2.0, 0.0, 2.0])), 95), "q", "between 0 and 1"),
    # data
    "times that go back": (lambda: data_of(times=(1.0, 3.0, 2.0)), "data (y)", "Sort them"),
    "a time twice": (lambda: data_of(times=(1.0, 2.0, 2.0)), "data (y)", "one reading for each time"),
    "a reading before the start": (lambda: data_of(times=(-1.0, 2.0, 3.0)), "t0", "give t0=-1"),
    "more times than values": (lambda: data_of(times=(1.0, 2.0)), "data (y)", "got 2 times and 3 values"),
    "all values missing": (lambda: data_of(values=[math.nan] * 3), "data", "all values are missing"),
    "an infinite value": (lambda: data_of(values=(0.1, math.inf, 0.2)), "data (y)", "write NaN where it is missing"),
    "no sensors": (lambda: data_of(sensors=None), "sensors", "sd.Record(...)"),
    "a sensor of another name": (
        lambda: data_of(sensors=sd.Sensor("z", of="q")), "data", "there is no sensor 'y'; the sensors are z"),
    "a sensor of an unknown component": (
        lambda: data_of(sensors=sd.Sensor("y", of="angle", noise=sd.per_sample(0.1))), "of (y)", "there are q, p"),
    "noise by a bare number": (lambda: sd.Sensor("y", of="q", noise=0.1), "noise", "per_sample(0.1)"),
    "units that differ": (
        lambda: sd.Record(xr.Dataset({"y": ("time", [0.1], {"units": "mm"})}, {"time": [1.0]}), READ),
        "data (y)", "their unit is 'mm', that of the sensor 'm'"),
    "readings beyond the range": (
        lambda: data_of(sensors=sd.Sensor("y", of="q", noise=sd.per_sample(0.1), range=(-0.2, 0.25))),
        "range (y)", "write NaN for them"),
    "a window that begins before the start": (
        lambda: data_of(sensors=sd.Sensor("y", of="q", noise=sd.per_sample(0.1), average=1.5)),
        "average (y)", "give an earlier t0"),
    "a reading without noise of a sure start": (
        lambda: data_of(times=(0.0, 1.0, 2.0), sensors=sd.Sensor("y", of="q")), "data (y)", "Give the sensor noise"),
    "a start without a stationary law": (lambda: data_of(initial="stationary"), "initial", "Add damping"),
    "a step for the exact law": (lambda: data_of(dt=0.1), "method, dt", "give law= and dt="),
    "readings between the steps": (lambda: data_of(law="Heun", dt=0.7), "dt", "not a whole number of steps"),
    "a free parameter misspelt": (lambda: fit_of(["kk"]), "free", "there are k, r, spare"),
    "a free parameter of nothing": (lambda: fit_of(["k", "spare"]), "free", "leave it out"),
    "a range upside down": (lambda: fit_of({"k": (2.0, 1.0)}), "free (k)", "expected (low, high) with low < high"),
    "a range in a word": (lambda: fit_of({"k": "positive"}), "free (k)", "a distribution as prior"),
    "a start outside of the range": (lambda: fit_of({"k": (2.0, None)}), "start (k)", "its range from 2 to inf"),
    "a start that is impossible": (lambda: fit_of(["r"], start={"r": math.nan}), "start (r)", "nan lies outside"),
    "a result that is no fit": (lambda: sd.fitted(OSCILLATOR, run()), "result", "the result of sd.fit"),
    # impossible sizes
    "too many paths to keep": (
        lambda: run(paths=10**12, collect=st.Paths(10**12)), "Paths", "Keep fewer paths or components"),
    "too many steps": (lambda: run(dt=1e-13), "dt", "Take longer steps"),
    # arguments of another kind
    "a variable in place of a run": (lambda: sd.plot.band(run()["mean"], "q"), "run", "give the whole Dataset"),
    "a dict in place of a run": (lambda: sd.interval({}, "mean"), "run", "stodyn.simulate(...)"),
    "file before run": (lambda: sd.save("run.nc", run()), "run", "a Dataset such as that of stodyn.simulate"),
    "file before picture": (lambda: sd.plot.save("a.png", sd.plot.band(run(), "q")), "ax", "stodyn.plot.band(run)"),
    "a picture of no known kind": (lambda: sd.plot.save(sd.plot.band(run(), "q"), "a.xyz"), "file", "png"),
    "start first": (lambda: sd.SDE([1.0, 0.0], drift, kick), "drift", "SDE(drift, diffusion, start)"),
    "no mass": (lambda: sd.SDAE(np.eye(2), kick(0, 0), kick, [1.0, 0.0]), "drift", "SDAE(mass, drift, diffusion"),
    "noise before problem": (
        lambda: sd.with_noise(sd.noise.coloured.gauss_markov(1.0, 1.0), OSCILLATOR, "p"),
        "noise", "with_noise(problem, noise, into)"),
    "a spectrum's name as ground motion": (
        lambda: sd.base_excited(FRAME, "kanai_tajimi"), "noise", "kanai_tajimi(15, 0.6, sigma=1)"),
    "a damping ratio as matrix": (
        lambda: sd.Mechanical.from_matrices([1.0], ("modal", 0.05), [[1.0]]), "C", "as damping=, with C=None"),
    "a sample without seed": (
        lambda: sd.noise.coloured.gauss_markov(1.0, 1.0).sample(0.1, 10), "seed", "call it as sample(dt, seed=...)"),
    # wrong kinds of problem
    "a model's module": (lambda: run(sd.models.kubo), "problem", "sd.models.kubo.kubo()"),
    "a model's function": (lambda: run(sd.models.kubo.kubo), "problem", "sd.models.kubo.kubo()"),
    "several problems": (lambda: run([OSCILLATOR, OSCILLATOR]), "problem", "stodyn.sweep"),
    "energy of an SDE": (
        lambda: sd.analysis.conservation.energy_drift(OSCILLATOR, "Heun", t=(0, 1), dt=0.1, paths=8, seed=1),
        "problem", "statistics.Change(energy)"),
    "a method for another kind": (lambda: run(method="StochasticAlpha"), "method", "Those that fit best: SRA1"),
    "a method for other noise": (
        lambda: run(sde(drift, lambda t, x: 0.1 * x[:, None]), "SRA1"), "method", "Those that fit best: SRIW1"),
    "a run without a histogram": (lambda: sd.quantile(run(), 0.5), "run", "statistics.Histogram(edges)"),
    "a run without moments": (
        lambda: sd.plot.band(run(collect=st.Paths(2, every=1)), "q"), "run", "collect=[statistics.Moments()]"),
    # what is asked of a run, a loop, a structure
    "survival that was not collected": (lambda: sd.plot.survival(run()), "run", "statistics.Passage(level)"),
    "a free energy without a histogram": (lambda: sd.plot.free_energy(run(), "q"), "run", "Histogram(edges)"),
    "a confidence in percent": (lambda: sd.interval(run(), "mean", 95), "confidence", "95 % is 0.95"),
    "a quantile in percent": (
        lambda: sd.quantile(run(collect=st.Histogram([-9.0, 0.0, 9.0])), 50), "q", "50 % is 0.5"),
    "a path that there is not": (lambda: sd.replay(OSCILLATOR, "Heun", run(), 8), "path", "from 0 to 7"),
    "a state of another length": (lambda: sd.analysis.evaluate(OSCILLATOR, [1.0]), "x", "expected 2 numbers, for q, p"),
    "a start at which the drift is infinite": (
        lambda: run(sd.SDE(lambda t, x: 1.0 / x, lambda t, x: 0.1 + 0.0 * x, 0.0)), "start", "Start elsewhere"),
    "a statistic that was not called": (lambda: run(collect=st.Moments), "collect", "call it: Moments()"),
    "an event in words": (
        lambda: sd.rare(OSCILLATOR, event="q > 1", before=1.0, dt=0.1, seed=1), "event", "stodyn.Level(...)"),
    "noise into nothing": (
        lambda: sd.with_noise(OSCILLATOR, sd.noise.coloured.gauss_markov(1.0, 1.0), "v"), "into", "are q, p"),
    "one triangle of a stiffness": (
        lambda: sd.Mechanical.from_matrices([1, 1], np.zeros((2, 2)), [[1, 0.2], [0, 1]]), "K",
        "add the other: A + A.T"),
    "a number as damping": (
        lambda: sd.Mechanical.from_matrices([1, 1], None, np.eye(2), damping=0.05), "damping", "('modal', ζ)"),
    "a netlist that is not there": (lambda: sd.circuits.read("amplifier.cir"), "netlist", "no file 'amplifier.cir'"),
    "a controller that reads nothing": (lambda: looped(reads="z"), "reads (c)", "there are y, c"),
    "a controller that writes nothing": (lambda: looped(writes="v"), "writes", "Write params={'v': 0.0}"),
    "a law of three arguments": (
        lambda: looped(update=lambda t, own, seen: (own, -seen["y"])), "update (c)", "update(t, own, seen, params)"),
    "an exact pendulum in a loop": (
        lambda: sd.analysis.sampled(looped(drift=lambda t, x, p: p["u"] - jnp.sin(x))), "loop", "linearise with at="),
    "a variance by its name": (
        lambda: sd.analysis.sampled(looped()).covariance("x0"), "t: ", "in the order of `names`, covariance(t)[i, j]"),
    "an angle as noise of a rate": (
        lambda: looped(unit="rad/s", noise=sd.per_sample("0.1 deg")),
        "noise (y): is of rad, but the readings are in rad/s", "a noise of what is read"),
    "rates in deg/s of a gyro in rad/s": (
        lambda: looped(unit="deg/s", noise=sd.noise.gyro(arw=1e-3)), "noise (y)", "read in rad/s"),
    "a rate in hertz": (lambda: looped(every="200 Hz"), "every (y)", "as a number"),
    "a rate in place of a period": (lambda: looped(rate=200), "'rate'", "every=0.005 for 200 in a second"),
    "a converter by its bits": (lambda: looped(bits=12), "'bits'", "resolution=(high - low) / 2**n"),
    "a resolution in words": (lambda: looped(resolution="12 bit"), "resolution (y)", "(high - low) / 2**n"),
    "a range in words": (lambda: looped(range="10 V"), "range (y)", "(low, high)"),
    "an angle random walk by its name": (
        lambda: sd.noise.gyro(angle_random_walk=0.1), "'angle_random_walk'", "It is arw"),
    "a random stiffness in a matrix": (
        lambda: sd.Mechanical.from_matrices([1.0, 1.0], None, [[sd.noise.Uniform(1.0, 2.0), 0.0], [0.0, 1.0]]),
        "K", "a function K(t, params)"),
    "exact answers of a stiffness that is a function": (
        lambda: sd.structures.stationary_covariance(
            sd.Mechanical.from_matrices([1.0], [0.1], lambda t, p: p["k"] * jnp.eye(1), params={"k": 1.0})
        ),
        "problem", "give them at one value"),
    "an S-N curve in the other order": (
        lambda: sd.analysis.fatigue.SNCurve(4.0, 1e12), "m", "the order is SNCurve(K, m)"),
    "steps that miss the readings": (lambda: run(looped(), "RK4", t=(0, 0.3), dt=0.03), "dt", "give 0.025 or 0.02"),
    "a file that is not there": (lambda: sd.load("nowhere.nc"), "load", "neither a file nor a folder nowhere.nc"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_it_says_what_where_and_how_to_fix_it(name):
    call, argument, way_out = MISTAKES[name]
    with pytest.raises((ValueError, TypeError, AttributeError, LookupError, MemoryError, OSError)) as raised:
        call()
    message = str(raised.value)
    assert argument in message.partition(". ")[0], message
    assert way_out in message, message


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("Moments", "stodyn.statistics.Moments"),
        ("Normal", "stodyn.noise.Normal"),
        ("EulerMaruyama", "stodyn.method('EulerMaruyama')"),
    ],
)
def test_a_name_of_another_part_of_the_library_is_shown_as_it_is_written(name, written):
    with pytest.raises(AttributeError, match=re.escape(f"no attribute {name!r}. Write {written}")):
        getattr(sd, name)


def test_an_unknown_example_is_told_with_similar_ones():
    with pytest.raises(KeyError, match=r"there is no 'ring'\. Near it: ring_oscillator"):
        sd.circuits.examples()["ring"]


def test_arguments_in_another_order_are_warned_of():
    """drift(x, t) for one component is legal JAX, so that a warning says it beside the error on its shape."""
    with warnings.catch_warnings(record=True) as seen, pytest.raises(ValueError, match="drift: returned shape"):
        warnings.simplefilter("always")
        run(sd.SDE(lambda x, t: -x, lambda t, x: jnp.array([[0.1]]), [1.0]))
    assert any("'x' receives t. Change their order, or rename them" in str(warning.message) for warning in seen)


def test_paths_that_blow_up_are_told_with_a_way_out():
    blown = sd.SDE(lambda t, x: x**3, lambda t, x: jnp.array([[5.0]]), [1.0])
    with pytest.raises(sd.PathsFailed, match=r"8 of the 8 paths.*Try a smaller dt.*on_failure=\"record\""):
        run(blown, t=(0, 50))


ANALYSES = [getattr(sd.analysis, name) for name in sd.analysis.__all__]
SHARED = ("Distribution", "Averaged", "Functional", "Element")  # what others have in common, made by no one
SPOKEN = [
    (package.__name__, name)
    for package in (sd, st, sd.noise, st.functional, sd.elements)
    for name in package.__all__
    if callable(getattr(package, name, None)) and not name.startswith("Paths") and name not in SHARED
]  # PathsFailed is raised, not made
SPOKEN += [
    (package.__name__, name)
    for package in (sd.analysis, *filter(inspect.ismodule, ANALYSES), sd.circuits, sd.noise.coloured,
                    sd.noise.coloured.envelopes, sd.place, sd.plot)
    for name in dir(package)
    if inspect.isfunction(getattr(package, name))
]  # fmt: skip


@pytest.mark.parametrize(("package", "name"), SPOKEN)
def test_every_public_call_says_what_is_unknown_and_what_is_missing(package, name):
    called = getattr(sys.modules[package], name)
    parameters = inspect.signature(called).parameters.values()
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        with pytest.raises(TypeError, match=r"unexpected keyword argument 'nonsense'(; did you mean|. It takes)"):
            called(nonsense=1)
    if any(p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        with pytest.raises(TypeError, match=rf"\(\) needs .*; call it as {called.__name__}"):
            called()


def test_renamed_keywords_are_those_of_the_table():
    """Each renamed keyword stands in the table of renamed things."""
    table = (Path(sd.__file__).parents[2] / "changes" / "renamed.md").read_text(encoding="utf-8")
    assert {old for old in RENAMED if not re.search(rf"\b{old}\b", table)} == set()


def test_there_are_enough():
    assert len(MISTAKES) + 2 >= 116
