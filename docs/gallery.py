"""The gallery: every script of examples/ with the picture and the output of its last whole run.

    python docs/gallery.py NAME ...     run these entries, or where none is named all that ran on this kind of machine

stores in docs/gallery what an entry prints, the processor time it takes in seconds (null where it ran on another
machine), the digest of its source (NAME.json), its pictures (NAME.png, NAME_2.png, ...) and its thumbnail
(NAME.thumbnail.png).
"""

import ast
import dataclasses
import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pictures import large, shrink
from running import digest, shown

EXAMPLES = Path(__file__).parents[1] / "examples"
STORED = Path(__file__).parent / "gallery"
THUMBNAILS = Path(__file__).parent / "thumbnails.py"
DOMAINS = (
    "first steps", "choosing a method", "vehicles and structures", "mechanisms", "particles and plasma",
    "nonlinear dynamics", "life and finance", "circuits", "tolerances", "records", "large systems", "running",
)  # fmt: skip
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
TRUTH = re.compile(rf"^truth: (?P<what>.*) is (?P<exact>{NUMBER}), ours (?P<ours>{NUMBER}) ± (?P<error>{NUMBER})", re.M)


@dataclasses.dataclass(frozen=True)
class Entry:
    """A script of the gallery.

    The first line of its docstring is its title, the last one `Domain: one of DOMAINS`, and it prints at least one line
    `truth: WHAT is EXACT, ours VALUE ± ERROR`.
    """

    name: str
    source: str

    @property
    def docstring(self) -> list[str]:
        return (ast.get_docstring(ast.parse(self.source)) or "").splitlines()

    @property
    def title(self) -> str:
        return self.docstring[0].rstrip(".")

    @property
    def domain(self) -> str:
        found = self.docstring[-1].removeprefix("Domain: ")
        if found not in DOMAINS:
            raise ValueError(
                f"{self.name}: the docstring's last line must be 'Domain: X', X one of {', '.join(DOMAINS)}"
            )
        return found

    @property
    def text(self) -> str:
        return "\n".join(self.docstring[1:-1]).strip()

    @property
    def stored(self) -> dict | None:
        """Return what the last whole run left: source (digest), seconds, printed, pictures; None before the first."""
        path = STORED / f"{self.name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    @property
    def small_picture(self) -> str:
        """Return the name of its thumbnail."""
        return f"{self.name}.thumbnail.png"

    @property
    def thumbnail(self) -> str:
        """Return the picture to show for it among others: the whole one where it ran elsewhere."""
        return self.small_picture if (STORED / self.small_picture).exists() else f"{self.name}.png"

    @property
    def ran_elsewhere(self) -> bool:
        """Return whether the last whole run was on a machine with other devices, such as a GPU."""
        return self.stored is not None and self.stored["seconds"] is None


def entries() -> Iterator[Entry]:
    """Yield the scripts of the gallery in the order of their names."""
    for path in sorted(EXAMPLES.glob("*.py")):
        yield Entry(path.stem, path.read_text())


def truths(printed: str) -> list[tuple[str, float, float, float]]:
    """Return the lines of truth: what, exact, ours, error."""
    return [(m["what"], *(float(m[key]) for key in ("exact", "ours", "error"))) for m in TRUTH.finditer(printed)]


def run(entry: Entry) -> None:
    """Run an entry whole and store what it leaves."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / f"{entry.name}.py"
        script.write_text(shown(entry.source))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, THUMBNAILS, script.name], cwd=folder, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if done.returncode:
            raise RuntimeError(f"{entry.name} failed:\n{done.stderr}")
        left = sorted(path.name for path in Path(folder).glob("*.png"))
        pictures = [picture for picture in left if picture != entry.small_picture]
        if f"{entry.name}.png" not in pictures or not truths(done.stdout):
            raise RuntimeError(f"{entry.name} must save {entry.name}.png and print a line of truth; it left {pictures}")
        STORED.mkdir(exist_ok=True)
        for picture in left:
            shutil.copy(Path(folder) / picture, STORED / picture)
        for path in {*large(STORED), STORED / entry.small_picture}:
            shrink(path)
    kept = {"source": digest(entry.source), "seconds": round(seconds, 1), "pictures": pictures, "printed": done.stdout}
    (STORED / f"{entry.name}.json").write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    print(f"{entry.name}: {seconds:.1f} s\n{done.stdout}", flush=True)


if __name__ == "__main__":
    known = {entry.name: entry for entry in entries()}
    unknown = set(sys.argv[1:]) - set(known)
    if unknown:
        sys.exit(f"no such entries: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    for name in sys.argv[1:] or (name for name, entry in known.items() if not entry.ran_elsewhere):
        run(known[name])
