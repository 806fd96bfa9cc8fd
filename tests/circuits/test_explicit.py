"""Steps that substitute charges and filters of flicker noise are those that eliminate all unknowns."""

import dataclasses

import jax
import numpy as np
import pytest

import stodyn as sd
from stodyn.circuits import points, read
from stodyn.engine.program import executors
from stodyn.numerics import elimination
from stodyn.numerics.printing.points import at_one
from stodyn.problems import explicit, sparsity

STAGE = """An amplifier with gates' oxide, junctions and flicker noise
VDD vdd 0 2.5
VIN in 0 PULSE(1.2 1.3 1n 1n 1n 20n)
M1 out in s 0 n W=20u L=1u
M3 out out vdd vdd p W=10u L=1u AD=10p
RS s 0 10k
DB s 0 d
CL out 0 0.1p
.model d D(IS=1p KF=1e-14 CJO=1p TT=1n)
.model n NMOS(KP=100u VTO=0.5 LAMBDA=0.05 TOX=15n GAMMA=0.3 KF=1e-24)
.model p PMOS(KP=40u VTO=-0.5 LAMBDA=0.05 TOX=15n CJ=1m)
.options flo=300meg fhi=1g
.tran 0.2n 2n
"""
DIODE = """A diode with its charge and flicker noise
V1 in 0 SIN(0.5 0.2 100meg)
R1 in out 1k
D1 out 0 d
.model d D(IS=1p KF=1e-13 CJO=1p TT=1n)
.options flo=300meg fhi=1g
"""


def test_which_unknowns_are_left():
    circuit = read(STAGE)
    assert {circuit.names[i] for i in circuit.facts.rest.unknowns} == {"vdd", "in", "s", "out", "q(vdd)", "q(vin)"}
    assert circuit.facts.unknowns == 6 < circuit.n and not circuit.facts.is_large and circuit.facts.sparsity is None


@pytest.mark.parametrize("a", [None, 1e-10])
def test_the_jacobian_from_slopes_is_that_of_the_equations(a):
    circuit = read(STAGE)
    x = circuit.start.mean + 0.2 * np.random.default_rng(1).standard_normal(circuit.n)
    params, (rows, N, *_) = circuit.example_params(), circuit.facts.split
    ours = at_one(lambda x: circuit.matrices.of_rest(x, a, params), x)
    f_x = at_one(jax.jacfwd(lambda x: circuit.f(0.0, x, params)), x)
    top = circuit.mass_matrix[rows] - (a or 0.0) * f_x[rows]
    general = circuit.facts.rest.matrix(np.concatenate([top, N @ f_x]), f_x)
    size = np.abs(general).max(axis=1, keepdims=True)
    np.testing.assert_allclose(ours / size, general / size, rtol=1e-12, atol=1e-14)


def left_over(circuit, h):
    """What two trapezoidal steps without white noise leave of the equations of u and q, in units of their terms."""
    circuit = dataclasses.replace(circuit, params={"noise": 0.0})
    run = dict(t=(0.0, 2 * h), dt=h, paths=2, seed=1, collect=sd.statistics.Paths(2, at=[h, 2 * h]))
    x = sd.simulate(circuit, "Trapezoidal", **run)["path"].values
    rows, N, *_ = circuit.facts.split
    drift = np.stack([points.rates(circuit.network, np.array([h, 2 * h]), path) for path in x])
    moved, pushed = (x[:, 1] - x[:, 0]) @ circuit.mass_matrix.T, 0.5 * h * (drift[:, 0] + drift[:, 1])
    others = ~np.isin(rows, circuit.known.explicit.filtered)
    steps = np.abs(moved - pushed)[:, rows[others]] / np.abs(moved).max()
    size = np.abs(N).sum(axis=1) * np.abs(x).max()
    return max(steps.max(), (np.abs(drift @ N.T) / size).max())


def test_a_step_solves_the_equations_of_all_unknowns():
    assert left_over(read(DIODE), 1e-10) < 1e-10


