"""stodyn export: the model of a run file, written for another simulator."""

from typer.testing import CliRunner

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
