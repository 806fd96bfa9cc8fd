"""How the figures of the studies look: legends beside the curves, never over them, and guides of a known slope."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stodyn.plot import GREY, PALETTE

MARKERS = "os^Dv<>P"


def canvas(
    rows: int = 1, columns: int = 1, size: tuple[float, float] = (6.4, 4.0), **shared: Any
) -> tuple[Figure, Any]:
    """A figure and its axes: one, or an array of them."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, **shared)
    for ax in np.ravel(axes):
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(True, color="0.92", lw=0.6)
        ax.set_axisbelow(True)
    return figure, axes


def styles(markers: bool = False) -> Iterator[dict[str, Any]]:
    """Colours with line styles and, if wanted, markers: no two of the first fifteen look alike."""
    for k in range(15):
        style = {"color": PALETTE[k % len(PALETTE)], "ls": ("-", "--", ":")[k // len(PALETTE)], "lw": 1.2}
        yield style | ({"marker": MARKERS[k % len(MARKERS)], "ms": 4} if markers else {})


def legend(figure: Figure, *axes: Axes, columns: int = 1) -> None:
    """One legend for the given axes, or all: right of the picture, or below it in several columns."""
    entries: dict[str, Any] = {}
    for ax in axes or figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    place: Any = "outside right upper" if columns == 1 else "outside lower center"
    figure.legend(entries.values(), entries.keys(), loc=place, ncols=columns, frameon=False, fontsize="small")


def legend_beside(ax: Axes, **options: Any) -> None:
    """A legend of one of several panels, right of it."""
    ax.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0), **options)


def legend_below(ax: Axes, columns: int) -> None:
    """A legend of one of several panels, below it: for panels that use the same colours for different things."""
    ax.legend(frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=columns)


def note(figure: Figure, words: str) -> None:
    """The setting of the runs in small letters above the picture: ρ, h and the number of paths."""
    figure.suptitle(words, x=0.99, ha="right", fontsize="x-small", color=GREY)


def slope_guide(ax: Axes, h: np.ndarray, order: float, height: float) -> None:
    """A dotted line of slope `order` on logarithmic axes, `height` at the largest h, with its order beside it."""
    h = np.asarray(h, float)
    line = height * (h / h.max()) ** order
    ax.plot(h, line, ":", color=GREY, lw=1.2)
    at = int(np.argmax(h))
    ax.annotate(f"order {order:g}", (h[at], line[at]), xytext=(4, 0), textcoords="offset points", va="center",
                color=GREY, fontsize="small", annotation_clip=False)  # fmt: skip


def error_band(ax: Axes, x: Any, y: Any, stderr: Any, **style: Any) -> None:
    """A curve with a band of two standard errors to either side."""
    x, y, stderr = (np.asarray(values, float) for values in (x, y, stderr))
    ax.plot(x, y, **style)
    ax.fill_between(x, y - 2.0 * stderr, y + 2.0 * stderr, color=style.get("color"), alpha=0.15, lw=0)
