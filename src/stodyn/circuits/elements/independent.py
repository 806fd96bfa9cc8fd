"""V and I: [[DC] value] [AC size [phase]] [SIN(...) | PULSE(...) | EXP(...) | SFFM(...) | AM(...)], or PWL(...) with
td= and r=; TRNOISE(NA NT); and in a V Rser= and Cpar=, as LTspice has them, and portnum= and z0= of a port, as ngspice
has them.

ngspice's TRNOISE(NA NT) draws values of standard deviation NA every NT and straight lines between them: a density of
NA² NT (two-sided) at low frequencies, and a variance of 2/3 NA². Here it is Gaussian noise of the same density and the
same variance with one pole, so that its correlation falls as exp(-t/τ), τ = 3/4 NT.
"""

from __future__ import annotations

import dataclasses
import math

from stodyn.circuits import waveforms
from stodyn.circuits.element import GROUND, Card, Element, ElementType
from stodyn.circuits.elements.amplifier_noise import generator
from stodyn.circuits.text import NetlistError
from stodyn.circuits.waveforms import Waveform

SAME = {"sine": "sin"}  # LTspice's
KNOWN = (*waveforms.ARGUMENTS, "pwl")
NOT_HERE = {
    "trrandom": "random waveforms of sources are not implemented; a source may drive a filter of noisy resistors",
    "external": "values from another program are not implemented; write PWL(...)",
    "file": "files of points are not read; write the points as PWL(t1 v1 t2 v2 ...)",
    "wavefile": "sound files are not read; write the points as PWL(t1 v1 t2 v2 ...)",
    "repeat": "write PWL(...) r=0, which repeats all of it for ever",
}
PORTS = ("portnum", "z0", "pwr", "freq")  # of ports; the power and frequency are for transients
PORT = 50.0  # Ω, the usual impedance of a port


class _Line:
    """The words of a source after its nodes, taken one by one."""

    def __init__(self, card: Card):
        self.card, self.words = card, [SAME.get(word, word) for word in card.rest]
        self.dc: float | None = None
        self.small_signal = 0.0, 0.0
        self.waveform = Waveform(None)
        self.random: tuple[float, float] | None = None  # NA and NT

    def read(self) -> Waveform:
        for key in ("dc", "ac"):  # DC=2 AC=1
            if key in self.card.parameters:
                self.words += [key, self.card.parameters.pop(key)]
        while self.words:
            self.one(self.words.pop(0))
        dc = 0.0 if self.dc is None and not self.waveform.kind else self.dc
        return self.waveform._replace(dc=dc, small_signal=self.small_signal)

    def one(self, word: str) -> None:
        if word in NOT_HERE:
            raise self.card.malformed(f"{word}: {NOT_HERE[word]}")
        if word in KNOWN:
            self.shape(word)
        elif word == "trnoise":
            self.random = self.noise_numbers()
        elif word in PORTS and self.words:  # portnum 1 z0 50, as ngspice writes it
            self.card.parameters[word] = self.words.pop(0)
        elif word == "ac":
            size = [self.card.number(self.words.pop(0), key) for key in ("ac", "phase") if self.number_follows]
            self.small_signal = size[0] if size else 1.0, size[1] if len(size) > 1 else 0.0
        elif self.words and self.words[0] == "(":
            raise NetlistError(f"{self.card.name}: there is no waveform {word}; there are {_LISTED}", self.card.at)
        elif self.dc is None and (word != "dc" or self.words):
            self.dc = self.card.number(self.words.pop(0) if word == "dc" else word, "")
        else:
            message = f"{self.card.name}: did not expect {word!r}; a source is [DC value] and one of {_LISTED}"
            raise NetlistError(message, self.card.at)

    @property
    def number_follows(self) -> bool:
        """Whether the next word is a number, an expression or a parameter, and not the next part of the source."""
        return bool(self.words) and self.words[0] not in ("dc", "ac", *KNOWN, *NOT_HERE, *PORTS)

    def shape(self, kind: str) -> None:
        """A waveform with its numbers, in parentheses or not."""
        card = self.card
        if self.waveform.kind:
            raise NetlistError(f"{card.name}: two waveforms, {self.waveform.kind} and {kind}", card.at)
        inside = self.inside(kind)
        if named := next((word for word in (*inside, *card.parameters) if word in NOT_HERE), ""):
            raise card.malformed(f"{kind} {named}: {NOT_HERE[named]}")
        places = [*waveforms.ARGUMENTS.get(kind, ()), *(f"{kind}{k}" for k in range(len(inside)))]
        values = [card.number(text, kind, place=place) for text, place in zip(inside, places, strict=False)]
        ends = card.netlist.transient
        if kind == "sin" and len(values) == 7 and values[6] == 0.0:
            values.pop()  # LTspice's number of cycles, 0 for any
        try:
            numbers = waveforms.completed(kind, values, ends and ends.step, ends and ends.stop)
        except ValueError as error:
            raise NetlistError(f"{card.name}: {error}", card.at) from None
        if ends is None and waveforms.UNTIMED in numbers[len(values) :]:
            card.netlist.notes.append(f"{card.at}: {card.full}: without .tran, times that are missing in {kind} are "
                                      f"{waveforms.UNTIMED:g} s")  # fmt: skip
        self.waveform = Waveform(None, kind, numbers)
        if kind == "pwl":
            if len(numbers) < len(values) or list(numbers) != values:
                card.netlist.notes.append(f"{card.at}: {card.full}: pwl has two points at one time; a jump there "
                                          f"takes {waveforms.RETURN:g} of the line beside it")  # fmt: skip
            self.waveform = self.moved(self.waveform)
        if self.waveform.returns:
            card.netlist.notes.append(
                f"{card.at}: {card.full}: {kind} jumps where it is repeated; here it takes {self.waveform.returns:g} s"
            )

    def inside(self, kind: str) -> list[str]:
        """The numbers of a waveform, in parentheses or not."""
        if self.words[:1] != ["("]:
            return self.plain_numbers()
        if ")" not in self.words:
            raise NetlistError(f"{self.card.name}: the parenthesis of {kind}( is not closed", self.card.at)
        end = self.words.index(")")
        inside, self.words = self.words[1:end], self.words[end + 1 :]
        return inside

    def noise_numbers(self) -> tuple[float, float]:
        """NA and NT of TRNOISE, white noise; its 1/f noise and its telegraph noise are refused."""
        inside = self.inside("trnoise")
        places = ("na", "nt", "nalpha", "namp", "rtsam", "rtscapt", "rtsemt")
        values = [self.card.number(text, "trnoise", place=place) for text, place in zip(inside, places, strict=False)]
        size, step, _, flicker, telegraph, *_ = [*values, *[0.0] * len(places)]
        if flicker or telegraph:
            raise self.card.malformed(
                f"trnoise: {'its 1/f noise (NAMP)' if flicker else 'telegraph noise (RTSAM)'} is not implemented; "
                f"{'N ... en= enk= has noise with a corner' if flicker else 'leave it out'}"
            )
        if len(values) < 2 or size < 0.0 or not step > 0.0:
            raise self.card.malformed("expected TRNOISE(NA NT), a standard deviation and a step in s")
        return size, step

    def plain_numbers(self) -> list[str]:
        """The numbers of a waveform without parentheses: up to the next part of the source."""
        count = next((k for k, word in enumerate(self.words) if word in ("dc", "ac", *KNOWN, *PORTS)), len(self.words))
        inside, self.words = self.words[:count], self.words[count:]
        return inside

    def moved(self, waveform: Waveform) -> Waveform:
        """A PWL with td=, its delay, and r=, the time from which it is repeated (-1: not at all)."""
        delay, repeated = self.card.named("td", 0.0), self.card.named("r", -1.0)
        if repeated == -1.0:
            return waveform._replace(delay=delay)
        times = waveform.numbers[::2]
        if not (times[0] <= repeated < times[-1]):
            raise self.card.malformed(f"r={repeated:g}: expected a time of its points, {times[0]:g} to {times[-1]:g}")
        return waveform._replace(delay=delay, repeated=repeated)


