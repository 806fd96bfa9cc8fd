"""What the site draws by itself: its logo, and bars of the table at the top of the page on performance."""

import re

import numpy as np

BARS = re.compile(r"^<!-- bars -->\n+(?P<table>(?:\|.*\n)+)", re.MULTILINE)


def logo() -> str:
    """Return the logo: paths that start together and spread, and their mean."""
    rng, t = np.random.default_rng(4), np.linspace(0.0, 1.0, 15)
    steps = rng.standard_normal((4, len(t) - 1)) * np.sqrt(np.diff(t))
    paths = 12.0 * np.concatenate([np.zeros((4, 1)), np.cumsum(steps - steps.mean(axis=0), axis=1)], axis=1)
    drift = 20.0 * np.exp(-2.5 * t) * np.cos(6.0 * t)

    def line(values: np.ndarray, width: float, opacity: float) -> str:
        points = " ".join(f"{4 + 56 * x:.1f},{32 - y:.1f}" for x, y in zip(t, values, strict=True))
        return f'<polyline points="{points}" stroke-width="{width}" opacity="{opacity}"/>'

    lines = [*(line(drift + path, 1.6, 0.65) for path in paths), line(drift, 4.5, 1.0)]
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
