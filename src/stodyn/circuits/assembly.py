"""Modified nodal analysis: flat elements -> the arrays of M dX = f(t, X) dt + g(t, X) dW, kind by kind of element.

The unknowns are the node voltages, then a current for each V, E, H and L, then a charge q for each part that stores one
nonlinearly, in volts on its unit capacitance C₀, then the states of flicker filters. Rows:
    node    Σ C u' + Σ C₀ q' = -Σ currents that leave it    V, E, H   0 = u₊ - u₋ - (V(t), gain (c₊ - c₋) or r j)
    L       L j' + Σ M j' = u₊ - u₋                         charge    0 = q - Q(u)/C₀
    filter  s' = -s/τ + √(2/τ) σ dW
A source in a loop of capacitors and voltage sources has as its unknown the charge q it has delivered, j = q'.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.circuits import topology
from stodyn.circuits.devices import CHARGE, Current, Law, Numbers, flicker_size, flicker_slope, thermal
from stodyn.circuits.element import GROUND, Element
from stodyn.circuits.netlist import Netlist
from stodyn.circuits.text import NetlistError
from stodyn.circuits.waveforms import Sources
from stodyn.noise import coloured
from stodyn.numerics import dual

SMALL = 300  # unknowns up to which dense products are quicker than the calls of sparse ones
FILLED = 16  # the most zeros per entry with which sums are still gathered
MOST_UNKNOWNS = 1_000_000
MOST_WITH_FLICKER = 8000  # because the covariance of a start of filters is dense
INDEX = np.int32  # the type of JAX's own indices without 64 bits
BRANCHES = frozenset("vehlt")
SERIES = 1e-3  # Ω
OVER_UNIT = "over unit"  # among the numbers of charges: their own unit over that of the mass matrix, where they vary


_TOKENS = itertools.count()
NOWHERE = np.zeros(0, int)


class Stamps(NamedTuple):
    """Entries of a matrix; entries at the same place add up."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    def matrix(self, n: int) -> scipy.sparse.csr_array:
        """The matrix (n, n) without the row and column of the ground (number n)."""
        whole = scipy.sparse.coo_array((self.values, (self.rows, self.columns)), (n + 1, n + 1)).tocsr()
        return whole[:n, :n]


class Sums:
    """Sums of entries by rows, (entries,) -> (size,): gathered row by row, because XLA and lanes scatter slowly.

    Rows with fewer entries than the longest are padded with zeros; where most entries would be padding, the sums are
    scattered after all.
    """

    def __init__(self, rows: np.ndarray, size: int):
        self.rows, self.size = rows, size
        counts = np.bincount(rows, minlength=size)
        longest = int(counts[:-1].max(initial=1))  # without the last row, the ground's, which is not used
        self.table: np.ndarray | None = None
        if size * longest <= FILLED * (len(rows) + size):
            order = np.argsort(rows, kind="stable")
            rank = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
            in_table = rank < longest
            self.table = np.full((size, longest), len(rows), INDEX)
            self.table[rows[order][in_table], rank[in_table]] = order[in_table]

    def __call__(self, values: Any, xp: Any) -> Any:
        if xp is np:
            return np.bincount(self.rows, values, self.size)
        if self.table is None:
            return jnp.zeros(self.size, values.dtype).at[self.rows].add(values)
        return jnp.concatenate([values, jnp.zeros(1, values.dtype)])[self.table].sum(axis=1)


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """Nonlinear parts of one law: `out` are the rows their current leaves and enters, `control` the pairs of unknowns
    they read; for charges, `rows` are their unknowns."""

    law: Law
    elements: tuple[Element, ...]
    out: tuple[np.ndarray, np.ndarray]
    control: tuple[tuple[np.ndarray, np.ndarray], ...]
    numbers: Numbers
    rows: np.ndarray

    def read(self, x: Any) -> tuple[Any, ...]:
        return tuple(x[..., c] - x[..., d] for c, d in self.control)

    def value(self, x: Any, xp: Any) -> Any:
        """The current of each part, or its charge over the unit capacitance in the mass matrix."""
        return self.of(self.read(x), xp)

    def of(self, read: tuple[Any, ...], xp: Any) -> Any:
        """Return the current of each part, or its charge, from the values that the parts read."""
        value = self.law.value(read, self.numbers, xp)
        return value * self.numbers[OVER_UNIT] if OVER_UNIT in self.numbers.of else value

    @property
    def couples(self) -> bool:
        """Whether the parts are charges that change as those of capacitors between their nodes do."""
        return self.law.monotone or (self.law.couples is not None and self.law.couples(self.numbers))

    def current(self, x: np.ndarray) -> Current:
        """Return the current of each part, or its charge, with its slopes in what it reads."""
        i, slopes = dual.slopes(self.of, self.read(x))
        return Current(i, tuple(slopes))

    def noise(self, x: Any, xp: Any) -> Any:
        """The density S of the white noise of each part."""
        if self.law.noise is None:
            return np.zeros(len(self.elements))
        return self.law.noise(self.read(x), self.numbers, xp)


