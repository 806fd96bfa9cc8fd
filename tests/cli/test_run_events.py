"""stodyn run with paths that are stopped, and with rare events: the file says what the call would."""

import sys
import textwrap

import numpy as np
import pytest
from typer.testing import CliRunner

import stodyn as sd
from stodyn import runfile
from stodyn.cli import application

MODULE = """
import stodyn as sd

problem = sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, 0.0)

def doubled(t, x):
    return 2.0 * x[0]
"""
MODEL = """
[model]
name = "my_events:problem"

[method]
name = "EulerMaruyama"
"""
STOPPED = (
    MODEL
    + """
[grid]
t = [0, 1]
dt = 0.125

[run]
paths = 64
seed = 1
stopped = "alive"

[[stop]]
level = 1.0
of = "my_events:doubled"

[[stop]]
level = -1.5
direction = "down"

[output]
netcdf = "stopped.nc"
csv = "tables"
"""
)
RARE = (
    MODEL
    + """
[rare]
event = {level = 3.0}
before = [1.0, {level = -2.0, direction = "down"}]
dt = 0.125
seed = 1
runs = 4
replicas = 16
score = "distance"
ledger = "kept"

[output]
netcdf = "rare.nc"
"""
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "my_events.py").write_text(textwrap.dedent(MODULE))
    yield tmp_path
    sys.modules.pop("my_events", None)


def brownian():
    return sd.SDE(lambda t, x: 0.0 * x, lambda t, x: 1.0, 0.0)


def test_a_run_that_stops_its_paths(folder):
    (folder / "run.toml").write_text(STOPPED)
    told = CliRunner().invoke(application(), ["run", str(folder / "run.toml"), "--allow", str(folder / "my_events.py")])
    assert told.exit_code == 0 and "paths were stopped, at" in told.output
    stop = sd.Stop(sd.Level(1.0, of=lambda t, x: 2.0 * x[0]), sd.Level(-1.5, direction="down"), stopped="alive")
    run = sd.simulate(brownian(), "EulerMaruyama", t=(0, 1), dt=0.125, paths=64, seed=1, stop=stop)
    kept = sd.load(folder / "stopped.nc")
    for name in ("stop_time", "stopped_by", "stop_state", "alive", "mean"):
        assert np.array_equal(kept[name].values, run[name].values, equal_nan=True)
    assert (folder / "tables" / "member.csv").is_file()


@pytest.mark.filterwarnings("ignore:rare:UserWarning")
def test_a_rare_event(folder):
    (folder / "run.toml").write_text(RARE)
    told = CliRunner().invoke(application(), ["run", str(folder / "run.toml"), "--allow", str(folder / "my_events.py")])
    assert told.exit_code == 0 and "Level(3.0" in told.output and "95 %" in told.output
    again = CliRunner().invoke(
        application(),
        ["resume", str(folder / "kept"), "--allow", str(folder / "my_events.py")],
    )
    assert again.exit_code == 0
    found = sd.rare(brownian(), "EulerMaruyama", event=sd.Level(3.0), before=[1.0, sd.Level(-2.0, direction="down")],
                    dt=0.125, seed=1, runs=4, replicas=16, score="distance")  # fmt: skip
    assert np.array_equal(sd.load(folder / "rare.nc")["estimate"].values, found["estimate"].values)


@pytest.mark.parametrize(("old", "new", "words"), [
    ("level = -1.5", "niveau = -1.5", r"stop\[1\].niveau: there is no such key"),
    ('of = "my_events:doubled"', 'of = "my_events:tripled"', r"stop\[0\].of: my_events:tripled cannot be imported"),
    ('stopped = "alive"', 'stopped = "dead"', 'run.stopped: stopped: expected "frozen" or "alive"'),
    ("level = 1.0", "level = true", r"stop\[0\]: level: expected a finite number"),
])  # fmt: skip
def test_mistakes_are_named_by_their_key(old, new, words, folder):
    with pytest.raises(runfile.BadRunFile, match=words):
        runfile.parsed(STOPPED.replace(old, new), folder, [folder / "my_events.py"])
    with pytest.raises(runfile.BadRunFile, match=r"rare.event: missing"):
        runfile.parsed(RARE.replace("event = {level = 3.0}", ""), folder, [folder / "my_events.py"])