def test_more_unknowns_than_are_written_out_are_eliminated_as_a_sparse_system(monkeypatch):
    for module in (elimination, explicit, sparsity):
        monkeypatch.setattr(module, "ORDERED", 3)
    rows = "".join(f"R{i} n{i} n{i + 1} 1k\nC{i} n{i + 1} 0 1p\nD{i} n{i + 1} 0 d\n" for i in range(6))
    circuit = read(f"row\nV1 n0 0 SIN(0 1 10meg)\n{rows}.model d D(IS=1p CJO=1p)\n.tran 1n 2n\n")
    assert circuit.facts.sparsity.matrix.pattern.shape == (8, 8) and circuit.n == 14
    assert left_over(circuit, 1e-9) < 1e-10


def test_few_unknowns_among_many_are_eliminated_as_scalars(monkeypatch):
    """Loops over arrays take 20 times as long; only where all unknowns are eliminated do they pay."""
    monkeypatch.setattr(executors, "SMALL", 4)
    monkeypatch.setattr(executors, "LOOPED", 100)
    rows = "".join(f"R{i} n{i} n{i + 1} 1k\nD{i} n{i + 1} 0 d\n" for i in range(2))
    circuit = read(f"row\nV1 n0 0 SIN(0 1 10meg)\n{rows}.model d D(IS=1p CJO=1p TT=1n)\n.tran 1n 2n\n")
    run = sd.simulate(circuit, "Trapezoidal", t=(0.0, 2e-9), dt=1e-9, paths=2, seed=1)
    assert circuit.n > 4 and "scalar operations" in sd.provenance(run)["executor_reason"]


def test_filters_are_stepped_by_themselves():
    """s' = s + h/2 λ (s + s') + g W, whatever the other unknowns do."""
    circuit = read(DIODE)
    rest, h = circuit.facts.rest, 1e-9
    s = np.random.default_rng(1).standard_normal(len(rest.explicit.filtered))
    x, known = np.zeros(circuit.n), np.zeros(circuit.r)
    x[rest.explicit.filtered] = s
    known[np.searchsorted(circuit.facts.split.rows, rest.explicit.filtered)] = 0.5 * h * rest.explicit.rates * s + 0.1
    Z = at_one(lambda x, known: rest.filtered(x, known, 0.5 * h), x, known)
    np.testing.assert_allclose(Z, 0.5 * h * rest.explicit.rates * (2.0 * s + Z) + 0.1, rtol=1e-13)


@pytest.mark.long("test_a_step_solves_the_equations_of_all_unknowns")
def test_a_path_is_that_of_all_unknowns():
    """Milstein's method, which pushes all unknowns at once."""
    circuit = read(DIODE.replace("KF=1e-13", ""))
    whole = sd.SDAE(circuit.mass, circuit.drift, circuit.diffusion, circuit.start, circuit.params, circuit.names)
    run = dict(t=(0.0, 2e-9), dt=0.5e-9, paths=2, seed=1, collect=sd.statistics.Paths(2, at=[2e-9]))
    ours, theirs = (sd.simulate(problem, "StiffMilstein", **run)["path"].values for problem in (circuit, whole))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_what_everything_depends_on_is_eliminated_last():
    """A rail that 20 nodes share, the first unknown: eliminated first it would fill all places."""
    n = 21
    arrow = np.diag(np.linspace(2.0, 4.0, n))
    arrow[0], arrow[:, 0] = 0.5, 0.5
    samples = np.stack([arrow, 2.0 * arrow])
    nothing = np.empty(0, int)
    rest = explicit.Rest.__new__(explicit.Rest)
    rest.explicit = explicit.Explicit(nothing, nothing, np.empty(0))
    rest._take(np.arange(n), np.arange(n))
    ordered = rest.sorted(samples)
    assert 0 in ordered.unknowns[-2:] and ordered.row_order == tuple(range(n))
    assert sorted(ordered.unknowns) == sorted(ordered.rows) == list(range(n))
    permuted = arrow[np.ix_(ordered.rows, ordered.unknowns)]
    assert np.all(np.diagonal(permuted) != 0.0)