class SlopeTerms(NamedTuple):
    """Terms of f_x: signs times the slopes of these numbers, at rows and columns; `total` slopes in all."""

    rows: np.ndarray
    columns: np.ndarray
    signs: np.ndarray
    slopes: np.ndarray
    total: int


class Flicker(NamedTuple):
    """The devices of a group with flicker noise: their numbers, and the filter states (devices, poles) of each."""

    group: int
    devices: np.ndarray
    states: np.ndarray


class Source(NamedTuple):
    """A source of white current noise from node a to node b; `place` is its number in `Network.intensity`."""

    element: Element
    kind: str
    a: int
    b: int
    place: int


class Memories(NamedTuple):
    """The switches with memory: their unknowns, the unknowns whose difference controls them, where they go off and on,
    what they are at first, and their names."""

    rows: np.ndarray
    plus: np.ndarray
    minus: np.ndarray
    low: np.ndarray
    high: np.ndarray
    at_first: np.ndarray
    names: tuple[str, ...]

    def distances(self, x: Any, xp: Any) -> Any:
        """How far each control is from where its switch changes; 0 or less where it changes."""
        y = xp.concatenate([x, xp.zeros(1, x.dtype)])
        control = y[self.plus] - y[self.minus]
        return xp.where(y[self.rows] > 0.5, control - self.low, self.high - control)

    def changed(self, x: Any, which: Any, xp: Any) -> Any:
        """The state with the memories of `which` (switches,) changed."""
        place = self.rows[:, None] == np.arange(len(x))
        return xp.where(xp.any(place & which[:, None], axis=0), 1.0 - x, x)


def by_name(record: tuple, numbers: np.ndarray, names: tuple[str, ...], name: Any) -> Any:
    """record[name] of a result: the numbers (..., unknowns) of one unknown; a number counts the entries of a tuple."""
    if not isinstance(name, str):
        return tuple.__getitem__(record, name)
    if as_named(name) not in names:
        raise KeyError(f"there is no {name!r}; there are {', '.join(names[:20])}")
    return numbers[..., names.index(as_named(name))]


def as_named(name: Any) -> Any:
    """An unknown as circuits name it: V(OUT), as netlists have it, is out."""
    if not isinstance(name, str):
        return name
    lower = name.strip().lower()
    voltage = re.fullmatch(r"v\(\s*([^(),]+?)\s*\)", lower)
    return voltage[1] if voltage else lower


