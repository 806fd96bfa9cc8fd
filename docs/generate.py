"""The pages of the site that are computed: the reference, the gallery, the changes, and which method to take.

They are made when the site is built (docs/assemble.py) and stored nowhere, with two exceptions:

    python docs/generate.py --changelog     writes CHANGELOG.md with the fragments in changes/ as Added, Changed, Fixed
    python docs/generate.py --recommend     writes into docs/start/choose.md what `sd.recommend` says (a minute)
"""

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import catalogues
import gallery
import notebooks
import reference
import rooms
import uses
from docstrings import prose
from running import shown

import stodyn

DOCS = Path(__file__).parent
ROOT = DOCS.parent
KINDS = ("Added", "Changed", "Fixed")
HEAD = "| old | new | reason |"
LINES = 80  # of the changes of a release
NOTE = re.compile(rf"(?P<kind>{'|'.join(KINDS)})(?: \((?P<topic>[^)]+)\))?: ")
RELEASED = re.compile(r"^## \d.*", re.DOTALL | re.MULTILINE)
RECOMMENDED = re.compile(r"(?<=<!-- what sd.recommend says -->\n).*?(?=<!-- end -->)", re.DOTALL)


def noted(fragment: str) -> Iterator[tuple[str, str, str]]:
    """Yield kind, topic and text of the notes of a fragment: of items of a list, and of paragraphs that name a kind."""
    kind, topic, text = "Changed", "", ""
    for piece in re.split(r"\n[ \t]*\n|\n(?=- )", fragment.strip()):
        is_item = piece.startswith("- ")
        piece = textwrap.dedent(f"  {piece[2:]}") if is_item else piece
        match = NOTE.match(piece)
        if text and (match or is_item):
            yield kind, topic, text
            text = ""
        if match:
            kind, topic, piece = match["kind"], match["topic"] or "", piece[match.end() :]
        text = f"{text}\n\n{piece}" if text else piece
    yield kind, topic, text


def coming(fragments: list[str]) -> str:
    """Return the notes of the coming version: Added, Changed and Fixed, each by topics."""
    notes = [note for fragment in fragments for note in noted(fragment)]
    blocks = []
    for kind in KINDS:
        own = sorted((topic, text) for of, topic, text in notes if of == kind)
        lines = [f"**{topic.capitalize()}.** {text}" if topic else text for topic, text in own]
        items = [f"- {textwrap.indent(line, '  ').strip()}" for line in lines]
        blocks += [f"### {kind}", "\n".join(items)] if items else []
    return "\n\n".join(blocks)


def renamed(rows: str, released: str) -> list[str]:
    """Return the table of old and new names without the rows of released versions; [] where no row is left."""
    new = [line for line in rows.splitlines() if line.startswith("| ") and line not in released and line != HEAD]
    return ["### Old and new names", "\n".join([HEAD, "|---|---|---|", *new])] if new else []


def changes() -> str:
    """Return the changes: the fragments in changes/ as the coming version, then the released ones of CHANGELOG.md."""
    past = RELEASED.search((ROOT / "CHANGELOG.md").read_text())
    released = past[0] if past else ""
    title = "Coming" if f"## {stodyn.__version__}\n" in released else stodyn.__version__
    notes = coming(fragments()) if fragments() else ""
    table = renamed((ROOT / "changes" / "renamed.md").read_text(), released)
    new = [f"## {title}", notes, *table] if notes or table else []
    return "\n\n".join(part for part in ["# Changes", *new, released] if part).rstrip() + "\n"


def fragments() -> list[str]:
    """Return the fragments of the coming version."""
    return [path.read_text() for path in sorted((ROOT / "changes").glob("*.md")) if path.name != "renamed.md"]


def write_changelog() -> None:
    """Write CHANGELOG.md; say how long the coming version's part is, and which fragments name no kind."""
    text = changes()
    (ROOT / "CHANGELOG.md").write_text(text)
    if not fragments():
        print("no fragment tells of a coming version")
        return
    part = text.partition("\n## ")[2].partition("\n## ")[0]
    unnamed = sum(not NOTE.match(fragment) for fragment in fragments())
    print(f"{part.count(chr(10))} lines on the coming version, where about {LINES} are enough to read;")
    print(f"{unnamed} fragments begin with none of {', '.join(KINDS)} and stand under Changed")


def gallery_index(entries: list[gallery.Entry]) -> str:
    """Return the page of thumbnails by domain."""
    lines = [
        "# Gallery",
        "",
        "Each entry is a self-contained script of 20 to 80 lines, with the picture it draws and the output it",
    ]
    lines += [
        "prints. It ends with a line of truth: the exact answer, or an independent one, and ours with its error.",
        "",
    ]
    for domain in gallery.DOMAINS:
        own = [entry for entry in entries if entry.domain == domain]
        if own:
            lines += [f"## {domain.capitalize()}", "", '<div class="gallery">']
            lines += [
                f'<a href="{entry.name}.html"><img src="{entry.thumbnail}" alt="" loading="lazy">'
                f"<span>{entry.title}{run_time(entry)}</span></a>"
                for entry in own
            ]
            lines += ["</div>", ""]
    return "\n".join(lines)


