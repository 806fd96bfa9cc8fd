"""Every picture shows the numbers it was given, with their names, units and errors."""

import json

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse
import xarray
from matplotlib.collections import PolyCollection
from matplotlib.container import ErrorbarContainer
from scipy.stats import norm

import stodyn as sd
from stodyn import plot


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture
def run():
    """What simulate makes of a decaying oscillation, its paths kept at times of their own."""
    rng = np.random.default_rng(5)
    t, t_path, edges = np.linspace(0.0, 8.0, 41), np.linspace(0.0, 8.0, 161), np.linspace(-3.0, 3.0, 25)
    mean = 2.0 * np.exp(-0.1 * t)[:, None] * np.stack([np.cos(t), -np.sin(t)], axis=-1)
    variance = 0.3 * (1.0 - np.exp(-0.4 * t))[:, None] * np.ones(2)
    path_mean = 2.0 * np.exp(-0.1 * t_path)[:, None] * np.stack([np.cos(t_path), -np.sin(t_path)], axis=-1)
    noise = rng.standard_normal((4, len(t_path), 2)).cumsum(axis=1) * 0.05
    center = 0.5 * (edges[1:] + edges[:-1])
    density = np.broadcast_to(np.exp(-0.5 * center**2) / np.sqrt(2 * np.pi), (2, 2, len(center))).copy()
    frequency = np.linspace(0.0, 4.0, 81)
    power = 1.0 / (1.0 + (2 * np.pi * frequency[:, None]) ** 2) * np.ones(2)
    by_component = ("time", "component")
    return xarray.Dataset(
        {
            "mean": (by_component, mean),
            "mean_stderr": (by_component, np.full_like(mean, 0.02)),
            "variance": (by_component, variance),
            "variance_stderr": (by_component, np.full_like(mean, 0.01)),
            "path": (("number", "time_path", "component"), path_mean + noise),
            "density": (("time_density", "component", "bin"), density),
            "density_stderr": (("time_density", "component", "bin"), np.full_like(density, 0.02)),
            "energy": ("time", 2.0 * np.exp(-0.2 * t), {"units": "J"}),
            "energy_stderr": ("time", np.full_like(t, 0.05)),
            "spectrum": (("frequency", "component"), power),
            "spectrum_low": (("frequency", "component"), 0.7 * power),
            "spectrum_high": (("frequency", "component"), 1.5 * power),
        },
        coords={
            "time": t,
            "time_path": t_path,
            "time_density": [2.0, 8.0],
            "component": ["q", "p"],
            "bin": center,
            "bin_left": ("bin", edges[:-1]),
            "bin_right": ("bin", edges[1:]),
            "frequency": frequency,
        },
        attrs={"units": {"q": "m", "p": "m/s", "time": "s"}},
    )


@pytest.fixture
def study():
    step = 2.0 ** -np.arange(2.0, 9.0)
    error = 0.3 * step**1.5
    error[-1] *= 3.0
    return xarray.Dataset(
        {"error": ("step", error), "error_stderr": ("step", 0.1 * error), "used": ("step", step > 2.0**-8)},
        coords={"step": step},
        attrs={"order": 1.5, "order_stderr": 0.02, "kind": "strong", "method": "SRA1", "model": "double_well"},
    )


def line(ax, label):
    return next(line for line in ax.lines if line.get_label() == label)


def shaded(ax, label=None):
    """(lower, upper) of the filled band: the smallest and largest y at each x."""
    for collection in ax.collections:
        if isinstance(collection, PolyCollection) and (label is None or collection.get_label() == label):
            x, y = collection.get_paths()[0].vertices.T
            at = np.unique(x)
            return at, np.array([y[x == v].min() for v in at]), np.array([y[x == v].max() for v in at])
    raise AssertionError(f"nothing shaded is called {label}")


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_band_shows_mean_spread_and_paths(run):
    ax = plot.band(run, "q")
    np.testing.assert_array_equal(line(ax, "mean").get_ydata(), run["mean"].sel(component="q"))
    t, low, high = shaded(ax, "mean ± 2σ")
    q, sigma = run["mean"].sel(component="q").values, np.sqrt(run["variance"].sel(component="q").values)
    np.testing.assert_allclose(t, run["time"])
    np.testing.assert_allclose([low, high], [q - 2 * sigma, q + 2 * sigma], atol=1e-14)
    np.testing.assert_array_equal(line(ax, "paths").get_xdata(), run["time_path"])
    assert len(ax.lines) == 4 + 1
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time [s]", "q [m]")
    assert legend(ax) == ["paths", "mean ± 2σ", "mean"]