@dataclasses.dataclass(frozen=True, eq=False)
class Network:
    """A circuit as arrays; the number n stands for ground, whose voltage is 0 and whose equation is not used."""

    netlist: Netlist
    names: tuple[str, ...]
    units: tuple[str, ...]
    nodes: dict[str, int]
    branches: dict[str, int]
    charged: frozenset[str]
    mass: Stamps
    linear: Stamps
    at_dc: Stamps  # in place of `linear`: the currents of charged sources, filters standing still
    sources: Sources
    sources_of: tuple[str, ...]  # the names of the elements in the order of `sources`
    source_rows: np.ndarray
    source_columns: np.ndarray
    source_signs: np.ndarray
    groups: tuple[Group, ...]
    charges: tuple[Group, ...]
    flickers: tuple[Flicker, ...]
    filters: coloured.Coloured | None
    resistances: np.ndarray
    noises: tuple[Source, ...]
    token: int = dataclasses.field(default_factory=_TOKENS.__next__)  # of this network, and of its family

    @property
    def n(self) -> int:
        return len(self.names)

    @functools.cached_property
    def at_rest(self) -> Network:
        """The network for direct current."""
        return dataclasses.replace(self, linear=self.at_dc)

    def rates(self, x: Any, sources: Any, xp: Any) -> Any:
        """Return f (n,), with the sources at these values."""
        y = xp.concatenate([x, xp.zeros(1, x.dtype)])
        currents = [group.value(y, xp) for group in self.groups]
        values = [self.linear.values * y[self.linear.columns], self.source_signs * sources[self.source_columns]]
        for i in (*currents, *self.flickering(currents, y, xp)):
            values += [-i, i]
        values += [-group.value(y, xp) for group in self.charges]
        return self.sums(xp.concatenate(values), xp)[: self.n]

    @functools.cached_property
    def memories(self) -> Memories | None:
        """The switches with memory; None where there are none."""
        groups = [group for group in self.groups if group.law.remembers]
        if not groups:
            return None
        ends = [(rows, plus, minus) for (_, (plus, minus), (rows, _)) in (group.control for group in groups)]
        levels = [tuple(map(group.numbers.known, ("low", "high", "on"))) for group in groups]
        rows, plus, minus = map(np.concatenate, zip(*ends, strict=True))
        low, high, at_first = map(np.concatenate, zip(*levels, strict=True))
        return Memories(rows, plus, minus, low, high, at_first, tuple(e.name for g in groups for e in g.elements))

    @functools.cached_property
    def places(self) -> list[np.ndarray]:
        """The rows of the terms that `rates` adds to the linear part."""
        devices = [node for group in self.groups for node in group.out]
        return [self.source_rows, *devices, *(node[part.devices] for part in self.flickers
                                              for node in self.groups[part.group].out),
                *(group.rows for group in self.charges)]  # fmt: skip

    @functools.cached_property
    def sums(self) -> Sums:
        return Sums(np.concatenate([self.linear.rows, *self.places]), self.n + 1)

    @functools.cached_property
    def matrices(self) -> tuple[Any, Any]:
        """The linear part (n, n), and the matrix that takes the other terms of `rates` to their rows."""
        rows = np.concatenate(self.places)
        spread = scipy.sparse.csr_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), (self.n + 1, len(rows)))
        both = self.linear.matrix(self.n), spread[: self.n]
        return (both[0].toarray(), both[1].toarray()) if self.n <= SMALL else both

    @functools.cached_property
    def slope_terms(self) -> SlopeTerms:
        """Where the slopes of all devices, in the order of `device_slopes`, enter f_x, and with which signs."""
        everyone = (*self.groups, *self.charges)
        first, flicker = 0, sum(len(group.control) * len(group.elements) for group in everyone)
        terms: list[tuple[np.ndarray, ...]] = [(NOWHERE, NOWHERE, np.zeros(0), NOWHERE)]
        for k, group in enumerate(everyone):
            ends = ((group.rows, -1.0),) if group.law.stores else tuple(zip(group.out, (-1.0, 1.0), strict=True))
            for c, d in group.control:
                numbers = first + np.arange(len(group.elements))
                for row, side in ends:
                    terms += [(row, c, np.full(len(row), side), numbers), (row, d, np.full(len(row), -side), numbers)]
                first += len(group.elements)
            for part in (part for part in self.flickers if part.group == k):
                devices, poles = part.states.shape
                numbers = np.repeat(flicker + np.arange(devices), poles)
                for row, side in ends:
                    rows = np.repeat(row[part.devices], poles)
                    terms.append((rows, part.states.ravel(), np.full(len(rows), side), numbers))
                flicker += devices
        rows, columns, signs, slopes = map(np.concatenate, zip(*terms, strict=True))
        return SlopeTerms(rows, columns, signs, slopes, flicker)

    @functools.cached_property
    def slope_stamps(self) -> tuple[np.ndarray, np.ndarray, scipy.sparse.csr_array]:
        """Places in the flat f_x, its linear part there, and the matrix that takes the slopes of all devices there."""
        n, terms = self.n, self.slope_terms
        linear = self.linear.matrix(n).tocoo()
        if not terms.total:
            return linear.row * n + linear.col, linear.data, scipy.sparse.csr_array((len(linear.data), 0))
        inside = (terms.rows < n) & (terms.columns < n)
        flat = terms.rows[inside].astype(int) * n + terms.columns[inside]
        places, which = np.unique(np.concatenate([linear.row.astype(int) * n + linear.col, flat]), return_inverse=True)
        constant = np.bincount(which[: linear.nnz], linear.data, len(places))
        entries = terms.signs[inside], (which[linear.nnz :], terms.slopes[inside])
        return places, constant, scipy.sparse.csr_array(entries, (len(places), terms.total))

    def flickering(self, currents: list[Any], y: Any, xp: Any) -> list[Any]:
        """Return the currents of the flicker noise, device by device."""
        return [
            flicker_size(currents[k][..., devices], self.groups[k].numbers.chosen(devices), xp) * y[..., states].sum(-1)
            for k, devices, states in self.flickers
        ]

    def flicker_slopes(self, currents: list[Current], y: np.ndarray) -> tuple[list[np.ndarray], list[Any]]:
        """The slopes of the flicker currents of each part in the states of its filters, and for each group the factor
        by which flicker noise makes its slopes larger: the current is i + k |i|^(AF/2) s."""
        in_states, factors = [], [1.0 for _ in currents]
        for k, devices, states in self.flickers:
            i, numbers = currents[k].i[..., devices], self.groups[k].numbers.chosen(devices)
            size = flicker_size(i, numbers, np)
            factor = np.ones_like(currents[k].i)
            factor[..., devices] += flicker_slope(i, numbers, np) * y[..., states].sum(-1)
            in_states.append(size)
            factors[k] = factor
        return in_states, factors

    def device_slopes(self, y: np.ndarray) -> np.ndarray:
        """The slopes (..., total) of all devices at states with the ground (..., n + 1)."""
        currents = [group.current(y) for group in self.groups]
        more, louder = self.flicker_slopes(currents, y)
        values = [slope * factor for current, factor in zip(currents, louder, strict=True) for slope in current.slopes]
        values += [slope for group in self.charges for slope in group.current(y).slopes] + more
        return np.concatenate([np.zeros((*y.shape[:-1], 0)), *values], axis=-1)

    def slopes(self, x: np.ndarray) -> scipy.sparse.csr_array:
        """∂f/∂x (n, n) at x."""
        linear, terms = self.linear, self.slope_terms
        rows, columns = np.append(linear.rows, terms.rows), np.append(linear.columns, terms.columns)
        values = terms.signs * self.device_slopes(np.append(x, 0.0))[terms.slopes]
        return Stamps(rows, columns, np.append(linear.values, values)).matrix(self.n)

    @functools.cached_property
    def resting(self) -> np.ndarray:
        """The unknowns that the operating point holds: integrals in expressions."""
        return np.array([self.nodes[name] for name in self.netlist.resting], int)

    def slopes_at_rest(self, x: np.ndarray) -> scipy.sparse.csr_array:
        """∂f/∂x (n, n) for direct current; the rows of what is held there say that it does not change."""
        J = self.at_rest.slopes(x)
        if not len(self.resting):
            return J
        J = J.tolil()
        J[self.resting, :] = 0.0
        J[self.resting, self.resting] = 1.0
        return J.tocsr()

    def small_signal(self, x: np.ndarray) -> tuple[scipy.sparse.csr_array, scipy.sparse.csr_array]:
        """M and f_x (n, n) of small signals around x; charges with a `capacitance` are capacitors there."""
        y, rows, columns, values = np.append(x, 0.0), [self.mass.rows], [self.mass.columns], [self.mass.values]
        charges = tuple(group for group in self.charges if group.law.capacitance is None)
        for group in self.charges:
            if group.law.capacitance is not None:
                (a, b), size = group.out, group.law.capacitance(group.read(y), group.numbers) * group.numbers["unit"]
                rows += [a, a, b, b]
                columns += [a, b, a, b]
                values += [size, -size, -size, size]
        M = Stamps(np.concatenate(rows), np.concatenate(columns), np.concatenate(values)).matrix(self.n)
        J = dataclasses.replace(self, charges=charges).slopes(x)
        return M, J + self.held if self.held is not None else J

    @functools.cached_property
    def lines(self) -> tuple[Element, ...]:
        """The elements that are ports of transmission lines."""
        return tuple(e for e in self.netlist.elements if e.kind == "t")

    def at_frequency(self, M: Any, J: Any, frequency: float) -> Any:
        """iωM - J, in which lines and transistors have their delays."""
        matrix = 2j * np.pi * frequency * M - J
        if not self.lines and not self.netlist.delays:
            return matrix
        matrix = scipy.sparse.lil_array(matrix)
        place = {**self.nodes, GROUND: self.n}
        for e in self.lines:
            impedance, delay, far = e.value
            j, other = self.branches[e.name], self.branches[far]
            z = np.exp(-2j * np.pi * frequency * delay)
            row = np.zeros(self.n + 1, complex)
            np.add.at(row, [place[node] for node in e.nodes], [-1.0, 1.0, z, -z])
            row[[j, other]] = impedance, z * impedance
            matrix[[j], :] = row[None, : self.n]
        for later in self.netlist.delays:
            row = np.zeros(self.n, complex)
            row[place[later.node]], row[place[later.of]] = later.gain, -np.exp(-2j * np.pi * frequency * later.delay)
            matrix[[place[later.node]], :] = row[None]
        return matrix.tocsr() if scipy.sparse.issparse(J) else matrix.toarray()

    def intensity(self, x: Any, sources: Any, xp: Any) -> Any:
        """The densities S of all white noise, two-sided, A²/Hz: resistors, sources (shot noise), then the groups."""
        y = xp.concatenate([x, xp.zeros(1, x.dtype)])
        quiet = thermal(self.resistances, self.kelvins)
        devices = [] if self.has_additive_noise else [group.noise(y, xp) for group in self.groups]
        return xp.concatenate([xp.asarray(quiet), CHARGE * xp.abs(xp.asarray(sources)), *devices])

    @functools.cached_property
    def held(self) -> scipy.sparse.csr_array | None:
        """The conductances (n, n) that hold nodes between inductors in time, which small signals do without."""
        held = [e for e in self.netlist.elements if e.name.endswith(topology.HELD) and e.value == topology.HOLD]
        rows = [self.nodes[e.nodes[0]] for e in held]
        return _as_stamps([(row, row, 1.0 / topology.HOLD) for row in rows]).matrix(self.n) if rows else None

    @functools.cached_property
    def kelvins(self) -> np.ndarray:
        """The temperature of each resistor in kelvin."""
        resistors = [e for e in self.netlist.elements if e.kind == "r"]
        return np.array([self.netlist.kelvin if e.kelvin is None else e.kelvin for e in resistors])

    @functools.cached_property
    def has_additive_noise(self) -> bool:
        """Whether no white noise depends on the state: only resistors and independent sources are noisy."""
        return all(source.element.kind in "ri" for source in self.noises)


