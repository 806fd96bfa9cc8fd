"""A run with a ledger is the run without one, bit for bit, whatever happens to its process, its disk and its files."""

import concurrent.futures
import dataclasses
import errno
import json
import os
import platform
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from stodyn import SDE, PathsFailed, PerPath, load, provenance, simulate, sweep
from stodyn import statistics as st
from stodyn.engine.record import identity, plain
from stodyn.engine.record import ledger as ledger_module
from stodyn.engine.record.ledger import status
from stodyn.engine.spec import describe
from stodyn.methods.explicit import EulerMaruyama, Heun
from stodyn.models.kubo import kubo
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck
from stodyn.statistics.contract import Labelled, Variable

pytestmark = pytest.mark.usefixtures("quick_compiling_everywhere")
COLLECT = [
    st.Moments(every=8),
    st.Paths(3),
    st.Observable(lambda t, x, p: x @ x, name="energy"),
    st.Histogram(np.linspace(-2.0, 2.0, 5)),
    st.Autocorrelation(lags=2, every=8, paths=100),  # keeps nothing of most blocks
    st.Iterations(),
]
RUN = dict(t=(0, 1), dt=1 / 32, seed=3, block=64, collect=COLLECT)
PATHS = 1000  # 15 blocks and a part of one


def assert_same_bits(a, b):
    assert set(a.variables) == set(b.variables)
    for name in a.variables:
        assert a[name].dtype == b[name].dtype
        assert a[name].dims == b[name].dims
        assert a[name].values.tobytes() == b[name].values.tobytes(), name


@pytest.fixture(scope="module")
def unbroken(quick_compiling_everywhere):
    with jax.enable_x64(True):
        return simulate(kubo(), Heun, paths=PATHS, **RUN)


def blocks_of(folder):
    return sorted(file for file in (folder / "blocks").rglob("*") if file.is_file())


def finished_blocks_of(folder):
    return sorted(folder.glob("blocks/*/[0-9]*"))


def test_the_same_bits_then_nothing_to_compute(tmp_path, unbroken):
    first = simulate(kubo(), Heun, paths=PATHS, ledger=tmp_path / "run", **RUN)
    again = simulate(kubo(), Heun, paths=PATHS, ledger=tmp_path / "run", **RUN)
    assert_same_bits(first, unbroken)
    assert_same_bits(again, unbroken)
    assert [provenance(run)["blocks_read"] for run in (first, again)] == [0, 16]
    assert load(tmp_path / "run").identical(again)
    done = status(tmp_path / "run")
    assert (done.done, done.blocks, done.complete) == (16, 16, True)
    for file in (tmp_path / "run").rglob("*"):
        assert file.is_dir() or b"pickle" not in file.read_bytes()


def test_files_cut_short_or_altered_are_computed_again(tmp_path, unbroken):
    """Ten times: four random files of the ledger lose their end, or have one bit turned."""
    folder, rng = tmp_path / "run", np.random.default_rng(5)
    simulate(kubo(), Heun, paths=PATHS, ledger=folder, **RUN)
    for _ in range(10):
        files = [*blocks_of(folder), folder / "manifest.json", folder / "result.record"]
        chosen = [files[k] for k in rng.choice(len(files), 4, replace=False)]
        for file in chosen:
            data = bytearray(file.read_bytes())
            place = int(rng.integers(len(data)))
            if rng.random() < 0.5:
                del data[place:]
            else:
                data[place] ^= 1 << int(rng.integers(8))
            file.write_bytes(data)
            if file.name == "result.record" and folder / "manifest.json" not in chosen:
                with pytest.raises(ValueError, match=r"result in .* is damaged. Give the same run again"):
                    load(folder)
        run = simulate(kubo(), Heun, paths=PATHS, ledger=folder, **RUN)
        assert_same_bits(run, unbroken)
        assert_same_bits(load(folder), unbroken)
        assert provenance(run)["blocks_read"] == 16 - sum(file.parent.parent.name == "blocks" for file in chosen)


