"""Five netlists: the variance of their transient noise beside the small-signal analysis and the closed form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import stodyn
from stodyn import plot, statistics
from stodyn.circuits import Circuit, examples, read
from stodyn.circuits.devices import BOLTZMANN, CHARGE
from stodyn.studies import drawing
from stodyn.studies.contract import Picture, Row, Size, Study, StudyResult, of_run
from stodyn.studies.papers import OWN


class Case(NamedTuple):
    """A netlist, a node, a time, the variance there in closed form, the name of that form, the effect of the step."""

    name: str
    node: str
    time: float
    exact: float
    why: str
    stepped: str = ""


def transimpedance(kT: float) -> float:
    """S/(2 b c) for the response 1/(a s² + b s + c) of amplifier, photodiode and feedback to a white current of the
    two-sided density S."""
    light, rf, cf, cd, gain, pole = 1e-6, 1e5, 50e-15, 10e-12, 1e5, 2.0 * np.pi * 1e4
    b, c = (cd + cf + 1.0 / (pole * rf)) / gain + cf, (1.0 + 1.0 / gain) / rf
    return (2.0 * kT / rf + CHARGE * light) / (2.0 * b * c)


def cases() -> list[Case]:
    kT = BOLTZMANN * 300.15
    gain, c1, c2, resistance = 1e4, 1e-12, 100e-12, 1e4
    loaded = c1 + (1.0 + gain) * c2
    grown = -np.expm1(-2.0 * 20e-6 / (resistance * loaded))  # the integrator takes a second to settle
    return [
        Case("rc_lowpass", "out", 20e-6, kT / 100e-12, "kT/C"),
        Case("rlc", "out", 10e-6, kT / 1e-9, "kT/C"),
        Case("sample_and_hold", "hold", 600e-9, kT / 1e-12, "kT/C, sampled and held", "; its step adds 0.57 %"),
        Case("miller_integrator", "out", 20e-6, grown * gain**2 * kT / loaded, "A² kT/(C₁ + (1 + A) C₂), growing"),
        Case("transimpedance", "out", 2e-6, transimpedance(kT), "(2kT/R + qI)/(2bc)"),
    ]


def run(size: Size, out: Path, progress: Callable[[str], None]) -> StudyResult:
    paths = size.of(16, 4000, 100_000)
    rows, results = [], []
    for case in cases()[:: size.of(3, 1, 1)]:
        progress(case.name)
        circuit = read(examples()[case.name])
        simulated = stodyn.simulate(circuit, "Trapezoidal", t=circuit.span, dt=circuit.step, paths=paths, seed=1,
                                    progress=False, collect=statistics.Moments(at=[case.time]))  # fmt: skip
        end, setting = simulated.isel(time=-1), of_run(simulated) | {"T": case.time}
        sampled = float(end["variance"].sel(component=case.node))
        stderr = float(end["variance_stderr"].sel(component=case.node))
        what = f"{case.name}, Var v({case.node}), V²"
        rows.append(Row(f"{what}: paths", case.exact, sampled, stderr, f"against {case.why}{case.stepped}", **setting))
        rows.append(Row(f"{what}: small-signal", case.exact, linear(circuit, case), remark=f"against {case.why}"))
        results.append((case.name, sampled / case.exact, stderr / case.exact))
    return StudyResult(rows, {"circuit_noise": picture(results, paths)})


def linear(circuit: Circuit, case: Case) -> float:
    """The stationary variance from the linearisation; for the integrator, which has not settled, the one at its time.

    The variance of its only mode grows as 1 - exp(-2t/τ), with τ read off the corner of its spectrum.
    """
    index = circuit.names.index(case.node)
    settled = float(circuit.small_signal.covariance()[index, index])
    if case.name != "miller_integrator":
        return settled
    low = float(circuit.small_signal.spectrum(case.node, [1e-9]).density[0])
    return settled * float(-np.expm1(-2.0 * case.time / (low / (4.0 * settled))))


def picture(results: list[tuple[str, float, float]], paths: int) -> Picture:
    figure, ax = drawing.canvas(size=(6.8, 3.2))
    names, ratios, errors = zip(*results, strict=True)
    ax.axvline(1.0, color=plot.ORANGE, lw=1.2)
    ax.errorbar(ratios, range(len(names)), xerr=2.0 * np.array(errors), fmt="o", color=plot.BLUE, ms=4, lw=1)
    ax.set(yticks=range(len(names)), yticklabels=[name.replace("_", " ") for name in names],
           ylabel="circuit", xlabel="variance of the paths over the closed form")  # fmt: skip
    caption = (
        "The variance of the output of five circuits from transient noise, divided by the exact variance: Trapezoidal, "
        f"{paths} paths, bars of two standard errors; T and h of each circuit are in the table, in seconds."
    )
    return Picture(figure, caption)


STUDY = Study(
    "circuit-noise",
    OWN,
    "transient noise of five netlists beside small-signal analysis and closed form",
    "Three independent ways to compute the noise of a circuit (paths, the linearised equations and a formula) agree "
    "for an RC filter, a resonant circuit, a sample-and-hold, an integrator that has not settled, and a transimpedance "
    "amplifier.",
    run,
    lambda: 300.0,
)