def assemble(netlist: Netlist) -> Network:
    """The arrays of a netlist after its topology has been checked."""
    elements = netlist.elements
    used = dict.fromkeys(node for element in elements for node in element.nodes)
    order = dict.fromkeys([*(node for node in netlist.node_order if node in used), *used])  # as in the text
    nodes = {node: i for i, node in enumerate(order)}
    shorted = topology.shorted(netlist, nodes)
    charged = topology.check(netlist, nodes)
    for element in elements:
        if element.source in charged and element.source and element.law is None:  # a law only has its row there
            raise NetlistError(
                f"{element.name}: {element.source}, which controls it, lies in a loop of capacitors and voltage sources"
                ", where its current is a derivative; put a small resistor in series with it", element.at)  # fmt: skip
    nodes = {name: i for i, name in enumerate(name for name in nodes if name != GROUND)}
    owners = [e for e in elements if e.kind in BRANCHES]
    branches = {e.name: len(nodes) + k for k, e in enumerate(owners)}
    stored = [e for e in elements if e.law is not None and e.law.stores]
    memories = [f"on({e.name})" for e in elements if e.law is not None and e.law.remembers]
    names = [*nodes, *(f"{'q' if e.name in charged else 'i'}({e.name})" for e in owners), *(e.name for e in stored)]
    units = ["V"] * len(nodes) + ["C" if e.name in charged else "A" for e in owners] + ["V"] * len(stored)
    names, units = [*names, *memories], [*units, *["1"] * len(memories)]
    if len(names) > MOST_UNKNOWNS:
        raise NetlistError(f"the circuit has {len(names):,} unknowns (node voltages, branch currents, charges), "
                           f"expected at most {MOST_UNKNOWNS:,}")  # fmt: skip
    first = len(nodes) + len(owners)
    rows_of = {e.name: first + k for k, e in enumerate(stored)}
    place = {**nodes, **{f"i({name})": row for name, row in branches.items()}, GROUND: -1}
    place |= {name: first + len(stored) + k for k, name in enumerate(memories)}
    _check_reads(elements, place, charged)
    groups = _grouped(netlist, place, branches, rows_of)
    currents, charges = (tuple(g for g in groups if g.law.stores is stores) for stores in (False, True))
    flickers, filters = _flickers(netlist, currents, len(names))
    for part in flickers:
        for device, states in zip(part.devices, part.states, strict=True):
            names += [f"{currents[part.group].elements[device].name}.flicker{k}" for k in range(len(states))]
            units += ["1"] * len(states)
    n = len(names)
    place[GROUND] = n
    currents, charges = (tuple(_with_ground(group, n) for group in some) for some in (currents, charges))
    mass, linear, at_dc = _stamps(netlist, place, branches, charged, charges, flickers, filters)
    at_dc = _limited(netlist, at_dc, [branches[name] for name in shorted], shorted)
    mass, at_dc = _with_memories([place[name] for name in memories], mass, at_dc)
    driven = [e for e in elements if e.kind in "vi"]
    sources = Sources([e.value for e in driven], netlist.transient.startup if netlist.transient else 0.0)
    driven = [driven[i] for i in sources.order]
    feeds = []
    for k, e in enumerate(driven):
        a, b = place[e.nodes[0]], place[e.nodes[1]]
        feeds += [(branches[e.name], k, -1.0)] if e.kind == "v" else [(a, k, -1.0), (b, k, 1.0)]
    rows, columns, signs = (np.array(part) for part in zip(*feeds, strict=True)) if feeds else ([], [], [])
    resistors = [e for e in elements if e.kind == "r"]
    return Network(
        netlist, tuple(names), tuple(units), nodes, branches, charged, mass, linear, at_dc, sources,
        tuple(e.name for e in driven), np.array(rows, INDEX), np.array(columns, INDEX), np.array(signs, float),
        currents, charges, flickers, filters,
        np.array([e.value for e in resistors], float), _noises(netlist, place, resistors, driven, currents),
    )  # fmt: skip


