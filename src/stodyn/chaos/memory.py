"""Saying how large something will be before it is made."""

import os

SHARE = 0.5  # of the machine's memory


def refuse_too_large(numbers: float, what: str, instead: str) -> None:
    """Raise MemoryError where `numbers` floats of 8 bytes do not fit into a share of this machine's memory."""
    if not hasattr(os, "sysconf"):
        return
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if 8.0 * numbers > SHARE * there:
        raise MemoryError(
            f"{what} would take {8e-9 * numbers:.3g} GB, but this machine has {there / 1e9:.1f} GB. {instead}"
        )