def run_time(entry: gallery.Entry) -> str:
    """Return how long an entry takes, for its thumbnail; "" where it ran on another machine."""
    seconds = entry.stored["seconds"] if entry.stored else None
    return "" if seconds is None else f"<small>{seconds:.0f} s</small>"


def gallery_page(entry: gallery.Entry, names: list[tuple[str, str]]) -> str:
    """Return the page of an entry: pictures, words, code, output, and the reference of what it uses."""
    stored = entry.stored
    assert stored
    ordered = sorted(stored["pictures"], key=lambda picture: (picture != f"{entry.name}.png", picture))
    blocks = [f"# {entry.title}", *(f"![{entry.title}]({picture})" for picture in ordered), prose(entry.text)]
    source = re.sub(r'^""".*?"""\n+', "", shown(entry.source), count=1, flags=re.DOTALL)
    files = f"[{entry.name}.py]({entry.name}.py) · [as a notebook]({entry.name}.ipynb)"
    blocks += ["## Code", files, f"```python\n{source.rstrip()}\n```"]
    blocks += ["## Output", f"```text\n{stored['printed'].rstrip()}\n```"]
    if stored["seconds"] is not None:
        blocks.append(f"That took {stored['seconds']:.0f} seconds of processor time, imports included.")
    if names:
        links = ", ".join(f"[`{name}`](../{address})" for name, address in names)
        blocks.append(f"In the reference: {links}.")
    return "\n\n".join(blocks) + "\n"


def generated() -> Iterator[tuple[str, str]]:
    """Yield address and text of every computed page."""

    def used(name: str) -> list[tuple[str, str]]:
        return [(title, f"../{address}") for title, address in uses.users().get(name, [])]

    yield "changes.md", changes()
    yield from ((rooms.address(room), rooms.page(room)) for room in rooms.ROOMS)
    yield "reference/index.md", reference.index_page()
    for page in reference.pages():
        yield page.address, reference.page_text(page, used)
    for title, module in reference.CONTRACTS.items():
        yield reference.contract_address(title), reference.contract_page(title, module)
    yield "reference/methods.md", catalogues.methods_page()
    yield "reference/statistics.md", catalogues.statistics_page()
    for module, names in catalogues.families().items():
        yield catalogues.family_address(module), catalogues.family_page(module, names, used)
    yield "reference/models.md", catalogues.models_page()
    yield "reference/netlist_models.md", catalogues.netlist_models_page()
    yield "reference/command_line.md", catalogues.command_line_page()
    entries = [entry for entry in gallery.entries() if entry.stored]
    if entries:
        yield "gallery/index.md", gallery_index(entries)
    for entry in entries:
        names = sorted(uses.used_names(entry.source))
        known = [(name.replace("stodyn.", "sd."), address) for name in names if (address := address_of(name))]
        yield f"gallery/{entry.name}.md", gallery_page(entry, known)
        yield f"gallery/{entry.name}.py", shown(entry.source)
    yield from ((f"{address}.ipynb", notebooks.text(address)) for address in notebooks.addresses())


def address_of(name: str) -> str | None:
    """Return the page of the reference, with its anchor, of a dotted public name or of a method."""
    if name in catalogues.catalogue():
        return catalogues.method_address(name)
    return reference.addresses().get(name)


def reference_nav() -> list:
    """Return the navigation of the reference, by sections."""
    nav: list = ["reference/index.md", {"What is public": "reference/public.md"}]
    nav += [{"Words": "reference/words.md"}, {"Type hints": "reference/types.md"}]
    for section in dict.fromkeys(page.section for page in reference.pages()):
        pages = [page for page in reference.pages() if page.section == section]
        first = [{"All statistics": "reference/statistics.md"}] if section == "Statistics" else []
        nav.append({section: [*first, *({page.title.strip("`"): page.address} for page in pages)]})
    families = [{catalogues.family_title(m): catalogues.family_address(m)} for m in catalogues.families()]
    nav.append({"Methods": [{"All methods": "reference/methods.md"}, *families]})
    nav.append({"Models": "reference/models.md"})
    nav.append({"Models of netlists": "reference/netlist_models.md"})
    nav.append({"Your own": [{title: reference.contract_address(title)} for title in reference.CONTRACTS]})
    nav.append({"Command line": "reference/command_line.md"})
    return nav


def gallery_nav() -> list:
    """Return the navigation of the gallery, by domains."""
    entries = [entry for entry in gallery.entries() if entry.stored]
    nav: list = ["gallery/index.md"] if entries else []
    for domain in gallery.DOMAINS:
        own = [{entry.title: f"gallery/{entry.name}.md"} for entry in entries if entry.domain == domain]
        nav += [{domain.capitalize(): own}] if own else []
    return nav


def write_recommendations() -> None:
    """Write what `sd.recommend` says of an example of each kind of problem into the page on choosing."""

    page = DOCS / "start" / "choose.md"
    tables = catalogues.recommendations()
    page.write_text(RECOMMENDED.sub(lambda _: f"\n{tables}\n\n", page.read_text()))


if __name__ == "__main__":
    if "--changelog" in sys.argv:
        write_changelog()
    if "--recommend" in sys.argv:
        write_recommendations()
