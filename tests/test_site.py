"""What the site's own scripts do: docstrings as Markdown, links from code to the reference, broken links, choices."""

import re
import tomllib
from pathlib import Path

import assemble
import catalogues
import docstrings
import drawings
import gallery
import generate
import links
import matplotlib.pyplot as plt
import numpy as np
import pictures
import pytest
import reference
import rooms
import thumbnails
import uses
from PIL import Image
from running import code

import stodyn as sd
from stodyn.methods.recommend import recommended

INSIDE = {"design.md"}  # pages on how the library is built


def documented(level: float, *, name: str = "x"):
    """Do something. It may be <any> thing.

    one   the first of
          two lines
    two   the second

    The formula is
        y = x  +  z
    and goes on.

    Parameters
    ----------
    level : float
        How high, |level| < 1.
    name : str, optional
        What it is called.

    Examples
    --------
    >>> 1 + 1
    2
    """


def test_a_docstring_keeps_its_columns_formulas_and_parameters():
    text, defaults = reference.signature(documented, "documented")
    assert text == "documented(level, *, name='x')"
    page = docstrings.markdown(documented, defaults)
    assert "| `one` | the first of two lines |\n| `two` | the second |" in page
    assert "The formula is\n\n```text\ny = x  +  z\n```\n\nand goes on." in page
    assert "| `level` | float | How high, \\|level\\| < 1. |" in page
    assert "| `name` | str; default `'x'` | What it is called. |" in page
    assert "&lt;any>" in page and "```pycon\n>>> 1 + 1\n2\n```" in page


def test_every_public_name_has_a_page():
    found = reference.addresses()
    for package in ("stodyn", "stodyn.statistics", "stodyn.noise", "stodyn.analysis", "stodyn.circuits"):
        for name in reference.importlib.import_module(package).__all__:
            known = f"{package}.{name}" in found or name in reference.ELSEWHERE.get(package, set())
            assert known, f"{package}.{name}"
    assert len({page.address for page in reference.pages()}) == len(reference.pages())


def test_the_reference_shows_no_internals():
    """What a class has for the engine stands on no page; MEMBERS of docs/reference.py lists the other members."""
    shown = "\n".join(text for address, text in generate.generated() if address.startswith("reference/"))
    for name in ("step_takes_more", "rest_matrix", "Watching", "TracedFunction", "machine_memory", "noise_pattern"):
        assert name not in shown


def test_every_kind_of_problem_says_which_members_its_page_shows():
    kinds = {name: getattr(sd, name) for name in dir(sd)} | vars(sd.circuits) | vars(sd.problems.contract)
    for name, kind in kinds.items():
        if isinstance(kind, type) and issubclass(kind, sd.problems.contract.Problem):
            assert all(hasattr(kind, member) for member in reference.MEMBERS[name]), name


PROSE = [path for path in sorted(generate.DOCS.rglob("*.md")) if path.name not in INSIDE]


@pytest.mark.parametrize("path", PROSE, ids=lambda path: str(path.relative_to(generate.DOCS)))
def test_pages_use_public_names_only(path):
    page = path.read_text()
    assert uses.private_names(code(page)) | uses.private_mentions(page) == set()


@pytest.mark.parametrize("entry", list(gallery.entries()), ids=lambda entry: entry.name)
def test_examples_use_public_names_only(entry):
    assert uses.private_names(entry.source) == set()


def test_private_names_are_found():
    source = "import stodyn as sd\nfrom stodyn.engine import ledger\nsd.numerics.newton\nsd.SDE.f\nsd.simulate\n"
    assert uses.private_names(source) == {"stodyn.engine.ledger", "stodyn.numerics", "stodyn.numerics.newton"}
    assert uses.private_mentions("by `sd.simulate`, or `stodyn.engine.run.Run`") == {"stodyn.engine.run.Run"}


def test_code_is_searched_for_public_names():
    code = 'import stodyn as sd\nfrom stodyn import statistics as st\nsd.simulate(p, "Heun", collect=st.Moments())\n'
    assert uses.used_names(code) == {"stodyn.simulate", "stodyn.statistics.Moments", "Heun"}
    assert generate.address_of("Heun") == "reference/methods_explicit.md#Heun"


