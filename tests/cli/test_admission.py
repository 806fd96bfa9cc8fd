"""Run files and ledgers may be strangers': nothing they name is imported, called or written before a --allow."""

import contextlib
import importlib
import inspect
import os
import py_compile
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import stodyn
from stodyn import runfile
from stodyn.admission import NotAdmitted
from stodyn.cli import application
from stodyn.engine.record import ledger

MODULE = """
import os
from os import system
from pathlib import Path
import stodyn as sd
Path(__file__).with_suffix(".ran").touch()
problem = sd.SDE(lambda t, x: -x, lambda t, x: 1.0, 1.0)
def energy(t, x):
    return x @ x
def _hidden(t, x):
    return x @ x
"""
MODEL = 'model = {name = "ornstein_uhlenbeck"}\n'
OURS = MODEL + "grid = {t = [0, 1], dt = 0.25}\nrun = {paths = 8, seed = 1}\n"
RARE = MODEL + "rare = {event = {level = 1.0}, before = 1.0, dt = 0.25, seed = 1}\n"
FIT = MODEL + 'data = {file = "FILE"}\nsensors.gauge = {of = "OF", noise = 0.1}\nfree = {rate = [0, inf]}\n'
ESTIMATE = MODEL + 'estimate = {t = [0, 1], error = 0.1, seed = 1, function = "stranger:energy"}\n'
NOISE = 'noise = {name = "stranger:problem"}\nexport = {dt = 0.1}\n'
LOOKED_UP = {
    "model.name": OURS.replace("ornstein_uhlenbeck", "stranger:problem"),
    "method.name": OURS + 'method = {name = "stranger:problem"}',
    "collect[0].statistic": OURS + 'collect = [{statistic = "stranger:problem"}]',
    "collect[0].function": OURS + 'collect = [{statistic = "Observable", function = "stranger:energy"}]',
    "stop[0].of": OURS + 'stop = [{level = 1.0, of = "stranger:energy"}]',
    "stop[0].level": OURS + 'stop = [{level = "stranger:energy"}]',
    "rare.event.of": RARE.replace("{level = 1.0}", '{level = 1.0, of = "stranger:energy"}'),
    "rare.event.level": RARE.replace("{level = 1.0}", '{level = "stranger:energy"}'),
    "rare.before.of": RARE.replace("before = 1.0", 'before = {level = 1.0, of = "stranger:energy"}'),
    "rare.before[1].of": RARE.replace("before = 1.0", 'before = [1.0, {level = 1.0, of = "stranger:energy"}]'),
    "rare.score": RARE.replace("seed = 1", 'seed = 1, score = "stranger:energy"'),
    "estimate.function": ESTIMATE,
    "sensors.gauge.of": FIT.replace("OF", "stranger:energy"),
    "noise.name": NOISE,
}
READERS = {
    "estimate": runfile.read_estimate, "sensors": runfile.read_fit, "export": runfile.read_export, "": runfile.read,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "stranger.py").write_text(MODULE)
    yield tmp_path
    sys.modules.pop("stranger", None)


def read(text, folder, allow=()):
    (folder / "file.toml").write_text(text)
    return next(reader for word, reader in READERS.items() if word in text)(folder / "file.toml", allow)


def test_the_page_on_security_names_every_command_that_takes_allow():
    commands = [
        str(one.name)
        for one in application().registered_commands
        if "allow" in inspect.signature(one.callback).parameters
    ]
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    sentence = page.partition("by one or more `--allow`")[2].partition("alike")[0]
    assert sorted(re.findall(r"`stodyn (\w+)`", sentence)) == sorted(commands)


@pytest.mark.parametrize("key", LOOKED_UP)
def test_every_key_that_is_looked_up_asks_for_admission(key, folder):
    """The module beside the file, and the one on the path, are named in the error and not imported."""
    for path in (contextlib.nullcontext(), on_the_path(folder)):
        with path, pytest.raises(NotAdmitted) as refusal:
            read(LOOKED_UP[key], folder)
        name = {"estimate.function": "estimate", "sensors.gauge.of": "fit", "noise.name": "export"}.get(key, "run")
        assert str(refusal.value).startswith(f"{key}: stranger:")
        assert f"\n    stodyn {name} {folder}/file.toml --allow {folder}/stranger.py" in str(refusal.value)
    assert not (folder / "stranger.ran").exists() and "stranger" not in sys.modules


@contextlib.contextmanager
def on_the_path(folder):
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    yield
    sys.path.remove(str(folder))


