"""A netlist as a stochastic differential-algebraic equation: `read` is the front door of this room."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from stodyn.circuits import measures, points
from stodyn.circuits.assembly import Network, assemble
from stodyn.circuits.channels import channels
from stodyn.circuits.devices import Numbers
from stodyn.circuits.element import GROUND
from stodyn.circuits.elements import mosfet
from stodyn.circuits.family import Family
from stodyn.circuits.netlist import Netlist, laid_out, read_deck, warn
from stodyn.circuits.operating_point import OperatingPoint, operating_point
from stodyn.circuits.small_signal import Response, SmallSignal, Spectrum
from stodyn.circuits.text import NetlistError
from stodyn.circuits.time_steps import noiseless, time_steps
from stodyn.noise.distribution import Distribution, distribution
from stodyn.noise.source import PerPath
from stodyn.noise.stream import generator
from stodyn.problems.contract import Recommended
from stodyn.problems.index import STATES
from stodyn.problems.linear import GaussianStart
from stodyn.problems.sdae import SDAE

MOST_CORNERS = 12  # random values whose corners are all taken
LOOKED_AT = 1_000_000  # n² m: beyond it nobody looks whether noise that depends on the state commutes


@dataclasses.dataclass(frozen=True, eq=False)
class Circuit(SDAE):
    """A circuit read from a netlist, an SDAE like any other: simulate(circuit, t=circuit.span, dt=circuit.step, ...).

    Units are V, A, s. Components are the node voltages by the names of their nodes, i(v1) for the currents of V, E, H
    and L (from + through the source to -), q(v1) for the charge delivered by a source that lies in a loop with
    capacitors. params["noise"] multiplies all white noise.

    random  the distributions of the random values of the netlist, by name: ξ of gauss(...) and the like, gauss(r1), and
            what `read` was given. A circuit as it is read has its usual values, ξ = 0; see `sampled` and `corners`
    of_family  the family that it is one of, where `params["devices"]` are numbers of its devices
    """

    network: Any = None
    channels: Any = None
    random: Mapping[str, Distribution] = dataclasses.field(default_factory=dict)
    of_family: Family | None = None

    @property
    def recommended(self) -> Recommended:
        return Recommended("Trapezoidal", "the noise of circuits is small, and kT/C is right at any step")

    @property
    def title(self) -> str:
        return self.network.netlist.title

    @property
    def notes(self) -> tuple[str, ...]:
        """What of the netlist was left out or looks odd, with its lines."""
        return tuple(self.network.netlist.notes)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self.network.nodes)

    @property
    def span(self) -> tuple[float, float]:
        """(0, stop) of .tran."""
        return 0.0, self._transient.stop

    @property
    def step(self) -> float:
        """The step of .tran, or the next shorter one that divides its stop."""
        transient = self._transient
        return transient.stop / np.ceil(transient.stop / transient.step * (1.0 - 1e-9))

    @property
    def times(self) -> np.ndarray:
        """The times of .tran, `step` apart."""
        return np.linspace(*self.span, round(self.span[1] / self.step) + 1)

    def time_steps(self, tol: float = 1e-4) -> np.ndarray:
        """The steps of .tran, shorter where corners of the sources and the circuit itself ask for it.

        They meet every corner of the sources and every time of .tran, and the trapezoidal rule without noise makes an
        error of at most `tol` of the range of every voltage, current and charge in each. Circuits with more than 300
        unknowns or 2000 corners are not followed: their steps are those of .tran, cut at the corners.

        Parameters
        ----------
        tol
            The error of a step, relative to the range of each component.

        Returns
        -------
        numpy.ndarray
            Lengths for simulate(circuit, t=circuit.span, dt=circuit.time_steps(), ...).

        Examples
        --------
        >>> import stodyn as sd
        >>> circuit = sd.circuits.read("An edge\\nV1 a 0 PULSE(0 1 2.5n 1n)\\nR1 a b 1k\\nC1 b 0 1p\\n.tran 1n 9n\\n")
        >>> bool(abs(circuit.time_steps().cumsum() - 2.5e-9).min() < 1e-18)
        True
        """
        if not (np.isfinite(tol) and 0.0 < tol < 1.0):
            raise ValueError(f"tol: expected an error relative to the range, between 0 and 1, got {tol!r}")
        return time_steps(self.network, self._usual_start, self.times, tol)

    def noiseless(self, rtol: float = 1e-6) -> np.ndarray:
        """The transient without noise, followed by a method of order 5 with steps of its own.

        Parameters
        ----------
        rtol
            Error of a step, relative to the size of each component.

        Returns
        -------
        numpy.ndarray
            States (times, components) at `circuit.times`, components as in `circuit.names`.
        """
        return noiseless(self.network, self._usual_start, self.times, rtol)

    @property
    def _usual_start(self) -> np.ndarray:
        """The start of a run without the spread of random values and flicker filters."""
        start = self.start.mean if isinstance(self.start, GaussianStart) else self.start
        if isinstance(start, PerPath):
            start = _start(self.network)
            start = start.mean if isinstance(start, GaussianStart) else start
        return np.asarray(start, float)

    @property
    def _transient(self) -> Any:
        found = self.network.netlist.transient
        if found is None:
            raise NetlistError("there is no .tran in the netlist; add .tran STEP STOP, or give t and dt yourself")
        return found

    @functools.cached_property
    def is_affine(self) -> bool:
        """Known from the elements: there is no nonlinear one."""
        return not self.network.groups and not self.network.charges

    @functools.cached_property
    def has_constant_orientation(self) -> bool:
        """Known from the stamps: no nonlinear part that acts on a constraint reads in an algebraic direction."""
        _, N, K, _ = self.split
        N, K = (np.pad(matrix, width) for matrix, width in ((N, ((0, 0), (0, 1))), (K, ((0, 1), (0, 0)))))
        for group in (*self.network.groups, *self.network.charges):
            acts = N[:, group.rows] if group.law.stores else N[:, group.out[0]] - N[:, group.out[1]]
            acting = np.abs(acts).max(axis=0, initial=0.0) > 0.0
            if any(np.any(acting & (np.abs(K[c] - K[d]).max(axis=1, initial=0.0) > 0.0)) for c, d in group.control):
                return False
        return True

    def _with(self, params: Any) -> tuple[Network, np.ndarray]:
        """The network with the numbers of STATES sampled parameters, and what multiplies its white noise."""
        network = self.network
        if "devices" in self.params:
            network = self.family.at(np.asarray(params["devices"]), np)
        return network, np.broadcast_to(np.asarray(params["noise"], float), STATES)

    @functools.cached_property
    def looking(self) -> Callable:
        """f, ∂f/∂x and g in some states, without a trace where no flicker noise is added to f."""
        if self.network.flickers:
            return SDAE.looking.func(self)  # type: ignore[attr-defined]

        def at(times, states, params):
            network, factor = self._with(params)
            return (points.rates(network, times, states), points.slopes(network, states),
                    points.noise(network, self.channels, times, states, factor))  # fmt: skip

        return at

    def noise_slopes(self, times: np.ndarray, states: np.ndarray) -> np.ndarray:
        if self.network.flickers:
            return super().noise_slopes(times, states)
        network, factor = self._with(self.sample_params(STATES)[0])
        return points.noise_slopes(network, self.channels, times, states, factor)

    def before_run(self, t: float) -> tuple[str, ...]:
        try:
            return super().before_run(t)
        except ValueError as error:
            said = str(error)
            for i in reversed(range(self.n)):  # the equations by the unknowns they belong to
                said = said.replace(f"f[{i}]", f"equation of {self.names[i]}")  # type: ignore[index]
            raise ValueError(said) from None

    def noise_matrix(self, x: np.ndarray) -> np.ndarray:
        """g (n, channels) at x, with the sources at rest and the noise as it is in the netlist."""
        return self.channels.matrix(self.n, self.network.intensity(x, self.network.sources.at_rest(), np), 1.0, np)

    @functools.cached_property
    def operating_point(self) -> OperatingPoint:
        """The DC operating point: sources at their DC value or, where none was given, at that of t = 0."""
        return operating_point(self.network, self.network.sources.at_rest())

    @functools.cached_property
    def small_signal(self) -> SmallSignal:
        """The circuit linearised at its operating point: .spectrum(node, frequency), .covariance(), .rates."""
        return self.linearised(self.operating_point.x)

    def linearised(self, x: np.ndarray) -> SmallSignal:
        """The circuit linearised at any state x (n,), such as the mean at some time of a run."""
        return SmallSignal(self.network, self, x)

    @property
    def too_quiet(self) -> tuple[str, ...]:
        """Transistors in the triode region at the operating point to which 2kT(2/3)g_m gives less than half of their
        noise: NLEV=3 in the .model has it right."""
        y, found = np.append(self.operating_point.x, 0.0), []
        for group in self.network.groups:
            if group.law in (mosfet.SQUARE, mosfet.BODY):
                numbers = Numbers({**group.numbers.of, "nlev": np.array(3.0)}, group.numbers.kelvin)
                whole = dataclasses.replace(group, numbers=numbers).noise(y, np)
                quiet = group.noise(y, np) < 0.5 * whole
                found += [e.name for e, is_quiet in zip(group.elements, quiet, strict=True) if is_quiet and e.noisy]
        return tuple(found) if self.network.netlist.noisy else ()

    def noise_spectrum(self, node: str | None = None, frequency: Any = None, source: str | None = None) -> Spectrum:
        """The one-sided output noise at a node, V²/Hz: what .noise asks for unless given.

        `input_density` of the result is the noise referred to the source of .noise, or to `source`;
        `noise_figure("rs")` that of the circuit behind the resistor rs.
        """
        asked = self.network.netlist.noise
        if asked is None and (node is None or frequency is None):
            raise ValueError("node, frequency: there is no .noise in the netlist; give both")
        reference = "0"
        if asked is not None and source is None:
            source = asked.source
        if node is None:
            node, reference = asked.node, asked.reference
        if frequency is None:
            frequency = asked.sweep.frequencies
        return self.small_signal.spectrum(node, frequency, reference, None if source is None else source.lower())

    def response(self, frequency: Any = None) -> Response:
        """What .ac computes: the complex amplitudes of all unknowns for the AC sizes of the sources."""
        asked = self.network.netlist.ac
        if frequency is None:
            if asked is None:
                raise ValueError("frequency: there is no .ac in the netlist; give frequencies in Hz")
            frequency = asked.frequencies
        found = self.small_signal.response(frequency)
        return Response(np.atleast_1d(np.asarray(frequency, float)), found, self.network.names)

    def measured(self, analysis: str, run: Any = None) -> dict[str, np.ndarray]:
        """The .measure lines of an analysis, name -> values (paths,); NaN where a path does not have it.

        "ac" and "noise" are computed at the operating point; for "tran" give a run that has collected statistics.Paths.
        """
        netlist = self.network.netlist
        asked = [measure for measure in netlist.measures if measure.analysis == analysis]
        if analysis == "ac":
            found = self.response()
            return measures.measured(asked, measures.Waveforms(found.frequency, found.__getitem__, found.names))
        if analysis == "noise":
            noise = self.noise_spectrum()
            more = {"onoise": np.sqrt(noise.density), "inoise": np.sqrt(noise.input_density)}
            return measures.measured(asked, measures.Waveforms(noise.frequency, lambda name: more[name], (), more))
        if analysis != "tran":
            raise ValueError(f"analysis: expected tran, ac or noise, got {analysis!r}")
        if run is None or "path" not in run:
            raise ValueError("run: .measure tran looks at paths; give a run with collect=statistics.Paths(...)")
        paths, names = run["path"], list(self.network.names)
        times = paths[next(str(dim) for dim in paths.dims if str(dim).startswith("time"))].values
        return measures.measured(
            asked, measures.Waveforms(times, lambda name: paths.values[:, :, names.index(name)], self.network.names)
        )

    def valued(self, values: Mapping[str, float]) -> Circuit:
        """The circuit of the same netlist with other values: {"r1": 2e3, "m1.w": 2e-6, "temp": 85} and the like.

        A .param goes by its name (x1.r inside the instance x1), parameters of elements and models as m1.w and nch.vto,
        the number of a simple element as r1.value, the temperature (°C) as temp.
        """
        netlist = self.network.netlist
        made = _built(laid_out(netlist.deck, {**netlist.given.values, **_lowered(values)}))
        return dataclasses.replace(made, random={name: law for name, law in self.random.items() if name not in values})

    def steps(self) -> Iterator[tuple[dict[str, float], Circuit]]:
        """(values, circuit) for all combinations of the values of .step and .temp, the first .step innermost."""
        steps = self.network.netlist.steps
        for values in itertools.product(*(step.values for step in reversed(steps))):
            given = dict(zip((step.place for step in steps), reversed(values), strict=True))
            yield given, self.valued(given)

    @functools.cached_property
    def family(self) -> Family:
        """The circuits of all values of the random parameters, in one program."""
        if self.of_family is not None:
            return self.of_family
        if not self.random:
            raise ValueError(
                "random: nothing in this circuit is random; write gauss(...), agauss, unif, aunif or limit in the "
                "netlist, or give random={name: distribution} to read"
            )
        return Family(self.network.netlist, self.random)

    def sampled(self, paths: int, seed: int) -> Circuit:
        """The circuit with random values drawn for each of so many paths, and each path's own operating point.

        simulate(circuit.sampled(1000, 1), paths=1000, ...): path k has the same values whatever the number of paths.
        `params["devices"]` holds the numbers of the devices; `sampled_values(paths, seed)` the values drawn.
        """
        if not isinstance(paths, int | np.integer) or paths < 1:
            raise ValueError(f"paths: expected a number of paths from 1 on, got {paths!r}")
        data = self.family.data(self.family.drawn(int(paths), seed))
        network = self.family.network
        usual = _start(network)
        mean = usual.mean if isinstance(usual, GaussianStart) else usual
        start = self.family.starts(data, mean, _held(network))
        if network.filters is not None:
            rng = generator(seed, 0, "start", 1)
            for part in network.flickers:
                for states in part.states:
                    start[:, states] = rng.multivariate_normal(
                        np.zeros(len(states)), network.filters.state_covariance, len(start), method="eigh"
                    )
        return _of_family(self, network, PerPath(data), PerPath(start))

    def sampled_values(self, paths: int, seed: int) -> dict[str, np.ndarray]:
        """The random values that `sampled` draws, name -> (paths,)."""
        return self.family.drawn(paths, seed)

    def at(self, values: Mapping[str, float]) -> Circuit:
        """The circuit at some values of its random parameters, others as usual: one program for all of them."""
        unknown = [name for name in values if name not in self.random]
        if unknown:
            raise ValueError(f"values: {unknown[0]!r} is not random; random are {', '.join(self.random)}")
        data = self.family.numbers(_lowered(values))
        network = self.family.at(data, np)
        return _of_family(self, network, data, _start(network))

    def corners(
        self, sigmas: float = 3.0, of: Sequence[str] | None = None
    ) -> Iterator[tuple[dict[str, float], Circuit]]:
        """(values, circuit) at all combinations of the ends of random values: the mean plus and minus so many standard
        deviations, bounded ones at their bounds if these are nearer.

        of  the names that are taken to their ends, all random ones where it is None; at most 12
        """
        names = list(self.random) if of is None else list(of)
        unknown = [name for name in names if name not in self.random]
        if unknown or not names:
            raise ValueError(f"of: {unknown or 'nothing'} is not random; random are {', '.join(self.random) or 'none'}")
        if len(names) > MOST_CORNERS:
            raise ValueError(
                f"of: {len(names)} values have 2^{len(names)} corners; name at most {MOST_CORNERS} of them"
            )
        ends = []
        for name in names:
            law = self.random[name]
            reach = sigmas * np.sqrt(law.variance)
            ends.append((max(law.mean - reach, law.low), min(law.mean + reach, law.high)))
        for values in itertools.product(*ends):
            given = {name: float(value) for name, value in zip(names, values, strict=True)}
            yield given, self.at(given)


def read(
    source: str | Path,
    values: Mapping[str, float] | None = None,
    libraries: Sequence[str | Path] = (),
    random: Mapping[str, Any] | None = None,
) -> Circuit:
    """The circuit of a netlist: a path, or the netlist itself as text of several lines.

    A SPICE subset: R, C, L, V, I (DC, SIN, PULSE, PWL, EXP), E, G, F, H, D, M (level 1), Q, J, S, W, K, B, X; .param,
    .func, .model, .subckt, .tran, .ic, .nodeset, .temp, .step, .include, .lib, .options, .op, .ac, .noise, .measure.
    Every resistor has thermal, every diode shot and every transistor channel noise, and flicker where its model gives
    KF; `noise=off` on an element, or .options noise=off, takes it away. The start is the operating point at t = 0,
    nodes of .ic held; with .tran ... uic it is .ic, and ic= of capacitors and inductors, 0 elsewhere.

    values     other values than those of the netlist, by name: see Circuit.valued
    libraries  folders beside the netlist's own from which .include and .lib may read
    random     distributions of values, by the same names; the netlist's own value is the usual one

    Raises NetlistError, which names the line, the element and what to do. The netlist is data: nothing in it is run,
    and no file outside its folder and the libraries is read.
    """
    deck = read_deck(source, libraries)
    netlist = laid_out(deck, _lowered(values or {}))
    warn(netlist, 2)
    laws = {name.lower(): distribution(law, f"random[{name!r}]") for name, law in (random or {}).items()}
    if laws:
        laid_out(deck, {**_lowered(values or {}), **{name: law.mean for name, law in laws.items()}})
    return dataclasses.replace(_built(netlist), random={**netlist.given.random, **laws})


def _lowered(values: Mapping[str, float]) -> dict[str, float]:
    for name, value in values.items():
        if not isinstance(value, float | int | np.floating | np.integer) or not np.isfinite(value):
            raise ValueError(f"values[{name!r}]: expected a finite number, got {value!r}")
    return {name.lower(): float(value) for name, value in values.items()}


def _built(netlist: Netlist) -> Circuit:
    """The problem of flat elements."""
    network = assemble(netlist)
    return _problem(network, lambda params: network, {"noise": 1.0}, _start(network))


def _of_family(circuit: Circuit, network: Network, data: Any, start: Any) -> Circuit:
    """The problem of a family with numbers `data`; `network` is what analyses at rest look at."""
    family = circuit.family
    made = _problem(network, lambda params: family.at(params["devices"], jnp), {"noise": 1.0, "devices": data}, start)
    return dataclasses.replace(made, random=circuit.random, of_family=family)


def _problem(network: Network, of: Callable[[Any], Network], params: dict[str, Any], start: Any) -> Circuit:
    """The SDAE of a network; `of` gives it with the numbers that are parameters of a run."""
    noise = channels(network)
    n, m = network.n, max(noise.total, 1)
    additive = network.has_additive_noise
    structure = "additive" if additive else "general" if n * n * m > LOOKED_AT else None

    def drift(t, x, params):
        return of(params).rates(x, network.sources.values(t, jnp), jnp)

    def diffusion(t, x, params):
        return noise.matrix(n, of(params).intensity(x, network.sources.values(t, jnp), jnp), params["noise"], jnp)

    mass = network.mass.matrix(n).toarray()
    mass.flags.writeable = False
    units = dict(zip(network.names, network.units, strict=True)) | {"time": "s"}
    return Circuit(mass, drift, diffusion, start, params, network.names, units, structure, network, noise)


def _held(network: Network) -> dict[int, float] | None:
    """The nodes of .ic with their voltages, at which the operating point of the start is sought; None with uic."""
    netlist = network.netlist
    if netlist.transient is not None and netlist.transient.uic:
        return None
    return {network.nodes[name]: value for name, (value, _) in netlist.initial.items()}


def _start(network: Network) -> Any:
    netlist, held = network.netlist, _held(network)
    if held is None:
        x = np.zeros(network.n)
        for name, volts in _given_voltages(netlist).items():
            x[network.nodes[name]] = volts
        for element in netlist.elements:
            if element.kind == "l" and element.initial is not None:
                x[network.branches[element.name]] = element.initial
        for group in network.charges:
            x[group.rows] = group.value(np.append(x, 0.0), np)
    else:
        for element in netlist.elements:
            if element.kind in "ve" and element.nodes[1] == "0" and element.nodes[0] in netlist.initial:
                at = netlist.initial[element.nodes[0]][1]
                raise NetlistError(f".ic v({element.nodes[0]}): {element.name} holds this node already", at)
        x = operating_point(network, network.sources.values(0.0, np), held).x.copy()
        x[[network.branches[name] for name in network.charged]] = 0.0
    if network.filters is None:
        return x
    covariance = np.zeros((network.n, network.n))
    for part in network.flickers:
        for states in part.states:
            covariance[np.ix_(states, states)] = network.filters.state_covariance
    return GaussianStart(x, covariance)


def _given_voltages(netlist: Netlist) -> dict[str, float]:
    """Of a start with uic: .ic, then v(n+) - v(n-) = ic= across capacitors, from their end that is known to the other.

    Where neither end is known, n- is at 0 V: only charges count, and the constraints move the voltages.
    """
    volts = {GROUND: 0.0} | {name: value for name, (value, _) in netlist.initial.items()}
    waiting = [(e, e.initial) for e in netlist.elements if e.kind == "c" and e.initial is not None]
    while waiting:
        later = []
        for e, initial in waiting:
            plus, minus = e.nodes
            if plus in volts and minus in volts:
                found = volts[plus] - volts[minus]
                if abs(found - initial) > 1e-9 * (1.0 + abs(found)):
                    raise NetlistError(f"{e.name}: ic={initial:g}, but .ic, or ic= of other capacitors, leaves "
                                       f"{found:g} V across it", e.at)  # fmt: skip
            elif minus in volts:
                volts[plus] = volts[minus] + initial
            elif plus in volts:
                volts[minus] = volts[plus] - initial
            else:
                later.append((e, initial))
        if len(later) == len(waiting):
            volts[later[0][0].nodes[1]] = 0.0
        waiting = later
    del volts[GROUND]
    return volts
