"""stodyn run, resume and status: a run as data, ended and gone on with, and every mistake named by its key."""

import json
import re
import sys
import textwrap

import numpy as np
import pytest
from typer.testing import CliRunner

from stodyn import load, runfile, simulate, until
from stodyn import statistics as st
from stodyn.cli import application
from stodyn.cli.estimate import command as estimate_command
from stodyn.cli.run import command as run_command
from stodyn.cli.status import in_words
from stodyn.engine.record.ledger import Status
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck

pytestmark = pytest.mark.usefixtures("quick_compiling_everywhere", "coarse_pictures")
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
paths = 200
seed = 1
block = 64
ledger = "runs/ou"

[[collect]]
statistic = "Moments"
every = 8

[[collect]]
statistic = "Observable"
function = "my_run_model:energy"
name = "energy"

[place]
kind = "threads"
workers = 2

[output]
netcdf = "out/ou.nc"
csv = "out/tables"
pictures = "out/pictures"
"""
EXAMPLE = r"\x08\n(.*?)\n\n"  # in the help of a command
UNWRITTEN = RUN[: RUN.index("[output]")]
MODULE = """
import jax.numpy as jnp
import stodyn as sd

def energy(t, x, p):
    return 0.5 * x @ x

def made(strength):
    return sd.SDE(lambda t, x, p: -p * x, lambda t, x, p: strength, 1.0, params=1.0)

