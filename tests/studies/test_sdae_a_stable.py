"""The study of A-stable methods, in parts that take seconds."""

import numpy as np
import pytest

from stodyn.studies import sdae_a_stable as study
from stodyn.studies.contract import catalogue


def test_it_is_found():
    assert "sdae-a-stable" in catalogue()


def test_verdicts_and_largest_steps():
    """The paper's methods lose stability at short steps next to the equation's limit, ours at none."""
    rows = {row.quantity: row.ours for row in (*study.verdicts(), *study.largest_steps())}
    for method in study.PAPER:
        assert rows[f"{method.name}: verdict"] == "not A-stable" and rows[f"{method.name}: κ"] > 1.0
        assert 0.01 < rows[f"{method.name}: largest |λ| Δt at k² = 0.95 · 2|h|"] < 0.1
    for method in study.OURS:
        assert rows[f"{method.name}: verdict"] == "A-stable" and rows[f"{method.name}: κ"] <= 0.0
        assert rows[f"{method.name}: largest |λ| Δt at k² = 0.95 · 2|h|"] == "every step"


def test_random_systems_have_the_margin_they_say():
    for n in (2, 3):
        system = study.random_system(n, np.random.default_rng(1))
        A, B = system["A"], system["B"]
        L = np.kron(A, np.eye(n)) + np.kron(np.eye(n), A) + np.kron(B, B)
        assert np.linalg.norm(A, 2) == pytest.approx(1.0)
        assert np.linalg.eigvals(L).real.max() == pytest.approx(-0.02, rel=1e-6)


def test_steps_for_a_wanted_error():
    """Errors 4/n reach 1 % at n = 400; where they never fall there is no such number."""
    steps = (25, 50, 100, 200)
    assert study.steps_wanted(steps, 4.0 / np.array(steps)) == pytest.approx(400.0)
    assert study.steps_wanted(steps, 2.0 / np.array(steps)) == pytest.approx(200.0)
    assert np.isnan(study.steps_wanted(steps, np.full(4, 0.5)))


def test_factor_of_errors():
    rng = np.random.default_rng(1)
    below = rng.standard_normal(2000) ** 2
    ratio, stderr = study.factor(9.0 * below, below)
    assert ratio == pytest.approx(3.0) and stderr < 1e-12


def test_circuits_have_rows_and_a_picture():
    """Errors 4/n and 8/n: 1 % with 400 and 800 steps."""
    case = study.CIRCUITS[0]
    found = {"Trapezoidal": 4.0 / np.array(case.steps), "RK1A4MLevy": 8.0 / np.array(case.steps)}
    rows = study.circuit_rows(case, found)
    assert [row.ours for row in rows] == [pytest.approx(400.0), pytest.approx(800.0)]
    assert "a step 0.5 x that of Trapezoidal, 1 x that of RK1A4MLevy" in rows[1].remark
    assert "beyond the steps tried" in rows[1].remark and "beyond" not in rows[0].remark
    (ax,) = study.circuits_picture({case: found}).figure.axes
    assert [line.get_label() for line in ax.lines[:2]] == list(found)
