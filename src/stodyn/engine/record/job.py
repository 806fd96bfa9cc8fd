"""A run as places and ledgers use it: numbered blocks, each computed by itself, and the identity of the run."""

from __future__ import annotations

import functools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from stodyn.engine.record import identity, plain

Tell = Callable[[int], None]  # called with the path-steps that are done; may raise to end a block


class Job(ABC):
    """Work that a place can run: a pickled copy computes the same blocks to the same bits elsewhere."""

    paths: int
    first_block: int = 0  # those before it are done, and merged

    @property
    @abstractmethod
    def blocks(self) -> int:
        """How many blocks there are."""

    @abstractmethod
    def paths_in(self, block: int) -> int:
        """How many paths a block holds."""

    @abstractmethod
    def path_steps(self, block: int) -> int:
        """The work of a block, in path-steps."""

    @abstractmethod
    def compute(self, block: int, tell: Tell) -> Any:
        """The result of a block: plain arrays and numbers in tuples, lists, dicts and named tuples."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Everything that the numbers of a block depend on except its members."""

    @abstractmethod
    def members_digest(self, block: int) -> str:
        """A digest of the starts and parameters of a block's paths."""

    @abstractmethod
    def owners(self) -> Iterable[type]:
        """The classes beside which the named tuples of a block's result are defined."""

    @functools.cached_property
    def identity(self) -> dict[str, Any]:
        return json.loads(json.dumps(self.describe()))  # as it will be read back

    @functools.cached_property
    def key(self) -> str:
        """The identity in one word."""
        return identity.digest(json.dumps(self.identity, sort_keys=True))

    def about(self, block: int) -> dict[str, Any]:
        """The description of a block that its record carries."""
        members = self.members_digest(block)
        return {"run": self.key, "block": block, "paths": self.paths_in(block), "members": members}

    def pack(self, block: int, part: Any) -> bytes:
        return plain.packed(part, self.about(block), "collect: the record of a statistic for a block")

    def unpack(self, data: bytes) -> Any:
        return plain.unpacked(data, self.named_tuples).value

    @functools.cached_property
    def named_tuples(self) -> dict[str, type]:
        return plain.named_tuples(self.owners())
