"""Every entry of the gallery runs in its small size, meets its truth there, and was run whole as it stands."""

import contextlib
import io

import gallery
import pytest
from running import digest, inside, shown, small

ENTRIES = {entry.name: entry for entry in gallery.entries() if entry.stored}
# They call no function, argument or method that pages and the other entries do not call too.
NOTHING_NEW = (
    "slider_crank", "mast", "ring_oscillator", "sample_and_hold", "rare_event", "tolerance_or_noise", "quarter_car",
    "building_drift", "atmosphere", "miller_tolerances", "how_small_a_step", "bouncing_ball", "own_integrator",
    "heat_equation", "kramers", "eulers_damping", "satellite",
)  # fmt: skip
LATER = pytest.mark.long("the pages and entries with the same calls, and the truths that were stored of this source")


@pytest.mark.usefixtures("quick_compiling", "coarse_pictures")
@pytest.mark.parametrize("name", [pytest.param(n, marks=LATER) if n in NOTHING_NEW else n for n in ENTRIES])
def test_an_entry_meets_its_truth(name, tmp_path):
    """In the small size, its errors 4.5 times as large: by chance 7e-6 for a sampled one, and the seeds are fixed."""
    entry, printed = ENTRIES[name], io.StringIO()
    with inside(tmp_path), contextlib.redirect_stdout(printed):
        exec(compile(small(entry.source), f"examples/{name}.py", "exec"), {"__name__": "__main__"})
    assert (tmp_path / f"{name}.png").exists()
    found = gallery.truths(printed.getvalue())
    assert found, printed.getvalue()
    for what, exact, ours, error in found:
        assert abs(ours - exact) <= 4.5 * error, what


@pytest.mark.parametrize("name", ENTRIES)
def test_what_the_site_shows_is_of_this_source(name):
    """If not: python docs/gallery.py NAME."""
    entry = ENTRIES[name]
    assert entry.stored["source"] == digest(entry.source)
    assert all((gallery.STORED / picture).exists() for picture in entry.stored["pictures"])
    assert entry.ran_elsewhere or entry.thumbnail == entry.small_picture
    for what, exact, ours, error in gallery.truths(entry.stored["printed"]):
        assert abs(ours - exact) <= 4.5 * error, what


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_is_short_and_has_a_title_and_a_domain(name):
    entry = ENTRIES[name]
    lines = shown(entry.source).splitlines()
    assert 15 <= len(lines) <= 90 and max(map(len, lines)) <= 90
    assert entry.domain and entry.text and 0 < len(entry.title) <= 75
