"""What sensors read of paths: against the paths themselves, and their noise against its law."""

import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import noise
from stodyn import statistics as st
from stodyn.noise.coloured import gauss_markov

RUN = {"t": (0.0, 3.0), "dt": 0.05, "seed": 2}
STILL = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 0.0 * x, 0.0, params={"r": 0.2})


def oscillator():
    def drift(t, x, p):
        return jnp.array([x[1], -(p["w"] ** 2) * x[0] - 0.4 * x[1]])

    return sd.SDE(
        drift, lambda t, x: jnp.array([[0.0], [0.7]]), np.zeros(2), params={"w": 2.0, "r": 0.2}, names=["x", "v"]
    )


def test_points_averages_and_increments_are_those_of_the_paths():
    sensors = [
        sd.Sensor("point", of="x", every=0.1, phase=0.05, unit="m"),
        sd.Sensor("mean", of=["x", "v"], every=0.5, average=0.3),
        sd.Sensor("rise", of="v", every=0.25, increment=True),
        sd.Sensor("rounded", of="x", every=0.5, resolution=0.01),
    ]
    collect = [st.Paths(3, every=1), st.Sensed(sensors, count=3)]
    run = sd.simulate(oscillator(), "Heun", paths=3, collect=collect, **RUN)
    path, times = run.path.values, run.time.values
    record = sd.Record(run.sel(number=1), sensors)
    point, mean, rise, rounded = record.series
    np.testing.assert_allclose(point.times, np.arange(0.05, 3.0, 0.1))
    np.testing.assert_array_equal(point.values[:, 0], path[1, 1::2, 0])
    areas = np.concatenate([np.zeros((1, 2)), np.cumsum(0.025 * (path[1, 1:] + path[1, :-1]), axis=0)])
    ends = np.round(mean.times / 0.05).astype(int)
    np.testing.assert_allclose(mean.times, np.arange(0.5, 3.1, 0.5))
    np.testing.assert_allclose(mean.values, (areas[ends] - areas[ends - 6]) / 0.3, atol=1e-14)
    ends = np.round(rise.times / 0.05).astype(int)
    np.testing.assert_allclose(rise.values[:, 0], areas[ends, 1] - areas[ends - 5, 1], atol=1e-14)
    np.testing.assert_allclose(rounded.values[:, 0], np.round(path[1, ::10, 0], 2), atol=1e-14)
    assert run.point.attrs["units"] == "m" and len(times) == 61


def test_noise_has_its_law_and_belongs_to_the_path():
    drift = gauss_markov(0.3, 2.0)
    sensors = [
        sd.Sensor("white", of="x", noise=sd.per_sample("r")),
        sd.Sensor("walk", of="x", increment=True, noise=sd.density(0.5, sides=2)),
        sd.Sensor("biased", of="x", bias=drift),
        sd.Sensor("lost", of="x", noise=noise.Uniform(-1.0, 1.0), loss=0.25),
    ]
    at = np.arange(1, 4001) * 0.5
    steps = {"t": (0.0, 2000.0), "dt": 0.5, "seed": 1}

    def run(**how):
        return sd.simulate(STILL, "EulerMaruyama", collect=st.Sensed(sensors, count=2, at=at, seed=7), **steps, **how)

    both = run(paths=2)
    np.testing.assert_array_equal(both.biased, run(paths=5, block=1).biased)
    white, walk, biased, lost = (both[own.name].values[1, 1:] for own in sensors)  # the first is the start
    rough = 5 * np.sqrt(2 / 4000)
    np.testing.assert_allclose([white.var() / 0.04, walk.var() / 0.125], 1.0, atol=rough)
    kept = np.exp(-0.25)  # from reading to reading
    np.testing.assert_allclose((biased[1:] - kept * biased[:-1]).var() / (0.09 * (1 - kept**2)), 1.0, atol=rough)
    assert abs(np.isnan(lost).mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 4000)
    assert np.nanmax(np.abs(lost)) <= 1.0 and abs(np.corrcoef(*both.white.values[:, 1:])[0, 1]) < 5 / np.sqrt(4000)


def test_a_record_of_a_run_has_its_likelihood():
    """Made by Heun's steps and filtered by their law: the normalised innovations of 300 readings."""
    sensor = sd.Sensor("y", of="x", every=0.2, phase=0.2, noise=sd.per_sample("r"))
    run = sd.simulate(oscillator(), "Heun", t=(0.0, 60.0), dt=0.1, paths=1, seed=3, collect=st.Sensed(sensor))
    result = sd.filtered(oscillator(), data=run, sensors=sensor, law="Heun", dt=0.1)
    assert abs(float(result.nis.mean()) - 1.0) < 5 * np.sqrt(2 / 300)


def test_refusals():
    sensor = sd.Sensor("y", of="x")
    with pytest.raises(ValueError, match="'y' has no times: give the sensor every="):
        st.Sensed(sensor)
    with pytest.raises(TypeError, match=r"Sensed: expected sd\.Sensor"):
        st.Sensed("x", every=1)
    with pytest.raises(ValueError, match="cannot be drawn from"):
        st.Sensed(sd.Sensor("y", of="x", log_density=lambda y, t, x, p: 0.0), every=1)
    with pytest.raises(ValueError, match="jitter"):
        st.Sensed(sd.Sensor("y", of="x", jitter=sd.Jitter(steps=1)), every=1)
    with pytest.raises(ValueError, match="not a time of the grid"):
        sd.simulate(STILL, "EulerMaruyama", paths=1, collect=st.Sensed(sd.Sensor("y", of="x", every=0.07)), **RUN)
    late = sd.Sensor("y", of="x", every=9.0, average=True)
    with pytest.raises(ValueError, match="'y' reads nothing in this run"):
        sd.simulate(STILL, "EulerMaruyama", paths=1, collect=st.Sensed(late), **RUN)
