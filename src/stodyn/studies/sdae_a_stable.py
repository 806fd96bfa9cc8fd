"""A-stable methods of strong order 1 for SDAEs beside those of the paper: regions, errors, largest steps, circuits.

Küpper, Kværnø & Rößler end section 4 of their paper with "the construction of A-stable order 1.0 methods may be subject
to further research". The theory is in docs/a_stable.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stodyn import plot
from stodyn.analysis.step import stability
from stodyn.analysis.step.linear import read_map
from stodyn.analysis.step.one_step import OneStep
from stodyn.analysis.step.order import strong_order
from stodyn.analysis.step.small_noise import delivered_small_noise
from stodyn.analysis.step.stability_function import stability_function
from stodyn.circuits import examples, read
from stodyn.methods import stiff
from stodyn.methods.contract import Method
from stodyn.models.catalogue import Model
from stodyn.models.differential_algebraic import LINEAR_DAE, NONCOMMUTING_DAE, NONLINEAR_DAE
from stodyn.problems.sde import SDE
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult
from stodyn.studies.papers import KUPPER
from stodyn.studies.sdae_linear import END, PATHS, error_picture, increments, slope, slope_error, squared_errors

PAPER = (stiff.RK1W1, stiff.RK1W2, stiff.RK1W3, stiff.RK1W4, stiff.RK1W5)
OURS = (stiff.RK1A3, stiff.RK1A4, stiff.RK1A4L)
CHANNELS = (stiff.RK1A3M, stiff.RK1A4M, stiff.RK1ATM)
SYSTEMS = (stiff.RK1A4, stiff.RK1A3, stiff.RK1A4L, stiff.RK1A4M, stiff.RK1ATM, stiff.RK1W2, stiff.ImplicitEuler,
           stiff.Trapezoidal)  # fmt: skip
SOLVES = {"RK1W1": 2, "RK1A4L": 4}  # systems solved per step; 3 for the others
NEAR = 0.95  # k² as a share of the equation's limit -2h, for largest steps
STEPS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # for random systems, in units of 1/|A|
GROUPS = 20
Z99 = 2.576  # 99 % of a normal distribution lie within this many standard deviations


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    progress("regions")
    rows = [*verdicts(), *largest_steps()]
    points = size.of(8, 60, 160)
    figures = {"regions": regions(points), "boundary": boundary(), "plane": plane(points)}
    paths = size.of(40, PATHS, PATHS)
    methods = size.of((stiff.RK1W3, stiff.RK1A4), (*PAPER[2:4], *OURS), (*PAPER, *OURS, stiff.RK1A4M))
    for model, name in ((LINEAR_DAE, "example 1"), (NONLINEAR_DAE, "example 2"))[: size.of(1, 2, 2)]:
        progress(f"errors on {name}")
        squares = measured(model, methods, size.of(2, 7, 7), paths)
        rows += error_rows(name, squares)
        errors = {method: np.sqrt(square.mean(axis=1)) for method, square in squares.items()}
        figures[name.replace(" ", "_")] = error_picture(errors, f"SDAE of {name}", paths)
        figures[f"{name.replace(' ', '_')}_solves"] = solves_picture(errors, f"SDAE of {name}", paths)
    progress("random linear systems")
    rows += systems(size.of(1, 10, 100), size.of((2,), (2, 3), (2, 3)), size.of(SYSTEMS[:1], SYSTEMS, SYSTEMS))
    if size is Size.TINY:  # the rest takes a minute to compile; its parts are tested one by one
        return StudyResult(rows, figures)
    progress("two channels that do not commute")
    rows += with_areas(size.of(0, 500, 4000))
    results: dict[Case, dict[str, np.ndarray]] = {}
    for case in CIRCUITS[: size.of(0, 2, None)]:
        progress(f"transient noise: {case.name}")
        results[case] = transient_noise(case)
        rows += circuit_rows(case, results[case])
    figures["circuits"] = circuits_picture(results)
    return StudyResult(rows, figures)


# --- the scalar equation --------------------------------------------------------------------------------------------


def verdicts() -> list[Row]:
    """κ at the origin, and whether a method is A-stable for complex λ and μ, by exact arithmetic."""
    rows = []
    for method in (*PAPER, *OURS, *CHANNELS):
        verdict = stability.a_stability(method, complex_arguments=True)
        known = "not A-stable" if method in PAPER else None
        ours = "undecided" if verdict.a_stable is None else "A-stable" if verdict.a_stable else "not A-stable"
        rows.append(Row(f"{method.name}: verdict", known, ours, remark=str(verdict)))
        rows.append(Row(f"{method.name}: κ", None, float(stability.origin(method)), remark="unstable near 0 where > 0"))
    return rows


def largest_steps() -> list[Row]:
    """The longest step -h up to which a method is stable on dy = λ y dt + μ y dW with μ² = 0.95 · 2|λ|."""
    rows = []
    for method in (*PAPER, *OURS, *CHANNELS):
        length = min(longest(method, sign) for sign in (1, -1))
        step = "every step" if np.isinf(length) else length
        rows.append(Row(f"{method.name}: largest |λ| Δt at k² = {NEAR:g} · 2|h|", None, step, remark="both signs of k"))
    return rows


def longest(method: Any, sign: int) -> float:
    """The first -h at which R̂ = 1 along k = sign √(-2h · 0.95), by scanning and bisection; inf where there is none."""
    R = stability_function(method.table)

    def excess(x):
        return R.mean_square(-x, sign * np.sqrt(2.0 * NEAR * x)) - 1.0

    x = np.logspace(-3, 4, 7001)
    outside = np.flatnonzero(excess(x) >= 0.0)
    if not len(outside):
        return float("inf")
    low, high = x[max(outside[0] - 1, 0)], x[outside[0]]
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) < 0.0 else (low, middle)
    return float(high)


# --- errors on the paper's examples, and with areas -----------------------------------------------------------------


def measured(model: Model, methods: Sequence[Method], halvings: int, paths: int) -> dict[str, np.ndarray]:
    """Squared errors (halvings, paths) at h = 2^-4, 2^-5, ..."""
    fine = increments(paths)
    return {method.name: squared_errors(method, model, fine, range(halvings)) for method in methods}


def error_rows(name: str, squares: Mapping[str, np.ndarray]) -> list[Row]:
    rows = []
    for method, square in squares.items():
        order, spread = slope(np.sqrt(square.mean(axis=1))), slope_error(square)
        words = f"in [{order - Z99 * spread:.2f}, {order + Z99 * spread:.2f}] (99 %)"
        steps = f"2^-4 to 2^-{3 + len(square)}"
        rows.append(Row(f"{name}, {method}: slope over {len(square)} steps", 1.0, order, spread, words, END, steps,
                        square.shape[1]))  # fmt: skip
    at = min(3, len(square) - 1)
    for rival in (rival for rival in ("RK1W3", "RK1W4") if rival in squares):
        for method in (ours.name for ours in OURS if ours.name in squares):
            ratio, spread = factor(squares[rival][at], squares[method][at])
            rows.append(Row(f"{name}: error of {rival} / {method} at h = 2^-{4 + at}", None, ratio, spread, "", END,
                            END / 2.0**at, square.shape[1]))  # fmt: skip
    return rows


def factor(above: np.ndarray, below: np.ndarray) -> tuple[float, float]:
    """√(E above / E below) of squared errors on the same paths, and its standard error from groups of paths."""
    parts = [np.array_split(square, GROUPS) for square in (above, below)]
    ratios = [np.log(a.mean() / b.mean()) / 2.0 for a, b in zip(*parts, strict=True)]
    ratio = float(np.sqrt(above.mean() / below.mean()))
    return ratio, ratio * float(np.std(ratios, ddof=1) / np.sqrt(GROUPS))


def with_areas(paths: int) -> list[Row]:
    """Orders on a nonlinear SDAE with two channels that do not commute. The reference, also of order 1, takes 64 steps
    for each of the finest: with only 8, its own error would make the finest points unusable."""
    rows = []
    for method in (stiff.RK1W2MLevy, stiff.RK1A3MLevy, stiff.RK1A4MLevy, stiff.RK1ATMLevy):
        study = strong_order(NONCOMMUTING_DAE, method, steps=(4, 8, 16, 32, 64), paths=paths, seed=5,
                             reference=stiff.StiffMilsteinLevy, refine=64)  # fmt: skip
        low, high, error = study.attrs["order_low"], study.attrs["order_high"], study["error"].values[-1]
        words = f"in [{low:.2f}, {high:.2f}], error {error:.3e} with 64 steps"
        name = f"two channels that do not commute, {method.name}: order"
        rows.append(Row(name, 1.0, study.attrs["order"], study.attrs["order_stderr"], words,
                        4.0 * float(study["step"].max()), "T/4 to T/64", paths))  # fmt: skip
    return rows


# --- systems whose matrices do not commute --------------------------------------------------------------------------


def random_system(n: int, rng: np.random.Generator, margin: float = 0.02) -> dict[str, np.ndarray]:
    """dx = A x dt + B x dW, |A| = 1, stable in mean square with the abscissa -margin: A is a Gaussian matrix shifted to
    the left, B another one, as large as this margin allows."""
    A = rng.standard_normal((n, n))
    A = A - (np.linalg.eigvals(A).real.max() + rng.uniform(0.1, 1.0)) * np.eye(n)
    A, B, eye = A / np.linalg.norm(A, 2), rng.standard_normal((n, n)), np.eye(n)
    drift = np.kron(A, eye) + np.kron(eye, A)

    def abscissa(share: float) -> float:
        return float(np.linalg.eigvals(drift + share * np.kron(B, B)).real.max())

    margin = min(margin, -0.5 * abscissa(0.0))
    low, high = 0.0, 1.0
    while abscissa(high) < -margin:
        high *= 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if abscissa(middle) < -margin else (low, middle)
    return {"A": A, "B": np.sqrt(low) * B}


def systems(count: int, dimensions: Sequence[int], methods: Sequence[Method]) -> list[Row]:
    """The number of times a method is unstable on systems stable in mean square, and the largest mean-square radius."""
    rows = []
    for n in dimensions:
        rng = np.random.default_rng(n)
        samples = [random_system(n, rng) for _ in range(count)]
        problem = SDE(lambda t, x, p: p["A"] @ x, lambda t, x, p: (p["B"] @ x)[:, None], np.ones(n), params=samples[0],
                      structure="scalar")  # fmt: skip
        for method in methods:
            one = OneStep(problem, method)
            radius = np.array(
                [[read_map(one, h, 0.0, p, nodes=4).mean_square_radius() for h in STEPS] for p in samples]
            )
            words = f"unstable cases of {radius.size} (systems, steps); largest radius {radius.max():.4f}"
            rows.append(Row(f"random systems of dimension {n}: {method.name}", None, int(np.sum(radius >= 1.0)),
                            remark=words))  # fmt: skip
    return rows


# --- transient noise of circuits ------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A netlist of the library, the node observed, and the numbers of steps tried over its span."""

    name: str
    node: str
    steps: tuple[int, ...]
    reference: int