def test_every_cut_and_every_turned_bit_is_noticed():
    data = plain.packed([np.arange(3.0), None, 2.5, np.float32(1.5), {"a": (1, "b")}], {"block": 7})
    found = plain.unpacked(data)
    assert found.about == {"block": 7}
    assert found.value[1:3] == [None, 2.5] and type(found.value[3]) is np.float32
    assert found.value[4] == {"a": (1, "b")}
    for length in range(len(data)):
        with pytest.raises(plain.Damaged):
            plain.unpacked(data[:length])
    for place in range(len(data)):
        altered = bytearray(data)
        altered[place] ^= 1 << (place % 8)
        with pytest.raises(plain.Damaged):
            plain.unpacked(bytes(altered))
    with pytest.raises(TypeError, match="kept: holds an array of object"):
        plain.packed(np.array([print]), {}, "kept")
    with pytest.raises(TypeError, match="kept: holds a set"):
        plain.packed({1}, {}, "kept")


SAID = {
    "seed was 3 and is 4": dict(seed=4),
    "dt was 0.03125 and is 0.0625": dict(dt=1 / 16, collect=[*COLLECT[:4], *COLLECT[5:]]),
    r"t 1 was 1.0 and is 2.0": dict(t=(0, 2)),
    "holds blocks of 64 paths, but 1000 paths would come in blocks of 128. Give block=64": dict(block=128),
    r"collect 0 statistic was 'Moments\(every=8\)' and is 'Moments\(every=4\)'": dict(
        collect=[st.Moments(every=4), *COLLECT[1:]]
    ),
    "collect 2 trace was": dict(
        collect=[*COLLECT[:2], st.Observable(lambda t, x, p: x[0], name="energy"), *COLLECT[3:]]
    ),
    "dtype was 'float64' and is 'float32'": dict(dtype="float32"),
    "executor was 'printed' and is 'vmap'": dict(executor="vmap"),
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory, quick_compiling_everywhere):
    folder = tmp_path_factory.mktemp("kept") / "run"
    with jax.enable_x64(True):
        simulate(kubo(), Heun, paths=PATHS, ledger=folder, **RUN)
    return folder


@pytest.mark.parametrize("said", SAID)
def test_another_run_is_refused_saying_what_differs(said, kept):
    with pytest.raises(ValueError, match=f"ledger: .*{said}"):
        simulate(kubo(), Heun, paths=PATHS, ledger=kept, **RUN | SAID[said])


def test_other_problems_and_methods_are_refused(tmp_path):
    def problem(rate=1.0, start=1.0, factor=0.5):
        return SDE(lambda t, x, p: -p["rate"] * x, lambda t, x, p: factor, start, params={"rate": rate})

    options = dict(t=(0, 1), dt=0.25, paths=8, seed=1, ledger=tmp_path / "run")
    simulate(problem(), EulerMaruyama, **options)
    for said, other, method in (
        (r"params \['rate'\] was 1.0 and is 2.0", problem(rate=2.0), EulerMaruyama),
        ("start 0 was 1.0 and is 2.0", problem(start=2.0), EulerMaruyama),
        ("start was .* and is 'drawn: ", problem(start=scipy.stats.norm()), EulerMaruyama),
        ("the equations differ", problem(factor=0.6), EulerMaruyama),
        ("method was 'EulerMaruyama' and is 'Heun'", problem(), Heun),
    ):
        with pytest.raises(ValueError, match=said):
            simulate(other, method, **options)


def test_more_paths_extend_a_run(tmp_path, unbroken):
    folder = tmp_path / "run"
    simulate(kubo(), Heun, paths=449, ledger=folder, **RUN)  # one path in the last block
    assert len(blocks_of(folder)) == 8
    longer = simulate(kubo(), Heun, paths=PATHS, ledger=folder, **RUN)
    assert_same_bits(longer, unbroken)
    assert provenance(longer)["blocks_read"] == 7  # the eighth was not full
    shorter = simulate(kubo(), Heun, paths=449, ledger=folder, **RUN)
    assert provenance(shorter)["blocks_read"] == 8
    assert load(folder).identical(shorter)


def test_values_given_path_by_path(tmp_path):
    """They are compared block by block: more of them extend a run, others are refused."""
    values = np.linspace(0.5, 1.5, 40)

    def run(values, paths):
        problem = SDE(lambda t, x, p: -p * x, lambda t, x, p: 0.1, 1.0, params=PerPath(values))
        return simulate(problem, Heun, t=(0, 1), dt=0.25, paths=paths, seed=1, block=8, ledger=tmp_path / "run")

    run(values[:24], 24)
    assert provenance(run(values, 40))["blocks_read"] == 3
    values[30] += 0.5
    with pytest.raises(ValueError, match=r"block 3 computed with other starts or params of its paths \(24, ...\)"):
        run(values, 40)


