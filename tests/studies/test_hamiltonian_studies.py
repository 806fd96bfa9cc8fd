"""The studies of Kraus & Tyranowski (2021), at sizes that take seconds."""

import numpy as np
import pytest

from stodyn.studies import full_size, kubo, lenard_bernstein, lorentz, structure, van_der_pol
from stodyn.studies.contract import Size, catalogue


def said(words):
    return None


def test_the_studies_are_found():
    assert {"kubo", "van-der-pol", "lenard-bernstein", "lorentz", "structure"} <= set(catalogue())


def test_curves_of_kubos_oscillator_pass_through_the_reference_values():
    """The curves of the figures pass through the reference values of the recursion."""
    np.testing.assert_allclose(
        kubo.exact_of_scheme("DIRK", 0.5, np.array([1000.0, 5000.0])), [0.76346771, 0.016211864], rtol=1e-7
    )
    np.testing.assert_allclose(kubo.exact_of_scheme("E1", 0.02, np.array([1000.0])), [0.60503328], rtol=1e-7)


def test_full_sizes_are_those_of_the_paper_or_a_stated_part(monkeypatch):
    """At 100 ns a path and step 20 minutes are 1.2e10 path-steps."""
    monkeypatch.setattr(full_size, "pace", lambda problem, name, h: 1e-7)
    assert full_size.affordable(None, "DIRK", 0.5, 5000.0, 50_000) == 50_000 and full_size.remark(50_000, 50_000) == ""
    taken = full_size.affordable(None, "DIRK", 0.15, 1000.0, 10_000_000)
    assert taken == 1_800_000
    assert full_size.remark(taken, 10_000_000) == "1.8e+06 of the paper's 1e+07 paths, for 20 minutes"
    both = full_size.seconds(None, [("DIRK", 0.15), ("Heun", 0.02)], 10_000_000, 1000.0)
    assert both == pytest.approx(2 * full_size.LONGEST, rel=0.02)


def test_shifted_limits_of_explicit_schemes_on_van_der_pol():
    assert van_der_pol.predicted("E1", 0.2) == pytest.approx(1.54, abs=0.01)
    assert van_der_pol.predicted("Heun", 0.2) == pytest.approx(6.0, abs=0.05)


@pytest.mark.long("tests/analysis/test_conservation.py gives verdicts, and test_every_study.py runs the study")
def test_the_study_of_structure_gives_the_verdicts(tmp_path, monkeypatch):
    monkeypatch.setattr(structure, "PAPERS", ())
    monkeypatch.setattr(structure, "TINY", ("StoermerVerlet", "Heun"))
    rows = {row.quantity: row for row in structure.run(Size.TINY, tmp_path, said).rows}
    assert rows["StoermerVerlet: QS2, spread of det J over states"].remark == "quasi-symplectic"
    assert rows["Heun: max |J'ΩJ - Ω|, no forces"].remark == "not symplectic"
    assert structure.two_channel_defect("StoermerVerlet") < 1e-14 < 1e-6 < structure.two_channel_defect("Heun")


def test_collisions_keep_the_mean_energy(tmp_path, monkeypatch):
    """E(H) is kept within 5 standard errors (6e-7)."""
    monkeypatch.setattr(lorentz, "STRONG", (("StoermerVerlet", 0.05),))
    monkeypatch.setattr(lorentz, "WEAK", ())
    monkeypatch.setattr(lorentz, "SMALL", 512)
    result = lorentz.run(Size.SMALL, tmp_path, said)
    assert set(result.figures) == {"fig4-10", "fig4-11"}
    for row in result.rows[1:]:
        assert abs(row.ours) < 5 * row.stderr


def test_the_midpoint_rule_is_too_hot_beyond_its_step(tmp_path, monkeypatch):
    """Trapping at |v| = 1/(2h): the midpoint rule at h = .15 is too hot."""
    monkeypatch.setattr(lenard_bernstein, "SQUARE", ())
    monkeypatch.setattr(lenard_bernstein, "WEAK", ())
    monkeypatch.setattr(lenard_bernstein, "END", 300.0)
    monkeypatch.setattr(lenard_bernstein, "SMALL", 1024)
    result = lenard_bernstein.run(Size.SMALL, tmp_path, said)
    assert set(result.figures) == {"fig4-5", "fig4-6", "fig4-7", "fig4-8", "fig4-9"}
    energy, trapped = result.rows[2:]
    assert energy.ours > 0.52
    assert "trapped" in trapped.remark and trapped.ours > 3 * 0.0025
