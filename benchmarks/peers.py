"""The same problems by stodyn and by every peer that is installed, each number beside the truth: a page for the site.

    python benchmarks/peers.py                run what is installed, and print the table
    python benchmarks/peers.py --page         the same, written to docs/peers.md

Peers: diffrax, torchsde, sdeint, Numba, chaospy, OpenTURNS, ngspice, filterpy, dynamax and particles, those that
can be imported or run. `z` is the distance from the truth in standard errors, where a number has one. A line is marked
where |z| > 4. Each tool runs in a process of its own: beside the 580 000 objects of the others, Python's collection of
cycles took 0.35 s in the middle of a filter of 0.05 s. Times are of processor time, the least of three calls after a
first, so that compiling is left out of all but ngspice's.
"""

import importlib.metadata
import importlib.util
import json
import math
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import stodyn as sd
from stodyn import statistics as st

ROOT = Path(__file__).parents[1]
PEERS = (
    "diffrax",
    "torchsde",
    "sdeint",
    "numba",
    "chaospy",
    "openturns",
    "ngspice",
    "filterpy",
    "dynamax",
    "particles",
)
PATHS = (2000, 20_000)
STEPS = 100
CALLS = 3  # of which the quickest counts
RATE, NOISE = 1.0, 0.5


class Answer(NamedTuple):
    """A number of a tool: its value, its standard error or 0, the truth, and the processor time of a call."""

    problem: str
    tool: str
    value: float
    stderr: float
    truth: float
    seconds: float

    @property
    def z(self) -> float:
        return (self.value - self.truth) / self.stderr if self.stderr else math.nan

    @property
    def is_wrong(self) -> bool:
        return bool(self.stderr) and abs(self.z) > 4.0


def timed(call: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> tuple[Any, float]:
    """Return the result of a call after a first, and the least processor time of some."""
    call()
    times = []
    for _ in range(CALLS):
        began = clock()
        result = call()
        times.append(clock() - began)
    return result, min(times)


def has(tool: str) -> bool:
    return bool(shutil.which(tool) if tool == "ngspice" else importlib.util.find_spec(tool))


# --- the mean square of a linear SDE, dx = -x dt + x/2 dW, by Euler-Maruyama -----------------------------------------

TRUTH = (1.0 + (-2.0 * RATE + NOISE**2) / STEPS + RATE**2 / STEPS**2) ** STEPS  # of Euler's steps: E x² of each step
WORDS = f"E x² at t = 1 of dx = -x dt + x/2 dW by {STEPS} Euler steps, {{}} paths"


def of_squares(tool: str, paths: int, call: Callable[[], np.ndarray]) -> Answer:
    ends, seconds = timed(call)
    squares = np.asarray(ends, float) ** 2
    return Answer(
        WORDS.format(f"{paths:,}"), tool, squares.mean(), squares.std(ddof=1) / len(squares) ** 0.5, TRUTH, seconds
    )


def linear_sde(tool: str) -> Iterator[Answer]:
    if tool == "stodyn":
        decay = sd.SDE(lambda t, x: -RATE * x, lambda t, x: NOISE * x, start=1.0)
        square = st.Observable(lambda t, x: x**2, name="square", at=[1.0])
        for paths in PATHS:
            run, seconds = timed(lambda paths=paths: sd.simulate(
                decay, "EulerMaruyama", t=(0, 1), dt=1 / STEPS, paths=paths, seed=1, collect=square))  # fmt: skip
            value, error = (float(run[name][-1]) for name in ("square", "square_stderr"))
            yield Answer(WORDS.format(f"{paths:,}"), tool, value, error, TRUTH, seconds)
    ends = {"numba": _numba, "diffrax": _diffrax, "torchsde": _torchsde, "sdeint": _sdeint}
    if tool in ends:
        for paths in (200,) if tool == "sdeint" else PATHS:
            yield of_squares(tool, paths, ends[tool](paths))


def _numba(paths: int) -> Callable[[], np.ndarray]:
    import numba

    @numba.njit
    def ends(rng, paths, steps, h):
        out = np.empty(paths)
        for k in range(paths):
            x = 1.0
            for _ in range(steps):
                x += -RATE * x * h + NOISE * x * math.sqrt(h) * rng.standard_normal()
            out[k] = x
        return out

    return lambda: ends(np.random.default_rng(1), paths, STEPS, 1 / STEPS)


def _diffrax(paths: int) -> Callable[[], np.ndarray]:
    import diffrax
    import jax

    def end(key):
        noise = diffrax.VirtualBrownianTree(0.0, 1.0, tol=0.5 / STEPS, shape=(), key=key)
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(lambda t, x, args: -RATE * x), diffrax.ControlTerm(lambda t, x, args: NOISE * x, noise)
        )
        return diffrax.diffeqsolve(terms, diffrax.Euler(), 0.0, 1.0, 1 / STEPS, 1.0).ys[0]

    with jax.enable_x64(True):
        ends = jax.jit(jax.vmap(end))
        keys = jax.random.split(jax.random.key(1), paths)

    def call() -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(ends(keys))

    return call


