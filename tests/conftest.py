"""Tests compute in float64 unless they say otherwise, and what one of them has compiled the others read."""

import contextlib
import ctypes
import gc
import json
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before NumPy and JAX are imported, and for the processes that tests start. Threads of BLAS wait for each other by
# spinning, which costs more than it brings where matrices are small and other workers want the processor.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
# What one worker has compiled the others read.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / "build" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

import jax
import jaxlib
import pytest

# Tests make graphs of hundreds of thousands of objects: looking for cycles among all of them as often as Python does
# takes a fifteenth of the time.
gc.set_threshold(100_000, 50, 100)
FULL = bool(os.environ.get("STODYN_FULL"))  # make test-full
# XLA's plain code, in one piece, compiles in a fifth of the time of its usual code: 0.5 s in place of 2.5 for an
# implicit step under vmap. `make test-full` takes the usual one. JAX 0.11 and later have no plain code.
PLAIN_CODE = {"xla_cpu_use_fusion_emitters": "false", "xla_cpu_parallel_codegen_split_count": "1"}


def known_to_xla(flag: str) -> bool:
    """Whether the installed XLA parses a flag; it aborts on one that it does not know.

    Then its library holds the name as a string, with zeros around it, as nothing else that says the name has.
    """
    libraries = Path(jaxlib.__file__).parent.glob("*jax_common.*")
    return any(_holds(library, b"\0%s\0" % flag.encode()) for library in libraries)


def _holds(path: Path, text: bytes) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(text) >= 0


if "XLA_FLAGS" not in os.environ and not FULL:  # which XLA reads when it first compiles
    os.environ["XLA_FLAGS"] = " ".join(f"--{name}={value}" for name, value in PLAIN_CODE.items() if known_to_xla(name))


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "brief(*ids): of the cases of a parametrised test those that differ in their way through the code; the others "
        "are asked by `make test-full`, or by their names",
    )
    config.addinivalue_line(
        "markers",
        "long(instead): asked by `make test-full`, or by its name; `instead` says what asks for the same in less time",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Studies first, so that none of the longest is the last; of `brief` tests the named cases, of `long` ones none."""
    items.sort(key=lambda item: item.path.parent.name != "studies")
    if FULL or any("::" in argument for argument in config.args):
        return
    brief = {item: item.get_closest_marker("brief") for item in items}
    left = [item for item, marker in brief.items() if marker and item.callspec.id not in marker.args]
    found = {(item.parent, item.originalname, item.callspec.id) for item, marker in brief.items() if marker}
    asked = {(item.parent, item.originalname, name) for item, marker in brief.items() if marker for name in marker.args}
    if asked - found:
        raise pytest.UsageError(f"brief: no such cases: {sorted(f'{test}[{name}]' for _, test, name in asked - found)}")
    left += [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=left)
    gone = set(left)
    items[:] = [item for item in items if item not in gone]


def pytest_collection_finish(session):
    """What has been imported and collected stays."""
    gc.freeze()


def pytest_sessionfinish(session):
    """One look for cycles at the end, for exceptions in what is freed: pytest takes ten, of half a second each."""
    gc.collect()
    gc.freeze()


def memory_in_use() -> int:
    """Bytes of this process, without those of files; 0 where the system does not tell."""
    told = Path("/proc/self/statm")
    if not told.exists():
        return 0
    resident, of_files = map(int, told.read_text().split()[1:3])
    return (resident - of_files) * mmap.PAGESIZE


def forget_what_is_compiled() -> None:
    """Drop the programs of XLA, a megabyte each, of which JAX keeps thousands, and the printed ones, and the traces."""
    from stodyn.engine import kept_traces
    from stodyn.engine.program import executors, vmap
    from stodyn.numerics.printing import points

    jax.clear_caches()
    executors.forget()
    kept_traces.forget()
    vmap._compiled.clear()
    points._loops.clear()
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc, which else keeps what is freed
    if give_back is not None:
        give_back(0)


ROOM = 600_000_000  # bytes that compiled programs may take until they are dropped
limit = ROOM + 250_000_000  # which a worker takes before it has compiled anything


def pytest_runtest_logfinish():
    """A worker would grow to several gigabytes: few of the programs that one file compiles are for the others too."""
    global limit
    if memory_in_use() > limit:
        forget_what_is_compiled()
        limit = memory_in_use() + ROOM


def roomy() -> Callable:
    """with_room(function, *arguments): its frames and those of all that it calls in one piece of memory.

    CPython keeps frames in chunks of 16 kB, and gives a chunk back to the system whenever a call returns over its edge.
    JAX traces at a depth of more than a hundred frames, and an operation in every few crosses such an edge back and
    forth: most of the time that tests spend in the system. A frame with places for so many local variables has a
    chunk of a megabyte, and what is left of it, half a megabyte, holds all frames above it.
    """
    places = " = ".join(f"place_{k}" for k in range(70_000))
    defined: dict[str, Any] = {}
    exec(f"def with_room(function, *arguments):\n if 0: {places} = 0\n return function(*arguments)", defined)
    return defined["with_room"]


with_room = roomy()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    return with_room(item.config.pluginmanager.getplugin("runner").pytest_runtest_protocol, item, nextitem)


@contextlib.contextmanager
def without_most_optimisations():
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture
def quick_compiling():
    """For programs that run for milliseconds and take seconds to compile: leave most of XLA's optimisations out."""
    with without_most_optimisations():
        yield


@pytest.fixture(scope="module")
def quick_compiling_everywhere():
    """The same for all the tests of a file, and for the processes they start."""
    with without_most_optimisations(), pytest.MonkeyPatch.context() as patched:
        patched.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        yield


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True)
def figures_closed():
    """Pictures a test has drawn do not stay open for the next ones."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def coarse_pictures(monkeypatch):
    """For pictures that nobody looks at: a fifth of their pixels in each direction, and drawn once."""
    from matplotlib.figure import Figure

    savefig = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **options: savefig(figure, file, dpi=30))


FORKER = """
import json, os, signal, sys
import stodyn, stodyn.cli
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    statements, out = json.loads(line)
    process = os.fork()
    if process == 0:
        try:
            os.dup2(2 if out is None else os.open(out, os.O_WRONLY), 1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            exec(statements)
            sys.stdout.flush()
        finally:
            os._exit(0)
    print(process, flush=True)
"""


class Forked:
    """A process that can be killed, by its number; nobody has to wait for it."""

    def __init__(self, number: int):
        self.number = number

    def is_alive(self) -> bool:
        try:
            os.kill(self.number, 0)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> None:
        os.kill(self.number, signal.SIGKILL)
        self.wait()

    def wait(self, until=lambda: False) -> None:
        """Until it has ended, or something else is so."""
        deadline = time.monotonic() + 120
        while self.is_alive() and not until():
            assert time.monotonic() < deadline
            time.sleep(0.002)


@pytest.fixture(scope="session")
def forked():
    """Runs statements in a process of its own: a fork of one that has imported stodyn, so that none of them waits.

    What they print goes into the file `out`, where one is named.
    """
    environment = os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    with subprocess.Popen([sys.executable, "-c", FORKER], **pipes) as forker:

        def start(statements: str, out: Path | None = None) -> Forked:
            if out is not None:
                out.touch()
            print(json.dumps((statements, out and str(out))), file=forker.stdin, flush=True)
            return Forked(int(forker.stdout.readline()))

        yield start