CIRCUITS = (
    Case("two_diodes", "u1", (25, 50, 100, 200, 400), 3200),
    Case("transimpedance", "out", (50, 100, 200, 400), 6400),
    Case("rectifier", "u3", (50, 100, 200, 400, 800), 6400),
    Case("rlc", "out", (125, 250, 500, 1000), 8000),
    Case("ring_oscillator", "u1", (125, 250, 500, 1000), 8000),
)
IN_CIRCUITS = (stiff.Trapezoidal, stiff.RK1W2MLevy, stiff.RK1A3MLevy, stiff.RK1A4MLevy, stiff.RK1ATMLevy)
WANTED = 0.01  # the error asked for, relative to the largest σ


def transient_noise(case: Case) -> dict[str, np.ndarray]:
    """Method -> the largest error of σ over the span, relative to the largest σ, for each number of steps.

    σ is that of the method in the limit of small noise, without sampling; the reference is RK1W2M with many steps,
    extrapolated.
    """
    circuit = read(examples()[case.name])
    index = circuit.names.index(case.node)
    coarsest = case.steps[0]

    def deviations(method: Method, *more: int) -> np.ndarray:
        """σ at the times of the coarsest grid, one row per number of steps."""
        counts = (*case.steps, *more)
        delivered = delivered_small_noise(circuit, method, circuit.span, counts)
        return np.array([np.sqrt(moments.covariance[:: n // coarsest, index, index])
                         for n, moments in zip(counts, delivered, strict=True)])  # fmt: skip

    reference = case.reference // 2, case.reference
    σ = {method.name: deviations(method, *(reference if method is stiff.RK1W2MLevy else ())) for method in IN_CIRCUITS}
    half, whole = σ[stiff.RK1W2MLevy.name][-2:]
    truth = 2.0 * whole - half
    return {name: np.abs(rows[: len(case.steps)] - truth).max(axis=1) / truth.max() for name, rows in σ.items()}


def steps_wanted(steps: Sequence[int], errors: np.ndarray) -> float:
    """The number of steps at which the error is WANTED, on the line through the two points next to it."""
    x, y = np.log(np.array(steps, float)), np.log(np.maximum(errors, 1e-300))
    enough = np.flatnonzero(errors <= WANTED)
    last = int(np.clip(enough[0] if len(enough) else len(steps) - 1, 1, len(steps) - 1))
    rate = (y[last] - y[last - 1]) / (x[last] - x[last - 1])
    return float(np.exp(x[last] + (np.log(WANTED) - y[last]) / rate)) if rate < 0.0 else float("nan")


def span(case: Case) -> float:
    """The time over which a circuit is simulated, in s."""
    return float(read(examples()[case.name]).span[1])


def circuit_rows(case: Case, results: Mapping[str, np.ndarray]) -> list[Row]:
    rows = []
    needed = {name: steps_wanted(case.steps, errors) for name, errors in results.items()}
    for name, errors in results.items():
        table = ", ".join(f"{error:.2g} ({n})" for n, error in zip(case.steps, errors, strict=True))
        longer = ", ".join(f"{needed[other] / needed[name]:.2g} x that of {other}" for other in list(results)[:2])
        beyond = "" if needed[name] <= case.steps[-1] else "beyond the steps tried, extrapolated from the last two; "
        rows.append(Row(f"{case.name}, σ of {case.node} to 1 %: steps with {name}", None, needed[name],
                        remark=f"{beyond}a step {longer}; errors (steps): {table}", T=span(case)))  # fmt: skip
    return rows


# --- pictures -------------------------------------------------------------------------------------------------------


def regions(size: int) -> Picture:
    """Regions over (h, k²) with the equation's own boundary."""
    shown = (stiff.RK1W2, stiff.RK1W4, *OURS)
    figure, axes = drawing.canvas(1, len(shown), size=(2.5 * len(shown), 3.2), sharey=True)
    h, squares = np.linspace(-6.0, 0.0, size), np.linspace(0.0, 16.0, size)
    for ax, method in zip(axes, shown, strict=True):
        level = stability.region(method, h, squares)
        plot.region(h, squares, level, labels=("h = λ Δt", "k² = μ² Δt"), color=plot.BLUE, ax=ax)
        ax.plot([-6.0, 0.0], [12.0, 0.0], "--", color=plot.ORANGE, lw=1.2)
        ax.set_title(method.name)
        ax.label_outer()
    caption = (
        "Stable in mean square (shaded) for real h = λ Δt and k = μ √Δt > 0, computed; the equation is stable below "
        "the dashed line k² = -2h. The methods of the paper leave a gap next to the origin, the new ones do not."
    )
    return Picture(figure, caption)


def boundary() -> Picture:
    """R̂ - 1 along the equation's boundary k² = -2h: A-stable methods stay below zero."""
    figure, ax = drawing.canvas(size=(7.6, 4.2))
    x, shown = np.logspace(-2, 3, 400), (stiff.RK1W1, *PAPER[2:], *OURS)
    for style, method in zip(drawing.styles(), shown, strict=False):
        R, label = stability_function(method.table), "RK1W2, RK1W3" if method is stiff.RK1W3 else method.name
        excess = R.mean_square(-x, np.sqrt(2.0 * x)) - 1.0
        ax.plot(x, excess, **style | {"ls": "-" if method in PAPER else "--"}, label=label)
    ax.axhline(0.0, color="k", lw=0.8)
    ax.set(xscale="log", ylim=(-1.1, 1.5), xlabel="step times rate, -h = |λ| Δt", ylabel="R̂ - 1")
    drawing.legend(figure)
    caption = (
        "The growth of second moments in a step on the edge of the equation's stability, k² = -2h, k > 0, computed: "
        "the methods of the paper (solid) rise above zero, the A-stable ones (dashed) stay below."
    )
    return Picture(figure, caption)


def plane(size: int) -> Picture:
    """R̂ on |k|² = -2 Re h over the complex plane of h."""
    shown = (stiff.RK1W2, stiff.RK1A4)
    figure, axes = drawing.canvas(1, 2, size=(8.0, 3.6), sharey=True)
    real, imaginary = np.linspace(-6.0, 0.0, size), np.linspace(-5.0, 5.0, size)
    h = real[None, :] + 1j * imaginary[:, None]
    for ax, method in zip(axes, shown, strict=True):
        level = stability_function(method.table).mean_square(h, np.sqrt(-2.0 * h.real))
        plot.region(real, imaginary, level, labels=("Re h", "Im h"), ax=ax)
        ax.set_title(method.name)
        ax.label_outer()
    caption = (
        "Stable in mean square (shaded) for complex h on the edge of the equation's stability, |k|² = -2 Re h, "
        "computed: RK1A4 is stable in the whole half plane."
    )
    return Picture(figure, caption)


def solves_picture(results: Mapping[str, np.ndarray], what: str, paths: int) -> Picture:
    """Errors against the number of systems solved."""
    figure, ax = drawing.canvas(size=(7.6, 4.4))
    for style, (name, errors) in zip(drawing.styles(markers=True), results.items(), strict=False):
        ax.loglog(SOLVES.get(name, 3) * 2.0 ** np.arange(len(errors)), errors, **style, label=name)
    ax.set(xlabel="systems of equations solved", ylabel="root mean square error at T")
    drawing.legend(figure)
    caption = (
        f"{what}: the same errors against the work, in systems of equations solved up to T = {END:g}; {paths} paths, "
        "steps halved from point to point."
    )
    return Picture(figure, caption)


def circuits_picture(results: Mapping[Case, Mapping[str, np.ndarray]]) -> Picture:
    """Errors of σ against the number of steps, one panel per circuit."""
    figure, axes = drawing.canvas(1, len(results), size=(3.4 * len(results) + 1.0, 4.2), squeeze=False)
    for ax, (case, errors_of) in zip(axes[0], results.items(), strict=True):
        for style, (name, errors) in zip(drawing.styles(markers=True), errors_of.items(), strict=False):
            ax.loglog(case.steps, errors, **style, label=name)
        ax.axhline(WANTED, color="k", lw=0.8)
        ax.set(xlabel="number of steps", title=case.name.replace("_", " "))
        ax.set_xticks(case.steps, map(str, case.steps))
        ax.minorticks_off()
    axes[0, 0].set(ylabel="largest error of σ, relative")
    drawing.legend(figure, columns=3)
    caption = (
        "Transient noise of circuits in the limit of small noise, computed without sampling: the largest error of the "
        "standard deviation over the span of the netlist against the number of steps; the line is 1 %."
    )
    return Picture(figure, caption)


STUDY = Study(
    "sdae-a-stable",
    KUPPER,
    "an open question: A-stable methods of strong order 1",
    'The paper ends its section 4 with "the construction of A-stable order 1.0 methods may be subject to further '
    'research". Here are such methods: they are stable in mean square wherever the equation is, which is decided in '
    "exact arithmetic. With the same number of solves, the errors of RK1A4 are 5 to 11 times smaller than those of "
    "RK1W3 and RK1W4; the errors of RK1A3 are a little smaller than those of RK1W3, but on example 1 larger than those "
    "of RK1W4. For transient noise of circuits no method is best everywhere.",
    run,
    lambda: 900.0,
)