def _check_reads(elements: list[Element], place: dict[str, int], charged: frozenset[str]) -> None:
    """Refuse devices that read a current which does not exist or is a derivative."""
    for e in elements:
        for name in (end for pair in e.reads for end in pair if end.startswith("i(")):
            if name not in place:
                raise NetlistError(f"{e.name}: there is no source {name[2:-1]} whose current it could read", e.at)
            if name[2:-1] in charged:
                raise NetlistError(
                    f"{e.name}: {name[2:-1]}, whose current it reads, lies in a loop of capacitors and voltage "
                    "sources, where its current is a derivative; put a small resistor in series with it",
                    e.at)  # fmt: skip


def _grouped(netlist: Netlist, place, branches, rows_of) -> tuple[Group, ...]:
    """The nonlinear parts, grouped by law; ground is still -1."""
    members: dict[tuple[int, float | None], list[Element]] = {}
    for e in netlist.elements:
        if e.law is not None:
            members.setdefault((id(e.law), e.kelvin), []).append(e)
    groups = []
    for some in members.values():
        law = some[0].law
        assert law is not None
        keys = [key for key in some[0].value if all(key in e.value for e in some)]
        kelvin = netlist.kelvin if some[0].kelvin is None else some[0].kelvin
        numbers = Numbers({key: np.array([e.value[key] for e in some]) for key in keys}, kelvin)
        ends = [(branches[e.source], -1) if e.source else (place[e.nodes[0]], place[e.nodes[1]]) for e in some]
        out = np.array(ends, INDEX).T
        control = np.array([[[place[end] for end in pair] for pair in e.reads] for e in some], INDEX)
        rows = np.array([rows_of[e.name] for e in some] if law.stores else [], INDEX)
        pairs = tuple((control[:, k, 0], control[:, k, 1]) for k in range(control.shape[1]))
        groups.append(Group(law, tuple(some), (out[0], out[1]), pairs, numbers, rows))
    return tuple(groups)


