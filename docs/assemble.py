"""Write the whole site as plain Markdown, so that any generator that reads mkdocs.yml can build it.

    python docs/assemble.py

writes build/pages (the pages of docs/, the computed pages, pictures and assets) and build/mkdocs.yml (the settings of
mkdocs.yml with the navigation written out). No generator runs code of ours while it builds.

A string of `nav` that ends with a slash stands for the pages of that folder, in the order of the number `order` in
their front matter, then of their titles. Code in a sentence that is a public name or a method's name becomes a link.
"""

import functools
import re
import shutil
from pathlib import Path
from typing import Any

import catalogues
import drawings
import generate
import reference
import rooms
import yaml
from running import shown

import stodyn

ROOT = generate.DOCS.parent
BUILD = ROOT / "build"
LEFT_OUT = {".py", ".json", ".pyc", "browse.js", "searches.js"}  # of the files in docs/
# How much more than others the pages of a folder count in the search.
BOOSTS = {"start/": 2, "tutorials/": 2, "howto/": 2, "kinds/": 2, "studies/": 0.3, "rooms/": 0.2, "decisions/": 0.2,
          "design.md": 0.2, "changes.md": 0.1}  # fmt: skip
FOLDERS = {"gallery/": generate.gallery_nav, "reference/": generate.reference_nav, "rooms/": rooms.nav}
FRONT = re.compile(r"\A---\n(?P<settings>.*?)^---\n", re.DOTALL | re.MULTILINE)
# Code in a sentence, after everything in which backticks mean something else or that is a link already.
CODE = re.compile(
    r"^ *```.*?^ *```$|^#[^\n]*$|^ {4}[^\n]*$|<a\b.*?</a>|\[(?:[^\[\]`]|`[^`]*`)*\]\([^)\s]*\)"
    r"|`(?P<text>[^`\n]+)`|`+[^`]+`+",
    re.DOTALL | re.MULTILINE,
)
NAME = re.compile(
    r"(?:(?P<head>sd|stodyn|st|statistics|analysis|noise|circuits|coloured|plot|structures)\.)?(?P<name>[\w.]+)"
)
HEADS = {
    None: "stodyn", "sd": "stodyn", "stodyn": "stodyn", "st": "stodyn.statistics", "statistics": "stodyn.statistics",
    "analysis": "stodyn.analysis", "noise": "stodyn.noise", "circuits": "stodyn.circuits", "plot": "stodyn.plot",
    "coloured": "stodyn.noise.coloured", "structures": "stodyn.analysis.structures",
}  # fmt: skip


@functools.cache
def target(text: str) -> str | None:
    """Return the address in the reference of what a piece of code names; None where it names nothing public."""
    match = NAME.match(text)
    if not match or text[match.end() : match.end() + 1] not in ("", "("):
        return None
    if match["head"] is None and match["name"] in catalogues.catalogue():
        return catalogues.method_address(match["name"])
    if match["head"] is None and match["name"] == match["name"].lower() and "_" not in match["name"]:
        return None  # a plain word
    address = reference.addresses().get(f"{HEADS[match['head']]}.{match['name']}")
    if address is None and match["head"] is None:
        address = reference.addresses().get(f"stodyn.statistics.{match['name']}")
    return address


def linked(page: str, address: str) -> str:
    """Return a page with links from code in its sentences to the reference."""

    def link(match: re.Match) -> str:
        there = target(match["text"]) if match["text"] else None
        if there is None or there.partition("#")[0] == address:
            return match[0]
        return f"[{match[0]}]({'../' * address.count('/')}{there}){{.name}}"

    return CODE.sub(link, page)


def finished(page: str, address: str) -> str:
    """Return a page as readers see it: the whole sizes alone, code that is not run like any other, and links."""
    if address.startswith("tutorials/"):
        note = f"\n[This page as a notebook]({address.rpartition('/')[2].removesuffix('.md')}.ipynb)\n"
        page = re.sub(r"^# .*\n", lambda heading: heading[0] + note, page, count=1, flags=re.MULTILINE)
    return linked(shown(page).replace("```python notest\n", "```python\n"), address)


def drawn(page: str, texts: dict[str, str]) -> str:
    """Return a page with the charts of speed and of costs and the version where it asks for them."""
    chart = drawings.bars(texts["performance.md"]) if "<!-- chart -->" in page else ""
    costs = drawings.costs(page) if "<!-- costs -->" in page else ""
    return (
        page.replace("<!-- chart -->", chart)
        .replace("<!-- costs -->", costs)
        .replace("<!-- version -->", stodyn.__version__)
    )


def boosted(page: str, address: str) -> str:
    """Return a page with the weight of its folder in the search."""
    boost = next((boost for folder, boost in BOOSTS.items() if address.startswith(folder)), None)
    if boost is None:
        return page
    front = FRONT.search(page)
    settings = (yaml.safe_load(front["settings"]) if front else {}) | {"search": {"boost": boost}}
    return f"---\n{yaml.safe_dump(settings)}---\n\n{FRONT.sub('', page)}"


def expanded(item: Any, pages: dict[str, str]) -> list:
    """Return an item of the navigation with its folders replaced by their pages; [] for a folder without pages."""
    if isinstance(item, dict):
        title, value = next(iter(item.items()))
        if isinstance(value, str) and not value.endswith("/"):
            return [item]
        inside = [found for each in ([value] if isinstance(value, str) else value) for found in expanded(each, pages)]
        return [{title: inside}] if inside else []
    if not item.endswith("/"):
        return [item]
    return FOLDERS[item]() if item in FOLDERS else folder(item, pages)


def folder(name: str, pages: dict[str, str]) -> list[str]:
    """Return the pages of a folder in their order."""
    found = []
    for address, page in pages.items():
        if address.startswith(name) and "/" not in address.removeprefix(name):
            front, heading = FRONT.search(page), re.search(r"^# (.*)$", page, re.MULTILINE)
            order = yaml.safe_load(front["settings"]).get("order", 1000) if front else 1000
            found.append((not address.endswith("/index.md"), order, heading[1] if heading else "", address))
    return [address for *_, address in sorted(found)]


def other_files() -> list[Path]:
    """Return the pictures, styles and scripts of docs/."""
    left_out = {*LEFT_OUT, ".md"}
    return [path for path in generate.DOCS.rglob("*") if path.is_file() and not {path.suffix, path.name} & left_out]


def write() -> None:
    """Write the site's Markdown and its settings into build/."""
    stored = {str(path.relative_to(generate.DOCS)): path.read_text() for path in sorted(generate.DOCS.rglob("*.md"))}
    texts = stored | dict(generate.generated())
    shutil.rmtree(BUILD / "pages", ignore_errors=True)
    for address, text in texts.items():
        file = BUILD / "pages" / address
        file.parent.mkdir(parents=True, exist_ok=True)
        text = boosted(drawn(finished(text, address), texts), address) if address.endswith(".md") else text
        file.write_text(text)
    for path in other_files():
        file = BUILD / "pages" / path.relative_to(generate.DOCS)
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, file)
    (BUILD / "pages" / "assets" / "logo.svg").write_text(drawings.logo())
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    pages = {address: text for address, text in texts.items() if address.endswith(".md")}
    settings |= {"nav": [found for item in settings["nav"] for found in expanded(item, pages)]}
    settings |= {"docs_dir": "pages", "site_dir": "../site"}
    (BUILD / "mkdocs.yml").write_text(yaml.safe_dump(settings, allow_unicode=True, sort_keys=False))


if __name__ == "__main__":
    write()