def test_band_shows_the_error_of_the_mean(run):
    ax = plot.band(run.drop_vars("path"), "p")
    (x, y) = ax.collections[-1].get_paths()[0].vertices.T
    p = run["mean"].sel(component="p").values
    np.testing.assert_allclose(y[x == 8.0].max() - y[x == 8.0].min(), 4 * 0.02)
    np.testing.assert_allclose(y[x == 8.0].mean(), p[-1], atol=0.02)
    assert len(ax.lines) == 1


def test_given_axes_are_drawn_on(run):
    _, (left, right) = plt.subplots(1, 2)
    assert plot.paths(run, "q", ax=left) is left
    assert not right.lines
    assert len(plt.get_fignums()) == 1
    np.testing.assert_array_equal(
        [drawn.get_ydata() for drawn in left.lines], run["path"].sel(component="q").transpose("number", "time_path")
    )


def test_histogram_shows_bins_errors_and_the_exact_density(run):
    ax = plot.histogram(run, "p", exact=lambda x: np.exp(-(x**2)))
    (stairs,) = [patch for patch in ax.patches if hasattr(patch, "get_data")]
    np.testing.assert_array_equal(stairs.get_data().values, run["density"].isel(time_density=-1, component=1))
    np.testing.assert_array_equal(stairs.get_data().edges, np.linspace(-3.0, 3.0, 25))
    (bars,) = [container for container in ax.containers if isinstance(container, ErrorbarContainer)]
    ends = np.array([segment[:, 1] for segment in bars[2][0].get_segments()])
    np.testing.assert_allclose(ends[:, 1] - ends[:, 0], 4 * 0.02)
    exact = line(ax, "exact")
    np.testing.assert_array_equal(exact.get_ydata(), np.exp(-(exact.get_xdata() ** 2)))
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("p [m/s]", "density [1/(m/s)]", "t = 8 s")
    assert ax.get_ylim()[0] == 0.0
    assert plot.histogram(run, "p", time=2.0).get_title() == "t = 2 s"
    with pytest.raises(ValueError, match="time: nothing was stored at 3; the nearest stored time is 2"):
        plot.histogram(run, "p", time=3.0)


def test_observable_shows_mean_error_and_exact(run):
    ax = plot.observable(run, "energy", exact=lambda t: 2.0 * np.exp(-0.2 * t))
    np.testing.assert_array_equal(line(ax, "mean").get_ydata(), run["energy"])
    _, low, high = shaded(ax)
    np.testing.assert_allclose(high - low, 4 * 0.05)
    np.testing.assert_allclose(line(ax, "exact").get_ydata(), run["energy"])
    assert ax.get_ylabel() == "energy [J]"
    with pytest.raises(ValueError, match=r"name: 'mean' has the dimensions .*run.isel\(component=0\)"):
        plot.observable(run, "mean")


def test_phase_shows_paths_and_mean(run):
    ax = plot.phase(run, "q", "p")
    x, y = line(ax, "mean").get_data()
    np.testing.assert_array_equal(x, run["mean"].sel(component="q"))
    np.testing.assert_array_equal(y, run["mean"].sel(component="p"))
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), run["path"].sel(component="q").isel(number=0))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("q [m]", "p [m/s]")
    with pytest.raises(ValueError, match=r"has no 'path' .* collect=\[statistics.Paths\(5\)\]"):
        plot.phase(run.drop_vars(["path", "mean"]), "q", "p")


def test_spectrum_shows_power_and_confidence(run):
    ax = plot.spectrum(run, "q", exact=lambda f: 1.0 / (1.0 + (2 * np.pi * f) ** 2))
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    drawn = line(ax, "spectrum")
    np.testing.assert_array_equal(drawn.get_xdata(), run["frequency"][1:])
    np.testing.assert_array_equal(drawn.get_ydata(), run["spectrum"].sel(component="q")[1:])
    _, low, high = shaded(ax, "confidence band")
    np.testing.assert_allclose(high / low, 1.5 / 0.7)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("frequency [1/s]", "power spectral density [m² s]")