def test_a_full_disk_is_a_clear_error_that_loses_nothing(tmp_path, unbroken, monkeypatch):
    folder, flushed, fsync = tmp_path / "run", [], os.fsync

    def full_after_nine(descriptor):
        flushed.append(descriptor)
        if len(flushed) > 9:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(ledger_module.os, "fsync", full_after_nine)
        with pytest.raises(OSError, match=r"no room for \d+ bytes in .*\d blocks already written are kept") as found:
            simulate(kubo(), Heun, paths=PATHS, ledger=folder, threads=1, **RUN)
    assert found.value.errno == errno.ENOSPC
    assert len(blocks_of(folder)) == 8  # and no unfinished file among them
    with pytest.raises(ValueError, match="not complete: 8 of 16 blocks are done"):
        load(folder)
    run = simulate(kubo(), Heun, paths=PATHS, ledger=folder, **RUN)
    assert_same_bits(run, unbroken)
    assert provenance(run)["blocks_read"] == 8


def test_two_runs_in_one_ledger_at_once(tmp_path, unbroken):
    def run(_):
        return simulate(kubo(), Heun, paths=PATHS, ledger=tmp_path / "run", **RUN)

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for found in pool.map(run, range(3)):
            assert_same_bits(found, unbroken)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda place: place.write_text("mine"), "is a file; expected a folder"),
        (
            lambda place: (place.mkdir(), (place / "thesis.tex").write_text("mine")),
            r"holds other files \(thesis.tex\)",
        ),
    ],
)
def test_what_is_no_ledger_is_left_alone(make, said, tmp_path):
    make(tmp_path / "run")
    with pytest.raises(ValueError, match=f"ledger: .*{said}"):
        simulate(ornstein_uhlenbeck(), Heun, t=(0, 1), dt=0.25, paths=8, seed=1, ledger=tmp_path / "run")
    assert "mine" in {
        file.read_text() for file in (tmp_path / "run", tmp_path / "run" / "thesis.tex") if file.is_file()
    }


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        (3, TypeError, "ledger: expected the name of a folder, such as 'runs/plasma', got 3"),
        ("", TypeError, "ledger: expected the name of a folder"),
        (f"{__file__}/run", ValueError, r"ledger: cannot make the folder .*test_ledger.py/run \(Not a directory\)"),
    ],
)
def test_what_can_be_no_ledger(name, kind, said):
    with pytest.raises(kind, match=said):
        simulate(ornstein_uhlenbeck(), Heun, t=(0, 1), dt=0.25, paths=8, seed=1, ledger=name)


def test_a_sweep_is_no_single_run(kept):
    with pytest.raises(ValueError, match=r"holds a single run, but this is a sweep. Give another folder"):
        sweep(ornstein_uhlenbeck(), Heun, over={"rate": [1.0]}, t=(0, 1), dt=0.25, paths=8, seed=1, ledger=kept)


def test_nothing_to_load(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"load: there is neither a file nor a folder .*none"):
        load(tmp_path / "none")
    (tmp_path / "words.nc").write_text("no numbers")
    with pytest.raises(ValueError, match=r"load: .*words.nc is not a NetCDF file that can be read"):
        load(tmp_path / "words.nc")
    with pytest.raises(ValueError, match=r"ledger: .* cannot be read: it is not a ledger"):
        load(tmp_path)
    with pytest.raises(ValueError, match="ledger: there is no folder"):
        status(tmp_path / "none")


def test_a_lost_manifest_is_written_again_unless_the_blocks_are_of_another_run(kept, unbroken):
    manifest = (kept / "manifest.json").read_text()
    assert json.loads(manifest)["identity"]["seed"] == 3
    (kept / "manifest.json").write_text(manifest.replace('"seed": 3', '"seed": 4'))  # altered: not believed
    assert_same_bits(simulate(kubo(), Heun, paths=PATHS, ledger=kept, **RUN), unbroken)
    (kept / "manifest.json").unlink()
    with pytest.raises(ValueError, match="has lost its manifest, and its blocks belong to another run"):
        simulate(kubo(), Heun, paths=PATHS, ledger=kept, **RUN | dict(seed=4))
    assert_same_bits(simulate(kubo(), Heun, paths=PATHS, ledger=kept, **RUN), unbroken)


