"""Threads, processes, a Dask cluster: the same bits, also when a process or a worker dies on the way."""

import dataclasses
import os
import signal
import threading
import time

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stodyn import SDE, place, provenance, simulate, sweep
from stodyn import statistics as st
from stodyn.engine.door import available_cores
from stodyn.engine.places import worker
from stodyn.engine.places.worker import WorkerDiffers
from stodyn.engine.record import identity
from stodyn.engine.simulate import run_of
from stodyn.engine.spec import describe
from stodyn.engine.where import where_of
from stodyn.methods.explicit import EulerMaruyama, Heun

pytestmark = pytest.mark.usefixtures("quick_compiling_everywhere")
RUN = dict(t=(0, 1), dt=1 / 64, paths=1000, seed=3, block=64)


def problem(strength=0.3):
    """Functions that only a closure can make: they must travel as they are."""
    table = np.linspace(0.5, 1.5, 4)
    return SDE(
        lambda t, x, p: -jnp.asarray(table)[:2] * x * p["rate"], lambda t, x, p: strength * jnp.eye(2), [1.0, 0.0],
        params={"rate": 1.0},
    )  # fmt: skip


def collected(folder=None):
    """The second one may kill the process it is folded in, once, as a file says."""
    return [st.Moments(every=16), Deadly(3, every=32, folder=str(folder or ""))]


def assert_same_bits(a, b):
    for name in a.variables:
        assert a[name].values.tobytes() == b[name].values.tobytes(), name


@dataclasses.dataclass(frozen=True, kw_only=True)
class Deadly(st.Paths):
    """Paths; block 5 kills the process that folds it, the first time, where a folder is given."""

    folder: str = dataclasses.field(default="", repr=False)

    def fold(self, observed, block):
        mark = os.path.join(self.folder, "killed")
        if self.folder and block.first == 320 and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fold(observed, block)


@pytest.fixture(scope="module")
def alone(quick_compiling_everywhere):
    with jax.enable_x64(True):
        return simulate(problem(), Heun, threads=1, collect=collected(), **RUN)


def test_two_threads_give_the_same_bits(alone):
    assert_same_bits(simulate(problem(), Heun, place=place.threads(2), collect=collected(), **RUN), alone)


def test_threads_compute_on_the_processor_whatever_device_jax_would_take():
    """JAX's default device belongs to a thread: beside a GPU blocks of runs went there, slowly and with other bits."""
    devices = place.threads(2).map(lambda block: jax.config.jax_default_device, range(3), lambda: None)
    assert list(devices) == [jax.devices("cpu")[0]] * 3


def test_after_an_error_blocks_under_way_are_waited_for_and_others_not_begun():
    """Blocks 1 and 2 end a while after the error of block 0; block 3 waits for a thread in vain."""
    began, ended, error_seen = [], [], threading.Event()

    def one(block):
        began.append(block)
        if block == 0:
            raise ValueError("block 0")
        if error_seen.wait(10.0):
            ended.append(block)

    with pytest.raises(ValueError, match="block 0"):
        list(place.threads(2).map(one, range(8), lambda: threading.Timer(0.1, error_seen.set).start()))
    assert set(began) <= {0, 1, 2} and set(ended) == set(began) - {0}