def _torchsde(paths: int) -> Callable[[], np.ndarray]:
    import torch
    import torchsde

    class Decay(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def f(self, t, x):
            return -RATE * x

        def g(self, t, x):
            return NOISE * x

    def call() -> np.ndarray:
        torch.manual_seed(1)
        start = torch.ones(paths, 1, dtype=torch.float64)
        ends = torchsde.sdeint(
            Decay(), start, torch.tensor([0.0, 1.0], dtype=torch.float64), dt=1 / STEPS, method="euler"
        )
        return ends[-1, :, 0].numpy()

    return call


def _sdeint(paths: int) -> Callable[[], np.ndarray]:
    import sdeint

    grid = np.linspace(0.0, 1.0, STEPS + 1)

    def call() -> np.ndarray:
        rng = np.random.default_rng(1)
        return np.array([
            sdeint.itoEuler(lambda x, t: -RATE * x, lambda x, t: np.array([[NOISE * x[0]]]), np.array([1.0]), grid,
                            generator=rng)[-1, 0]
            for _ in range(paths)
        ])  # fmt: skip

    return call


# --- a random parameter: x' = -a x, a uniform ------------------------------------------------------------------------


def random_parameter(tool: str) -> Iterator[Answer]:
    words, truth = "E x(1) of x' = -a x, a uniform in (0.5, 1.5), degree 6", math.exp(-0.5) - math.exp(-1.5)
    if tool == "stodyn":
        chaos = sd.RandomDAE([[1.0]], lambda t, x, p: -p["a"] * x, [1.0], {"a": sd.noise.Uniform(0.5, 1.5)})
        collect = st.Surrogate(every=1)
        run, seconds = timed(
            lambda: sd.simulate(chaos, sd.method("Galerkin")(degree=6), t=(0, 1), dt=0.01, collect=collect)
        )
        yield Answer(words, tool, float(run["mean"][-1, 0]), 0.0, truth, seconds)
    means = {"chaospy": _chaospy, "openturns": _openturns}
    if tool in means:
        value, seconds = timed(means[tool])
        yield Answer(f"{words}, of the exact solution", tool, value, 0.0, truth, seconds)


def _chaospy() -> float:
    import chaospy

    law = chaospy.Uniform(0.5, 1.5)
    nodes, weights = chaospy.generate_quadrature(6, law, rule="gaussian")
    basis = chaospy.generate_expansion(6, law)
    return float(chaospy.E(chaospy.fit_quadrature(basis, nodes, weights, np.exp(-nodes[0])), law))


def _openturns() -> float:
    import openturns as ot

    law = ot.JointDistribution([ot.Uniform(0.5, 1.5)])
    basis = ot.OrthogonalProductPolynomialFactory([ot.LegendreFactory()])
    algorithm = ot.FunctionalChaosAlgorithm(
        *_experiment(ot, law), law, ot.FixedStrategy(basis, 7), ot.LeastSquaresStrategy()
    )
    algorithm.run()
    return float(ot.FunctionalChaosRandomVector(algorithm.getResult()).getMean()[0])


def _experiment(ot: Any, law: Any) -> tuple[Any, Any]:
    nodes, _ = ot.GaussProductExperiment(law, [7]).generateWithWeights()
    return nodes, ot.Sample([[math.exp(-node[0])] for node in nodes])


# --- the likelihood of a record --------------------------------------------------------------------------------------


def likelihood(tool: str) -> Iterator[Answer]:
    words, count = "log-likelihood of 100 readings of a random walk", 100
    rng = np.random.default_rng(1)
    values = np.cumsum(rng.standard_normal(count)) + 0.5 * rng.standard_normal(count)
    k = np.arange(1, count + 1)
    law = np.minimum(k[:, None], k) + 0.25 * np.eye(count)
    truth = -0.5 * float(
        values @ np.linalg.solve(law, values) + np.linalg.slogdet(law)[1] + count * math.log(2 * math.pi)
    )
    if tool == "stodyn":
        walk = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0 + 0.0 * x, 0.0)
        record = sd.Record({"y": (k.astype(float), values)}, sd.Sensor("y", of="x", noise=sd.per_sample(0.5)))
        now, seconds = timed(lambda: sd.filtered(walk, data=record))
        yield Answer(words, tool, float(now.loglik), 0.0, truth, seconds)
    filters = {"filterpy": _filterpy, "dynamax": _dynamax}
    if tool in filters:
        value, seconds = timed(lambda: filters[tool](values))
        yield Answer(words, tool, value, 0.0, truth, seconds)
    if tool == "particles":
        value, seconds = timed(lambda: _particles(values))
        logs = np.array(value)
        error = logs.std(ddof=1) / len(logs) ** 0.5
        bias = 0.5 * logs.var(ddof=1)  # the logarithm of an unbiased estimate lies below: E log Z = log E Z - Var/2
        yield Answer(f"{words}, 20 filters of 1000 particles", tool, logs.mean() + bias, error, truth, seconds)