def test_order_shows_points_errors_and_slope(study):
    ax = plot.order(study)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    fit = line(ax, "order 1.50 ± 0.04")
    np.testing.assert_allclose(fit.get_ydata(), 0.3 * fit.get_xdata() ** 1.5, rtol=1e-12)
    used, left_out = (c for c in ax.containers if isinstance(c, ErrorbarContainer))
    np.testing.assert_array_equal(used[0].get_xdata(), study["step"][:-1])
    np.testing.assert_array_equal(left_out[0].get_xdata(), study["step"][-1:])
    ends = np.array([segment[:, 1] for segment in used[2][0].get_segments()])
    np.testing.assert_allclose(ends[:, 1] - ends[:, 0], 4 * study["error_stderr"][:-1], rtol=1e-12)
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("step size h", "strong error", "double_well")
    with pytest.raises(ValueError, match="study: has no 'used'"):
        plot.order(study.drop_vars("used"))


def test_region_has_the_boundary_of_its_level():
    x, y = np.linspace(-3.0, 1.0, 201), np.linspace(-2.0, 2.0, 201)
    level = np.abs(1.0 + x + 1j * y[:, None])
    ax = plot.region(x, y, level, label="Euler")
    boundary = next(c for c in ax.collections if c.get_linewidth()[0] == 1.5).get_paths()[0].vertices
    np.testing.assert_allclose(np.hypot(boundary[:, 0] + 1.0, boundary[:, 1]), 1.0, atol=1e-3)
    assert legend(ax) == ["Euler"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Re hλ", "Im hλ")
    assert (ax.get_xlim(), ax.get_ylim()) == ((-3.0, 1.0), (-2.0, 2.0))
    ax = plot.region(x, y, level <= 1.0)
    boundary = next(c for c in ax.collections if c.get_linewidth()[0] == 1.5).get_paths()[0].vertices
    np.testing.assert_allclose(np.hypot(boundary[:, 0] + 1.0, boundary[:, 1]), 1.0, atol=0.02)
    level[0] = np.nan
    level[1] = np.inf
    plot.region(x, y, level)
    plot.region(x, y, np.ones((201, 201), bool))
    plot.region(x, y, np.zeros((201, 201), bool))
    with pytest.raises(ValueError, match=r"inside: expected shape \(len\(y\), len\(x\)\) = \(201, 100\)"):
        plot.region(x[:100], y, level)


def test_spy_shows_the_entries():
    matrix = scipy.sparse.diags_array([np.ones(4), np.ones(5)], offsets=[1, 0]).tolil()
    matrix[3, 0] = 2.0
    for given in (matrix, matrix.toarray()):
        ax = plot.spy(given)
        columns, rows = ax.lines[0].get_data()
        assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == set(
            zip(*np.nonzero(matrix.toarray()), strict=True)
        )
        assert ax.get_xlabel() == "10 of 5 x 5 entries"
        assert ax.yaxis_inverted()


def test_histogram_of_an_expansion_has_edges_of_its_own(run):
    edges = np.linspace(-2.0, 4.0, len(run["bin"]) + 1) * np.ones((2, 2, 1))
    surrogate = run.drop_vars(["bin_left", "bin_right"]).assign(
        density_edge=(("time_density", "component", "edge"), edges), coefficient=0.0
    )
    assert plot.histogram(surrogate, "q").patches[0].get_data().edges.tolist() == edges[0, 0].tolist()
    with pytest.raises(ValueError, match=r"collect=\[statistics.Surrogate\(density=40\)\]"):
        plot.histogram(surrogate.drop_vars("density"), "q")


def test_errors_say_what_there_is_and_what_to_collect(run):
    with pytest.raises(ValueError, match="component: unknown component 'v'; the components are q, p"):
        plot.band(run, "v")
    with pytest.raises(ValueError, match="component: choose one of q, p"):
        plot.band(run)
    with pytest.raises(ValueError, match=r"run: has no 'variance' .* collect=\[statistics.Moments\(\)\]"):
        plot.band(run.drop_vars("variance"), "q")
    with pytest.raises(ValueError, match=r"has no 'density' .* collect=\[statistics.Histogram\(edges\)\]"):
        plot.histogram(run.drop_vars("density"), "q")
    with pytest.raises(ValueError, match=r"has no 'spectrum' .* collect=\[statistics.Spectrum\(\)\]"):
        plot.spectrum(run.drop_vars("spectrum"), "q")
    with pytest.raises(ValueError, match=r"has no 'work' .*statistics.Observable\(function, name='work'\)"):
        plot.observable(run, "work")


def test_the_only_component_needs_no_name_and_units_may_be_missing(run):
    one = run.isel(component=[0])
    one.attrs.clear()
    ax = plot.band(one)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time", "q")
    one["mean"].attrs["units"] = '{"q": "V"}'
    assert plot.band(one).get_ylabel() == "q [V]"


def test_paths_may_be_counted_by_a_dimension_called_path(run):
    """xarray makes a coordinate of a variable that shares its name with a dimension."""
    same = run.drop_vars("path").assign_coords(path=(("path", "time_path", "component"), run["path"].values))
    drawn = [line.get_ydata() for line in plot.paths(same, "p").lines]
    np.testing.assert_array_equal(drawn, run["path"].sel(component="p"))
    assert "paths" in legend(plot.band(same, "q"))
    assert len(plot.phase(same, "q", "p").lines) == 4 + 2


def test_paths_have_colours_of_their_own_as_long_as_there_are_enough(run):
    few = plot.paths(run, "q").lines
    assert [path.get_color() for path in few] == list(plot.PALETTE[:4])
    many = xarray.concat([run[["path"]]] * 3, "number").assign_attrs(run.attrs)
    assert {path.get_color() for path in plot.paths(many, "q").lines} == {plot.GREY}


def test_a_cycle_is_drawn_with_twice_its_deviation():
    phase = np.linspace(0.0, 1.0, 5)
    x, deviation = np.cos(phase)[:, None], 0.1 + 0.2 * phase[:, None]
    result = xarray.Dataset(
        {"x": (("phase", "component"), x), "deviation": (("phase", "component"), deviation)},
        coords={"phase": phase, "component": ["u"]},
    )
    _, low, high = shaded(plot.cyclostationary(result, "u"), "±2σ")
    np.testing.assert_allclose(high - low, 4.0 * deviation[:, 0], rtol=1e-12)


def test_shares_of_a_variance_have_its_unit_and_its_factor_beside_the_legend():
    units = {"units": json.dumps({"out": "V"})}
    parts = {name: (("time", "component"), 1e-6 * np.ones((3, 1)), units) for name in
             ("variance_parameters", "variance_noise")}  # fmt: skip
    ax = plot.shares(
        xarray.Dataset(parts, {"time": ("time", [0.0, 1.0, 2.0], {"units": "s"}), "component": ["out"]}), "out"
    )
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time [s]", "variance of out [V²]")
    ax.figure.canvas.draw()
    factor, words = ax.yaxis.get_offset_text(), ax.get_legend()
    assert factor.get_text() and not factor.get_window_extent().overlaps(words.get_window_extent())


def test_nothing_opens_a_window(run, study, monkeypatch, tmp_path):
    def refuse(*arguments, **options):
        raise AssertionError("a picture tried to show itself")

    monkeypatch.setattr(plt, "show", refuse)
    pictures = {
        "band": plot.band(run, "q"),
        "paths": plot.paths(run, "q"),
        "observable": plot.observable(run, "energy", exact=lambda t: 1.9 * np.exp(-0.2 * t)),
        "histogram": plot.histogram(run, "q", exact=lambda x: np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)),
        "phase": plot.phase(run, "q", "p"),
        "spectrum": plot.spectrum(run, "q", exact=lambda f: 1.0 / (1.0 + (2 * np.pi * f) ** 2)),
        "order": plot.order(study),
        "region": plot.region(
            np.linspace(-3, 1, 81),
            np.linspace(-2, 2, 81),
            np.abs(1 + np.linspace(-3, 1, 81) + 1j * np.linspace(-2, 2, 81)[:, None]),
        ),
        "spy": plot.spy(np.tri(12) - np.tri(12, k=-3)),
    }
    for name, ax in pictures.items():
        ax.figure.savefig(tmp_path / f"{name}.png", dpi=60)
        assert (tmp_path / f"{name}.png").stat().st_size > 2000


