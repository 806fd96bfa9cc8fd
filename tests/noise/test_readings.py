"""Noise of readings: what the words mean at a rate, units, and sensors from data sheets."""

import functools
import math

import numpy as np
import pytest

import stodyn as sd
from stodyn.noise import coloured, readings, units


@pytest.mark.parametrize(
    ("noise", "size"),
    [
        (sd.per_sample(0.02), 0.02),
        (sd.density(0.002, sides=2), 0.02),
        (sd.density(0.002, sides=1), 0.02 / math.sqrt(2)),
        (sd.per_sample("s"), 0.5),
        (sd.density(lambda params: params["s"], sides=2), 5.0),
    ],
)
def test_standard_deviations_at_a_hundred_readings_per_second(noise, size):
    assert readings.recursion(noise, 0.01).white({"s": 0.5}) == pytest.approx(size)


def covariance(noise, every, steps):
    """Those of y_0 and y_steps, from the recursion."""
    made = readings.recursion(noise, every)
    P = made.start @ made.start.T
    return float((made.C @ P @ made.C.T)[0, 0]), float(
        (made.C @ np.linalg.matrix_power(made.Phi, steps) @ P @ made.C.T)[0, 0]
    )


def test_filters_are_exact_at_the_readings():
    noise = coloured.gauss_markov2(2.0, 3.0, 0.1)
    assert covariance(noise, 0.3, 4) == pytest.approx((4.0, float(noise.autocovariance(1.2)[0, 0])), rel=1e-9)


def test_a_bandwidth_is_one_pole():
    variance, after = covariance(sd.density(0.1, sides=2, bandwidth=5.0), 0.02, 1)
    assert variance == pytest.approx(0.01 * math.pi * 5.0)
    assert after == pytest.approx(variance * math.exp(-2 * math.pi * 5.0 * 0.02))


def test_a_recursion_keeps_its_law():
    made = readings.recursion(sd.noise.gyro(bias_instability=1.0, band=(1e-3, 10.0), every=0.1), 0.1)
    P = made.start @ made.start.T
    assert made.Phi @ P @ made.Phi.T + made.drive @ made.drive.T == pytest.approx(P, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(
    ("text", "like", "number"),
    [
        ("1 deg/sqrt(h)", "rad/sqrt(s)", 2.908882086657216e-4),
        ("1 deg/h", "rad/s", 4.848136811095360e-6),
        ("1 ug/sqrt(Hz)", "m/s/sqrt(s)", 9.80665e-6),
        ("0.008 deg/s/sqrt(Hz)", "rad/sqrt(s)", 0.008 * math.pi / 180),
        ("2 °/√h", "rad/sqrt(s)", 2 * 2.908882086657216e-4),
        ("-3e2 mm/s^2", "m/s^2", -0.3),
    ],
)
def test_units_are_words(text, like, number):
    assert units.number("x", text, like) == pytest.approx(number, rel=1e-14)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 deg/h", "is not a unit of this"),
        ("1", "a number with a unit"),
        ("1 dg/s", "no unit 'dg'"),
        ("1 deg s", "expected / or"),
    ],
)
def test_wrong_units_are_refused(text, words):
    with pytest.raises(ValueError, match=words):
        units.number("arw", text, "rad/sqrt(s)")


def test_a_data_sheet_says_the_same_twice():
    """An angle random walk of 0.34 °/√h and a one-sided density of 0.008 °/s/√Hz are one number, to its two digits."""
    walk = sd.noise.gyro(arw="0.34 deg/sqrt(h)").N
    assert pytest.approx(walk, rel=0.01) == sd.noise.gyro(arw=sd.density("0.008 deg/s/sqrt(Hz)", sides=1)).N


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda text: sd.noise.gyro(arw=text), "arw"),
        (lambda text: sd.noise.gyro.from_px4(text, 0.0, 1.0), "arw"),
        (lambda text: sd.noise.gyro.from_airsim(text, 0.0, 1.0), "arw"),
        (lambda text: sd.density(text), "sides"),
    ],
)
@pytest.mark.parametrize("text", ["0.008 deg/s/sqrt(Hz)", "0.008 °/s/√Hz", "8 mdeg / s / sqrt( Hz )"])
def test_densities_are_refused_until_their_sides_are_given(call, argument, text):
    """With both readings in numbers: 0.008 π/180/√2 and 0.008 π/180."""
    with pytest.raises(ValueError, match=rf"{argument}: .*sides=1, .* 9\.873e-05 .*sides=2, 0\.0001396"):
        call(text)


