"""A Dask cluster whose workers die, answer wrongly or are lost, played by a client in this process."""

import ctypes
import time
import types

import numpy as np
import pytest

from stodyn import place, provenance, simulate
from stodyn import statistics as st
from stodyn.engine.places.worker import WorkerDiffers, WorkersDied
from stodyn.engine.record import identity
from stodyn.methods.explicit import Heun
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck

cluster = pytest.importorskip("stodyn.engine.places.dask")
distributed = pytest.importorskip("distributed")
RUN = dict(t=(0, 1), dt=1 / 16, paths=300, seed=3, block=64, collect=st.Moments(every=8))


class Future:
    def __init__(self, answer):
        self.answer = answer

    def add_done_callback(self, function):
        if self.answer is not None:
            function(self)

    def result(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Client:
    """Answers at once; `answers` are given in place of the first blocks: exceptions, or None for none at all."""

    status, asynchronous, dashboard_link = "running", False, ""
    scheduler = types.SimpleNamespace(address="tcp://here")

    def __init__(self, *answers, refused=0):
        self.answers, self.refused = list(answers), refused
        self.carried, self.keys, self.cancelled = {}, [], []

    def run(self, function, on_error):
        return {"tcp://one": function(), "tcp://gone": OSError("it has left")}

    def nthreads(self):
        return {"tcp://one": 1, "tcp://two": 1}

    def register_plugin(self, plugin, name):
        if self.refused:
            self.refused -= 1
            raise OSError("a worker has died")
        self.carried[name] = plugin
        plugin.setup(None)

    def unregister_worker_plugin(self, name):
        self.carried.pop(name).teardown(None)

    def submit(self, function, name, blocks, pure, key):
        self.keys.append(key)
        return Future(self.answers.pop(0) if self.answers else function(name, blocks))

    def cancel(self, futures, force):
        self.cancelled += futures


def there(client, monkeypatch):
    monkeypatch.setattr(distributed, "Client", Client)
    clock = types.SimpleNamespace(sleep=lambda seconds: None, monotonic=time.monotonic)
    monkeypatch.setattr(cluster, "time", clock)
    return place.dask(client)


def killed():
    return distributed.scheduler.KilledWorker("a block", types.SimpleNamespace(address="tcp://one"), 3)


def test_blocks_on_which_workers_died_are_given_again(monkeypatch):
    client = Client(killed(), killed(), refused=cluster.ATTEMPTS - 1)
    run = simulate(ornstein_uhlenbeck(), Heun, place=there(client, monkeypatch), **RUN)
    np.testing.assert_array_equal(run["mean"], simulate(ornstein_uhlenbeck(), Heun, **RUN)["mean"])
    assert provenance(run)["place"] == "dask at tcp://here"
    assert len(set(client.keys)) == len(client.keys) and not client.carried and not client.cancelled


@pytest.mark.parametrize(
    ("answers", "error", "words"),
    [
        ([killed() for _ in range(20)], WorkersDied, r"workers keep dying on blocks 0 to \d"),
        ([distributed.CancelledError()], ConnectionError, "the Dask scheduler has gone"),
        ([ValueError("from a function")], ValueError, "from a function"),
    ],
    ids=["deaths", "cancelled", "an error"],
)
def test_what_cannot_go_on_ends_and_leaves_nothing_behind(monkeypatch, answers, error, words):
    client = Client(*answers, *[None] * 20)
    with pytest.raises(error, match=words):
        simulate(ornstein_uhlenbeck(), Heun, place=there(client, monkeypatch), **RUN)
    assert not client.carried and client.cancelled
    tried = [key for key in client.keys if "-0-" in key]
    assert len(tried) == (cluster.DEATHS if error is WorkersDied else 1)


def test_a_scheduler_that_is_lost_is_told(monkeypatch):
    client = Client(*[None] * 20)
    client.nthreads = lambda: setattr(client, "status", "closed") or {"tcp://one": 1}
    with pytest.raises(ConnectionError, match="the Dask scheduler has gone"):
        simulate(ornstein_uhlenbeck(), Heun, place=there(client, monkeypatch), **RUN)
    with pytest.raises(ConnectionError, match="the Dask scheduler has gone"):
        simulate(ornstein_uhlenbeck(), Heun, place=there(Client(refused=cluster.ATTEMPTS), monkeypatch), **RUN)
    client = Client()
    client.nthreads = lambda: (_ for _ in ()).throw(TimeoutError())
    with pytest.raises(ConnectionError, match="the Dask scheduler has gone"):
        simulate(ornstein_uhlenbeck(), Heun, place=there(client, monkeypatch), **RUN)


def test_workers_without_a_working_stodyn_are_refused(monkeypatch):
    client = Client()
    client.run = lambda function, on_error: {"tcp://one": identity.software(), "tcp://two": ImportError("no stodyn")}
    with pytest.raises(WorkerDiffers, match=r"tcp://two has no working stodyn \(.*no stodyn\)\. Give"):
        simulate(ornstein_uhlenbeck(), Heun, place=there(client, monkeypatch), **RUN)
    client.asynchronous = True
    with pytest.raises(TypeError, match="place: the client is asynchronous"):
        place.dask(client)


def test_memory_is_kept_between_calls_and_given_back_behind_them(monkeypatch):
    calls = []
    libc = types.SimpleNamespace(
        mallopt=lambda *given: calls.append(given), malloc_trim=lambda size: calls.append((size,))
    )
    monkeypatch.setattr(ctypes, "CDLL", lambda name: libc)
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    cluster.keep_memory(True)
    assert calls == []
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    cluster.keep_memory(True)
    assert calls == [(-1, 2**26), (-3, 2**25)]
    cluster.keep_memory(False)
    assert calls[2:] == [(-1, 65536), (-3, 2**17), (0,)]
