"""A bar for long runs: on a terminal and in a notebook by default, elsewhere on request."""

from __future__ import annotations

import html
import sys
import threading
import time
from typing import Any

PAUSE = 0.5  # seconds between two pictures of a bar in a notebook, and before the first


class Progress:
    """Counts path-steps; `advance` may be called from any thread."""

    def __init__(self, total: int, show: bool | None, label: str = "simulating", link: str | None = None):
        self.total, self.label = total, label if link is None else f"{label} (watch it at {link})"
        self.bar: TerminalBar | NotebookBar | None = None
        if show is not False and in_notebook():
            self.bar = NotebookBar()
        elif show or (show is None and sys.stderr.isatty()):
            self.bar = TerminalBar(forced=bool(show))

    def __enter__(self) -> Progress:
        if self.bar is not None:
            self.bar.start(self.label, self.total)
        return self

    def advance(self, path_steps: int) -> None:
        """Count path-steps that are done."""
        if self.bar is not None:
            self.bar.advance(path_steps)

    def expect(self, total: int, label: str) -> None:
        """Change the total number of path-steps, and the label of the bar."""
        if self.bar is not None:
            self.bar.expect(total, f"{self.label}: {label}")

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()


class TerminalBar:
    """A bar on standard error, which disappears when it stops."""

    def __init__(self, forced: bool):
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichBar

        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        console = Console(stderr=True, force_terminal=forced or None)
        # The output of the caller is not redirected.
        self.bar = RichBar(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)

    def start(self, label: str, total: int) -> None:
        self.bar.start()
        self.task = self.bar.add_task(label, total=total)

    def advance(self, path_steps: int) -> None:
        self.bar.advance(self.task, path_steps)

    def expect(self, total: int, label: str) -> None:
        self.bar.update(self.task, total=total, description=label)

    def stop(self) -> None:
        self.bar.stop()


class NotebookBar:
    """A bar below a notebook's cell: HTML that is replaced in place, and disappears when it stops.

    Runs that take less than PAUSE show nothing.
    """

    def start(self, label: str, total: int) -> None:
        self.label, self.total, self.done = label, total, 0
        self.began = self.shown = time.monotonic()
        self.handle: Any = None
        self.lock = threading.Lock()

    def advance(self, path_steps: int) -> None:
        with self.lock:
            self.done += path_steps
            if time.monotonic() - self.shown >= PAUSE:
                self.shown = time.monotonic()
                self._draw()

    def expect(self, total: int, label: str) -> None:
        with self.lock:
            self.total, self.label = total, label

    def stop(self) -> None:
        if self.handle is not None:
            self.handle.update(_html(""))

    def _draw(self) -> None:
        from IPython.display import display

        done = min(self.done / max(self.total, 1), 1.0)
        left = (time.monotonic() - self.began) * (1.0 - done) / max(done, 1e-9)
        picture = _html(
            f"<progress value='{done:.4f}' max='1'></progress> {html.escape(self.label)}: {done:.0%}, {left:.0f} s left"
        )
        if self.handle is None:
            self.handle = display(picture, display_id=True)
        else:
            self.handle.update(picture)


def in_notebook() -> bool:
    """Tell whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def _html(text: str) -> Any:
    from IPython.display import HTML

    return HTML(text)