def test_one_time_makes_no_band_and_no_line(run):
    """A line through one point is empty, and a page of pictures showed it so."""
    once = run.isel(time=slice(1))
    with pytest.raises(ValueError, match=r"run: the moments are of one time, .* collect Moments\(every=...\)"):
        plot.band(once, "q")
    with pytest.raises(ValueError, match=r"run: energy is of one time, .* collect Observable\(every=...\)"):
        plot.observable(once, "energy")


RECORD = {"method": "Heun(area=None)", "dt": 0.01, "steps": 800, "t": [0.0, 8.0], "paths": 100_000, "seed": 1}


def test_titles_say_method_step_and_paths_and_legends_hide_nothing(run):
    run.attrs["provenance"] = json.dumps(RECORD)
    ax = plot.band(run, "q")
    assert ax.get_title() == "Heun, dt = 0.01 s, 100,000 paths"
    assert plot.histogram(run, "q").get_title() == "t = 8 s, Heun, dt = 0.01 s, 100,000 paths"
    run.attrs["provenance"] = json.dumps(RECORD | {"method": "StochasticAlpha15(rho=0.0, order=1.5, area=None)"})
    assert plot.band(run, "q").get_title() == "StochasticAlpha15, ρ = 0, dt = 0.01 s, 100,000 paths"
    ax.figure.draw_without_rendering()
    legend, title = ax.get_legend().get_window_extent(), ax.title.get_window_extent()
    assert legend.y0 >= ax.get_window_extent().y1 and title.y0 >= legend.y1