def _source(card: Card) -> list[Element]:
    line = _Line(card)
    waveform = line.read()
    parts: list[Element] = []
    if line.random is not None and line.random[0]:
        parts = _noise_parts(card, *line.random)
    if card.type.name == "i":
        return [card.part("i", card.nodes, waveform), *parts]
    return [*_with_own_impedance(card, waveform), *parts]


def _noise_parts(card: Card, size: float, step: float) -> list[Element]:
    """The noise of TRNOISE: a current beside an I, a voltage in series with a V, which then ends before it."""
    loud = dataclasses.replace(card, noisy=True)
    parts, node, own = generator(loud, "trnoise", 0.0, 1.0 / (2.0 * math.pi * 0.75 * step))
    gain, (plus, minus) = size * math.sqrt(2.0 * step) / own, card.nodes
    card.netlist.notes.append(
        f"{card.at}: {card.full}: TRNOISE is Gaussian noise of the density and variance of ngspice's, with a "
        f"correlation time of 3/4 NT = {0.75 * step:g} s in place of straight lines; .noise has it as well, "
        "which ngspice's has not"
    )
    if card.type.name == "i":
        return [*parts, card.part("g", (plus, minus, node, GROUND), gain, ".noise")]
    card.nodes = plus, card.inner("noise")
    return [*parts, card.part("e", (card.inner("noise"), minus, node, GROUND), gain, ".noise")]


def _with_own_impedance(card: Card, waveform: Waveform) -> list[Element]:
    """A V source with its series resistor, which is noisy, and the capacitor across both; a port has a series resistor
    without noise."""
    across, series = card.named("cpar", 0.0, 0.0), card.named("rser", 0.0, 0.0)
    parts, (plus, minus) = [], card.nodes
    for key in PORTS[2:]:
        if card.parameters.pop(key, None) is not None:
            card.netlist.notes.append(f"{card.at}: left out {key} of {card.full}")
    if "portnum" in card.parameters:
        number = card.named("portnum", 1.0, 1.0)
        impedance = card.named("z0", PORT, 0.0, False)
        card.netlist.ports[int(number)] = card.full, impedance
        parts.append(card.part("r", (plus, card.inner("z0")), impedance, ".z0", noisy=False))
        plus = card.inner("z0")
    elif series:
        parts.append(card.part("r", (plus, card.inner("rser")), series, ".rser", noisy=True))
        plus = card.inner("rser")
    if across:
        parts.append(card.part("c", card.nodes, across, ".cpar"))
    return [card.part("v", (plus, minus), waveform), *parts]


_LISTED = ", ".join(kind.upper() for kind in KNOWN)
V = ElementType("v", "V n+ n- [DC value] [AC size [phase]] [SIN(...) ...]", 2, _source)
I = ElementType("i", "I n+ n- [DC value] [AC size [phase]] [SIN(...) ...]", 2, _source, noisy=False)
