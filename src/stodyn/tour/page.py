"""The tour as one page: index.html with every question, answer, picture, and the code that made them."""

import html
import inspect
from collections.abc import Sequence
from pathlib import Path

from stodyn.tour.contract import Findings, Stop

STYLE = """body { font: 16px/1.5 system-ui, sans-serif; color: #222; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; } td, th { padding: .3rem 1rem .3rem 0; text-align: right; }
td:first-child, th:first-child { text-align: left; } th { color: #777; font-weight: normal; }
img { max-width: 100%; }
pre { background: #f5f5f5; padding: 1rem; overflow-x: auto; font-size: 13px; line-height: 1.4; }
summary { cursor: pointer; color: #0072B2; } .run { color: #777; } .wide { overflow-x: auto; }
@media (prefers-color-scheme: dark) { body { background: #1b1b1f; color: #ddd; } img { background: white; }
pre { background: #2a2a30; } th, .run { color: #aaa; } summary { color: #56B4E9; } }"""


def write(out: Path, visits: Sequence[tuple[Stop, Findings, float]]) -> Path:
    """Write index.html beside the pictures, which are named after the stops."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>stodyn: a tour</title><style>{STYLE}</style><h1>stodyn: a tour</h1>",
        "<p>One noisy system from each field. Every number has its standard error and stands beside the truth; z is "
        "the distance between them in standard errors. By chance, one z in twenty is beyond 2.</p>",
    ]
    for stop, answer, seconds in visits:
        parts.append(f"<h2>{html.escape(stop.question)}</h2>")
        parts.append("<div class=wide><table>")
        parts.append("<tr><th></th><th>stodyn</th><th>±</th><th>truth</th><th>z</th></tr>")
        for a in answer.answers:
            numbers = (f"{a.ours:.4g}", f"{a.stderr:.2g}", f"{a.truth:.4g}", f"{a.z:+.1f}")
            cells = "".join(f"<td>{number}</td>" for number in numbers)
            parts.append(f"<tr><td>{html.escape(a.quantity)}</td>{cells}</tr>")
        parts.append("</table></div>")
        parts.append(f"<p class=run>{html.escape(answer.words)}, {seconds:.1f} s with compiling. The truth: ")
        image = f"<img src='{stop.name}.png' alt='{html.escape(stop.question)}'>"
        parts.append(f"{html.escape(stop.truth)}.</p><p>{image}</p>")
        source = inspect.getsource(inspect.getmodule(stop.visit) or stop.visit)
        parts.append(f"<details><summary>The code</summary><pre>{html.escape(source)}</pre></details>")
    page = out / "index.html"
    page.write_text("\n".join(parts) + "\n", encoding="utf-8")
    return page
