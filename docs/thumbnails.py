"""Thumbnails of the gallery: the first panel of an entry's picture, drawn again for a width of 200 pixels.

    python docs/thumbnails.py SCRIPT.py

runs the script and leaves, beside the picture that is named as it is (SCRIPT.png), SCRIPT.thumbnail.png: one pair of
axes without title and legend, letters of 10 pixels, labels in as many lines as they need, thick lines and at most four
numbers on an axis.
"""

import runpy
import sys
from pathlib import Path
from textwrap import TextWrapper
from typing import Any
from unittest.mock import patch

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import AutoLocator, LogLocator, MaxNLocator, NullLocator

INCHES = 5.0, 3.75
DOTS = 80  # per inch: twice 200 pixels in width
POINTS = 18.0  # a letter's height, 10 of 200 pixels
NUMBERS = 4  # along an axis
LETTERS = {"x": 28, "y": 24}  # of a label in one line
SHORTEST = 10  # line of a label


def draw(figure: Figure, path: Path) -> None:
    """Draw the first panel of a figure again, and write it; the figure is used up."""
    first, *others = figure.axes
    for axes in others:
        axes.remove()
    for legend in (first.get_legend(), *figure.legends):
        if legend is not None:
            legend.remove()
    figure.suptitle("")
    figure.set_layout_engine("constrained")
    figure.set_size_inches(*INCHES)
    figure.set_dpi(DOTS)
    first.set_subplotspec(figure.add_gridspec(1, 1)[0])
    first.tick_params(labelbottom=True, labelleft=True)  # which panels that share an axis leave to others
    enlarge(first)
    for text in figure.texts:  # labels that the panels share
        text.set_size(POINTS)
    fit(figure, first)
    figure.savefig(path, dpi=DOTS)


def fit(figure: Figure, axes: Axes) -> None:
    """Break the labels of a pair of axes into more lines, and then make their letters smaller, until nothing is cut."""
    letters = dict(LETTERS)
    while True:
        figure.draw_without_rendering()
        cut = [axis for side, axis in enumerate((axes.xaxis, axes.yaxis)) if is_cut(axis.label, side, figure)]
        if not cut:
            return
        for axis in cut:
            letters[axis.axis_name] -= 2
            if letters[axis.axis_name] < SHORTEST:
                axis.label.set_size(0.9 * axis.label.get_size())
            else:
                axis.label.set_text(broken(axis.label.get_text(), letters[axis.axis_name]))


def broken(words: str, letters: int) -> str:
    """Return words in lines of so many letters; a longer word has a line of its own."""
    return TextWrapper(letters, break_long_words=False).fill(" ".join(words.split()))


def is_cut(text: Text, side: int, figure: Figure) -> bool:
    """Return whether a text reaches beyond its figure, from left to right (0) or from below to above (1)."""
    low, high = text.get_window_extent().get_points()[:, side]
    return bool(low < 0.0 or high > figure.bbox.size[side])


def enlarge(axes: Axes) -> None:
    """Make what is written and drawn in a pair of axes large enough for a thumbnail."""
    for place in ("left", "center", "right"):
        axes.set_title("", loc=place)
    for text in list(axes.texts):
        text.remove()
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(size=POINTS, text=broken(axis.label.get_text(), LETTERS[axis.axis_name]))
        axis.set_tick_params(labelsize=POINTS, which="both")
        axis.get_offset_text().set_size(POINTS)
        if axis.get_scale() == "linear" and isinstance(axis.get_major_locator(), AutoLocator):  # numbers, no names
            axis.set_major_locator(MaxNLocator(NUMBERS - 1))
        elif axis.get_scale() == "log":
            axis.set_major_locator(LogLocator(numticks=NUMBERS))
            axis.set_minor_locator(NullLocator())
    for line in axes.lines:
        line.set_linewidth(1.8 * line.get_linewidth())
        line.set_markersize(1.5 * line.get_markersize())


def main(script: Path) -> None:
    """Run a script, and draw the thumbnail of the picture that bears its name."""
    drawn: dict[str, Figure] = {}
    whole = Figure.savefig

    def kept(figure: Figure, to: Any, **options: Any) -> None:
        whole(figure, to, **options)
        drawn[Path(to).name] = figure

    with patch.object(Figure, "savefig", kept):
        runpy.run_path(str(script), run_name="__main__")
    draw(drawn[f"{script.stem}.png"], script.with_suffix(".thumbnail.png"))
    plt.close("all")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
