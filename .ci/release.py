"""Build a release from a tag: check that everything names the same version, build, install alone, and take the tour.

    python .ci/release.py [--python python3.13 ...] [--untagged]

Checks that the version of src/stodyn/__init__.py is that of CITATION.cff and has a part in CHANGELOG.md, that changes/
holds no note that was not collected, and that the commit is clean and tagged v<version>. Builds the sdist and from it
the wheel into dist/, installs the wheel into an empty environment of each Python, and runs `stodyn tour` there. A
Python that does not run here is named, and keeps the tree from being released. It uploads nothing.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("python3.11", "python3.13")  # the oldest and the newest that stodyn is for


def version_of(root: Path) -> str:
    """Return the version that the package states."""
    return re.search(r'^__version__ = "([^"]+)"', (root / "src/stodyn/__init__.py").read_text(), re.MULTILINE)[1]


def faults(root: Path, tags: list[str], changed: list[str]) -> list[str]:
    """Return what keeps a tree from being released; `tags` are those of its commit, `changed` its uncommitted files."""
    version = version_of(root)
    wrong = []
    if f"\nversion: {version}\n" not in (root / "CITATION.cff").read_text():
        wrong.append(f"CITATION.cff: its version is not {version}")
    if f"\n## {version}\n" not in (root / "CHANGELOG.md").read_text():
        wrong.append(f"CHANGELOG.md: has no part '## {version}'; run `make changelog` and shorten it")
    notes = sorted(path.name for path in (root / "changes").glob("*.md") if path.name != "renamed.md")
    if notes:
        wrong.append(
            f"changes/: {len(notes)} notes are not collected, the first {notes[0]}; delete those of this version"
        )
    if f"v{version}" not in tags:
        wrong.append(f"tag: the commit is not tagged v{version}; run `git tag v{version}`")
    if changed:
        wrong.append(f"tree: {len(changed)} files are not committed, the first {changed[0]}")
    return wrong


def runs(python: str) -> bool:
    """Return whether a Python starts; one that is found may be a pointer to a version that is not installed."""
    return bool(shutil.which(python)) and not subprocess.run([python, "-c", ""], capture_output=True).returncode


def missing(pythons: list[str]) -> list[str]:
    """Return a line for each Python that does not run."""
    return [
        f"{python}: does not run here, so the wheel cannot be tried; install it, or name others: --python PATH ..."
        for python in pythons
        if not runs(python)
    ]


def try_alone(wheel: Path, python: str) -> None:
    """Install a wheel into an empty environment of a Python, and take the tour there."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        inside = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin")
        subprocess.run([inside / "python", "-m", "pip", "install", "--quiet", wheel], check=True)
        subprocess.run([inside / "stodyn", "tour", "--paths", "1000"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
    print(f"{wheel.name}: installed alone on {python}, the tour ran", flush=True)


def output(*command: str) -> list[str]:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")[:-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="+", default=list(PYTHONS), help=f"by default {' and '.join(PYTHONS)}")
    parser.add_argument("--untagged", action="store_true", help="build and try what is not ready for a release")
    options = parser.parse_args()
    wrong = faults(ROOT, output("git", "tag", "--points-at", "HEAD"), output("git", "status", "--porcelain"))
    wrong += missing(options.python)
    if wrong and not options.untagged:
        sys.exit("\n".join(["not released:", *wrong]))
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", "."], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    wheel = next((ROOT / "dist").glob("*.whl"))
    for python in filter(runs, options.python):
        try_alone(wheel, python)
    print("\n".join(["in dist/:", *sorted(path.name for path in (ROOT / "dist").iterdir()), *wrong]))


if __name__ == "__main__":
    main()