def test_densities_with_units_are_those_of_their_numbers():
    """Of a gyro, in a sensor by itself and behind a bandwidth; of a walk of the bias, as kalibr writes it."""
    root = 0.008 * math.pi / 180
    for sides in (1, 2):
        words, number = (sd.density(size, sides=sides) for size in ("0.008 deg/s/sqrt(Hz)", root))
        assert pytest.approx(root / (2 / sides) ** 0.5, rel=1e-14) == sd.noise.gyro(arw=words).N
        seen = [readings.recursion(noise, 0.01).white(None) for noise in (words, number)]
        assert seen[0] == pytest.approx(seen[1], rel=1e-14)
    behind = sd.density("0.008 deg/s/sqrt(Hz)", sides=2, bandwidth=5.0)
    assert covariance(behind, 0.02, 1)[0] == pytest.approx(root**2 * math.pi * 5.0)
    assert sd.noise.gyro(rate_random_walk=sd.density("2e-5 rad/s^2/sqrt(Hz)", sides=2)).K == 2e-5
    with pytest.raises(ValueError, match=r"rate_random_walk: .*sides=2, 2e-05"):
        sd.noise.gyro(rate_random_walk="2e-5 rad/s^2/sqrt(Hz)")
    with pytest.raises(ValueError, match="root: '8 deg/h' is no root of a density"):
        sd.density("8 deg/h", sides=1)
    with pytest.raises(ValueError, match=r"sides: .* roots differ by √2"):
        sd.density("r")
    with pytest.raises(ValueError, match=r"size: '0.1 rad/s/sqrt\(Hz\)' is the root of a density"):
        sd.per_sample("0.1 rad/s/sqrt(Hz)")


@pytest.mark.parametrize(
    "noise",
    [
        sd.per_sample("0.1 deg/s"),
        sd.density("0.1 dps/sqrt(Hz)", sides=1),
        sd.density("0.1 deg/sqrt(h)", sides=2, bandwidth=5.0),
        sd.noise.gyro(arw="0.1 deg/sqrt(h)"),
    ],
)
def test_noise_in_words_is_refused_where_readings_are_in_another_unit(noise):
    """They became rad/s: 57 times too little where a plant is in degrees, by its own word or by that of the sensor."""
    for unit in ("deg/s", "m/s", "V"):
        with pytest.raises(ValueError, match=rf"noise \(y\): .* but the readings are in {unit}"):
            sd.Sensor("y", of="x", every=0.1, noise=noise, unit=unit)
        plant = sd.SDE(lambda t, x: -x, lambda t, x: sd.diagonal([1.0]), [0.0], names=("x",), units={"x": unit})
        with pytest.raises(ValueError, match=rf"noise \(y\): .* but the readings are in {unit}"):
            sd.with_loop(plant, sd.Sensor("y", of="x", every=0.1, noise=noise))
        with pytest.raises(ValueError, match=rf"noise \(y\): .* but the readings are in {unit}"):
            sd.filtered(plant, data=sd.Record({"y": ([0.1, 0.2], [0.0, 0.1])}, sd.Sensor("y", of="x", noise=noise)))
        read = sd.statistics.Sensed(sd.Sensor("y", of="x", every=0.1, noise=noise))
        with pytest.raises(ValueError, match=rf"noise \(y\): .* but the readings are in {unit}"):
            sd.simulate(plant, t=(0.0, 0.2), dt=0.1, paths=2, seed=1, collect=read)
    assert sd.Sensor("y", of="x", every=0.1, noise=noise, unit="rad/s").unit == "rad/s"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (sd.noise.gyro, r"arw=stodyn\.density\(\.\.\., sides=1\)"),
        (sd.noise.accelerometer, r"vrw=stodyn\.density\(\.\.\., sides=1\)"),
        (sd.noise.imu, r"gyro\(arw=\.\.\.\) and accelerometer\(vrw=\.\.\.\)"),
        (sd.Sensor, r"noise=stodyn\.density\(\.\.\., sides=1 or 2\)"),
    ],
)
def test_a_noise_density_by_that_name_points_to_the_right_word(make, words):
    with pytest.raises(TypeError, match=words):
        make(noise_density=1e-3)


