"""Kernels as a GPU runs them, blocks of threads that exchange sums, with a thread of Python for each of theirs."""

import ctypes
import re
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.engine.program import card, cards, kernel, on_card
from stodyn.numerics.printing import compiling

pytestmark = pytest.mark.usefixtures("quick_compiling")
THREADS, PATIENCE = 128, 60.0  # of a block: four warps; seconds after which a thread no longer waits for others
INTEGER = ctypes.c_int32


class Emulated(card.Host):
    """A card of one processor, whose blocks run one after another."""

    def __init__(self, device, threads=THREADS):
        super().__init__(device)
        self.group = self.joining = threads
        self.local, self.block = threading.local(), 0
        self.together = threading.Barrier(threads, timeout=PATIENCE)
        self.warps = [threading.Barrier(kernel.WARP, timeout=PATIENCE) for _ in range(threads // kernel.WARP)]
        self.exchanged = np.zeros((2, threads), np.int32)
        self.calls = [
            ("tid.x", ctypes.CFUNCTYPE(INTEGER)(lambda: self.local.number)),
            ("ctaid.x", ctypes.CFUNCTYPE(INTEGER)(lambda: self.block)),
            ("shfl.sync.bfly.i32", ctypes.CFUNCTYPE(INTEGER, *[INTEGER] * 4)(self.shuffled)),
            ("barrier.cta.sync.aligned.all", ctypes.CFUNCTYPE(None, INTEGER)(self.wait)),
        ]

    def allocated(self, shape):
        memory = super().allocated(shape)
        memory.array.fill(np.nan)
        return memory

    def shuffled(self, members, mine, apart, clamp):
        """The number of the thread `apart` from this one."""
        number, self.local.turn = self.local.number, 1 - self.local.turn
        numbers = self.exchanged[self.local.turn]
        numbers[number] = mine
        self.warps[number // kernel.WARP].wait()
        return int(numbers[number ^ apart])

    def wait(self, which):
        self.together.wait()

    def loaded(self, text, names):
        for name, call in self.calls:
            address = ctypes.cast(call, ctypes.c_void_p).value
            text = re.sub(rf"@llvm\.nvvm\.(read\.ptx\.sreg\.)?{re.escape(name)}\(", f"@card.{id(self)}.{name}(", text)
            compiling.llvm().add_symbol(f"card.{id(self)}.{name}", address)
            given = ", ".join("i32" for _ in call.argtypes)
            text += f"\ndeclare {'void' if call.restype is None else 'i32'} @card.{id(self)}.{name}({given})\n"
        text = re.sub(r"ptr byval\(\[\d+ x i64\]\) align 8 %frame", "ptr %frame", text)
        machine = compiling.compiled(text.replace("ptx_kernel ", "").replace("addrspace(3)", ""), names, level=1)

        def launch(name, blocks, threads, frame):
            def one(number):
                self.local.number, self.local.turn = number, 0
                machine[name](frame.address)

            for self.block in range(blocks):
                together = [threading.Thread(target=one, args=(number,)) for number in range(threads)]
                for thread in together:
                    thread.start()
                for thread in together:
                    thread.join()

        return launch


@pytest.mark.parametrize("few", [kernel.FEW_SUMS, 2], ids=["one by one", "in a loop"])
def test_threads_that_sum_together_find_the_sums_of_one(monkeypatch, few):
    """Of 200 paths, in two blocks; the threads beyond the last path have none."""
    monkeypatch.setattr(kernel, "FEW_SUMS", few)
    problem = sd.SDE(lambda t, x: -x, lambda t, x: x, 1.0)
    options = dict(t=(0.0, 0.1), dt=0.05, paths=200, seed=4, collect=st.Moments(at=[0.1]), device=jax.devices("cpu"))
    alone = sd.simulate(problem, "EulerMaruyama", **options)
    together = Emulated(jax.devices("cpu")[0])
    monkeypatch.setattr(cards, "card_of", lambda device: together)
    run = sd.simulate(problem, "EulerMaruyama", **options)
    assert run["paths_used"].values.tolist() == [200]
    for name in alone.data_vars:
        np.testing.assert_allclose(run[name], alone[name], rtol=1e-11, err_msg=name)


@pytest.mark.parametrize("method", ["Heun", "AB2"])
def test_threads_that_share_the_loops_of_a_step_make_the_paths_of_one(monkeypatch, method):
    """Sixteen threads take four paths, each a quarter of the entries of every loop, and wait behind it; one path fails,
    at the second step, and all of its threads find the same."""
    threads, lanes, n = 16, 8, 401
    for name in ("THREADS", "MANY_THREADS"):
        monkeypatch.setattr(on_card, name, threads)
    monkeypatch.setattr(cards, "GROUP", lanes)

    def start(rng, size):
        x = rng.normal(2.0, 0.5, size=(size, n))
        x[np.arange(size) == 5, 200] = 1e200
        return x

    problem = sd.SDE(
        lambda t, x: (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x,
        lambda t, x: sd.diagonal(0.5 + 0.0 * x),
        start,
    )
    options = dict(t=(0.0, 0.03), dt=0.01, paths=7, seed=4, collect=st.Paths(7, every=1), on_failure="record",
                   device=jax.devices("cpu"))  # fmt: skip
    alone = sd.simulate(problem, method, **options)
    together = Emulated(jax.devices("cpu")[0], threads)
    monkeypatch.setattr(cards, "card_of", lambda device: together)
    run = sd.simulate(problem, method, **options)
    assert "over arrays per step" in sd.provenance(run)["executor_reason"]
    assert run["failed_path"].values.tolist() == [5]
    for name in alone.data_vars:
        np.testing.assert_array_equal(run[name], alone[name], err_msg=name)
