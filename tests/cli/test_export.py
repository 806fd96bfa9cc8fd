"""stodyn export: the model of a run file, or a noise, written for another simulator."""

import runpy

import numpy as np
import pytest
from typer.testing import CliRunner

import stodyn as sd
from stodyn.cli import application

RUN = """
[model]
name = "ornstein_uhlenbeck"
parameters = {rate = 2.0}

[method]
name = "Heun"

[grid]
t = [0, 1]
dt = 0.0625

[run]
paths = 2
seed = 11
"""


NOISE = """
[noise]
name = "coloured.gauss_markov"
parameters = {sigma = 2.0, tau = 0.5}

[export]
dt = 0.125
t0 = 1.0
seed = 11
"""


def called(folder, text, *words):
    (folder / "run.toml").write_text(text)
    return CliRunner().invoke(application(), ["export", str(folder / "run.toml"), *words])


def test_the_model_of_a_run_file_is_written_as_c(tmp_path):
    (tmp_path / "run.toml").write_text(RUN)
    target = tmp_path / "model.c"
    result = CliRunner().invoke(application(), ["export", str(tmp_path / "run.toml"), "--to", str(target)])
    assert result.exit_code == 0, result.output
    assert "by Heun, dt = 0.0625" in target.with_suffix(".h").read_text()


def test_a_platform_that_is_not_known_is_refused_in_words(tmp_path):
    (tmp_path / "run.toml").write_text(RUN)
    call = ["export", str(tmp_path / "run.toml"), "--to", str(tmp_path / "model.fmu"), "--platform", "amiga"]
    result = CliRunner().invoke(application(), call)
    assert result.exit_code == 2
    assert "platforms: expected some of" in result.output


def test_a_noise_is_written_in_numpy_as_by_the_function(tmp_path):
    result = called(tmp_path, NOISE, "--as", "numpy")
    assert result.exit_code == 0, result.output
    noise = sd.noise.coloured.gauss_markov(2.0, 0.5)
    sd.export(noise, dt=0.125, t0=1.0, seed=11, to=tmp_path / "other.py")
    first, second = (runpy.run_path(str(tmp_path / f"{name}.py"))[name](paths=range(3)) for name in ("run", "other"))
    np.testing.assert_array_equal(first.step(), second.step())
    assert first.time == 1.125


@pytest.mark.parametrize(("noise", "parameters"), [
    ("imu", "{gyro = {arw = 1e-4}, accelerometer = {vrw = 1e-3}}"), ("white", '{Q = 0.2, host = "held"}'),
    ("density", "{root = 0.1, sides = 2}"),
    ("gyro", '{arw = {density = "8 mdeg/s/sqrt(Hz)", sides = 1}}'),
    ("coloured.dryden", "{V = 60.0, sigma = 1.5, L = 300.0}"),
])  # fmt: skip
def test_noises_have_the_names_and_parameters_of_the_functions(noise, parameters, tmp_path):
    text = f'[noise]\nname = "{noise}"\nparameters = {parameters}\n[export]\ndt = 0.01\n'
    result = called(tmp_path, text, "--as", "numpy")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "run.py").exists()


@pytest.mark.parametrize(("text", "words", "said"), [
    (NOISE, (), "--to: missing"),
    (NOISE, ("--as", "c", "--to", "model.py"), "does not end in .c"),
    (NOISE.replace("gauss_markov", "gaus_markov"), ("--as", "c"), "there is no noise 'coloured.gaus_markov'"),
    (NOISE.replace("coloured.gauss_markov", "my_module:noise"), ("--as", "c"), "--allow"),
    (NOISE.replace("tau", "tow"), ("--as", "c"), "noise.parameters:"),
    (
        NOISE.replace("coloured.gauss_markov", "gyro").replace("sigma = 2.0, tau = 0.5", 'arw = "1 deg/s/sqrt(Hz)"'),
        ("--as", "c"), "arw: the frequencies of '1 deg/s/sqrt(Hz)' may be counted in two ways",
    ),
    (
        NOISE.replace("coloured.gauss_markov", "gyro").replace("sigma = 2.0, tau = 0.5", "arw = {density = 1.0}"),
        ("--as", "c"), "noise.parameters.arw.sides: missing",
    ),
    (NOISE.replace("dt = 0.125", ""), ("--as", "c"), "export.dt: missing"),
    (RUN, ("--as", "numpy"), "a file of NumPy holds a noise or a sensor by itself"),
])  # fmt: skip
def test_what_cannot_be_written_is_refused_in_words(text, words, said, tmp_path):
    result = called(tmp_path, text, *words)
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())
    assert [file.name for file in tmp_path.iterdir()] == ["run.toml"]


def test_a_file_that_is_there_is_not_written_over_without_its_name(tmp_path):
    (tmp_path / "run.py").write_text("mine = 1")
    assert called(tmp_path, NOISE, "--as", "numpy").exit_code == 2
    assert (tmp_path / "run.py").read_text() == "mine = 1"
    assert called(tmp_path, NOISE, "--to", str(tmp_path / "run.py")).exit_code == 0
    (tmp_path / "run.c").symlink_to(tmp_path / "not there yet")
    assert called(tmp_path, NOISE, "--as", "c").exit_code == 2 and not (tmp_path / "not there yet").exists()
