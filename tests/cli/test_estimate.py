"""stodyn estimate: what a file describes, its outputs, and keys that cannot be."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from typer.testing import CliRunner

from stodyn import load, plot
from stodyn.cli import application

TEXT = """
[model]
name = "ornstein_uhlenbeck"
parameters = {rate = 1.0, sigma = 1.0, start = 2.0}

[estimate]
t = [0, 2]
error = 0.02
seed = 1
function = "my_estimate_model:square"

[output]
netcdf = "found.nc"
pictures = "pictures"
"""


@pytest.fixture
def invoke(tmp_path):
    (tmp_path / "my_estimate_model.py").write_text("def square(t, x, p):\n    return x[0] ** 2\n")

    def call(text):
        (tmp_path / "file.toml").write_text(text)
        allow = ["--allow", str(tmp_path / "my_estimate_model.py")]
        return CliRunner().invoke(application(), ["estimate", str(tmp_path / "file.toml"), *allow])

    return call


def test_it_prints_and_writes(invoke, tmp_path):
    result = invoke(TEXT)
    assert result.exit_code == 0, result.output
    assert "bias and sampling, 95 %" in result.output and "ExactSteps" in result.output
    found = load(tmp_path / "found.nc")
    exact = 4 * np.exp(-4) + 0.5 * (1 - np.exp(-4))
    assert abs(float(found.value) - exact) < 3 * 0.02
    assert (tmp_path / "pictures" / "levels.png").stat().st_size > 10_000
    axes = plot.levels(found, truth=exact).figure.axes
    assert axes[0].get_ylabel() == "variance and |mean| of a level"
    assert len(axes) == 4 and axes[1].get_ylabel() == "points"
    for ax in axes[2:]:
        np.testing.assert_allclose(np.unique(ax.xaxis.get_minor_locator().tick_values(10.0, 99.0)), [2, 5, 20, 50])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("error = 0.02\n", "", "estimate.error: missing"),
        ("seed = 1", "seeds = 1", "did you mean estimate.seed?"),
        ("seed = 1", 'seed = 1\nfunctional = "Median"', "estimate.functional: unknown functional 'Median'"),
        ("seed = 1", 'seed = 1\nfunctional = "Watching"', "estimate.functional: unknown functional 'Watching'"),
        ("error = 0.02", "error = 0.0", "error: expected a number > 0"),
    ],
)
def test_keys_that_cannot_be(invoke, old, new, words):
    result = invoke(TEXT.replace(old, new))
    assert result.exit_code and words in " ".join(result.output.replace("│", " ").split())
