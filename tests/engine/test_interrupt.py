"""Ctrl-C ends a run within a second and leaves nothing behind; a bar is shown where it is wanted."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from stodyn import simulate
from stodyn.engine.door import available_cores
from stodyn.engine.places.threads import Threads
from stodyn.methods.explicit import Heun
from stodyn.models.kubo import kubo

CHILD = """
    import dataclasses, signal, sys, threading
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits it ignored
    import stodyn as sd
    from stodyn.methods.explicit import Heun
    from stodyn.models.kubo import kubo
    from stodyn.statistics.moments import Moments

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Told(Moments):
        def fold(self, observed, block):
            if block.first == 0:
                print("running", flush=True)
            return super().fold(observed, block)

    method, steps, paths = {"many blocks": (Heun, 100, 10**9), "one long block": (Heun, 10**7, 64)}[sys.argv[1]]
    if paths == 64:  # its only block ends tomorrow: wait until its second slab
        advance = sd.engine.progress.Progress.advance
        def told(bar, path_steps):
            if path_steps and not told.before:
                print("running", flush=True)
                told.before = True
            advance(bar, path_steps)
        told.before = False
        sd.engine.progress.Progress.advance = told
    try:
        sd.simulate(kubo(), method, t=(0, 1), dt=1 / steps, paths=paths, seed=1, progress=True,
                    collect=Told(every=steps // 10))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        print([t.name for t in threading.enumerate() if t.name.startswith("stodyn")], flush=True)
"""


def interrupt(kind, log):
    """Seconds from the signal to the exception in a child that is well into its run; it must end cleanly."""
    with log.open("w") as errors:
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(CHILD), kind], stdout=subprocess.PIPE, stderr=errors, text=True
        )
    watchdog = threading.Timer(120.0, child.kill)
    watchdog.start()
    try:
        assert child.stdout.readline() == "running\n", log.read_text()
        time.sleep(0.3)
        sent = time.perf_counter()
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n", log.read_text()
        took = time.perf_counter() - sent
        assert child.stdout.readline() == "[]\n"  # no worker goes on
        assert child.wait() == 0, log.read_text()
    finally:
        watchdog.cancel()
        child.kill()
        child.communicate()
    return took


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("kind", ["many blocks", "one long block"])
def test_ctrl_c_ends_a_run_within_a_second(kind, tmp_path):
    """The best of three, since the machine may be busy with something else just then."""
    assert any(interrupt(kind, tmp_path / f"{attempt}.txt") < 1.0 for attempt in range(3))


RUN = dict(t=(0, 1), dt=0.1, paths=4, seed=1)


def test_the_bar_is_shown_where_it_is_asked_for(capsys):
    simulate(kubo(), Heun, progress=True, **RUN)
    shown = capsys.readouterr()
    assert "simulating" in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("progress", [None, False])
def test_nothing_is_shown_in_a_pipe(progress, capsys):
    simulate(kubo(), Heun, progress=progress, **RUN)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "")


def test_the_map_keeps_the_order_and_hands_errors_on():
    def slow_at_first(block):
        time.sleep(0.05 if block == 0 else 0.0)
        return block

    assert list(Threads(3).map(slow_at_first, range(20), lambda: None)) == list(range(20))
    stopped = []
    with pytest.raises(ZeroDivisionError):
        list(Threads(2).map(lambda block: 1 // (block - 3), range(20), lambda: stopped.append(True)))
    assert stopped == [True]


def test_the_cores_are_those_this_process_may_use():
    assert 1 <= available_cores() <= os.cpu_count()
    assert Threads().count == available_cores()