def test_readings_are_drawn_in_chunks_as_one_after_the_other(monkeypatch):
    """Two sensors with a walk and correlated states, beside the recursion itself with the same normals."""
    sensor = sd.noise.gyro(
        arw=0.1, gauss_markov=[(0.2, 0.5), (0.3, 0.05)], rate_random_walk=0.4, turn_on=0.5, every=0.1
    )
    law, rng = sensor.recursion(0.1, 1), np.random.default_rng(3)
    monkeypatch.setattr(readings, "CHUNK", 30)
    drawn = law.draws(np.random.default_rng(3), 2, 23)
    s, expected = rng.standard_normal((2, 3)) @ law.start.T, np.empty((2, 23, 1))
    for k in range(23):
        expected[:, k], s = s @ law.C.T, s @ law.Phi.T + rng.standard_normal((2, 3)) @ law.drive.T
    assert drawn == pytest.approx(expected + law.white(None) * rng.standard_normal((2, 23, 1)), rel=1e-12, abs=1e-14)


def test_samples_have_the_noise_of_the_sensor():
    """Variances of 400 sensors after 1 and 50 readings, within five standard errors (false alarms 1e-6)."""
    sensor = sd.noise.gyro(arw=0.1, rate_random_walk=0.5, turn_on=0.3, gauss_markov=(0.4, 2.0), every=0.01)
    drawn = sensor.sample(50, paths=400, seed=1)[..., 0]
    for k in (0, 49):
        exact = 0.1**2 / 0.01 + 0.5**2 * k * 0.01 + 0.3**2 + 0.4**2
        assert abs(np.mean(drawn[:, k] ** 2) / exact - 1.0) < 5 * math.sqrt(2 / 400)


def test_readings_are_scaled_turned_rounded_and_limited():
    sensor = sd.noise.gyro(scale_factor=(0.01, 0, 0), misalignment=(0, 0, 0.1), resolution=0.5, range=2.0, every=1.0)
    drawn = sensor.sample(1, seed=1, truth=[1.0, 1.2, 9.0])
    assert drawn.tolist() == [[[1.0, 1.5, 2.0]]]


def test_other_tools_get_the_same_sensor():
    gyro = sd.noise.gyro(arw=1e-3, gauss_markov=(0.02, 50.0), turn_on=0.1, every=0.004)
    assert "gyroscope_noise_density: 0.001" in gyro.as_kalibr()
    assert f"<stddev>{1e-3 * math.sqrt(250):.10g}</stddev>" in gyro.as_gazebo(250.0)
    walk = 0.02 * math.sqrt(2 / 50)
    again = sd.noise.gyro.from_gazebo(
        1e-3 * math.sqrt(250), 250.0, dynamic_bias_stddev=walk, dynamic_bias_correlation_time=50.0
    )
    assert (again.N, again.every, *again.gauss_markov[0]) == pytest.approx((1e-3, 0.004, 0.02, 50.0))
    assert sd.noise.accelerometer.from_px4(2e-3, walk, 50.0).gauss_markov[0] == pytest.approx((0.02, 50.0))
    assert (
        pytest.approx(4.6 * math.pi / 648000 / math.sqrt(500))
        == sd.noise.gyro.from_airsim("0.3 deg/sqrt(h)", "4.6 deg/h", 500.0).K
    )
    settings = sd.noise.gyro.from_airsim(0.3, 4.6, 500.0), sd.noise.accelerometer.from_airsim(0.24, 36.0, 800.0)
    assert pytest.approx(math.radians(0.3) / 60) == settings[0].N
    assert settings[0].as_airsim().splitlines()[0] == '"AngularRandomWalk": 0.3,'
    assert settings[1].as_airsim().splitlines()[0] == '"VelocityRandomWalk": 0.24,'
    assert pytest.approx(36e-6 * 9.80665 / math.sqrt(800)) == settings[1].K
    assert "<dynamic_bias_stddev>2e-05<" in sd.noise.gyro(rate_random_walk=2e-5).as_gazebo(250.0)
    walks = sd.noise.gyro(arw="0.3 deg/sqrt(h)", rate_random_walk=4.6 * math.pi / 648000 / math.sqrt(500))
    assert walks.as_airsim().splitlines()[0] == '"AngularRandomWalk": 0.3,'
    assert f'"GyroBiasStability": {4.6 / math.sqrt(500):.10g},' in walks.as_airsim()
    assert (
        '"VelocityRandomWalk": 0.24,' in sd.noise.accelerometer(vrw=sd.density("0.24 mg/sqrt(Hz)", sides=2)).as_airsim()
    )
    lines = "gyroscope_noise_density: 1e-4  # two-sided\naccelerometer_noise_density: 2e-3\nupdate_rate: 200"
    assert (sd.noise.gyro.from_kalibr(lines).N, sd.noise.accelerometer.from_kalibr(lines).every) == (1e-4, 0.005)
    assert sd.noise.gyro.from_kalibr(lines.splitlines()[0]).N == 1e-4
    with pytest.raises(ValueError, match=r"there is no gyroscope_noise_density in it; .*imu\.yaml"):
        sd.noise.gyro.from_kalibr("imu.yaml")
    with pytest.raises(ValueError, match="expected a number as gyroscope_noise_density, got 'low'"):
        sd.noise.gyro.from_kalibr("gyroscope_noise_density: low")