def test_a_ledger_of_programs_that_rounded_otherwise_is_refused(tmp_path, monkeypatch):
    """One from before sums of products were rounded term by term says nothing of it."""
    run = dict(t=(0, 1), dt=0.25, paths=8, seed=1, ledger=tmp_path / "run")
    before = {name: word for name, word in identity.software().items() if name != "rounded"}
    with monkeypatch.context() as patched:
        patched.setattr(identity, "software", lambda: before)
        simulate(ornstein_uhlenbeck(), Heun, **run)
    said = "holds another run: software rounded was None and is 'both products of a sum of two'"
    with pytest.raises(ValueError, match=said):
        simulate(ornstein_uhlenbeck(), Heun, **run)


def test_failures_are_kept_too(tmp_path):
    """dx = x³ dt blows up; the ledger of a run that stopped tells it again, and a run that goes on uses it."""
    problem = SDE(lambda t, x: x**3, lambda t, x: 0.0, PerPath(np.where(np.arange(24) == 13, 50.0, 0.1)))
    options = dict(t=(0, 1), dt=0.125, paths=24, seed=1, block=8, collect=st.Moments(every=4))
    without = simulate(problem, EulerMaruyama, on_failure="record", **options)
    for _ in range(2):
        with pytest.raises(PathsFailed, match="First: path 13 at t = "):
            simulate(problem, EulerMaruyama, threads=1, ledger=tmp_path / "run", **options)
    run = simulate(problem, EulerMaruyama, on_failure="record", ledger=tmp_path / "run", **options)
    assert provenance(run)["blocks_read"] >= 2
    assert_same_bits(run, without)
    assert run["failed_path"].values.tolist() == [13]


class Extremes(NamedTuple):
    lowest: float
    highest: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class Range(st.Moments):
    """A statistic of the user's own: what it keeps of a block is a named tuple with a number in it."""

    def observe(self, snapshot):
        return jnp.min(snapshot.x), jnp.max(snapshot.x)

    def fold(self, observed, block):
        return Extremes(float(observed[0].min()), observed[1])

    def merge(self, a, b):
        return Extremes(min(a.lowest, b.lowest), np.maximum(a.highest, b.highest))

    def label(self, result, run):

        return Labelled(
            {"lowest": Variable((), np.asarray(result.lowest)), "highest": Variable(("time",), result.highest)}
        )


def test_statistics_of_the_users_own(tmp_path, monkeypatch):
    options = dict(t=(0, 1), dt=0.25, paths=20, seed=1, block=8, collect=Range(every=2))
    without = simulate(ornstein_uhlenbeck(), Heun, **options)
    simulate(ornstein_uhlenbeck(), Heun, ledger=tmp_path / "run", **options)
    run = simulate(ornstein_uhlenbeck(), Heun, ledger=tmp_path / "run", **options)
    assert provenance(run)["blocks_read"] == 3
    assert_same_bits(run, without)
    monkeypatch.setattr(Range, "fold", lambda self, observed, block: Extremes(0.0, observed[1]))
    with pytest.raises(ValueError, match="collect 0 fold was"):
        simulate(ornstein_uhlenbeck(), Heun, ledger=tmp_path / "run", **options)


def test_what_calls_back_to_python_has_no_ledger(tmp_path):
    def drift(t, x):
        return jax.pure_callback(lambda x: -x, jax.ShapeDtypeStruct((), x.dtype), x, vmap_method="expand_dims")

    problem = SDE(drift, lambda t, x: 0.1, 1.0, structure="additive")
    with pytest.raises(ValueError, match="problem: its functions call back to Python"):
        simulate(problem, EulerMaruyama, t=(0, 1), dt=0.25, paths=8, seed=1, ledger=tmp_path / "run")


LONGER = dict(t=(0, 1), dt=2.0**-15, paths=64 * 64, seed=3, block=64)
CHILD = """
from stodyn import simulate, statistics as st
from stodyn.models.kubo import kubo
simulate(kubo(), "Heun", threads=1, ledger={folder!r}, collect=[st.Moments(every=8192), st.Paths(3)], **{options!r})
"""


