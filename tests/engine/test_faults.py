"""Disks that are full, memory that is limited, processes that fork: said in words, and nothing is lost or waits."""

import contextlib
import dataclasses
import os
import resource
import signal
import textwrap
import warnings

import jax
import numpy as np
import pytest

import stodyn as sd
from stodyn import SDE, load, provenance, simulate
from stodyn import statistics as st
from stodyn.engine import forked, kept_faults
from stodyn.engine.record.ledger import status
from stodyn.problems.contract import machine_memory
from stodyn.warnings import PrinterFault

DECAY = SDE(lambda t, x: -x, lambda t, x: 1.0, start=1.0)
RUN = dict(t=(0.0, 1.0), dt=0.125, paths=40, seed=1, block=8, collect=st.Moments())


@contextlib.contextmanager
def limited(kind, amount):
    """The soft limit of a resource, for a moment."""
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (int(amount), hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def test_a_ledger_where_files_may_be_no_larger_goes_on_where_it_stopped(tmp_path):
    """The manifest fits into 1100 bytes, a block into as many, the result does not."""
    expected = simulate(DECAY, "EulerMaruyama", **RUN)
    with limited(resource.RLIMIT_FSIZE, 1100), pytest.raises(OSError, match=r"ledger: no room for .* already written"):
        simulate(DECAY, "EulerMaruyama", ledger=tmp_path / "run", **RUN)
    again = simulate(DECAY, "EulerMaruyama", ledger=tmp_path / "run", **RUN)
    np.testing.assert_array_equal(again["mean"], expected["mean"])
    assert load(tmp_path / "run").identical(again)
    assert provenance(again)["blocks_read"] <= 5


LONG = RUN | dict(paths=8 * 100, threads=1)
TERMINATED = """
    import stodyn as sd
    from stodyn import statistics as st
    decay = sd.SDE(lambda t, x: -x, lambda t, x: 1.0, start=1.0)
    sd.simulate(decay, "EulerMaruyama", t=(0.0, 1.0), dt=0.125, paths=8 * 100, threads=1, seed=1, block=8,
                collect=st.Moments(), ledger={folder!r})
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_process_that_is_terminated_leaves_a_ledger_that_goes_on(tmp_path, forked):
    """SIGTERM, as a cluster ends a job: what stands in the folder is whole, and the same run goes on from there."""
    folder = tmp_path / "run"
    child = forked(textwrap.dedent(TERMINATED).format(folder=str(folder)))
    child.wait(until=lambda: len(list(folder.rglob("*-8"))) >= 5)
    os.kill(child.number, signal.SIGTERM)
    child.wait()
    done = status(folder).done
    assert 5 <= done < 100
    resumed = simulate(DECAY, "EulerMaruyama", ledger=folder, **LONG)
    assert provenance(resumed)["blocks_read"] == done
    np.testing.assert_array_equal(resumed["mean"], simulate(DECAY, "EulerMaruyama", **LONG)["mean"])


def test_a_run_that_does_not_fit_on_the_disk_leaves_the_file_before_it(tmp_path):
    small, large = (simulate(DECAY, "EulerMaruyama", **RUN | dict(dt=dt)) for dt in (0.5, 0.125))
    sd.save(small, tmp_path / "run.nc")
    with limited(resource.RLIMIT_FSIZE, 1000), pytest.raises(OSError, match=r"save: .*run\.nc could not be written"):
        sd.save(large, tmp_path / "run.nc")
    assert [file.name for file in tmp_path.iterdir()] == ["run.nc"]
    assert load(tmp_path / "run.nc").sizes["time"] == small.sizes["time"]


def test_a_limit_of_memory_counts_as_the_memory_there_is():
    with open("/proc/self/statm") as file:
        taken = os.sysconf("SC_PAGE_SIZE") * int(file.read().split()[0])
    before, room = machine_memory(), 2**30
    with limited(resource.RLIMIT_AS, taken + room):
        assert machine_memory() <= 1.1 * room < before
        with pytest.raises(MemoryError, match=r"Paths: would keep .* GB"):
            simulate(DECAY, "EulerMaruyama", **RUN | dict(paths=10**7, collect=st.Paths(10**7)))


def answers_of_a_fork(*calls):
    """What each call gives in a forked process, in words; it is ended after a minute."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX's own, of the same matter
        process = os.fork()
    if process == 0:
        signal.alarm(60)
        with os.fdopen(writing, "w") as pipe:
            for call in calls:
                try:
                    print(call(), file=pipe, flush=True)
                except Exception as error:
                    print(f"{type(error).__name__}: {error}", file=pipe, flush=True)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read().splitlines()
    os.waitpid(process, 0)
    return said


def test_a_fork_waits_until_the_threads_of_jax_rest(monkeypatch):
    """A thread that held a lock of JAX at the fork would hold it for ever in the child."""
    monkeypatch.setattr(forked, "LONGEST_REST", 60.0)
    simulate(DECAY, "EulerMaruyama", **RUN)
    products = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda i, y: jax.numpy.tanh(y @ x), x))
    working = products(jax.numpy.ones((300, 300)))
    assert answers_of_a_fork(working.is_ready) == ["True"]


def test_threads_that_hand_work_on_do_not_rest(monkeypatch):
    """A look at one thread after the other can miss the one that works: all must rest several times."""
    seen = [True, False, True, False, False, True] + [False] * 100
    left = iter(seen)
    monkeypatch.setattr(forked, "_ran", True)
    monkeypatch.setattr(forked, "LONGEST_REST", 60.0)
    monkeypatch.setattr(forked, "others_work", lambda: next(left))
    forked._wait_for_rest()
    assert len(list(left)) == len(seen) - 6 - forked.LOOKS


def test_a_process_forked_after_a_run_computes_by_print_and_refuses_what_would_wait_for_ever():
    def mean(executor):
        return float(simulate(DECAY, "EulerMaruyama", executor=executor, threads=2, **RUN)["mean"].values[-1, 0])

    expected = mean("printed")
    printed, vmapped = answers_of_a_fork(lambda: mean("printed"), lambda: mean("vmap"))
    assert float(printed) == expected
    assert vmapped.startswith("RuntimeError: this process was forked from one in which JAX had already run")


@dataclasses.dataclass(frozen=True)
class OfOnesOwn(SDE):
    """A kind of problem that is compared by its values, as dataclasses are, and so has no hash."""


def test_faults_are_kept_for_a_problem_that_has_no_hash_and_for_no_other():
    problem, other = (OfOnesOwn(lambda t, x: -x, None, [1.0]) for _ in range(2))
    with pytest.raises(TypeError, match="unhashable"):
        hash(problem)
    kept_faults.keep(problem, None, ["the proof failed"], [])
    with pytest.warns(PrinterFault, match="the proof failed"):
        kept_faults.tell_again(problem, None, [])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept_faults.tell_again(other, None, [])
