"""Caches that do not grow without limit."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Bounded(dict[K, V]):
    """A dictionary of at most `most` entries: the oldest one goes when a new one comes."""

    def __init__(self, most: int):
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        while len(self) >= self.most and key not in self:
            del self[next(iter(self))]
        super().__setitem__(key, value)