def _with_ground(group: Group, n: int) -> Group:
    def moved(at: np.ndarray) -> np.ndarray:
        return np.where(at < 0, n, at).astype(INDEX)

    out = moved(group.out[0]), moved(group.out[1])
    return dataclasses.replace(group, out=out, control=tuple((moved(c), moved(d)) for c, d in group.control))


def _flickers(netlist: Netlist, groups, first: int) -> tuple[tuple[Flicker, ...], coloured.Coloured | None]:
    """The filters of flicker noise, one for each device with KF, on the band of .options flo fhi or of .tran; without
    a band they have no states, and noise in time is refused (channels.py).
    """
    flickers: list[Flicker] = []
    filters = None
    for k, group in enumerate(groups):
        loud = [i for i, e in enumerate(group.elements) if e.value["kf"] > 0.0 and e.noisy and netlist.noisy]
        if not loud:
            continue
        if filters is None and (band := _band(netlist)) is not None:
            filters = coloured.flicker(1.0, band)
        poles = 0 if filters is None else len(filters.A)
        if first + poles * len(loud) > MOST_WITH_FLICKER:
            raise NetlistError(f"flicker noise of {len(loud)} devices takes {poles} unknowns each, which makes more "
                               f"than {MOST_WITH_FLICKER:,}; narrow the band: .options flo=... fhi=...")  # fmt: skip
        states = first + np.arange(poles * len(loud), dtype=INDEX).reshape(len(loud), poles)
        flickers.append(Flicker(k, np.array(loud, INDEX), states))
        first += poles * len(loud)
    return tuple(flickers), filters