def _filterpy(values: np.ndarray) -> float:
    from filterpy.kalman import KalmanFilter

    one = KalmanFilter(dim_x=1, dim_z=1)
    one.x, one.P, one.F, one.H = np.zeros((1, 1)), np.zeros((1, 1)), np.eye(1), np.eye(1)
    one.Q, one.R = np.eye(1), 0.25 * np.eye(1)
    total = 0.0
    for value in values:
        one.predict()
        one.update(value)
        total += one.log_likelihood
    return float(total)


def _dynamax(values: np.ndarray) -> float:
    import jax
    import jax.numpy as jnp
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM

    with jax.enable_x64(True):
        model = LinearGaussianSSM(1, 1)
        params, _ = model.initialize(
            initial_mean=jnp.zeros(1), initial_covariance=jnp.eye(1), dynamics_weights=jnp.eye(1),
            dynamics_covariance=jnp.eye(1), emission_weights=jnp.eye(1), emission_covariance=0.25 * jnp.eye(1),
        )  # fmt: skip
        return float(model.marginal_log_prob(params, jnp.asarray(values)[:, None]))


def _particles(values: np.ndarray) -> list[float]:
    import particles
    from particles import distributions, state_space_models

    class Walk(state_space_models.StateSpaceModel):
        def PX0(self):
            return distributions.Normal(0.0, 1.0)

        def PX(self, t, before):
            return distributions.Normal(before, 1.0)

        def PY(self, t, before, x):
            return distributions.Normal(x, 0.5)

    np.random.seed(1)  # noqa: NPY002  # what particles draws from
    logs = []
    for _ in range(20):
        one = particles.SMC(fk=state_space_models.Bootstrap(ssm=Walk(), data=values), N=1000)
        one.run()
        logs.append(float(one.logLt))
    return logs


# --- noise of a circuit ----------------------------------------------------------------------------------------------

NETLIST = "kT/C\nV1 in 0 0 AC 1\nR1 in out 1k\nC1 out 0 1n\n.noise v(out) V1 dec 50 1 1g\n.end\n"


def circuit(tool: str) -> Iterator[Answer]:
    words, f = "rms noise of 1 kΩ and 1 nF from 1 Hz to 1 GHz, in µV", 1 / (2 * math.pi * 1e-6)
    truth = 1e6 * math.sqrt(1.380649e-23 * 300.15 / 1e-9 * 2 / math.pi * (math.atan(1e9 / f) - math.atan(1 / f)))
    if tool == "stodyn":
        read = sd.circuits.read(NETLIST)
        frequency = np.geomspace(1.0, 1e9, 2001)

        def ours() -> float:
            density = read.noise_spectrum("out", frequency).density
            return 1e6 * math.sqrt(float(np.trapezoid(density * frequency, np.log(frequency))))

        value, seconds = timed(ours)
        yield Answer(words, tool, value, 0.0, truth, seconds)
    if tool == "ngspice":
        value, seconds = timed(_ngspice, children)
        yield Answer(words, tool, value, 0.0, truth, seconds)


