"""What the site draws by itself: its logo, bars of the table at the top of the page on performance, errors at costs."""

import re

import numpy as np

BARS = re.compile(r"^<!-- bars -->\n+(?P<table>(?:\|.*\n)+)", re.MULTILINE)
SAMPLED = re.compile(r"^## (?P<problem>.*), [\d,]+ paths\n+(?P<table>(?:\|.*\n)+)", re.MULTILINE)
WIDTH, HEIGHT, LEFT = 415, 190, 48  # of the field of a chart of two axes, and the room for the numbers beside it


def logo() -> str:
    """Return the logo: three paths that start together and spread so far that 24 pixels show it, and their mean."""
    rng, t = np.random.default_rng(23), np.linspace(0.0, 1.0, 15)
    steps = rng.standard_normal((3, len(t) - 1)) * np.sqrt(np.diff(t))
    paths = 26.0 * np.concatenate([np.zeros((3, 1)), np.cumsum(steps - steps.mean(axis=0), axis=1)], axis=1)
    drift = 22.0 * np.exp(-1.6 * t) * np.cos(8.5 * t)

    def line(values: np.ndarray, width: float, opacity: float) -> str:
        points = " ".join(f"{4 + 56 * x:.1f},{32 - y:.1f}" for x, y in zip(t, values, strict=True))
        return f'<polyline points="{points}" stroke-width="{width}" opacity="{opacity}"/>'

    lines = [*(line(drift + path, 2.2, 0.75) for path in paths), line(drift, 5.0, 1.0)]
    whole = "".join(lines)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">'
        '<rect width="64" height="64" rx="10" fill="#3f51b5"/>'
        f'<g fill="none" stroke="white" stroke-linecap="round" stroke-linejoin="round">{whole}</g></svg>\n'
    )


def bars(page: str) -> str:
    """Return a chart of the table of a page that follows `<!-- bars -->`: a row for each tool, and its number."""
    match = BARS.search(page)
    assert match, "the page on performance has no table after <!-- bars -->"
    rows = [[cell.strip() for cell in row.strip("|\n").split("|")] for row in match["table"].splitlines()]
    numbers = [(name, float(value)) for name, value in rows[2:]]
    most, parts = max(value for _, value in numbers), []
    for k, (name, value) in enumerate(numbers):
        y, width = 34 * k, max(430.0 * value / most, 2.0)
        kind = "ours" if name.startswith("stodyn") else "peer"
        label = f'<text x="0" y="{y + 13}">{name}</text>'
        bar = f'<rect class="{kind}" x="0" y="{y + 17}" width="{width:.0f}" height="9"/>'
        parts.append(f'{label}{bar}<text x="{width + 8:.0f}" y="{y + 26}">{value:g}</text>')
    words = "; ".join(f"{name} {value:g}" for name, value in numbers)
    return (
        f'<svg class="bars" viewBox="0 0 490 {34 * len(numbers)}" role="img" aria-label="{rows[0][1]}: {words}">'
        f"{''.join(parts)}</svg>"
    )


def costs(page: str) -> str:
    """Return a chart of the standard errors in the tables of the page on peers that are of paths, against their time.

    A line for each tool, through its numbers of paths; both axes are logarithmic.
    """
    points: dict[str, list[tuple[float, float]]] = {}
    for match in SAMPLED.finditer(page):
        names, _, *rows = [
            [cell.strip() for cell in row.strip("|\n").split("|")] for row in match["table"].splitlines()
        ]
        for row in (dict(zip(names, cells, strict=True)) for cells in rows):
            name = re.sub("<[^>]*>", "", row["tool"])
            points.setdefault(name, []).append(tuple(float(re.sub("<[^>]*>", "", row[key])) for key in ("ms", "±")))
    assert points, "the page on peers has no table of paths"
    every = np.log10([point for own in points.values() for point in own])
    low, high = np.floor(every.min(axis=0)), np.ceil(every.max(axis=0))

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x, y = (np.log10(point) - low) / (high - low)
        return LEFT + WIDTH * x, 20 + HEIGHT * (1 - y)

    parts = [f'<rect class="field" x="{LEFT}" y="20" width="{WIDTH}" height="{HEIGHT}"/>']
    for k in range(int(low[0]), int(high[0]) + 1):
        parts.append(
            f'<text x="{place((10.0**k, 1.0))[0]:.0f}" y="{HEIGHT + 36}" text-anchor="middle">{10.0**k:g}</text>'
        )
    for k in range(int(low[1]), int(high[1]) + 1):
        parts.append(
            f'<text x="{LEFT - 6}" y="{place((1.0, 10.0**k))[1] + 4:.0f}" text-anchor="end">{10.0**k:g}</text>'
        )
    for name, own in points.items():
        kind, at = "ours" if name == "stodyn" else "peer", [place(point) for point in sorted(own)]
        parts.append(f'<polyline class="{kind}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in at)}"/>')
        parts += [f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in at]
        parts.append(f'<text x="{at[0][0]:.0f}" y="{at[0][1] - 9:.0f}" text-anchor="middle">{name}</text>')
    parts.append(f'<text x="{LEFT + WIDTH}" y="{HEIGHT + 56}" text-anchor="end">processor time [ms]</text>')
    parts.append('<text x="0" y="12">standard error</text>')
    words = "; ".join(f"{name} {error:g} in {time:g} ms" for name, own in points.items() for time, error in own)
    return (
        f'<svg class="bars" viewBox="0 0 490 {HEIGHT + 62}" role="img" aria-label="standard error: {words}">'
        f"{''.join(parts)}</svg>"
    )