def _band(netlist: Netlist) -> tuple[float, float] | None:
    low, high = netlist.flicker_band
    if netlist.transient is not None:
        low = low or 1.0 / netlist.transient.stop
        high = high or 0.5 / netlist.transient.step
    if low is None or high is None:
        return None
    if not low < high:
        raise NetlistError(f"the band of flicker noise, from .tran or .options flo=... fhi=..., runs from {low:g} to "
                           f"{high:g} Hz; expected flo < fhi")  # fmt: skip
    return low, high


def _stamps(netlist, place, branches, charged, charges, flickers, filters) -> tuple[Stamps, Stamps, Stamps]:
    mass: list[tuple[int, int, float]] = []
    linear: list[tuple[int, int, float]] = []
    only_dc: list[tuple[int, int, float]] = []
    only_run: list[tuple[int, int, float]] = []

    def between(entries, a, b, c, d, value):
        """The current value (c - d) from a to b."""
        entries += [(a, c, -value), (a, d, value), (b, c, value), (b, d, -value)]

    inductances = {e.name: e.value for e in netlist.elements if e.kind == "l"}
    for e in netlist.elements:
        if e.kind == "k":
            mass += _coupled(e, branches, inductances)
            continue
        a, b = place[e.nodes[0]], place[e.nodes[1]]
        if e.kind == "r":
            between(linear, a, b, a, b, 1.0 / e.value)
        elif e.kind == "c":
            between(mass, a, b, a, b, -e.value)
        elif e.kind == "g":
            between(linear, a, b, place[e.nodes[2]], place[e.nodes[3]], e.value)
        elif e.kind == "f":
            j = branches[e.source]
            linear += [(a, j, -e.value), (b, j, e.value)]
        elif e.kind == "t":
            linear += _port(e, branches, place)
        elif e.kind in BRANCHES:
            j = branches[e.name]
            carried = [(a, j, -1.0), (b, j, 1.0)]
            if e.name in charged:
                mass += [(a, j, 1.0), (b, j, -1.0)]
                only_dc += carried
            else:
                linear += carried
            linear += [(j, a, 1.0), (j, b, -1.0)]
            if e.kind == "l":
                mass.append((j, j, e.value))
            elif e.kind == "e":
                linear += [(j, place[e.nodes[2]], -e.value), (j, place[e.nodes[3]], e.value)]
            elif e.kind == "h":
                linear.append((j, branches[e.source], -e.value))
    for group in charges:
        for a, b, row, unit in zip(*group.out, group.rows, group.numbers["unit"], strict=True):
            mass += [(a, row, unit), (b, row, -unit)]
            linear.append((row, row, 1.0))
    for part in flickers if filters is not None else ():
        for states in part.states:
            mass += [(s, s, 1.0) for s in states]
            only_run += [(s, s, value) for s, value in zip(states, np.diagonal(filters.A), strict=True)]
            only_dc += [(s, s, -1.0) for s in states]
    return tuple(map(_as_stamps, (mass, linear + only_run, linear + only_dc)))  # type: ignore[return-value]


