"""The same seed gives the same bits: any threads, any slabs, any statistics, any process."""

import concurrent.futures
import hashlib
import textwrap

import jax.numpy as jnp
import numpy as np
import pytest

from stodyn import SDE, provenance, simulate
from stodyn import statistics as st
from stodyn.engine.program import executors, printed
from stodyn.methods.explicit import EulerMaruyama, Heun
from stodyn.methods.implicit import ImplicitMidpoint, ThetaEuler
from stodyn.methods.srk import SRA1
from stodyn.models.double_well import double_well
from stodyn.models.kubo import kubo
from stodyn.models.lorenz import lorenz
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck

RUN = dict(t=(0.1, 1.0), dt=0.9 / 30, paths=50, seed=3, block=16)
PATHS = st.Paths(50, every=6)
OTHERS = [
    st.Moments(),
    st.Iterations(),
    st.Histogram(np.linspace(-3, 3, 5), every=7),
    st.Observable(lambda t, x, p: x[0] ** 2, at=[1.0]),
]
CASES = {
    "Heun printed": (kubo(), Heun, "printed"),
    "midpoint printed": (double_well(), ImplicitMidpoint, "printed"),
    "Euler under vmap": (ornstein_uhlenbeck(), EulerMaruyama, "vmap"),
    "theta under vmap": (ornstein_uhlenbeck(), ThetaEuler, "vmap"),
}


def bits(run, *names):
    return hashlib.sha256(b"".join(np.ascontiguousarray(run[name].values).tobytes() for name in names)).hexdigest()


@pytest.mark.usefixtures("quick_compiling")
@pytest.mark.brief("Heun printed", "midpoint printed", "Euler under vmap")
@pytest.mark.parametrize("name", CASES)
def test_threads_slabs_and_statistics(name, monkeypatch):
    problem, method, executor = CASES[name]
    options = RUN | dict(executor=executor)
    reference = simulate(problem, method, collect=[PATHS, st.Moments()], threads=1, **options)
    both = ("path", "mean", "variance", "covariance", "variance_stderr")
    again = simulate(problem, method, collect=[PATHS, st.Moments()], threads=3, **options)
    assert bits(again, *both) == bits(reference, *both)
    crowded = simulate(problem, method, collect=[PATHS, *OTHERS], **options)
    alone = simulate(problem, method, collect=PATHS, **options)
    assert bits(crowded, *both) == bits(reference, *both)
    assert bits(alone, "path") == bits(reference, "path")
    for size in (1, 10**9):  # 8 steps in a slab, which six does not divide; then all 30 steps in one
        for module in (printed, executors):
            monkeypatch.setattr(module, "SLAB_BYTES", size)
        executors.forget()
        assert bits(simulate(problem, method, collect=PATHS, **options), "path") == bits(reference, "path")


CHILD = """
    import hashlib, os
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import numpy as np
    from stodyn import simulate, statistics as st
    from stodyn.methods.explicit import Heun
    from stodyn.models.kubo import kubo
    run = simulate(kubo(), Heun, t=(0, 1), dt=0.05, paths=3000, seed=3, collect=[st.Moments(every=5), st.Paths(9)])
    names = ("path", "mean", "variance", "covariance", "variance_stderr")
    print(hashlib.sha256(b"".join(np.ascontiguousarray(run[n].values).tobytes() for n in names)).hexdigest())
"""


def test_a_process_with_one_core_gives_the_same_bits(forked, tmp_path):
    """Here, and in another process that may use a single core only, where XLA's own pool is smaller, too."""
    run = simulate(kubo(), Heun, t=(0, 1), dt=0.05, paths=3000, seed=3, collect=[st.Moments(every=5), st.Paths(9)])
    here = bits(run, "path", "mean", "variance", "covariance", "variance_stderr")
    forked(textwrap.dedent(CHILD), tmp_path / "printed").wait()
    assert (tmp_path / "printed").read_text().strip() == here


@pytest.mark.usefixtures("quick_compiling")
@pytest.mark.long("tests/fuzz/test_executors_agree.py, and test_kernel.py for statistics")
@pytest.mark.parametrize(("problem", "method"), [(lorenz(), EulerMaruyama), (kubo(), ImplicitMidpoint)])
def test_printed_and_vmap_agree(problem, method):
    runs = [
        simulate(problem, method, executor=executor, collect=[PATHS, st.Moments(), st.Iterations()], **RUN)
        for executor in ("printed", "vmap")
    ]
    assert [provenance(run)["executor"] for run in runs] == ["printed", "vmap"]
    for name in ("path", "mean", "variance", "iterations"):
        np.testing.assert_allclose(runs[1][name], runs[0][name], rtol=1e-12, atol=1e-12)


def test_every_method_sees_the_same_brownian_paths():
    """dx = dW: the state is W itself, for methods that draw W alone and for one that draws Z beside it."""
    problem = SDE(lambda t, x: jnp.zeros(2), lambda t, x: jnp.eye(2), [0.0, 0.0])
    paths = [
        simulate(problem, method, collect=PATHS, **RUN)["path"].values
        for method in (EulerMaruyama, Heun, ThetaEuler, ImplicitMidpoint, SRA1)
    ]
    for other in paths[1:]:
        np.testing.assert_allclose(other, paths[0], rtol=1e-12, atol=1e-13)


def test_runs_side_by_side_do_not_disturb_each_other():
    """simulate called from threads of the user's own, with other seeds at the same time."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: simulate(kubo(), Heun, collect=PATHS, **RUN | dict(seed=seed)), range(8)))
    for seed, run in enumerate(together):
        alone = simulate(kubo(), Heun, collect=PATHS, **RUN | dict(seed=seed))
        assert bits(run, "path") == bits(alone, "path")


def test_another_seed_is_another_ensemble():
    runs = [simulate(kubo(), Heun, collect=PATHS, **RUN | dict(seed=seed))["path"].values for seed in (3, 4)]
    assert not np.any(runs[0][:, 1:] == runs[1][:, 1:])
    flat = runs[0][:, -1, 0]
    assert len(np.unique(flat)) == len(flat)  # no two paths share their noise, in one block or across blocks
