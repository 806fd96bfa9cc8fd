"""stodyn report: one page of a saved run, whose numbers are those of the file."""

import dataclasses
import json
import re

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from typer.testing import CliRunner

import stodyn as sd
from stodyn import statistics as st
from stodyn.cli import application
from stodyn.cli.report import numbers, write

SPRING = sd.SDE(
    lambda t, x: jnp.array([x[1], -x[0] - 0.3 * x[1]]),
    lambda t, x: jnp.array([[0.0], [0.5]]),
    start=[1.0, 0.0],
    names=("q", "p"),
)


def report(run, folder, *options):
    sd.save(run, folder / "run.nc")
    done = CliRunner().invoke(application(), ["report", str(folder / "run.nc"), *options])
    assert done.exit_code == 0, done.output
    return (folder / "run.html").read_text()


@pytest.mark.usefixtures("coarse_pictures")
def test_a_page_has_the_numbers_the_pictures_and_the_record(tmp_path):
    collect = [
        st.Moments(every=5), st.Histogram(np.linspace(-3, 3, 9), at=[1.0]),
        st.Passage(sd.Level(1.2, of="q"), every=5, mean=False),
        st.Observable(lambda t, x: x[0] ** 2, name="square", every=5),
    ]  # fmt: skip
    run = sd.simulate(SPRING, "Heun", t=(0, 1), dt=0.1, paths=16, seed=1, collect=collect)
    page = report(run, tmp_path, "--title", "A <spring>")
    assert "<h1>A &lt;spring&gt;</h1>" in page and "16 paths by Heun, 10 steps of 0.1" in page
    mean, error = (float(run[name][-1, 0]) for name in ("mean", "mean_stderr"))
    limits = sd.interval(run, "mean").isel(time=-1, component=0)
    cells = (mean, error, float(limits["low"]), float(limits["high"]))
    assert "<td>mean (q)</td>" + "".join(f"<td>{value:.5g}</td>" for value in cells) in page
    drawn = set(re.findall("<img alt='([^']*)' src='data:image/png;base64,", page))
    assert {"variance of q", "density of p", "passage_survival", "passage_hazard", "square"} <= drawn
    assert "density (q" not in page and "&quot;seed&quot;: 1" in page and "http" not in page.partition("<pre>")[0]


def test_numbers_stand_with_their_units(tmp_path):
    """Those of a variance are squared, a covariance has two, a passage that of the time; "mean (q)" stood without."""
    units = {"q": "m", "p": "m/s", "time": "s"}
    run = sd.simulate(
        dataclasses.replace(SPRING, units=units), "Heun", t=(0, 1), dt=0.5, paths=4, seed=1,
        collect=[st.Moments(covariance=True), st.Observable(lambda t, x: x[0] ** 2, name="energy", units="J", at=[1.0]),
                 st.Passage(sd.Level(9.0, of="q"), mean=False)],
    )  # fmt: skip
    found = {name: unit for name, *_, unit in numbers(run)}
    assert {name: found[name] for name in found if not name.startswith("passage_hazard")} == {
        "mean (q)": "m", "mean (p)": "m/s", "variance (q)": "m²", "variance (p)": "(m/s)²", "std (q)": "m",
        "std (p)": "m/s", "covariance (q, q)": "m²", "covariance (q, p)": "m·(m/s)", "covariance (p, q)": "(m/s)·m",
        "covariance (p, p)": "(m/s)²", "energy": "J", "energy_variance": "J²", "energy_std": "J",
        "passage_survival": "", "passage_restricted_mean": "s",
    }  # fmt: skip
    file = tmp_path / "page.html"
    cells = re.findall("<tr><td>(.*?)</td>.*?<td>([^<]*)</td></tr>", write(run[["mean", "mean_stderr"]], file, "a")
                       .read_text())  # fmt: skip
    assert cells == [("mean (q)", "m"), ("mean (p)", "m/s")]


@pytest.mark.parametrize("record", [3, [], {}, {"paths": 4, "sweep": 3}, {"paths": 4, "sweep": {"points": 1}}])
def test_forged_records_are_refused_in_words(record, tmp_path):
    forged = sd.simulate(SPRING, "Heun", t=(0, 1), dt=0.5, paths=4, seed=1)
    forged = forged.assign(failures=("failure", [0])).assign_attrs(provenance=json.dumps(record))
    sd.save(forged, tmp_path / "run.nc")
    done = CliRunner().invoke(application(), ["report", str(tmp_path / "run.nc")])
    said = " ".join(done.output.replace("│", " ").split())
    assert done.exit_code == 2 and "its record is not that of a run of stodyn" in said