def _limited(netlist: Netlist, at_dc: Stamps, rows: list[int], names: list[str]) -> Stamps:
    """The stamps at DC with a resistance in series with some inductors, which nothing else limits there."""
    if not rows:
        return at_dc
    netlist.notes.append(
        f"{', '.join(names)}: in a loop of voltage sources and inductors, where nothing limits the current at DC; the "
        f"operating point has {SERIES:g} ohm in series with each, as in LTspice"
    )
    more = _as_stamps([(row, row, -SERIES) for row in rows])
    rows_and_more = np.concatenate([at_dc.rows, more.rows]), np.concatenate([at_dc.columns, more.columns])
    return Stamps(*rows_and_more, np.concatenate([at_dc.values, more.values]))


def _port(e: Element, branches: dict[str, int], place: dict[str, int]) -> list[tuple[int, int, float]]:
    """The entries of a port of a line at DC: the first has u₁ = u₂, the other i₁ = -i₂."""
    a, b, c, d = (place[node] for node in e.nodes)
    j, other = branches[e.name], branches[e.value[2]]
    carried = [(a, j, -1.0), (b, j, 1.0)]
    if j < other:
        return [*carried, (j, a, 1.0), (j, b, -1.0), (j, c, -1.0), (j, d, 1.0)]
    return [*carried, (j, j, 1.0), (j, other, 1.0)]


def _with_memories(rows: list[int], mass: Stamps, at_dc: Stamps) -> tuple[Stamps, Stamps]:
    """Memories stand still: s' = 0; at rest they are held."""
    return _joined(mass, _as_stamps([(row, row, 1.0) for row in rows])), _joined(
        at_dc, _as_stamps([(row, row, -1.0) for row in rows])
    )


def _joined(first: Stamps, more: Stamps) -> Stamps:
    return Stamps(*(np.concatenate([a, b]) for a, b in zip(first, more, strict=True)))


def _coupled(e: Element, branches: dict[str, int], inductances: dict[str, float]) -> list[tuple[int, int, float]]:
    """The entries of a mutual inductance k √(L1 L2)."""
    first, second = e.source.split()
    for name in (first, second):
        if name not in inductances:
            raise NetlistError(f"{e.name}: there is no inductor {name} to couple", e.at)
    if first == second:
        raise NetlistError(f"{e.name}: couples {first} with itself", e.at)
    mutual = e.value * float(np.sqrt(inductances[first] * inductances[second]))
    return [(branches[first], branches[second], mutual), (branches[second], branches[first], mutual)]


def _as_stamps(entries: list[tuple[int, int, float]]) -> Stamps:
    rows, columns, values = zip(*entries, strict=True) if entries else ((), (), ())
    return Stamps(np.array(rows, INDEX), np.array(columns, INDEX), np.array(values, float))


def _noises(netlist: Netlist, place, resistors, driven, groups) -> tuple[Source, ...]:
    """The white sources, in the order of the netlist."""
    members = [*resistors, *driven, *(e for group in groups for e in group.elements)]
    index = {e.name: k for k, e in enumerate(members)}
    kinds = {"r": "thermal", "i": "shot"}
    sources = []
    for e in netlist.elements:
        sort = e.law.sort if e.law is not None else kinds.get(e.kind, "")
        if sort and e.noisy and netlist.noisy:
            a, b = (place[end] for end in topology.ends(e))
            if a != b:
                sources.append(Source(e, sort, a, b, index[e.name]))
    return tuple(sources)
