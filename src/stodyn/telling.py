"""Warnings: told at the user's line, and kept in the record of the result that they are about."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from contextvars import ContextVar

from stodyn.arguments import stacklevel_of_user

_TOLD: ContextVar[list[str] | None] = ContextVar("told", default=None)


def tell(words: str, category: type[Warning] = UserWarning) -> None:
    """Warn the user, at the line that called stodyn; the words are kept even where warnings are filtered out."""
    messages = _TOLD.get()
    if messages is not None and words not in messages:
        messages.append(words)
    warnings.warn(words, category, stacklevel=stacklevel_of_user())


@contextlib.contextmanager
def keeping_what_is_told() -> Iterator[list[str]]:
    """Collect the words of all warnings inside; those of a call within a call belong to both."""
    outer, messages = _TOLD.get(), list[str]()
    token = _TOLD.set(messages)
    try:
        yield messages
    finally:
        _TOLD.reset(token)
        if outer is not None:
            outer += [words for words in messages if words not in outer]


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Neither tell nor keep the warnings inside, which are about what the user has not asked for."""
    token = _TOLD.set(None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        _TOLD.reset(token)


@contextlib.contextmanager
def overheard() -> Iterator[list[warnings.WarningMessage]]:
    """Catch the warnings inside, which are neither told nor kept: the caller tells them in words of its own."""
    token = _TOLD.set(None)
    try:
        with warnings.catch_warnings(record=True) as own:
            warnings.simplefilter("always")
            yield own
    finally:
        _TOLD.reset(token)