def _ngspice() -> float:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kTC.cir"
        control = ".control\nset sqrnoise\nnoise v(out) V1 dec 50 1 1g\nsetplot noise2\nprint onoise_total\n.endc\n"
        file.write_text(NETLIST.replace(".noise v(out) V1 dec 50 1 1g\n", control))
        done = subprocess.run(["ngspice", "-b", str(file)], capture_output=True, text=True, check=False)
    return 1e6 * math.sqrt(float(re.search(r"onoise_total\s*=\s*(\S+)", done.stdout)[1]))


def children() -> float:
    """Return the processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --- the page --------------------------------------------------------------------------------------------------------


FAMILIES = (linear_sde, random_parameter, likelihood, circuit)


def of_tool(tool: str) -> dict[str, list[Any]]:
    """Return the answers of a tool, and the errors of families that it could not do."""
    answers, failed = [], []
    for family in FAMILIES:
        try:
            answers += family(tool)
        except Exception as error:  # of peers whose versions do not fit those of what they stand on
            failed.append(f"{tool} {version(tool)} ({type(error).__name__}: {str(error)[:100]})")
    return {"answers": answers, "failed": failed}


def run(tools: list[str]) -> tuple[list[Answer], list[str]]:
    """Return what the tools answer, each in a process of its own, in the order of the tools, and what failed."""
    answers, failed = [], []
    for tool in tools:
        done = subprocess.run([sys.executable, __file__, "--tool", tool], stdout=subprocess.PIPE, text=True, check=True)
        result = json.loads(done.stdout.splitlines()[-1])
        answers += [Answer(*answer) for answer in result["answers"]]
        failed += result["failed"]
    return answers, failed


def version(tool: str) -> str:
    if tool == "ngspice":
        said = subprocess.run(["ngspice", "--version"], capture_output=True, text=True, check=False).stdout
        number = re.search(r"ngspice-(\S+)", said)
        return number[1] if number else ""
    return sd.__version__ if tool == "stodyn" else importlib.metadata.version(tool)


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def page(rows: list[Answer], failed: list[str]) -> str:
    """Return the page: a table for each problem, and what failed."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    lines = [
        "# Beside other tools", "",
        "Written by `python benchmarks/peers.py --page`, which runs the same problems by every tool that is installed,",
        "each in a process of its own. Each number stands beside the truth; z is the distance from it in standard",
        "errors, where a number has one. A line is red where |z| > 4. Times are of processor time on all cores, the",
        f"least of {CALLS} calls after a first; the time of ngspice is that of its process.", "",
        f"{processor()}, Python {platform.python_version()}, JAX {importlib.metadata.version('jax')}, "
        f"NumPy {np.__version__}, commit {commit.stdout.strip()}.", "",
        "The error of a mean over paths, at its cost:", "", "<!-- costs -->", "",
    ]  # fmt: skip
    for problem in dict.fromkeys(
        row.problem.partition(", of the exact")[0].partition(", 20 filters")[0] for row in rows
    ):
        lines += [f"## {problem}", "", "| tool | version | value | ± | truth | z | relative error | ms |"]
        lines += ["|---|---|---|---|---|---|---|---|"]
        for row in rows:
            if row.problem.startswith(problem):
                note = row.problem.removeprefix(problem).lstrip(", ")
                cells = [f"{row.tool}{f' ({note})' if note else ''}", version(row.tool), f"{row.value:.8g}",
                         f"{row.stderr:.2g}" if row.stderr else "", f"{row.truth:.8g}",
                         f"{row.z:+.1f}" if row.stderr else "", f"{row.value / row.truth - 1:+.1e}",
                         f"{1e3 * row.seconds:.3g}"]  # fmt: skip
                marked = [f'<span class="wrong">{cell}</span>' if row.is_wrong and cell else cell for cell in cells]
                lines.append(f"| {' | '.join(marked)} |")
        lines.append("")
    lines += ["Not run, for an error: " + "; ".join(failed) + ".", ""] if failed else []
    absent = [tool for tool in PEERS if not has(tool)]
    lines += [f"Not run, since not installed: {', '.join(absent)}.", ""] if absent else []
    return "\n".join(lines)


if __name__ == "__main__":
    if "--tool" in sys.argv:
        print(json.dumps(of_tool(sys.argv[-1])))
        sys.exit()
    text = page(*run(["stodyn", *filter(has, PEERS)]))
    if "--page" in sys.argv:
        (ROOT / "docs" / "peers.md").write_text(text)
    print(text)