@pytest.fixture
def swept():
    """What sweep makes of two parameters: mean = rate + 10 sigma at the end."""
    rate, sigma = np.array([0.5, 1.0, 2.0]), np.array([0.1, 0.2])
    end = rate[:, None] + 10.0 * sigma
    mean = np.stack([np.zeros_like(end), end], axis=-1)[..., None]
    dims = ("rate", "sigma", "time", "component")
    record = RECORD | {"sweep": {"dimensions": ["rate", "sigma"], "points": {"rate": [1, 2, 3], "sigma": [1, 2]}}}
    return xarray.Dataset(
        {"mean": (dims, mean), "mean_stderr": (dims, np.full_like(mean, 0.05)), "energy": (dims[:3], mean[..., 0])},
        {"rate": rate, "sigma": sigma, "time": [0.0, 8.0], "component": ["x"]},
        {"provenance": json.dumps(record), "units": {"x": "m", "time": "s"}},
    )


def test_a_sweep_over_one_parameter_is_a_line_with_its_error(swept):
    ax = plot.sweep(swept.sel(sigma=0.1), "mean", "x")
    np.testing.assert_allclose(line(ax, "mean").get_ydata(), [1.5, 2.0, 3.0])
    np.testing.assert_array_equal(line(ax, "mean").get_xdata(), [0.5, 1.0, 2.0])
    _, low, high = shaded(ax, "± 2 standard errors")
    np.testing.assert_allclose([low, high], [[1.4, 1.9, 2.9], [1.6, 2.1, 3.1]])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("rate", "mean of x [m]")
    assert ax.get_title() == "t = 8 s, Heun, dt = 0.01 s, 100,000 paths"
    np.testing.assert_allclose(line(plot.sweep(swept.sel(sigma=0.1), time=0.0), "mean").get_ydata(), 0.0)


def test_a_sweep_over_two_parameters_is_a_heat_map(swept):
    ax = plot.sweep(swept)
    (mesh,) = ax.collections
    np.testing.assert_allclose(mesh.get_array(), [[1.5, 2.0, 3.0], [2.5, 3.0, 4.0]])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("rate", "sigma")
    assert "largest standard error 0.05" in ax.get_title()
    assert [other.get_ylabel() for other in ax.figure.axes if other is not ax] == ["mean of x [m]"]


def test_a_number_without_time_is_drawn_over_a_sweep(swept):
    ends = swept.isel(time=1, component=0, drop=True)
    ax = plot.sweep(ends.sel(sigma=0.1))
    np.testing.assert_allclose(line(ax, "mean").get_ydata(), [1.5, 2.0, 3.0])
    assert not ax.get_title().startswith("t =")
    assert plot.sweep(ends).get_title().startswith("largest standard error 0.05")
    with pytest.raises(ValueError, match="time: mean is one number for a whole run; leave time out"):
        plot.sweep(ends, time=8.0)


def test_what_cannot_be_drawn_of_a_sweep(swept, run):
    with pytest.raises(ValueError, match=r"runs: not a sweep; make one with stodyn.sweep"):
        plot.sweep(run)
    with pytest.raises(ValueError, match=r"run: a sweep over rate, sigma; draw it with plot.sweep\(run, 'mean'\)"):
        plot.band(swept, "x")
    with pytest.raises(ValueError, match=r"run: has no 'energy_stderr'"):
        plot.sweep(swept, "energy")
    with pytest.raises(ValueError, match=r"component: unknown component 'y'; the components are x"):
        plot.sweep(swept, "mean", "y")