ready = made(0.5)
number = 3
"""


@pytest.fixture
def invoke(monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    return lambda *arguments: CliRunner().invoke(application(), list(map(str, arguments)))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "my_run_model.py").write_text(textwrap.dedent(MODULE))
    (tmp_path / "run.toml").write_text(RUN)
    yield tmp_path
    sys.modules.pop("my_run_model", None)


def admitted(folder):
    return "--allow", folder / "my_run_model.py"


def parsed(text, folder):
    return runfile.parsed(text, folder, [folder / "my_run_model.py"])


def test_run_status_resume_and_what_is_written(invoke, folder):
    result = invoke("run", folder / "run.toml", *admitted(folder))
    assert result.exit_code == 0, result.output
    assert "200 paths × 16 steps of Heun" in result.output
    assert "0 of 4 blocks were read from the ledger, 4 were computed" in result.output
    collect = [st.Moments(every=8), st.Observable(lambda t, x, p: 0.5 * x @ x, name="energy")]
    same = simulate(ornstein_uhlenbeck(2.0), "Heun", t=(0, 1), dt=0.0625, paths=200, seed=1, block=64, collect=collect)
    for run in (load(folder / "out" / "ou.nc"), load(folder / "runs" / "ou")):
        for name in same.data_vars:
            np.testing.assert_array_equal(run[name], same[name])
    table = (folder / "out" / "tables" / "time_component.csv").read_text().splitlines()
    assert table[0].startswith("time,component,mean,mean_stderr,variance")
    row = dict(zip(table[0].split(","), table[-1].split(","), strict=True))
    assert float(row["time"]) == 1.0 and float(row["mean"]) == float(same["mean"][-1, 0])  # all digits
    assert "energy_stderr" in (folder / "out" / "tables" / "time.csv").read_text()
    pictures = sorted(file.name for file in (folder / "out" / "pictures").iterdir())
    assert pictures == ["band_x.png", "observable_energy.png"]

    assert "4 of 4 blocks done (100 %), 200 paths\ncomplete" in invoke("status", folder / "runs" / "ou").output
    (folder / "runs" / "ou" / "blocks" / "000" / "002-64").unlink()
    assert "3 of 4 blocks done (75 %)" in invoke("status", folder / "runs" / "ou").output
    (folder / "run.toml").unlink()  # the ledger has its own copy
    result = invoke("resume", folder / "runs" / "ou", *admitted(folder), "--allow", f"{folder / 'out'}/")
    assert "3 of 4 blocks were read from the ledger, 1 were computed" in result.output, result.output


def test_more_paths_and_another_run(invoke, folder):
    file = folder / "run.toml"
    file.write_text(UNWRITTEN)
    allow = admitted(folder)
    assert invoke("run", file, *allow).exit_code == 0
    file.write_text(UNWRITTEN.replace("paths = 200", "paths = 256"))
    assert "3 of 4 blocks were read from the ledger, 1 were computed" in invoke("run", file, *allow).output
    longer = json.loads(invoke("resume", folder / "runs" / "ou", *allow, "--json").stdout)
    assert (longer["provenance"]["paths"], longer["provenance"]["blocks_read"]) == (256, 4)
    file.write_text(UNWRITTEN.replace("seed = 1", "seed = 2"))
    result = invoke("run", file, *allow)
    assert result.exit_code != 0 and "holds another run: seed was 1 and is 2" in result.output
    assert "4 of 4 blocks were read from the ledger" in invoke("resume", folder / "runs" / "ou", *allow).output


def test_a_killed_run_is_gone_on_with(invoke, folder, forked):
    """kill -9 in the middle of `stodyn run`; then status says so, and resume gives the bits of an unbroken run."""
    text = UNWRITTEN.replace("dt = 0.0625", "dt = 0.0001220703125").replace("paths = 200", "paths = 4000")
    (folder / "run.toml").write_text(text.replace("every = 8", "every = 4096"))
    ledger = folder / "runs" / "ou"
    arguments = ["stodyn", "run", str(folder / "run.toml"), *map(str, admitted(folder))]
    child = forked(f"import sys; sys.argv = {arguments!r}; stodyn.cli.main()")
    child.wait(until=lambda: len(list(ledger.glob("blocks/*/[0-9]*"))) >= 9)
    child.kill()
    done = len(list(ledger.glob("blocks/*/[0-9]*")))
    said = invoke("status", ledger).output
    assert 9 <= done < 63 and f"{done} of 63 blocks done" in said and "complete" not in said, said
    assert "blocks per second" in said
    result = invoke("resume", ledger, *admitted(folder), "--allow", f"{folder / 'out'}/")
    assert f"{done} of 63 blocks were read from the ledger, {63 - done} were computed" in result.output, result.output
    (folder / "run.toml").write_text((folder / "run.toml").read_text().replace("runs/ou", "runs/unbroken"))
    assert invoke("run", folder / "run.toml", *admitted(folder)).exit_code == 0
    assert load(ledger).drop_attrs().identical(load(folder / "runs" / "unbroken").drop_attrs())


MISTAKES = {
    "paths = 200": ("path = 200", "run.path: there is no such key; did you mean run.paths?"),
    "seed = 1\n": ("", "run.seed: missing"),
    "[grid]\n": ("[grids]\n", "grids: there is no such key; did you mean grid?"),
    'name = "ornstein_uhlenbeck"': ('name = "ornstein"', "Near it: ornstein_uhlenbeck. Or give module:name."),
    "{rate = 2.0}": ("{mass = 2.0}", "model.parameters: ornstein_uhlenbeck has no parameter 'mass'"),
    'name = "Heun"': ('name = "Hein"', "method.name: method: there is no 'Hein'. Near it: Heun"),
    'statistic = "Moments"': ('statistic = "Moment"', "collect[0].statistic: there is no 'Moment'"),
    "every = 8": ("evry = 8", "collect[0].evry: there is no such key; did you mean collect[0].every?"),
    "my_run_model:energy": ("lambda t, x: x", "collect[1].function: expected module:name"),
    "my_run_model:": ("my_run_model:_", "collect[1].function: expected module:name"),
    ":energy": (":no_energy", "cannot be imported (AttributeError"),
    'kind = "threads"': ('kind = "cloud"', "place.kind: expected one of threads, processes, dask, got 'cloud'"),
    "workers = 2": ('address = "tcp://x:1"', "place.address: there is no such key"),
    "netcdf =": ("netcfd =", "output.netcfd: there is no such key; did you mean output.netcdf?"),
    "dt = 0.0625": ("dt = 0.3", "dt: 0.3 does not divide the interval"),
    "t = [0, 1]": ("t = [0, ", "not TOML"),
    "[model]\n": ("model = 3\n[other]\n", "other: there is no such key"),
}


@pytest.mark.parametrize("old", MISTAKES)
def test_mistakes_are_named_by_their_key(old, invoke, folder):
    new, said = MISTAKES[old]
    (folder / "run.toml").write_text(RUN.replace(old, new))
    result = invoke("run", folder / "run.toml", *admitted(folder))
    assert result.exit_code != 0 and said in " ".join(result.output.split()), result.output
    assert not (folder / "runs").exists()


def test_a_method_that_is_a_word_is_told_as_a_table(folder):
    text = 'method = "Heunn"\n' + RUN.replace('[method]\nname = "Heun"\n', "")
    (folder / "run.toml").write_text(text)
    with pytest.raises(runfile.BadRunFile, match=r'method: expected a table.*write method = \{name = "Heunn"\}'):
        runfile.read(folder / "run.toml", [folder / "my_run_model.py"])


@pytest.mark.parametrize(
    "name", ["__import__('os').system('touch owned')", "os;touch owned:x", "a.b", "os:system('x')"]
)
def test_nothing_in_the_file_is_executed(name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    for old in ('"ornstein_uhlenbeck"', '"Heun"', '"my_run_model:energy"'):
        with pytest.raises(runfile.BadRunFile):
            parsed(RUN.replace(old, f'"{name}"'), folder)
    assert not (folder / "owned").exists()


def test_a_method_around_another_is_named_with_it(folder):
    def method(name, options=""):
        return parsed(RUN.replace('name = "Heun"', f'name = "{name}"\n{options}'), folder).method

    assert method("ExactNoise(Heun)").name == "ExactNoise(Heun)"
    assert method("ExactNoise", 'options = {base = "Heun"}').name == "ExactNoise(Heun)"
    for name, said in {
        "ExactNoise(Hein)": "method.name: method: there is no 'Hein'. Near it: Heun",
        "ExactNoise(AB2)": "method.name: base: expected a one-step method such as RK4, got AB2",
        "ThetaEuler(theta=0.5)": "method.name: method: 'ThetaEuler(theta=0.5)' is not a name. Options are passed to",
    }.items():
        with pytest.raises(runfile.BadRunFile, match=re.escape(said)):
            method(name)


def test_models_of_the_users_own(folder):
    def problem(name, parameters=""):
        text = RUN.replace('"ornstein_uhlenbeck"', f'"my_run_model:{name}"')
        return parsed(text.replace("parameters = {rate = 2.0}", parameters), folder).problem

    assert problem("ready").n == 1
    assert problem("made", "parameters = {strength = 0.25}").diffusion(0.0, 1.0, 1.0) == 0.25
    for name, parameters, said in (
        ("ready", "parameters = {rate = 1.0}", "is a problem, not a function that makes one"),
        ("made", "", r"model.parameters: made\(\) missing 1 required positional argument: 'strength'"),
        ("number", "", "is a int; expected a problem or a function of parameters"),
        ("gone", "", "cannot be imported"),
    ):
        with pytest.raises(runfile.BadRunFile, match=said):
            problem(name, parameters)


def test_what_cannot_be_resumed(invoke, tmp_path):
    assert "there is no such folder" in invoke("resume", tmp_path / "none").output
    assert "it was not made by `stodyn run`" in invoke("resume", tmp_path).output
    assert "it is not a ledger" in invoke("status", tmp_path).output
    assert "cannot be read" in invoke("run", tmp_path / "none.toml").output


def test_status_in_words():
    running = Status(done=30, blocks=100, paths=6400, complete=False, rate=2.0, idle=0.4)
    assert in_words(running)[1:] == ["2 blocks per second recently", "about 35.0 s left"]
    said = in_words(running._replace(idle=600.0))[2]
    assert said == "no new block for 10 min: the run seems to have ended; the rest would take 35.0 s"
    assert (
        "All blocks are done but the result has not been written" in in_words(running._replace(done=100, rate=None))[1]
    )


def test_as_many_paths_as_it_takes(folder):
    described = parsed(RUN.replace("paths = 200", "paths = {until = {error = 0.1, most = 5000}}"), folder)
    assert described.options["paths"] == until(error=0.1, most=5000)
    with pytest.raises(runfile.BadRunFile, match=r"run\.paths\.until: until: error must be a number > 0"):
        parsed(RUN.replace("paths = 200", "paths = {until = {error = 0.0}}"), folder)


def test_the_examples_of_the_help_are_run_files(tmp_path):
    (tmp_path / "my.py").write_text("def energy(t, x):\n    return x[0] ** 2\n")
    text = re.search(EXAMPLE, run_command.__doc__, re.DOTALL)[1]
    described = runfile.parsed(textwrap.dedent(text), tmp_path)
    assert (described.options["paths"], described.outputs) == (100_000, {"netcdf": tmp_path / "ou.nc"})
    text = re.search(EXAMPLE, estimate_command.__doc__, re.DOTALL)[1]
    (tmp_path / "file.toml").write_text(textwrap.dedent(text))
    assert runfile.read_estimate(tmp_path / "file.toml", [tmp_path / "my.py"]).options["error"] == 1e-3
