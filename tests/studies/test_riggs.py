"""The studies of Riggs' dissertation, at a reduced size, and the generator that lives in one of them alone."""

import numpy as np
import pytest

from stodyn.methods.multistep import AB4
from stodyn.studies import riggs_adams_bashforth, riggs_factors, riggs_generator, riggs_runge_kutta
from stodyn.studies.contract import Size, catalogue
from stodyn.studies.riggs_example import compared, simulated, variance_picture


def quiet(words):
    pass


def test_all_five_are_found():
    names = {"riggs-factors", "riggs-runge-kutta", "riggs-adams-bashforth", "riggs-adams-moulton", "riggs-generator"}
    assert names <= set(catalogue())


def test_generator_gives_the_published_stream():
    assert riggs_generator.states(100_000)[-1] == 150493284
    first = [0.5222647786140442, 0.23252469301223755, 0.8529940247535706, 0.44627612829208374]
    assert riggs_generator.uniforms(4).tolist() == first
    assert riggs_generator.normals(3) == pytest.approx([1.14421892, -0.2977668, -0.52710414], abs=6e-9)


def test_generator_jumps_as_it_steps():
    z, stepped = riggs_generator.SEED, []
    for _ in range(riggs_generator.STRIDE + 5):
        z = 630360016 * z % (2**31 - 1)
        stepped.append(z)
    assert riggs_generator.states(len(stepped)).tolist() == stepped


def test_noise_factors_are_the_papers(tmp_path):
    result = riggs_factors.run(Size.SMALL, tmp_path, quiet)
    rows = {row.quantity: row for row in result.rows}
    for name in ("RK2", "RK3", "RK4", "Gill", "RK(5,6)"):
        row = rows[f"Γ of {name}"]
        assert row.ours == pytest.approx(row.paper, abs=6e-3)
    assert set(result.figures) == {"figure-2-euler", "figure-3-runge-kutta", "figure-4-adams-bashforth"}


def test_runge_kutta_at_a_reduced_size(tmp_path, monkeypatch):
    monkeypatch.setattr(riggs_runge_kutta, "RUNS", 4000)
    monkeypatch.setattr(riggs_runge_kutta, "FIGURES", riggs_runge_kutta.FIGURES[3:4])
    result = riggs_runge_kutta.run(Size.SMALL, tmp_path, quiet)
    right, naive, held = result.rows
    # Five standard errors: a false alarm in less than one of a million runs.
    assert abs(right.ours - 0.99753) < 5 * right.stderr and abs(held.ours - 0.9967) < 5 * held.stderr
    assert abs(naive.ours - 1.0) > 50 * naive.stderr
    assert list(result.figures) == ["figure-8-rk4"]


def test_the_printed_share_is_off_and_the_corrected_one_is_nearer():
    exact = 0.69278677  # at h = 0.025
    assert riggs_adams_bashforth.printed_share(0.025) / exact == pytest.approx(1.052, abs=1e-3)
    assert riggs_adams_bashforth.corrected_share(0.025) / exact == pytest.approx(1.0013, abs=3e-4)


def test_start_of_adams_bashforth_as_riggs_saw_it():
    method = AB4(placement="history", starter="rk4", gamma=riggs_adams_bashforth.printed_share(0.005))
    curve = simulated(method, 0.005, 4000, end=0.05, every=1)
    assert curve.discrete[4] / curve.process[4] == pytest.approx(9.658, abs=1e-3)
    assert (abs(curve.variance - curve.discrete) <= 5 * curve.stderr).all()
    row = compared("P_D/P", curve)
    assert "standard errors from it" in row.remark
    assert variance_picture("start", {"AB4": curve}).figure.axes[0].get_xlabel() == "time"


def test_the_generator_study_repeats_the_papers_ratio(tmp_path, monkeypatch):
    monkeypatch.setattr(riggs_generator, "RUNS", 100)
    monkeypatch.setattr(riggs_generator, "H", 0.05)
    result = riggs_generator.run(Size.SMALL, tmp_path, quiet)
    row = next(row for row in result.rows if row.quantity.startswith("P_D/P"))
    assert abs(row.ours - 1.0) < 5 * row.stderr and np.isfinite(row.stderr)