def test_fragilities_and_profiles_of_peaks():
    """Shares of 100 paths beyond three levels with their intervals; quantiles of two floors from the bottom up."""
    share = np.array([[0.9, 0.5], [0.5, 0.2], [0.1, 0.0]])
    known = {"interval": "binomial", "paths": 100}
    quantile = np.array([[1.0, 0.5], [2.0, 1.5]])
    peaks = xarray.Dataset(
        {
            "peak_passed": (("peak_level", "peak_entry"), share, known),
            "peak_passed_stderr": (("peak_level", "peak_entry"), np.sqrt(share * (1 - share) / 99)),
            "peak_quantile": (("peak_probability", "peak_entry"), quantile),
            "peak_quantile_stderr": (("peak_probability", "peak_entry"), np.full((2, 2), 0.1)),
        },
        coords={"peak_level": [1.0, 2.0, 3.0], "peak_entry": ["x0", "x1"], "peak_probability": [0.5, 0.9]},
    )
    ax = plot.fragility(peaks)
    for line, own in zip(ax.lines, share.T, strict=True):
        np.testing.assert_array_equal(line.get_xydata(), np.stack([[1, 2, 3], own], axis=1))
    assert len([band for band in ax.collections if isinstance(band, PolyCollection)]) == 2
    assert len(plot.fragility(peaks.isel(peak_entry=0)).lines) == 1
    ax = plot.profile(peaks)
    bars = [bar for bar in ax.containers if isinstance(bar, ErrorbarContainer)]
    for bar, own in zip(bars, quantile, strict=True):
        np.testing.assert_array_equal(bar.lines[0].get_xydata(), np.stack([own, [0, 1]], axis=1))
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["x0", "x1"]
    with pytest.raises(ValueError, match="name: 'peak' is of one response"):
        plot.profile(peaks.isel(peak_entry=0))
    with pytest.raises(ValueError, match=r"has no 'peak_passed'.*Extreme\(of, levels=levels\)"):
        plot.fragility(peaks.drop_vars("peak_passed"))


def test_units_of_what_is_drawn():
    """The square of a variance, the unit of the sensor where the state has none, those of levels and of the time."""
    slow = sd.SDE(lambda t, x, p: -p["k"] * x, lambda t, x: 1.0 + 0.0 * x, 0.0, {"k": 1.0}, units={"x": "m/s"})
    runs = sd.sweep(slow, over={"k": [1.0, 2.0]}, t=(0, 1), dt=0.5, paths=4, seed=1)
    labels = [plot.sweep(runs, name).get_ylabel() for name in ("mean", "std", "variance")]
    assert labels == ["mean of x [m/s]", "std of x [m/s]", "variance of x [(m/s)²]"]
    wait = sd.statistics.Passage(1.0, name="wait", mean=False)
    runs = sd.sweep(slow.changed(units={"time": "s"}), over={"k": [1.0, 2.0]}, t=(0, 1), dt=0.5, paths=4, seed=1,
                    collect=[wait, sd.statistics.Observable(lambda t, x: x[0], name="flow", units="l/s")])  # fmt: skip
    labels = [plot.sweep(runs, name).get_ylabel() for name in ("wait_survival", "wait_restricted_mean", "flow")]
    assert labels == [
        "probability of not having reached the level", "mean time to the level, counted up to t [s]", "flow [l/s]",
    ]  # fmt: skip
    peaks = sd.simulate(slow, t=(0, 1), dt=0.5, paths=4, seed=1, collect=sd.statistics.Extreme("x", levels=[0.5, 1.0]))
    assert plot.fragility(peaks).get_xlabel() == "level of peak [m/s]"
    plain = sd.SDE(lambda t, x: -x, lambda t, x: 1.0 + 0.0 * x, 0.0, units={"time": "s"})
    sensor = sd.Sensor("y", of="x", noise=sd.per_sample(0.1), unit="V")
    data = {"data": (np.arange(1.0, 10.0), np.cos(np.arange(9.0))), "sensors": sensor}
    now = sd.filtered(plain, **data)
    ax = plot.filtered(now)
    assert ax.get_ylabel() == "x [V]" and ax.figure.axes[1].get_xlabel() == "time [s]"
    assert line(ax, "mean").get_marker() == "o"
    long = sd.filtered(plain, **data, at=np.linspace(1.0, 9.0, 81))
    assert line(plot.filtered(long), "mean").get_marker() == "None"
    noisy = sd.SDE(lambda t, x: -x, lambda t, x, p: p["s"], 0.0, {"s": 1.0})
    fit = sd.fit(noisy, **data, free={"s": (0, None)})
    assert plot.predictive(fit).get_ylabel() == "y [V]"