@pytest.mark.usefixtures("coarse_pictures")
def test_a_page_is_not_written_through_a_link_that_came_with_the_file(tmp_path):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "run.html").symlink_to(tmp_path / "precious")
    run = sd.simulate(SPRING, "Heun", t=(0, 1), dt=0.5, paths=4, seed=1, collect=st.Observable(lambda t, x: x[0]))
    assert report(run, tmp_path).startswith("<!doctype html>") and (tmp_path / "precious").read_text() == "mine"


@pytest.mark.usefixtures("coarse_pictures")
def test_what_a_reader_must_heed_comes_first(tmp_path):
    cubic = sd.SDE(lambda t, x: x**3, lambda t, x: 0.0 * x, sd.PerPath([0.1, 50.0]))
    run = sd.simulate(cubic, "EulerMaruyama", t=(0, 1), dt=0.1, paths=2, seed=1, on_failure="record")
    page = report(run, tmp_path)
    assert "1 of 2 paths failed and are left out" in page and page.index("left out") < page.index("Numbers")


@pytest.mark.usefixtures("coarse_pictures")
def test_a_long_sweep_is_shown_by_pictures_and_a_few_points_with_their_names(tmp_path):
    k = np.linspace(1.0, 2.0, 30)
    plain = sd.SDE(lambda t, x, p: -p["k"] * x, lambda t, x: 1.0 + 0.0 * x, 0.0, {"k": 1.0})
    run = sd.sweep(plain, over={"k": k}, t=(0, 1), dt=0.5, paths=8, seed=1)
    page = report(run, tmp_path)
    rows = re.findall("<tr><td>([^<]*)</td><td>([^<]*)</td>", page)
    for name in ("mean", "variance"):
        shown = {f"{name} (k = {k[j]:.5g}, x)": f"{float(run[name][j, -1, 0]):.5g}" for j in (0, 7, 14, 22, 29)}
        assert {row: value for row, value in rows if row.startswith(f"{name} (")} == shown
    assert "at 5 of the 30 points of k" in page and page.index("Pictures") < page.index("Numbers")
    assert f"&quot;k&quot;: [{', '.join(map(repr, k.tolist()))}]" in page


@pytest.mark.usefixtures("coarse_pictures")
@pytest.mark.filterwarnings("ignore::stodyn.warnings.NotIdentified")  # two points have no median
def test_a_fragility_curve_is_drawn_and_has_its_intervals(tmp_path):
    noisy = sd.SDE(lambda t, x: -x, lambda t, x, p: p["s"], 0.0, {"s": 1.0})
    options = dict(event=sd.Level(2.0), before=1.0, dt=0.1, seed=1, by="elementary", runs=4)
    curve = sd.fragility(noisy, over={"s": [0.5, 1.0]}, **options)
    page = report(curve, tmp_path)
    ends = "".join(f"<td>{float(curve[f'probability{end}'][0]):.5g}</td>" for end in ("", "_stderr", "_low", "_high"))
    assert f"<td>probability (s = 0.5)</td>{ends}" in page and "<img alt='fragility'" in page


@pytest.mark.usefixtures("coarse_pictures")
def test_numbers_of_an_expansion_stand_with_how_far_they_may_be_off(tmp_path):
    law = {"a": scipy.stats.uniform(0.5, 1.0)}
    decay = sd.RandomDAE([[1.0]], lambda t, x, p: -p["a"] * x, [1.0], law)
    run = sd.simulate(decay, t=(0, 1), dt=0.1)
    page = report(run, tmp_path)
    cells = "".join(f"<td>{float(run[name][-1, 0]):.5g}</td>" for name in ("mean", "mean_error"))
    assert f"<td>mean (x0)</td>{cells}" in page and "with how far they may be off" in page


def test_a_file_that_is_none_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")  # so that the path of the file stays on one line
    done = CliRunner().invoke(application(), ["report", str(tmp_path / "none.nc")])
    assert done.exit_code == 2 and "none.nc" in done.output


@pytest.mark.usefixtures("coarse_pictures")
def test_what_the_user_was_warned_of_stands_in_the_record_and_on_the_page(tmp_path):
    far = sd.Stop(sd.Level(1e3, of="q"))
    with pytest.warns(sd.warnings.Unmet) as told:
        run = sd.simulate(SPRING, "Heun", t=(0, 1), dt=0.1, paths=16, seed=1, stop=far)
    words = [str(one.message) for one in told]
    assert sd.provenance(run)["warnings"] == words
    assert f"<p class=warning>{words[0]}</p>" in report(run, tmp_path).replace("&#x27;", "'")


def test_a_record_says_nothing_of_warnings_where_there_were_none():
    assert "warnings" not in sd.provenance(sd.simulate(SPRING, "Heun", t=(0, 1), dt=0.1, paths=16, seed=1))
