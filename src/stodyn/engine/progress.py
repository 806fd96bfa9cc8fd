"""A bar for long runs: on a terminal, or where it is asked for."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar


class Progress:
    """Counts path-steps; `advance` may be called from any thread."""

    def __init__(self, total: int, show: bool | None, label: str = "simulating", link: str | None = None):
        self.total, self.label = total, label if link is None else f"{label} (watch it at {link})"
        self.bar = None
        if show if show is not None else sys.stderr.isatty():
            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            console = Console(stderr=True, force_terminal=show)
            # What the caller prints meanwhile is the caller's own: it is not redirected.
            self.bar = Bar(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)

    def __enter__(self) -> Progress:
        if self.bar is not None:
            self.bar.start()
            self.task = self.bar.add_task(self.label, total=self.total)
        return self

    def advance(self, path_steps: int) -> None:
        if self.bar is not None:
            self.bar.advance(self.task, path_steps)

    def expect(self, total: int, label: str) -> None:
        """Another number of path-steps in all, and what the bar says."""
        if self.bar is not None:
            self.bar.update(self.task, total=total, description=f"{self.label}: {label}")

    def __exit__(self, *_) -> None:
        if self.bar is not None:
            self.bar.stop()