def test_responses_without_names_are_called_responses():
    peaks = xarray.Dataset(
        {
            "peak_passed": (("peak_level", "peak_entry"), [[0.9, 0.5]], {"interval": "binomial", "paths": 100}),
            "peak_passed_stderr": (("peak_level", "peak_entry"), [[0.03, 0.05]]),
            "peak_quantile": (("peak_probability", "peak_entry"), [[1.0, 0.5]]),
            "peak_quantile_stderr": (("peak_probability", "peak_entry"), [[0.1, 0.1]]),
        },
        coords={"peak_level": [1.0], "peak_probability": [0.5]},
    )
    assert legend(plot.fragility(peaks)) == ["response 0", "response 1"]
    named = plot.profile(peaks).get_yticklabels()
    assert [tick.get_text() for tick in named] == ["response 0", "response 1"]


def test_a_fragility_over_a_parameter_has_its_points_their_intervals_and_its_curve():
    """Points of Φ(ln(v/2)/0.5), which is a half at v = 2."""
    value, share = np.array([1.0, 2.0, 4.0]), np.array([0.083, 0.5, 0.917])
    curve = xarray.Dataset(
        {
            "probability": ("pga", share),
            "probability_low": ("pga", share - 0.02),
            "probability_high": ("pga", share + 0.03),
            "median": 2.0,
            "dispersion": 0.5,
        },
        coords={"pga": ("pga", value, {"units": "g"})},
        attrs={"provenance": json.dumps({"swept": "pga"})},
    )
    ax = plot.fragility(curve)
    (bars,) = ax.containers
    np.testing.assert_array_equal(bars.lines[0].get_xydata(), np.stack([value, share], axis=1))
    (ends,) = (lines.get_segments() for lines in bars.lines[2])
    np.testing.assert_allclose(np.array(ends)[:, :, 1], np.stack([share - 0.02, share + 0.03], axis=1))
    drawn = line(ax, "lognormal, median 2, dispersion 0.5")
    np.testing.assert_allclose(np.interp([2.0, 4.0], *drawn.get_data()), [0.5, norm.cdf(2.0 * np.log(2.0))], atol=1e-4)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("pga [g]", "probability of the event")
    assert legend(plot.fragility(curve.drop_vars(["median", "dispersion"]))) == ["estimated, 95 %"]
    words = plot.fragility(curve.drop_vars(["median", "dispersion"]).assign_coords(pga=["low", "middle", "high"]))
    assert [tick.get_text() for tick in words.get_xticklabels()] == ["low", "middle", "high"]


def test_pictures_of_records_and_fits():
    walk = sd.SDE(lambda t, x: 0.0 * x, lambda t, x, p: p["s"], 0.0, params={"s": 1.0})
    values = np.cumsum([0.3, -1.2, 0.7, 2.0, -0.4, 0.1, 1.1, -0.9, 0.5, 0.2])
    options = {"data": (np.arange(1.0, 11.0), values), "sensors": sd.Sensor("y", of="x", noise=sd.per_sample(0.1))}
    now = sd.filtered(walk, **options)
    upper = plot.filtered(now)
    lower = upper.figure.axes[1]
    np.testing.assert_allclose(_line(upper, "y"), [now.reading_time, values])
    np.testing.assert_allclose(_line(lower, "y")[1], now.innovation / now.innovation_sd)
    assert upper.get_title() == "kalman, law of a step: exact, 10 readings"
    with pytest.raises(ValueError, match=r"stodyn\.filtered"):
        plot.filtered(now[["mean"]])
    result = sd.fit(walk, free={"s": (0, None)}, **options)
    picture = plot.profile(result, "s")
    assert picture.get_title() == plot.predictive(result).get_title() == upper.get_title()
    x, drop = _line(picture, "s")
    assert drop.max() == 0.0 and x[np.argmax(drop)] == result.estimate[0]
    scaled = _line(plot.profile(result), "s")[0]
    np.testing.assert_allclose(scaled, (x - float(result.estimate[0])) / float(result.stderr[0]))
    with pytest.raises(ValueError, match="name: there is no parameter 'r'; there are s"):
        plot.profile(result, "r")
    np.testing.assert_allclose(_line(plot.predictive(result), "record")[1], values)
    with pytest.raises(ValueError, match="output: expected one of y, got 'z'"):
        plot.predictive(result, "z")


def _line(ax, label):
    """The points of the line with a label."""
    return next(np.array(line.get_data()) for line in ax.get_lines() if line.get_label() == label)