def test_the_command_in_the_error_works(folder, monkeypatch):
    """One error names all that is lacking, what was given already stays in its command, and that command runs."""
    text = LOOKED_UP["collect[0].function"].replace("ornstein_uhlenbeck", "stranger:problem")
    outside = folder.parent / f"{folder.name} outside"
    (folder / "file.toml").write_text(f"{text}\noutput = {{netcdf = '../{outside.name}/run.nc'}}")
    monkeypatch.setenv("COLUMNS", "80")
    first = CliRunner().invoke(application(), ["run", str(folder / "file.toml")])
    assert first.exit_code == 2 and "model.name: stranger:problem; collect[0].function" in first.output
    assert not (folder / "stranger.ran").exists() and not outside.exists()
    command = shlex.split(first.output.splitlines()[-1])
    assert command[:2] == ["stodyn", "run"] and command.count("--allow") == 2
    then = CliRunner().invoke(application(), command[1:])
    assert then.exit_code == 0 and (outside / "run.nc").is_file(), then.output


def test_a_record_outside_the_folder_asks_for_admission(folder):
    outside = folder.parent / f"{folder.name}.csv"
    outside.write_text("time,gauge\n1,0.5\n2,0.3\n")
    text = FIT.replace("OF", "x").replace("FILE", f"../{outside.name}")
    with pytest.raises(NotAdmitted, match=rf"(?s)data\.file: \.\./.*--allow {folder.parent}/"):
        read(text, folder)
    assert len(read(text, folder, [f"{folder.parent}/"]).options["data"].times) == 2
    (folder / "record.csv").symlink_to(outside)
    with pytest.raises(NotAdmitted, match=r"data\.file: record\.csv"):
        read(FIT.replace("OF", "x").replace("FILE", "record.csv"), folder)
    with pytest.raises(NotAdmitted, match=r"sensors\.gauge\.of: stranger:energy"):
        read(FIT.replace('"OF"', '["x", "stranger:energy"]'), folder)


@pytest.mark.parametrize("name", ["os:system", "posix:system", "json:decoder.os.system", "stodyn.cli:main",
    "stodyn.runfile:os.system", "stodyn:load", "subprocess:run", "builtins:eval", "../stranger:energy"])  # fmt: skip