def test_two_processes_in_one_ledger_and_one_is_killed(tmp_path, forked):
    """kill -9 of one of two in a run of 64 blocks: the other ends it, to the same bits, and nothing is left over.

    tests/cli/test_run.py kills the only one and goes on; benchmarks/survival.py does both a hundred times."""
    folder = tmp_path / "run"
    one, other = (forked(CHILD.format(folder=str(folder), options=LONGER)) for _ in range(2))
    one.wait(until=lambda: len(finished_blocks_of(folder)) >= 9)
    one.kill()
    assert 9 <= len(finished_blocks_of(folder)) < 64 and other.is_alive()
    other.wait()
    done = status(folder)
    assert (done.done, done.blocks, done.complete) == (64, 64, True)
    unbroken = simulate(kubo(), Heun, collect=[st.Moments(every=8192), st.Paths(3)], **LONGER)
    assert_same_bits(load(folder), unbroken)
    again = simulate(kubo(), Heun, ledger=folder, collect=[st.Moments(every=8192), st.Paths(3)], **LONGER)
    assert provenance(again)["blocks_read"] == 64
    assert_same_bits(again, unbroken)


def test_a_block_of_another_run_in_its_place_is_computed_again(tmp_path, unbroken):
    """Copied there by hand, whole and with a right checksum: its own record says whose it is."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    simulate(kubo(), Heun, paths=PATHS, ledger=ours, **RUN)
    simulate(kubo(), Heun, paths=64, ledger=theirs, **RUN | dict(seed=4))
    first = blocks_of(theirs)[0]
    (ours / first.relative_to(theirs)).write_bytes(first.read_bytes())
    run = simulate(kubo(), Heun, paths=PATHS, ledger=ours, **RUN)
    assert_same_bits(run, unbroken)
    assert provenance(run)["blocks_read"] == 15


def test_what_a_statistic_computes_belongs_to_the_identity():
    """Observables of one name, of a parameter that is drawn for each path: their results count, not their names."""

    def product(t, x, p):
        return (p * x[0], p + x[0])[0]

    def again(t, x, p):
        return (p * x[0], p + x[0])[0]

    def other(t, x, p):
        return (p * x[0], p + x[0])[1]

    problem = SDE(lambda t, x, p: -p * x, lambda t, x, p: 1.0, 1.0, params=scipy.stats.uniform(1.0, 1.0))
    collect = [st.Observable(function, name="y") for function in (product, again, other)]
    spec = describe(problem, Heun, (0.0, 1.0), 0.5, collect[0], "float64")
    found = [identity._collected(spec, statistic) for statistic in collect]
    assert found[0] == found[1] and found[0] != found[2]


@pytest.mark.parametrize("line", ["model name\t: Fast 9000", "CPU part\t: 0xd4f"])
def test_a_run_names_its_processor(line, tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{line}\n\nprocessor\t: 1\n{line}\n")
    monkeypatch.setattr(identity, "Path", lambda name: tmp_path / "cpuinfo")
    assert identity._processor() == f"{platform.machine()} {line.partition(': ')[2]}"
    (tmp_path / "cpuinfo").unlink()
    assert identity._processor() == f"{platform.machine()} {platform.processor()}".strip()


@pytest.mark.parametrize(
    ("times", "rate"),
    [
        ((0, 1, 2, 3, 4), 1.0),
        ((0, 1, 2, 102, 104), 0.5),  # a pause is not part of the rate
        ((0, 100, 200, 300, 400), 0.01),  # slow blocks are no pauses
        ((0, 1, 2, 3, 50), 4 / 50),  # nor is a short wait
    ],
)
def test_the_rate_is_that_since_the_last_pause(tmp_path, times, rate):
    simulate(kubo(), Heun, paths=300, ledger=tmp_path, **RUN)
    for file, seconds in zip(finished_blocks_of(tmp_path), times, strict=True):
        os.utime(file, (1e9 + seconds, 1e9 + seconds))
    found = status(tmp_path)
    assert found.rate == pytest.approx(rate) and found.left == 0.0 and found.complete
    assert found.idle == pytest.approx(time.time() - 1e9 - times[-1], abs=60.0)


def test_unfinished_files_of_processes_that_have_ended_are_cleared_away(tmp_path):
    simulate(kubo(), Heun, paths=64, ledger=tmp_path, **RUN)
    old, new = (tmp_path / f"{ledger_module.UNFINISHED}{name}" for name in ("old", "new"))
    for file, age in ((old, ledger_module.ABANDONED + 60.0), (new, ledger_module.ABANDONED - 60.0)):
        file.write_bytes(b"part of a block")
        os.utime(file, (time.time() - age, time.time() - age))
    simulate(kubo(), Heun, paths=64, ledger=tmp_path, **RUN)
    assert new.exists() and not old.exists()
