"""Keep the pictures of the site small.

    python docs/pictures.py     makes every PNG in docs/ that is larger than LARGEST smaller, in place

A picture is given a palette of 256 colours or, if that is not enough, fewer: lines and letters look the same, and the
file is a third as large.
"""

import io
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

DOCS = Path(__file__).parent
LARGEST = 80_000  # bytes


def large(folder: Path = DOCS) -> Iterator[Path]:
    """Yield the pictures that are too large."""
    return (path for path in sorted(folder.rglob("*.png")) if path.stat().st_size > LARGEST)


def shrink(path: Path) -> None:
    """Write a picture with as many colours as its size allows."""
    whole = Image.open(path).convert("RGB")
    for colours in (256, 128, 64):
        written = io.BytesIO()
        whole.quantize(colours, dither=Image.Dither.NONE).save(written, "png", optimize=True)
        if written.tell() <= LARGEST:
            path.write_bytes(written.getvalue())
            return
    raise ValueError(f"{path}: {written.tell()} bytes with 64 colours; draw it with fewer dots per inch")


if __name__ == "__main__":
    for path in large():
        shrink(path)
        print(f"{path.relative_to(DOCS)}: {path.stat().st_size} bytes")
