"""V and I: [[DC] value] [AC size [phase]] [SIN(...) | PULSE(...) | EXP(...) | PWL(...)]."""

from __future__ import annotations

from stodyn.circuits import waveforms
from stodyn.circuits.element import Card, Element, ElementType
from stodyn.circuits.text import NetlistError
from stodyn.circuits.waveforms import Waveform
from stodyn.circuits.words import is_number


def _source(card: Card) -> list[Element]:
    dc: float | None = None
    small_signal: tuple[float, float] | None = None
    kind, numbers = "", tuple[float, ...]()
    words = list(card.rest)
    for key in ("dc", "ac"):  # DC=2 AC=1
        if key in card.parameters:
            words += [key, card.parameters.pop(key)]
    while words:
        word = words.pop(0)
        if word in waveforms.ARGUMENTS or word == "pwl":
            if kind:
                raise NetlistError(f"{card.name}: two waveforms, {kind} and {word}", card.at)
            if words and words[0] == "(":
                if ")" not in words:
                    raise NetlistError(f"{card.name}: the parenthesis of {word}( is not closed", card.at)
                end = words.index(")")
                inside, words = words[1:end], words[end + 1 :]
            else:
                inside, words = words, []
            places = [*waveforms.ARGUMENTS.get(word, ()), *(f"{word}{k}" for k in range(len(inside)))]
            values = [card.number(text, word, place=place) for text, place in zip(inside, places, strict=False)]
            ends = card.netlist.transient
            try:
                numbers = waveforms.completed(word, values, ends and ends.step, ends and ends.stop)
            except ValueError as error:
                raise NetlistError(f"{card.name}: {error}", card.at) from None
            kind = word
        elif word == "ac":
            size = [card.number(words.pop(0), key) for key in ("ac", "phase") if words and is_number(words[0])]
            small_signal = size[0] if size else 1.0, size[1] if len(size) > 1 else 0.0
        elif words and words[0] == "(":
            raise NetlistError(f"{card.name}: there is no waveform {word}; there are SIN, PULSE, EXP, PWL", card.at)
        elif dc is None and (word != "dc" or words):
            dc = card.number(words.pop(0) if word == "dc" else word, "")
        else:
            raise NetlistError(f"{card.name}: did not expect {word!r}; a source is [DC value] and one of SIN, PULSE, "
                               "EXP, PWL", card.at)  # fmt: skip
    if dc is None and not kind:
        dc = 0.0
    return [card.part(card.type.name, card.nodes, Waveform(dc, kind, numbers, small_signal or (0.0, 0.0)))]


V = ElementType("v", "V n+ n- [DC value] [SIN(...) ...]", 2, _source)
I = ElementType("i", "I n+ n- [DC value] [SIN(...) ...]", 2, _source, noisy=False)