def test_a_whole_imu_goes_to_kalibr_and_comes_back(tmp_path):
    every = dict(every=0.005)
    both = sd.noise.imu(
        sd.noise.gyro(arw=1e-4, rate_random_walk=2e-5, **every), sd.noise.accelerometer(vrw=2e-3, **every)
    )
    file = tmp_path / "imu.yaml"
    file.write_text(both.as_kalibr())
    gyro, accelerometer = sd.noise.gyro.from_kalibr(file), sd.noise.accelerometer.from_kalibr(file)
    assert (gyro.N, gyro.K, gyro.every, accelerometer.N) == pytest.approx((1e-4, 2e-5, 0.005, 2e-3), rel=1e-9)


def test_a_tool_with_one_bias_is_not_given_one_of_two():
    """The random walk was left out without a word."""
    sensor = sd.noise.gyro(arw=1e-3, rate_random_walk=1e-5, gauss_markov=(0.02, 50.0))
    for lines in (sensor.as_px4, functools.partial(sensor.as_gazebo, 100.0)):
        with pytest.raises(ValueError, match="this tool has one bias that moves, the sensor has 2"):
            lines()


def test_six_channels():
    both = sd.noise.imu(sd.noise.gyro(arw=1e-3), sd.noise.accelerometer(vrw=0.1))
    made = both.recursion(0.01, 6)
    assert made.white(None) == pytest.approx([1e-2] * 3 + [1.0] * 3)
    assert both.sample(5, every=0.01, paths=2, seed=3).shape == (2, 5, 6)


def test_a_sensor_of_a_loop_reads_as_its_data_sheet_says():
    sheet = sd.noise.gyro(scale_factor=(0.01, 0, 0), misalignment=(0, 0, 0.1), resolution=0.5, range=2.0, every=0.1)
    turns = sd.SDE(lambda t, x: 0 * x, None, start=[1.0, 1.2, 9.0], names=("p", "q", "r"))
    sensor = sd.Sensor("rates", of=("p", "q", "r"), noise=sheet)
    read = sensor.shown(sensor.value(turns, 0.0, np.array([1.0, 1.2, 9.0]), None))
    assert read.tolist() == sheet.sample(1, seed=1, truth=[1.0, 1.2, 9.0])[0, 0].tolist() and sensor.every == 0.1
    assert sd.Sensor("rate", of="p", every=0.2, resolution=0.1, noise=sheet).resolution == 0.1
    with pytest.raises(ValueError, match=r"of \(rate\): its noise has 3 axes, got 1 readings"):
        sd.with_loop(turns, sd.Sensor("rate", of="p", noise=sheet))
    six = sd.noise.imu(sheet, sd.noise.accelerometer(scale_factor=0.1))
    assert np.diagonal(six.response).tolist() == [1.01, 1.0, 1.0, 1.1, 1.1, 1.1]
    with pytest.raises(ValueError, match="give the gyro and the accelerometer a Sensor each"):
        six.recursion(0.1, 6)


@pytest.mark.parametrize("noise", [0.1, np.float64(0.1), "gyro"])
def test_a_bare_number_is_no_noise(noise):
    with pytest.raises(TypeError, match="noise: "):
        readings.recursion(noise, 0.01)
    with pytest.raises(ValueError, match="sides: expected 1"):
        sd.density(0.1, sides=0)
    with pytest.raises(ValueError, match="size: expected a number >= 0"):
        sd.per_sample(-1.0)