def test_names_that_would_execute(name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    text = OURS.replace('"ornstein_uhlenbeck"}', f'"{name}", parameters = {{command = "touch owned"}}}}')
    for allow in ([], ["stranger"], [folder / "stranger.py"]):
        with pytest.raises(runfile.BadRunFile):
            read(text, folder, allow)
    assert not (folder / "owned").exists() and not (folder / "stranger.ran").exists()


@pytest.mark.parametrize("name", ["system", "os", "Path", "sd"])
def test_what_an_admitted_module_imports_is_not_its_own(name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    text = OURS.replace('"ornstein_uhlenbeck"}', f'"stranger:{name}", parameters = {{command = "touch owned"}}}}')
    with pytest.raises(runfile.BadRunFile, match=f"stranger:{name} is not defined in stranger, which only imports it"):
        read(text, folder, [folder / "stranger.py"])
    assert not (folder / "owned").exists()
    for hidden in ("_hidden", "__loader__", "energy.__globals__", "os.system"):
        with pytest.raises(runfile.BadRunFile, match="expected module:name"):
            read(OURS.replace("ornstein_uhlenbeck", f"stranger:{hidden}"), folder, [folder / "stranger.py"])


def test_what_a_module_lists_is_its_own(folder):
    (folder / "stranger.py").write_text(MODULE + "\n__all__ = ['system']\n")
    text = OURS.replace("ornstein_uhlenbeck", "stranger:system")
    with pytest.raises(runfile.BadRunFile, match=r"model.parameters: system\(\) missing"):  # called as a model is
        read(text, folder, [folder / "stranger.py"])


def test_a_file_admits_itself_alone(folder):
    """Not its submodules, its neighbours, bytecode beside it, or another file of its name."""
    file = folder / "stranger.py"
    text = LOOKED_UP["model.name"]
    (folder / "numpy.py").write_text("raise SystemExit('the neighbour ran')")
    (folder / "neighbour.py").write_text("value = 1")
    assert read(text, folder, [file]).problem.n == 1
    for other in ("stranger.more:problem", "neighbour:value"):
        with pytest.raises(NotAdmitted):
            read(text.replace("stranger:problem", other), folder, [file])
    file.write_text("raise SystemExit('bytecode ran')")
    py_compile.compile(str(file), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    file.write_text(MODULE)
    assert read(text, folder, [file]).problem.n == 1
    (folder / "below").mkdir()
    (folder / "below" / "stranger.py").write_text(MODULE)
    with pytest.raises(runfile.BadRunFile, match="are both called stranger"):
        read(text, folder, [file, folder / "below" / "stranger.py"])
    with pytest.raises(runfile.BadRunFile, match=r"numpy.py would stand for the module numpy of"):
        read(text.replace("stranger", "numpy"), folder, [folder / "numpy.py"])
    file.write_text("import neighbour")
    with pytest.raises(runfile.BadRunFile, match=r"No module named 'neighbour'.*put the folders .* on PYTHONPATH"):
        read(text, folder, [file])


def test_a_module_is_looked_for_where_python_looks(folder):
    text = LOOKED_UP["model.name"]
    with pytest.raises(runfile.BadRunFile, match=r"No module named 'stranger'.*give --allow FOLDER/my_model.py"):
        read(text, folder, ["stranger"])
    with on_the_path(folder):
        assert read(text, folder, ["stranger"]).problem.n == 1


@pytest.mark.parametrize(("value", "name", "admits"), [
    ("stranger", "problem", True), ("stranger:problem", "problem", True), ("stranger:problem", "energy", False),
    ("stranger.more", "problem", False), ("other", "problem", False),
])  # fmt: skip
def test_entry_points_admit(value, name, admits, folder, monkeypatch):
    installed = folder / "installed"
    (installed / "pkg-1.dist-info").mkdir(parents=True)
    (installed / "pkg-1.dist-info" / "METADATA").write_text("Name: pkg\nVersion: 1\n")
    (installed / "pkg-1.dist-info" / "entry_points.txt").write_text(f"[stodyn.admitted]\nmine = {value}\n")
    (installed / "stranger.py").write_text(MODULE)
    text = OURS + f'stop = [{{level = 1.0, of = "stranger:{name}"}}]'
    text = LOOKED_UP["model.name"] if name == "problem" else text
    with on_the_path(installed):
        if admits:
            assert read(text, folder).problem.n == 1
        else:
            with pytest.raises(NotAdmitted):
                read(text, folder)
        sys.modules.pop("stranger", None)
        monkeypatch.chdir(installed)  # where `python -m` would search, and where strangers' files may lie
        with pytest.raises(NotAdmitted):
            read(text, folder)


def test_the_catalogue_needs_no_admission(folder):
    text = OURS + 'method = {name = "ExactNoise(Heun)"}\ncollect = [{statistic = "Moments"}]\nstop = [{level = 1.0}]'
    assert read(text, folder).method.name == "ExactNoise(Heun)"


@pytest.mark.parametrize(("table", "key"), [
    ("output = {netcdf = '../out.nc'}", "output.netcdf"), ("output = {csv = '/elsewhere'}", "output.csv"),
    ("output = {pictures = 'link/pictures'}", "output.pictures"), ("LEDGER ../out", "run.ledger"),
    ("place = {kind = 'dask', address = 'tcp://far:1'}", "place.address"),
    ("place = {kind = 'dask', address = 'far:1'}", "place.address"),
])  # fmt: skip
def test_folders_outside_and_clusters_ask_for_admission(table, key, folder):
    (folder / "link").symlink_to(folder.parent)
    text = OURS.replace("seed = 1}", f"seed = 1, ledger = '{table[7:]}'}}") if "LEDGER" in table else OURS + table
    with pytest.raises(NotAdmitted) as refusal:
        read(text, folder)
    assert str(refusal.value).startswith(f"{key}: ")
    option = shlex.split(str(refusal.value).splitlines()[-1])[-1]
    assert read(text, folder, [option]).home == folder


def test_outputs_are_never_written_through_links(folder):
    """A link that came with the file would lead to a file of the user's own."""
    mine = folder.parent / f"{folder.name}.bashrc"
    mine.write_text("mine")
    (folder / "tables").mkdir()
    (folder / "tables" / "time_component.csv").symlink_to(mine)
    (folder / "run.nc").symlink_to(mine)
    (folder / "file.toml").write_text(OURS + "output = {csv = 'tables', netcdf = 'run.nc'}")
    assert CliRunner().invoke(application(), ["run", str(folder / "file.toml")]).exit_code == 0
    assert mine.read_text() == "mine" and "mean" in (folder / "tables" / "time_component.csv").read_text()
    with pytest.raises(runfile.BadRunFile, match=r"output.netcdf: expected a name that ends in .nc"):
        read(OURS + "output = {netcdf = '.bashrc'}", folder)


@pytest.mark.parametrize(("text", "words"), [
    ("a" * 1_000_001, "has 1,000,001 bytes; a run file has at most"), ("a = " + "[" * 100_000, "is not TOML"),
    (".".join("a" * 5000) + " = 1", "tables within tables"), ("a = 1" + "0" * 5000, "is not TOML"),
    (OURS + "place = {kind = 'processes', workers = 100000}", "place.workers: 100000 are more than a file may ask"),
    (OURS.replace("seed = 1}", "seed = 1, ledger = 'a\\u0000b'}").replace("'", '"'), "cannot be the name of a file"),
])  # fmt: skip
def test_files_that_are_too_much(text, words, folder):
    with pytest.raises(runfile.BadRunFile, match=words):
        read(text, folder)


def test_a_pipe_is_not_waited_for(folder):
    os.mkfifo(folder / "pipe.toml")
    with pytest.raises(runfile.BadRunFile, match="it is not a file"):
        runfile.read(folder / "pipe.toml")


@pytest.mark.parametrize("option", ["a b", "", "1x", "no_such.py", "."])
def test_what_cannot_be_admitted(option, folder):
    with pytest.raises(runfile.BadRunFile, match="--allow: "):
        read(OURS, folder, [option])


# --- ledgers ----------------------------------------------------------------------------------------------------------


def stored(folder, text, home):
    (folder / "ledger" / "blocks").mkdir(parents=True, exist_ok=True)
    (folder / "ledger" / ledger.RUN_FILE).write_text(f"{runfile.HOME}{home}\n{text}")
    return folder / "ledger"


def test_resume_admits_as_run_does(folder):
    where = stored(folder, LOOKED_UP["model.name"], folder)
    refused = CliRunner().invoke(application(), ["resume", str(where)])
    assert refused.exit_code == 2 and not (folder / "stranger.ran").exists()
    command = shlex.split(refused.output.splitlines()[-1])
    assert command == ["stodyn", "resume", str(where), "--allow", f"{folder}/stranger.py"]
    assert CliRunner().invoke(application(), command[1:]).exit_code == 0


def test_a_ledger_that_lies_elsewhere_writes_nothing_outside(folder, monkeypatch):
    """Its word on where the run file stood is believed only where the ledger is found from there."""
    monkeypatch.chdir(folder)
    text = OURS.replace("seed = 1}", "seed = 1, ledger = 'ledger'}") + "output = {netcdf = 'run.nc'}"
    assert runfile.resumed(stored(folder, text, folder)).outputs == {"netcdf": folder / "run.nc"}
    for home in (folder.parent, Path("/home/somebody"), Path("."), Path("/proc/self/cwd")):
        with pytest.raises(NotAdmitted, match=r"output.netcdf: run.nc: not admitted"):
            runfile.resumed(stored(folder, text, home))
    other = runfile.resumed(stored(folder, text, folder.parent), [f"{folder.parent}/"])
    assert other.ledger == folder / "ledger"


@pytest.mark.parametrize("table", ["csv = '{}'", "pictures = '{}'", "netcdf = '{}/run.nc'"])
def test_a_ledger_writes_beside_itself_whatever_folder_it_names(table, folder):
    """A stranger who guesses where the ledger will lie may name any folder above it, also the root."""
    run, key = OURS.replace("seed = 1}", "seed = 1, ledger = 'LEDGER'}"), table.split()[0]
    for home in (folder, *folder.parents):
        ledger, beside, outside = (os.path.relpath(folder / each, home) for each in ("ledger", "mine", "../victim"))
        text = run.replace("LEDGER", ledger) + "output = {OUTPUT}\n"
        where = stored(folder, text.replace("OUTPUT", table.format(beside)), home)
        assert runfile.resumed(where).outputs[key].is_relative_to(folder)
        where = stored(folder, text.replace("OUTPUT", table.format(outside)), home)
        with pytest.raises(NotAdmitted, match=f"output.{key}: .*not admitted") as refusal:
            runfile.resumed(where)
        assert runfile.resumed(where, [shlex.split(str(refusal.value).splitlines()[-1])[-1]]).home == home


def test_the_current_folder_is_not_searched(folder, monkeypatch):
    """`python -m stodyn` is the command stodyn, though Python puts the current folder first."""
    searched = []
    monkeypatch.setattr("stodyn.cli.main", lambda: searched.extend(sys.path))
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    runpy.run_path(str(Path(stodyn.__file__).with_name("__main__.py")))
    assert searched and (str(folder) in searched) == sys.flags.safe_path