@pytest.mark.parametrize(
    ("code", "address"),
    [
        ("sd.simulate(problem, ...)", "reference/simulate.md"),
        ("st.Moments", "reference/statistics_moments.md"),
        ("Passage", "reference/statistics_passage.md"),
        ("coloured.dryden", "reference/noise_coloured.md#dryden"),
        ("sd.noise.coloured.envelopes.jennings", "reference/noise_coloured.md#jennings"),
        ("EulerMaruyama", "reference/methods_explicit.md#EulerMaruyama"),
        ("path", None),
        ("sd.simulate=", None),
        ("sd.no_such_name", None),
    ],
)
def test_code_in_a_sentence_leads_to_the_reference(code, address):
    assert assemble.target(code) == address


def test_a_sentence_is_linked_and_nothing_else():
    page = "# `sd.rare`\n\nBy `sd.simulate(p)`, [`sd.path`](p.md) or `two\nlines`.\n\n    `sd.rare`\n\n"
    page += "```text\n`sd.rare`\n```\n"
    linked = page.replace("`sd.simulate(p)`", "[`sd.simulate(p)`](../reference/simulate.md){.name}")
    assert assemble.finished(page, "howto/a.md") == linked
    assert assemble.finished("`sd.simulate`", "reference/simulate.md") == "`sd.simulate`"
    assert assemble.finished("```python notest\nN = 5  # small: 2\n```\n", "a.md") == "```python\nN = 5\n```\n"


def test_a_folder_in_the_navigation_stands_for_its_pages_in_their_order():
    pages = {
        "t/a.md": "---\norder: 2\n---\n\n# A\n",
        "t/b.md": "---\norder: 1\n---\n\n# B\n",
        "t/index.md": "# T\n",
        "u/c.md": "# C\n",
    }
    assert assemble.expanded({"T": "t/"}, pages) == [{"T": ["t/index.md", "t/b.md", "t/a.md"]}]
    assert assemble.expanded({"T": ["x.md", {"V": "v/"}]}, pages) == [{"T": ["x.md"]}]


def test_every_module_is_in_one_room_and_says_what_it_does():
    listed = [module for room in rooms.ROOMS for module in rooms.modules(room)]
    files = {str(file.relative_to(rooms.SOURCE)) for file in rooms.SOURCE.rglob("*.py")}
    assert sorted(address for address, _ in listed) == sorted(files - {"__init__.py", "__main__.py"})
    assert [address for address, line in listed if not line] == []


def test_changes_are_added_changed_and_fixed_by_what_users_do():
    fragments = ["Fixed (runs): a.\nb.\n", "Added (circuits): c.\n\nd.\n\nFixed (analysis): e.", "- f.\n  g.\n- h."]
    assert generate.coming(fragments) == (
        "### Added\n\n- **Circuits.** c.\n\n  d.\n\n### Changed\n\n- f.\n  g.\n- h.\n\n"
        "### Fixed\n\n- **Analysis.** e.\n- **Runs.** a.\n  b."
    )


def test_the_changes_of_every_release_are_short_and_stand_behind_the_coming_ones():
    page, stored = generate.changes(), (generate.ROOT / "CHANGELOG.md").read_text()
    released = generate.RELEASED.search(stored)[0]
    assert generate.renamed(f"{generate.HEAD}\n| `a` | `b` | c |\n| `d` | `e` | f |", "| `a` | `b` | c |")[1].endswith(
        "|---|---|---|\n| `d` | `e` | f |"
    )
    assert page.endswith(released) and page.index("\n## ") < page.index(released)
    for release in re.split(r"^## ", released, flags=re.MULTILINE)[1:]:
        assert release.partition("### Old and new names")[0].count("\n") <= generate.LINES + 10


