"""The studies of Pulch (2012) and of the split of variance, at sizes that take seconds."""

import numpy as np
import pytest

from stodyn.studies import chaos_equivalence, index_counterexample, miller, tolerance_or_noise
from stodyn.studies.contract import Size, catalogue


def said(words):
    return None


def test_the_studies_are_found():
    assert {"miller", "chaos-equivalence", "index-counterexample", "tolerance-or-noise"} <= set(catalogue())


def test_the_miller_integrator_repeats_the_papers_table(tmp_path):
    result = miller.run(Size.SMALL, tmp_path, said)
    rows = {row.quantity: row for row in result.rows}
    assert set(result.figures) == {"fig3", "fig4", "fig5"}
    for row in result.rows:
        if row.quantity.startswith("Table 1") and not row.quantity.endswith(("u1", "j2")):
            assert 0.7 * row.paper < row.ours < 1.2 * row.paper, row
    assert rows["Table 1, Galerkin, j2"].ours == pytest.approx(2.2e-8, rel=0.05)
    assert rows["index at a = 1 + C1/C2 = 3"].ours == 3


def test_what_the_theorems_say_is_zero_is_zero(tmp_path):
    """What the theorems say is zero is below 1e-13; the hypothesis of Theorem 2 is needed on M_1."""
    rows = {row.quantity: row for row in chaos_equivalence.run(Size.SMALL, tmp_path, said).rows}
    for name, row in rows.items():
        if row.paper == 0 and "M_1" not in name:
            assert row.ours < 1e-13, row
        if "index" in name:
            assert row.ours == 2, row
    conditions = [rows[f"N_{R}: condition of C"].ours for R in (1, 2, 3)]
    np.testing.assert_allclose(conditions, [1.00, 2.02, 2.57], atol=0.005)
    assert rows["M_1: collocation - four-node rule of degree 2"].ours < 1e-13
    assert rows["M_1: Galerkin - four-node rule"].ours > 1e-3
    assert rows["M_1: ‖T₁T₂ - T₂T₁‖"].ours == pytest.approx(1.0 / 3.0)
    for R in (1, 2, 3):  # Galerkin is the more accurate at equal size
        assert (
            rows[f"M_{R}: Galerkin - exact coefficients"].ours < rows[f"M_{R}: collocation - exact coefficients"].ours
        )


def test_smallest_eigenvalues_of_the_counterexample():
    problem = index_counterexample.diagonal(index_counterexample.smooth)
    assert problem.domain_index.index == 1
    found = [index_counterexample.smallest(problem, M) for M in (0, 1, 2, 3, 5)]
    wanted = [64 / 350, 5.499700e-3, 1.112603e-4, 2.156511e-6, 8.0733e-10]
    np.testing.assert_allclose([value for value, _ in found], wanted, rtol=3e-6)
    assert [index for _, index in found[:4]] == [0, 0, 0, 0]
    assert abs(index_counterexample.smallest(problem, 8)[0]) < 1e-13


def test_the_index_of_an_expansion_may_be_higher_on_one_subspace_alone(tmp_path):
    """Affine matrices, index 1 for every p: 2 on M_R where c is the norm of the commutator, 1 for 0.9 c and on N_R."""
    rows = {row.quantity: row for row in index_counterexample.run(Size.SMALL, tmp_path, said).rows}
    assert rows["M_1: ‖T₁T₂ - T₂T₁‖"].ours == pytest.approx(1.0 / 3.0, rel=1e-12)
    assert rows["M_2: ‖T₁T₂ - T₂T₁‖"].ours == pytest.approx(0.421637021356, rel=1e-11)
    for R in (1, 2, 3, 4):
        assert rows[f"M_{R}: index of the Galerkin system with 1 c"].ours == 2
        assert rows[f"M_{R}: index of the Galerkin system with 0.9 c"].ours == 1
        assert rows[f"index for every p with c of M_{R}"].ours == 1
    assert rows["N_1: index of the Galerkin system with 1 c"].ours == 1
    assert rows["cubic B-splines, degree 3: index of the Galerkin system"].ours == 0
    assert [rows[f"degree {M}: rank of Â₁ by {M + 1} Gauss nodes"].ours for M in (1, 2, 3, 5)] == [1, 1, 2, 2]


def test_tolerance_or_noise(tmp_path, monkeypatch):
    """Both parts of the oscillator's variance within 5 standard errors (6e-7 each) of the exact ones."""
    monkeypatch.setattr(tolerance_or_noise, "PATHS", 512)
    result = tolerance_or_noise.run(Size.SMALL, tmp_path, said)
    for row in result.rows:
        if row.quantity.startswith("oscillator"):
            assert abs(float(row.remark.split(", ")[1].split()[0])) < 5.0, row
        else:
            assert 0.0 < row.ours < 1.0 and row.stderr < 0.1