def _curves(**variables):
    """A run of one component with variables over time."""
    t = np.array([0.0, 1.0, 2.0])
    return xarray.Dataset(
        {name: (dims, np.asarray(values, float), attrs) for name, (dims, values, attrs) in variables.items()},
        {"time": t, "lag": t, "component": ["q"], "parameter": ["R", "C"], "wait_middle": [0.5, 1.5]},
        {"provenance": json.dumps(RECORD), "units": json.dumps({"q": "m", "time": "s"})},
    )


def test_survival_and_hazard_have_their_intervals():
    known = {"interval": "binomial", "paths": 100}
    run = _curves(
        wait_survival=(("time",), [1.0, 0.6, 0.2], known), wait_survival_stderr=(("time",), [0.0, 0.05, 0.04], {}),
        wait_hazard=(("wait_middle",), [0.5, 1.1], {"interval": "Student", "paths": 100}),
        wait_hazard_stderr=(("wait_middle",), [0.05, 0.2], {}),
    )  # fmt: skip
    ax = plot.survival(run, "wait", exact=lambda t: np.exp(-t))
    np.testing.assert_array_equal(_line(ax, "paths"), [[0.0, 1.0, 2.0], [1.0, 0.6, 0.2]])
    _, low, high = shaded(ax, "95 %")
    limits = sd.interval(run, "wait_survival")
    np.testing.assert_allclose([low, high], [limits["low"], limits["high"]])
    assert ax.get_title() == "Heun, dt = 0.01 s, 100,000 paths" and ax.get_ylim()[1] == 1.0
    assert plot.hazard(run, "wait").get_ylabel() == "hazard [1/s]"
    with pytest.raises(ValueError, match=r"has no 'passage_survival'.*Passage\(level\)"):
        plot.survival(run)
    for draw, one in ((plot.survival, run.isel(time=[0])), (plot.hazard, run.isel(wait_middle=[0]))):
        with pytest.raises(ValueError, match=r"run: wait_\w+ is of one time, .* collect Passage\(every=...\)"):
            draw(one, "wait")


def test_autocorrelations_and_indices_over_time():
    run = _curves(
        autocorrelation=(("lag", "component"), [[1.0], [0.5], [0.1]], {}),
        autocorrelation_stderr=(("lag", "component"), [[0.0], [0.05], [0.1]], {}),
        sobol_first=(("time", "component", "parameter"), [[[np.nan, np.nan]], [[0.3, 0.6]], [[0.5, 0.4]]], {}),
    )
    ax = plot.autocorrelation(run, exact=lambda lag: np.exp(-lag))
    np.testing.assert_allclose(shaded(ax, "± 2 standard errors")[1], [1.0, 0.4, -0.1])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("lag [s]", "autocorrelation of q")
    ax = plot.indices(run)
    tops = {str(bars.get_label()): [bar.get_y() + bar.get_height() for bar in bars] for bars in ax.containers}
    np.testing.assert_allclose([tops["R"], tops["C"]], [[0.0, 0.3, 0.5], [0.0, 0.9, 0.9]])
    with pytest.raises(ValueError, match="run: the indices are of one time"):
        plot.indices(run.isel(time=[1]))


def test_a_free_energy_has_the_errors_of_its_bins(run):
    """kT ln(p_max/p) ± 2 kT stderr/p, and nothing where no path is."""
    p = run["density"].isel(time_density=-1).sel(component="q").values
    ax = plot.free_energy(run, "q", kT=2.0, exact=lambda x: x**2)
    (bars,) = (c for c in ax.containers if isinstance(c, ErrorbarContainer))
    x, y = bars.lines[0].get_data()
    np.testing.assert_array_equal(x, run["bin"].values[p > 0])
    np.testing.assert_allclose(y, 2.0 * np.log(p.max() / p[p > 0]))
    ends = np.array([segment[:, 1] for segment in bars.lines[2][0].get_segments()])
    stderr = run["density_stderr"].isel(time_density=-1).sel(component="q").values[p > 0]
    np.testing.assert_allclose(ends[:, 1] - ends[:, 0], 8.0 * stderr / p[p > 0])
    assert _line(ax, "exact")[1].min() == 0.0


def test_an_observable_shows_its_spread(run):
    run = run.assign(energy_std=(run["energy"].dims, np.full(run["energy"].shape, 0.5)))
    ax = plot.observable(run, "energy", spread=True)
    _, low, high = shaded(ax, "paths ± 2σ")
    np.testing.assert_allclose(high - low, 2.0)
