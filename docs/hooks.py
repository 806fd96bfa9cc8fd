"""What mkdocs does for this site beside its own work: computed pages, folders in the navigation, links from code.

A string of `nav` that ends with a slash stands for the pages of that folder, in the order of the number `order` in
their front matter, then of their titles. Code in a sentence that is a public name or a method's name becomes a link.
"""

import functools
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.utils import meta

sys.path.insert(0, str(Path(__file__).parent))

import catalogues
import generate
import reference
from running import shown

FOLDERS = {"gallery/": generate.gallery_nav, "reference/": generate.reference_nav}
CODE = re.compile(r"<(?P<tag>a|h\d|pre)\b.*?</(?P=tag)>|<code>(?P<text>[^<]+)</code>", re.DOTALL)
NAME = re.compile(
    r"(?:(?P<head>sd|stodyn|st|statistics|analysis|noise|circuits|coloured|plot|structures)\.)?(?P<name>[\w.]+)"
)
HEADS = {
    None: "stodyn", "sd": "stodyn", "stodyn": "stodyn", "st": "stodyn.statistics", "statistics": "stodyn.statistics",
    "analysis": "stodyn.analysis", "noise": "stodyn.noise", "circuits": "stodyn.circuits", "plot": "stodyn.plot",
    "coloured": "stodyn.noise.coloured", "structures": "stodyn.analysis.structures",
}  # fmt: skip


def on_files(files: Files, config: Any) -> Files:
    """Add the computed pages and put the pages of folders into the navigation."""
    for address, content in generate.generated():
        files.append(File.generated(config, address, content=content))
    config.nav = [found for item in config.nav for found in expanded(item, files)]
    return files


def expanded(item: Any, files: Files) -> list:
    """Return an item of the navigation with its folders replaced by their pages; [] for a folder without pages."""
    if isinstance(item, dict):
        title, value = next(iter(item.items()))
        if isinstance(value, str) and not value.endswith("/"):
            return [item]
        inside = [found for each in ([value] if isinstance(value, str) else value) for found in expanded(each, files)]
        return [{title: inside}] if inside else []
    if not item.endswith("/"):
        return [item]
    return FOLDERS[item]() if item in FOLDERS else folder(item, files)


def folder(name: str, files: Files) -> list[str]:
    """Return the pages of a folder in their order."""
    found = []
    for file in files.documentation_pages():
        if file.src_uri.startswith(name) and "/" not in file.src_uri.removeprefix(name):
            text, front = meta.get_data(file.content_string)
            heading = re.search(r"^# (.*)$", text, re.MULTILINE)
            is_index = file.src_uri.endswith("/index.md")
            found.append((not is_index, front.get("order", 1000), heading[1] if heading else "", file.src_uri))
    return [uri for *_, uri in sorted(found)]


def on_post_build(config: Any, **_: Any) -> None:
    """Leave out what the theme brings for debugging and for searching in other languages (2 MB)."""
    site = Path(config.site_dir)
    for file in [*site.rglob("*.map"), *(site / "assets" / "javascripts" / "lunr").rglob("*.js")]:
        file.unlink()


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Show the whole sizes alone, and code that is not run like any other."""
    return shown(markdown).replace("```python notest\n", "```python\n")


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


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Link code that names something public to its page."""

    def link(match: re.Match) -> str:
        address = target(match["text"]) if match["text"] else None
        if address is None or address.partition("#")[0] == page.file.src_uri:
            return match[0]
        up = "../" * page.file.src_uri.count("/")
        return f'<a class="name" href="{up}{address.replace(".md", ".html")}">{match[0]}</a>'

    return CODE.sub(link, html)
