"""The bar of a long run in a notebook: shown by default, replaced in place, gone at the end, without escape codes."""

import sys
import types

import pytest

from stodyn.engine import progress
from stodyn.engine.progress import Progress


@pytest.fixture
def notebook(monkeypatch):
    """A kernel that writes down what it is told to display, and a clock that goes on by a second at every look."""
    shown = []

    class Handle:
        def update(self, picture):
            shown.append(picture)

    def display(picture, display_id):
        assert display_id
        shown.append(picture)
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.display, ipython.display.HTML = display, str
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    seconds = iter(range(1000))
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: float(next(seconds))))
    return types.SimpleNamespace(shown=shown, shell=shell)


@pytest.mark.parametrize("show", [None, True])
def test_a_notebook_shows_a_bar_and_keeps_nothing_of_it(notebook, show, capsys):
    with Progress(100, show, "simulating <b>") as bar:
        bar.advance(25)
        bar.expect(200, "more")
        bar.advance(25)
    first, second, last = notebook.shown
    assert "value='0.2500'" in first and "simulating &lt;b&gt;: 25%" in first
    assert "simulating &lt;b&gt;: more: 25%" in second
    assert last == ""
    assert not any("\x1b" in picture for picture in notebook.shown)
    assert capsys.readouterr() == ("", "")


def test_nothing_is_shown_of_short_runs_or_where_it_is_not_wanted(notebook, capsys):
    with Progress(100, False) as bar:
        bar.advance(100)
    with Progress(100, None):
        pass
    assert notebook.shown == []
    notebook.shell.kernel = None  # IPython in a terminal, whose output is a pipe here
    with Progress(100, None) as bar:
        bar.advance(100)
    assert notebook.shown == [] and capsys.readouterr() == ("", "")


def test_it_is_drawn_after_a_pause_with_the_time_left_at_this_rate(notebook, monkeypatch):
    clock = types.SimpleNamespace(now=100.0)
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: clock.now))
    with Progress(8, True) as bar:
        for clock.now, steps in (
            (100.0 + 0.9 * progress.PAUSE, 1),
            (110.0, 1),
            (110.0 + 0.9 * progress.PAUSE, 1),
            (130.0, 1),
        ):
            bar.advance(steps)
        quarter, half = notebook.shown
        assert "25%, 30 s left" in quarter and "50%, 30 s left" in half
    with Progress(1, True) as bar:
        clock.now = 200.0
        bar.advance(1)
        assert "100%, 0 s left" in notebook.shown[-1]
        clock.now = 300.0
        bar.advance(1)
        assert "100%, 0 s left" in notebook.shown[-1]


def test_a_run_of_no_steps_has_a_bar_too(notebook):
    with Progress(0, True) as bar:
        bar.advance(0)
    assert "0%" in notebook.shown[0]
