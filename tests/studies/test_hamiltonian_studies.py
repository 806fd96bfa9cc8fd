"""The studies of Kraus & Tyranowski (2021), at sizes that take seconds."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from stodyn.studies import kubo, lenard_bernstein, lorentz, structure, van_der_pol
from stodyn.studies.contract import catalogue


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def said(words):
    return None


def test_the_studies_are_found():
    assert {"kubo", "van-der-pol", "lenard-bernstein", "lorentz", "structure"} <= set(catalogue())


def test_kubo_schemes_without_sampling():
    """The curves of the figures pass through the reference values of the recursion."""
    np.testing.assert_allclose(
        kubo.exact_of_scheme("DIRK", 0.5, np.array([1000.0, 5000.0])), [0.76346771, 0.016211864], rtol=1e-7
    )
    np.testing.assert_allclose(kubo.exact_of_scheme("E1", 0.02, np.array([1000.0])), [0.60503328], rtol=1e-7)


def test_why_verlet_is_not_sampled_at_long_steps():
    assert kubo.moment_growth(0.25, 4) > 0 > kubo.moment_growth(0.1, 4)
    assert kubo.moment_growth(0.5, 2) > 0


def test_shifted_limits_of_explicit_schemes_on_van_der_pol():
    assert van_der_pol.predicted("E1", 0.2) == pytest.approx(1.54, abs=0.01)
    assert van_der_pol.predicted("Heun", 0.2) == pytest.approx(6.0, abs=0.05)


def test_structure(tmp_path, monkeypatch):
    monkeypatch.setattr(structure, "SMALL", ("StoermerVerlet", "Heun"))
    rows = {row.quantity: row for row in structure.run(False, tmp_path, said).rows}
    assert rows["StoermerVerlet: QS2, spread of det J over states"].remark == "quasi-symplectic"
    assert rows["Heun: max |J'ΩJ - Ω|, no forces"].remark == "not symplectic"


def test_lorentz(tmp_path, monkeypatch):
    """DIRK keeps E(H) within 5 standard errors (6e-7)."""
    monkeypatch.setattr(lorentz, "STRONG", (("StoermerVerlet", 0.05), ("DIRK", 0.05)))
    monkeypatch.setattr(lorentz, "WEAK", (("SRKw1", 0.05),))
    result = lorentz.run(False, tmp_path, said)
    assert set(result.figures) == {"fig4-10", "fig4-11"}
    for row in result.rows[2:]:
        assert abs(row.ours) < 5 * row.stderr


def test_lenard_bernstein(tmp_path, monkeypatch):
    """Trapping at |v| = 1/(2 dt): the midpoint rule at dt = .15 is too hot."""
    monkeypatch.setattr(lenard_bernstein, "SMALL", (("Midpoint", 0.15),))
    monkeypatch.setattr(lenard_bernstein, "T", 300.0)
    result = lenard_bernstein.run(False, tmp_path, said)
    energy, trapped = result.rows[2:]
    assert energy.ours > 0.52
    assert "trapped" in trapped.remark and trapped.ours > 3 * 0.0025