def test_two_processes_give_the_same_bits_though_one_is_killed(alone, tmp_path, monkeypatch):
    """One of them is killed in the middle of a block; what cannot travel is refused; none of them is left.

    A module of the user's with the name of one of Python's does not keep them from starting."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "numbers.py").write_text("raise AssertionError('this is not the numbers of Python')")
    with place.processes(2) as two:
        run = simulate(problem(), Heun, place=two, collect=collected(tmp_path), ledger=tmp_path / "run", **RUN)
        assert (tmp_path / "killed").exists()
        assert_same_bits(run, alone)
        assert provenance(run)["place"] == "2 processes"
        again = simulate(problem(), Heun, collect=collected(tmp_path), ledger=tmp_path / "run", **RUN)
        assert provenance(again)["blocks_read"] == 16
        assert_same_bits(again, alone)

        children = [child.process for child in two._all]
        with pytest.raises(TypeError, match="place: the run cannot be sent to another process"):
            lock = threading.Lock()
            held = SDE(lambda t, x: -x if lock else x, lambda t, x: 0.1, 1.0)
            simulate(held, EulerMaruyama, t=(0, 1), dt=0.5, paths=8, seed=1, place=two)
    assert len(children) == 2 and all(child.poll() is not None for child in children)


@pytest.fixture(scope="module")
def dask_client(quick_compiling_everywhere):
    """A cluster of two workers, which are forks of one process that has imported what they need."""
    distributed = pytest.importorskip("distributed")
    import dask

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        distributed.utils.get_mp_context().set_forkserver_preload(["distributed", "stodyn.engine.places.dask"])
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client


def test_a_dask_cluster_gives_the_same_bits_though_a_worker_is_killed(alone, tmp_path, monkeypatch, dask_client):
    """Two workers, one killed in the middle of a block; a sweep; workers that differ; no workers for a while."""
    from stodyn.engine.places import dask as cluster

    there = place.dask(dask_client)
    run = simulate(problem(), Heun, place=there, collect=collected(tmp_path), ledger=tmp_path / "run", **RUN)
    assert (tmp_path / "killed").exists()
    assert_same_bits(run, alone)
    assert provenance(run)["place"].startswith("dask at tcp://")
    there_still = dask_client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.worker_plugins))
    assert not [name for name in there_still if name.startswith("stodyn-")]
    over = dict(over={"rate": [1.0, 2.0]}, collect=st.Moments(every=16), **RUN | dict(paths=200))
    with monkeypatch.context() as patched:
        register, deaths = dask_client.register_plugin, iter([OSError("a worker died while it was told of the run")])

        def registered(*arguments, **options):
            for error in deaths:
                raise error
            return register(*arguments, **options)

        patched.setattr(dask_client, "register_plugin", registered)
        assert_same_bits(sweep(problem(), Heun, place=there, **over), sweep(problem(), Heun, **over))

    with monkeypatch.context() as patched:
        address = next(iter(dask_client.scheduler_info()["workers"]))
        ours = dict(identity.software())
        patched.setattr(identity, "software", lambda: ours | {"jax": "0.0.1"})
        patched.setattr(identity.software, "__module__", "stodyn.engine.record.identity", raising=False)
        patched.setattr(identity.software, "__qualname__", "software", raising=False)
        with pytest.raises(WorkerDiffers, match=rf"{address}: jax was '0.0.1' and is '{jax.__version__}'"):
            simulate(problem(), Heun, place=there, collect=collected(), **RUN)

    monkeypatch.setattr(cluster, "LOOK", 0.1)
    monkeypatch.setattr(cluster, "DESERTED", 0.3)
    dask_client.cluster.scale(0)
    while dask_client.nthreads():
        time.sleep(0.05)
    back = threading.Timer(1.0, dask_client.cluster.scale, (1,))
    back.start()
    with pytest.warns(
        UserWarning, match=r"dask at tcp://.* has had no workers for 0.3 s. The run continues as soon as"
    ):
        assert_same_bits(simulate(problem(), Heun, place=there, collect=collected(), **RUN), alone)
    back.join()


def test_a_cluster_that_is_not_there(monkeypatch):
    cluster = pytest.importorskip("stodyn.engine.places.dask")
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    with pytest.raises(ConnectionError, match=r"place: there is no Dask scheduler at 'tcp://127.0.0.1:9'"):
        place.dask("tcp://127.0.0.1:9")
    with pytest.raises(TypeError, match=r"place: expected a distributed.Client, a cluster such as"):
        place.dask(3)


def test_what_is_no_place_is_refused():
    short = dict(t=(0, 1), dt=0.5, paths=8, seed=1)
    with pytest.raises(TypeError, match=r"place: expected stodyn.place.threads\(n\)"):
        simulate(problem(), Heun, place="dask", **short)
    with pytest.raises(ValueError, match="threads: give either threads= or place="):
        simulate(problem(), Heun, place=place.threads(2), threads=2, **short)
    with pytest.raises(ValueError, match="processes: expected a whole number >= 1, got 0"):
        place.processes(0)


def test_a_worker_computes_what_it_has_received_until_it_is_to_forget_it():
    """In this process; a run whose functions differ there is refused."""
    with jax.enable_x64(True):
        spec = describe(problem(), Heun, (0, 1), 1 / 64, st.Moments(every=32), "float64")
        job = run_of(spec, 100, 3, where_of(block=64))
        expected = [job.pack(block, job.compute(block, lambda steps: None)) for block in (1, 0)]
    worker.receive("a run", worker.packed_job(job))
    for _ in range(2):
        records, seconds = worker.work("a run", [1, 0])
        assert records == expected and seconds > 0.0
    assert "a run" in worker._jobs
    worker.forget("a run")
    worker.forget("a run")
    with pytest.raises(KeyError):
        worker.work("a run", [0])
    worker.receive("another", cloudpickle.dumps((job, job.identity | {"seed": 4})))
    with pytest.raises(WorkerDiffers, match=r"differs from the sender .*seed was 4 and is 3"):
        worker.work("another", [0])
    worker.forget("another")


@pytest.mark.parametrize(("quota", "cores"), [("max 100000", 4), ("150000 100000", 2), ("1000 100000", 1), ("odd", 4)])
def test_cores_are_those_of_the_affinity_and_of_the_quota(monkeypatch, quota, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3})
    monkeypatch.setattr("pathlib.Path.read_text", lambda path: quota)
    assert available_cores() == cores