def test_the_rooms_stand_in_the_order_of_the_imports_and_the_picture_shows_them():
    settings = tomllib.loads((generate.DOCS.parent / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    order = [part.strip().removeprefix("stodyn.") for layer in layers for part in layer.split("|")]
    heights = [order.index(room.parts[0]) for room in rooms.ROOMS]
    assert heights == sorted(heights) and {part for room in rooms.ROOMS for part in room.parts} == set(order)
    drawn = re.findall(r"^    │ (\w+) ", (generate.DOCS / "design.md").read_text(), re.MULTILINE)
    assert drawn == [room.title for room in rooms.ROOMS]


def test_the_design_names_files_that_exist():
    page = (generate.DOCS / "design.md").read_text()
    ways = page[page.index("## Six ways in") : page.index("## Studies")]
    named = [name for name in re.findall(r"\b\w+/[\w/]+\.py\b", ways) if not name.startswith("benchmarks/")]
    assert len(named) > 40
    assert [name for name in named if not (rooms.SOURCE / name).exists()] == []


@pytest.mark.parametrize(
    ("link", "wrong"),
    [("b.html", False), ("b.html#here", False), ("b.html#there", True), ("c.html", True), ("https://x.org/c", False)],
)
def test_links_that_lead_nowhere_are_found(tmp_path, link, wrong):
    (tmp_path / "a.html").write_text(f'<a href="{link}">a</a>')
    (tmp_path / "b.html").write_text('<h1 id="here">b</h1>')
    assert bool(links.broken(tmp_path)) is wrong


def test_methods_that_are_made_from_another_one_are_listed():
    assert "[`ExactNoise(RK4)`](exactnoise.md)" in catalogues.methods_page()


def test_stored_pictures_are_small():
    """If not: python docs/pictures.py."""
    assert not list(pictures.large())


def test_a_large_picture_keeps_its_colours(tmp_path, monkeypatch):
    whole = Image.new("RGB", (300, 200), "white")
    for k in range(200):
        whole.putpixel((k, k), (k, 0, 255 - k))
    whole.save(tmp_path / "a.png", compress_level=0)
    assert list(pictures.large(tmp_path)) == [tmp_path / "a.png"]
    pictures.shrink(tmp_path / "a.png")
    assert Image.open(tmp_path / "a.png").convert("RGB").tobytes() == whole.tobytes()
    monkeypatch.setattr(pictures, "LARGEST", 100)
    with pytest.raises(ValueError, match="fewer dots per inch"):
        pictures.shrink(tmp_path / "a.png")


def test_the_page_on_choosing_says_what_is_recommended():
    """If not: python docs/generate.py --recommend."""
    page = (Path(generate.DOCS) / "start" / "choose.md").read_text()
    shown = dict(re.findall(r"^### (.*)\n\n.*\n.*\n\| `(\w+)` \| default", page, re.MULTILINE))
    assert shown == {words: recommended(problem).name for words, problem in catalogues.examples().items()}
    assert {type(problem) for problem in catalogues.examples().values()} >= {sd.SDE, sd.SDAE, sd.Hamiltonian}


def test_the_logo_shows_its_paths_apart_and_within_its_square():
    """In the header it is 24 pixels wide: two of them are 5.3 of its 64."""
    lines = re.findall(r'points="([^"]+)"', drawings.logo())
    *paths, mean = (np.array([point.split(",") for point in line.split()], float) for line in lines)
    assert all(np.all((path > 1.0) & (path < 63.0)) for path in paths)
    apart = np.ptp([path[:, 1] for path in paths], axis=0)
    assert apart[0] == 0.0 and np.median(apart) > 5.3
    np.testing.assert_allclose(np.mean([path[:, 1] for path in paths], axis=0), mean[:, 1], atol=0.1)


def test_labels_of_thumbnails_are_broken_until_nothing_is_cut(tmp_path):
    """A long label beside long names of ticks, and a name that no line break makes shorter."""
    figure, axes = plt.subplots()
    axes.set_yticks([0.0, 1.0], ["d/dsigma, conditional", "d/dmu, weight"])
    axes.set_xlabel("estimate less the exact derivative, ± 2 standard errors")
    axes.set_ylabel("a_name_that_is_longer_than_the_picture")
    thumbnails.draw(figure, tmp_path / "thumbnail.png")
    for label, side in ((axes.xaxis.label, 0), (axes.yaxis.label, 1)):
        ends = label.get_window_extent().get_points()[:, side]
        assert ends[0] >= 0.0 and ends[1] <= figure.bbox.size[side]
    assert axes.xaxis.label.get_size() == thumbnails.POINTS > axes.yaxis.label.get_size()
    plt.close(figure)
