"""A netlist as a stochastic differential-algebraic equation, made by `read`."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.arguments import checks_arguments, suggestion
from stodyn.circuits import direct_current, inputs_of_sources, measures, topology
from stodyn.circuits.asked import Output
from stodyn.circuits.assembly import Network, assemble
from stodyn.circuits.channels import Unplaced, channels
from stodyn.circuits.devices import Numbers
from stodyn.circuits.direct_current import Curves, Transfer
from stodyn.circuits.element import GROUND
from stodyn.circuits.elements import mosfet, switch
from stodyn.circuits.family import Family
from stodyn.circuits.harmonics import FOURIER_ACCURACY, FOURIER_POINTS, Harmonics, harmonics, last_period
from stodyn.circuits.known import known_of, takes_time
from stodyn.circuits.netlist import Netlist, causes_in_errors, laid_out, read_deck, warn
from stodyn.circuits.noise_sensitivities import noise_sensitivities
from stodyn.circuits.operating_point import OperatingPoint, operating_point, remarks
from stodyn.circuits.scattering import Scattering, scattering
from stodyn.circuits.small_signal import Response, SmallSignal, Spectrum
from stodyn.circuits.text import NetlistError
from stodyn.circuits.time_steps import noiseless, time_steps
from stodyn.circuits.topology import LEAST
from stodyn.circuits.waveforms import TIME
from stodyn.circuits.words import several
from stodyn.hints import Count, Integer, whole
from stodyn.noise.distribution import Distribution, distribution
from stodyn.noise.source import PerPath
from stodyn.noise.stream import generator
from stodyn.numerics import direct
from stodyn.numerics.elimination import ORDERED
from stodyn.numerics.facts.dependence import FOLLOWED
from stodyn.numerics.traced_once import TracedOnce
from stodyn.problems import contract, looped
from stodyn.problems.contract import Recommended
from stodyn.problems.facts import Known
from stodyn.problems.linear import GaussianStart
from stodyn.problems.sdae import SDAE
from stodyn.problems.sde import SDE
from stodyn.problems.tangents import Along, along, holding
from stodyn.telling import tell
from stodyn.warnings import NominalValues

MOST_CORNERS = 12  # the most random values for which all corners are computed
CONDUCTING = 0.4  # V: forward, from which the body of a transistor without junctions is warned of
NEAR = 1e-3  # of a number of the netlist: how far about it is looked for the devices that it changes
SLOPE_STEP = 1e-4  # of it, for central differences of what the devices and the operating point make of it
OFF_INITIAL = 1e-6  # V: the most by which a node may be off its .ic
LOOKED_AT = 1_000_000  # n² m: larger systems are not checked for commutative noise


def _clocks(circuit: Circuit) -> tuple[int, ...]:
    """The component that is the time, where expressions read it; other sources do not jump, since edges last."""
    return (circuit.components.index(TIME),) if TIME in circuit.network.sources.moving else ()


@dataclasses.dataclass(frozen=True, eq=False)
class Circuit(SDAE):
    """A circuit read from a netlist, an SDAE like any other: simulate(circuit, t=circuit.span, dt=circuit.step, ...).

    Circuits are made by `read`. Units are V, A, s. The components are the node voltages, by the names of their nodes;
    i(v1) for the currents of V, E, H and L (from + through the source to -); and q(v1) for the charge delivered by a
    source in a loop with capacitors. params["noise"] multiplies all white noise.

    Attributes
    ----------
    random : mapping of str to Distribution
        The distributions of the random values of the netlist: the ξ of every random function, such as gauss(r1), and
        those passed to `read`. A circuit just read has its nominal values, ξ = 0; see `sampled` and `corners`.
    of_family : Family or None
        The family this circuit belongs to where `params["devices"]` holds the numbers of its devices.
    """

    names: Sequence[str] = ()
    network: Any = None
    channels: Any = None
    random: Mapping[str, Distribution] = dataclasses.field(default_factory=dict, metadata={"in_steps": False})
    of_family: Family | None = None

    @property
    def recommended(self) -> Recommended:
        return Recommended("Trapezoidal", "the noise of circuits is small, and kT/C is right at any step")

    clocks = property(_clocks)

    @property
    def title(self) -> str:
        """The title of the netlist."""
        return self.network.netlist.title

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on parts of the netlist that were left out or look odd, with their lines."""
        return tuple(self.network.netlist.notes)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of all nodes except the ground."""
        return tuple(self.network.nodes)

    @property
    def span(self) -> tuple[float, float]:
        """The interval (0, stop) of .tran, s."""
        return 0.0, _transient(self.network).stop

    @property
    def step(self) -> float:
        """The step of .tran, or the next shorter one that divides its stop time, s."""
        transient = _transient(self.network)
        return transient.stop / np.ceil(transient.stop / transient.step * (1.0 - 1e-9))

    @property
    def times(self) -> np.ndarray:
        """The times of .tran, `step` apart, s."""
        return np.linspace(*self.span, round(self.span[1] / self.step) + 1)

    @checks_arguments
    def time_steps(self, tol: float = 1e-4) -> np.ndarray:
        """Plan the steps of .tran, shorter where corners of the sources or the circuit itself require it.

        The steps meet every corner of the sources and every time of .tran. In each of them the trapezoidal rule without
        noise makes an error of at most `tol` times the range of every voltage, current and charge. The planning
        simulates the circuit only up to 300 unknowns and 2000 corners: larger circuits get the steps of .tran, cut at
        the corners.

        Parameters
        ----------
        tol : float
            The error per step, relative to the range of each component.

        Returns
        -------
        numpy.ndarray
            The lengths of the steps in s, for simulate(circuit, t=circuit.span, dt=circuit.time_steps(), ...).

        Raises
        ------
        ValueError
            If `tol` is not between 0 and 1.
        NetlistError
            If the netlist has no .tran.

        Examples
        --------
        >>> import stodyn as sd
        >>> circuit = sd.circuits.read("An edge\\nV1 a 0 PULSE(0 1 2.5n 1n)\\nR1 a b 1k\\nC1 b 0 1p\\n.tran 1n 9n\\n")
        >>> bool(abs(circuit.time_steps().cumsum() - 2.5e-9).min() < 1e-18)
        True
        """
        if not (np.isfinite(tol) and 0.0 < tol < 1.0):
            raise ValueError(f"tol: expected an error relative to the range, between 0 and 1, got {tol!r}")
        _check_time(self.network)
        return time_steps(self.network, _usual_start(self), self.times, tol)

    def noiseless(self, rtol: float = 1e-6) -> np.ndarray:
        """Compute the transient without noise by a method of order 5 that chooses its own steps.

        Parameters
        ----------
        rtol : float
            The error per step, relative to the size of each component.

        Returns
        -------
        numpy.ndarray
            States (times, components) at `circuit.times`, components as in `circuit.names`.

        Raises
        ------
        NetlistError
            If the netlist has no .tran.
        """
        _check_time(self.network)
        return noiseless(self.network, _usual_start(self), self.times, rtol)

    @functools.cached_property
    def known(self) -> Known:  # type: ignore[override]
        """What its elements show about its equations."""
        return known_of(self)

    @property
    def step_facts(self) -> Any:
        """The order of elimination and the constants of its matrix: all that steps of a small circuit take from the
        values of its start and params, besides its functions; None once one took the order of stages that are implicit
        in the noise."""
        rest, took_more = self.facts.rest, vars(self.facts).get("noisy_sparsity") is not None
        if rest is None or self.facts.unknowns > ORDERED or took_more:
            return None
        constant, stamps = self.matrices.of_rest.constants
        return (rest.unknowns, rest.rows, rest.row_order, self.matrices.determinant_units, self.noise_structure.kinds,
                constant, stamps)  # fmt: skip

    def multiplier(self, t, x, params):
        _ = self.channels.total  # an error in words where the noise cannot be placed
        return super().multiplier(t, x, params)

    def check_step(self, method, h):
        _check_time(self.network)
        _ = self.channels.total
        if self.random and "devices" not in self.params:
            tell(
                f"problem: its random values ({', '.join(self.random)}) are at their nominal ones. To draw them for "
                "each path, simulate(circuit.sampled(paths, seed), paths=paths, ...); circuit.at({}) is the nominal "
                "circuit without this warning",
                NominalValues,
            )
        super().check_step(method, h)

    def before_run(self, t: float, may_move: bool = False) -> tuple[str, ...]:
        transient = self.network.netlist.transient  # with uic, .ic states the charges of capacitors, not all nodes
        try:
            return super().before_run(t, may_move or (transient is not None and transient.uic))
        except ValueError as error:
            message = str(error)
            for i in reversed(range(self.n)):  # name each equation after its unknown
                message = message.replace(f"f[{i}]", f"equation of {self.names[i]}")
            raise ValueError(message) from None

    def noise_matrix(self, x: np.ndarray) -> np.ndarray:
        """Return the noise matrix g (n, channels) at a state, with the sources at their DC values.

        Parameters
        ----------
        x : numpy.ndarray
            The state (n,), components as in `names`.

        Returns
        -------
        numpy.ndarray
            g with the noise of the netlist, whatever params["noise"] is.
        """
        return self.channels.matrix(self.n, self.network.intensity(x, self.network.sources.at_rest(), np), 1.0, np)

    @functools.cached_property
    def operating_point(self) -> OperatingPoint:
        """The DC operating point: sources at their DC values or, where none is given, at their values at t = 0.

        operating_point["out"] is the voltage of a node, operating_point["i(v1)"] a current."""
        network, sources = self.network, self.network.sources.at_rest()
        point = operating_point(network, sources)
        _warn_of_bodies(self, point.x)
        _warn_of_thresholds(self, point.x)
        is_start = _held(network) == {} and np.array_equal(sources, network.sources.values(0.0, np))
        if not is_start:
            notes = network.netlist.notes
            notes += [words for words in remarks(network, sources, {}, point.x) if words not in notes]
        return point._replace(names=network.names)

    @functools.cached_property
    def small_signal(self) -> SmallSignal:
        """The circuit linearised at its operating point: .spectrum(node, frequency), .covariance(), .rates."""
        return self.linearised(self.operating_point.x)

    @checks_arguments
    def linearised(self, x: np.ndarray) -> SmallSignal:
        """Linearise the circuit at a state.

        Parameters
        ----------
        x : numpy.ndarray
            The state (n,), such as the mean at some time of a run.

        Returns
        -------
        SmallSignal
            The linear circuit, with its spectra, its covariance and its rates.
        """
        return SmallSignal(self.network, self, x)

    @property
    def too_quiet(self) -> tuple[str, ...]:
        """The transistors whose noise 2kT(2/3)g_m understates by more than half, in the triode region at the operating
        point; NLEV=3 in the .model gives the right noise."""
        y, names = np.append(self.operating_point.x, 0.0), []
        for group in self.network.groups:
            if group.law in (mosfet.SQUARE, mosfet.BODY):
                numbers = Numbers({**group.numbers.of, "nlev": np.array(3.0)}, group.numbers.kelvin)
                whole = dataclasses.replace(group, numbers=numbers).noise(y, np)
                quiet = group.noise(y, np) < 0.5 * whole
                names += [e.name for e, is_quiet in zip(group.elements, quiet, strict=True) if is_quiet and e.noisy]
        return tuple(names) if self.network.netlist.noisy else ()

    @checks_arguments
    def noise_spectrum(self, node: str | None = None, frequency: Any = None, source: str | None = None) -> Spectrum:
        """Compute the one-sided spectral density of the output noise at a node, V²/Hz.

        Parameters
        ----------
        node : str, optional
            The output node; by default the one of .noise.
        frequency : array_like, optional
            Frequencies in Hz; by default those of .noise.
        source : str, optional
            The input to which the noise is referred; by default the source of .noise.

        Returns
        -------
        Spectrum
            Its `density` is the noise at the node, `input_density` the noise referred to the input, and
            `noise_figure("rs")` the noise figure of the circuit behind the resistor rs.

        Raises
        ------
        ValueError
            If the netlist has no .noise, and `node` or `frequency` is missing.

        Examples
        --------
        >>> import stodyn as sd
        >>> circuit = sd.circuits.read("A resistor\\nR1 a 0 1k\\nC1 a 0 1p\\n")
        >>> print(f"{circuit.noise_spectrum('a', 1.0).density[0]:.2e}")  # 4kTR
        1.66e-17
        """
        directive = self.network.netlist.noise
        if directive is None and (node is None or frequency is None):
            raise ValueError("node, frequency: there is no .noise in the netlist; give both")
        reference = "0"
        if directive is not None and source is None:
            source = directive.source
        if node is None:
            node, reference = directive.node, directive.reference
        if frequency is None:
            frequency = directive.sweep.frequencies
        return self.small_signal.spectrum(node, frequency, reference, None if source is None else source.lower())

    @checks_arguments
    def response(self, frequency: Any = None) -> Response:
        """Compute the complex amplitudes of all unknowns for the AC amplitudes of the sources, as .ac does.

        Parameters
        ----------
        frequency : array_like, optional
            Frequencies in Hz; by default those of .ac.

        Returns
        -------
        Response
            The amplitude of each unknown by its name.

        Raises
        ------
        ValueError
            If the netlist has no .ac and `frequency` is missing, or no source has an AC amplitude.
        """
        directive = self.network.netlist.ac
        if frequency is None:
            if directive is None:
                raise ValueError("frequency: there is no .ac in the netlist; give frequencies in Hz")
            frequency = directive.frequencies
        amplitudes = self.small_signal.response(frequency)
        if not np.any(amplitudes):
            raise ValueError("response: no source has an AC amplitude; write one as in V1 in 0 DC 0 AC 1")
        return Response(np.atleast_1d(np.asarray(frequency, float)), amplitudes, self.network.names)

    @checks_arguments
    def dc(self) -> Curves:
        """Compute the operating points of .dc, for all values of the sources, temperature or .params that it sweeps.

        Returns
        -------
        Curves
            The unknowns by name, curves["out"], over the swept values in `curves.values`.

        Raises
        ------
        ValueError
            If the netlist has no .dc.

        Examples
        --------
        >>> import stodyn as sd
        >>> circuit = sd.circuits.read("A divider\\nV1 a 0 1\\nR1 a b 1k\\nR2 b 0 1k\\n.dc V1 0 2 1\\n")
        >>> circuit.dc()["b"].tolist()
        [0.0, 0.5, 1.0]
        """
        if not self.network.netlist.dc:
            raise ValueError("dc: there is no .dc in the netlist; write .dc V1 START STOP INCREMENT")
        return direct_current.curves(self, self.network.netlist.dc)

    @checks_arguments
    def transfer(self, node: str | None = None, source: str | None = None, reference: str = "0") -> Transfer:
        """Compute the gain at DC from a source to an output, and the resistances at both, as .tf does.

        Parameters
        ----------
        node, reference : str, optional
            The output v(node) - v(reference), or a current such as "i(v1)"; by default that of .tf.
        source : str, optional
            The V or I source of the input; by default that of .tf.

        Returns
        -------
        Transfer
            Its gain, input_resistance and output_resistance.

        Raises
        ------
        ValueError
            If the netlist has no .tf and an argument is missing, or there is no such node or source.
        """
        directive = self.network.netlist.transfer
        output = _output(node, reference, directive and directive.output, ".tf")
        source = source.lower() if source is not None else directive and directive.source
        if source not in self.network.sources_of:
            raise ValueError(f"source: there is no {source!r}; there are {', '.join(self.network.sources_of)}")
        weights = _weights(self, output)
        return direct_current.transfer(self.network, self.operating_point.x, weights, output.is_voltage, source)

    @checks_arguments
    def sensitivities(self, node: str | None = None, reference: str = "0") -> dict[str, float]:
        """Compute the derivatives of an output at DC with respect to every number of the netlist, as .sens does.

        One solve with the transposed Jacobian serves all numbers.

        Parameters
        ----------
        node, reference : str, optional
            The output v(node) - v(reference), or a current such as "i(v1)"; by default that of .sens.

        Returns
        -------
        dict
            Derivatives by the names that `valued` takes: r1.value, nch.vto, m1.w, a .param by its name. Multiply by a
            hundredth of the number for the change per percent.

        Raises
        ------
        ValueError
            If the netlist has no .sens and `node` is missing, or there is no such node.

        Examples
        --------
        >>> import stodyn as sd
        >>> circuit = sd.circuits.read("A divider\\nV1 a 0 1\\nR1 a b 1k\\nR2 b 0 1k\\n")
        >>> print(f"{circuit.sensitivities('b')['r2.value']:.4g}")
        0.00025
        """
        netlist = self.network.netlist
        output = _output(node, reference, netlist.sensitivity, ".sens")
        x = self.operating_point.x
        rebuilt = functools.partial(_rebuilt, netlist)
        return direct_current.sensitivities(self.network, x, _weights(self, output), netlist.overrides.met, rebuilt)

    @checks_arguments
    def noise_sensitivities(self, node: str | None = None, frequency: Any = None) -> dict[str, np.ndarray]:
        """Compute the derivatives of the noise at a node with respect to every number of the netlist.

        Two solves per frequency and one at the operating point, which the numbers move too, serve all of them.

        Parameters
        ----------
        node, frequency
            As for `noise_spectrum`; by default those of .noise.

        Returns
        -------
        dict
            The derivatives of `density`, V²/Hz, one for each frequency, by the names that `valued` takes, as in
            `sensitivities`.

        Raises
        ------
        ValueError
            If the netlist has no .noise, and `node` or `frequency` is missing.

        Examples
        --------
        >>> import stodyn as sd
        >>> circuit = sd.circuits.read("A resistor\\nR1 a 0 1k\\nC1 a 0 1p\\n")
        >>> print(f"{circuit.noise_sensitivities('a', 1.0)['r1.value'][0]:.2e}")  # 4kT
        1.66e-20
        """
        spectrum = self.noise_spectrum(node, frequency)
        netlist = self.network.netlist
        directive, numbers, rebuilt = netlist.noise, netlist.overrides.met, functools.partial(_rebuilt, netlist)
        output = Output(directive.node, directive.reference) if node is None else Output(node.lower(), GROUND)
        return noise_sensitivities(self.small_signal, _weights(self, output), spectrum.frequency, numbers, rebuilt)

    @checks_arguments
    def harmonics(self, node: str | None = None, frequency: float | None = None, reference: str = "0") -> Harmonics:
        """Compute the harmonics of an output over the last period of .tran without noise, as .four does.

        Parameters
        ----------
        node, reference : str, optional
            The output v(node) - v(reference), or a current such as "i(v1)"; by default the first of .four.
        frequency : float, optional
            The frequency of the fundamental, Hz; by default that of .four.

        Returns
        -------
        Harmonics
            Sizes and phases of the harmonics, and the total distortion.

        Raises
        ------
        NetlistError
            If the netlist has no .tran, or it is shorter than a period.
        ValueError
            If the netlist has no .four and an argument is missing, or there is no such node.
        """
        directive = self.network.netlist.fourier
        output = _output(node, reference, directive and directive.outputs[0], ".four")
        if frequency is None:
            if directive is None:
                raise ValueError("frequency: there is no .four in the netlist; give the fundamental in Hz")
            frequency = directive.frequency
        if not (np.isfinite(frequency) and frequency > 0.0 and frequency * self.span[1] >= 1.0 - 1e-9):
            raise NetlistError(f".four {frequency:g}: .tran ends at {self.span[1]:g} s, before a period is over")
        _check_time(self.network)
        weights = _weights(self, output)
        times = np.unique(np.concatenate([[0.0], last_period(frequency, self.span[1])]))
        states = noiseless(self.network, _usual_start(self), times, FOURIER_ACCURACY)
        return harmonics(states[-FOURIER_POINTS - 1 :] @ weights, frequency)

    @checks_arguments
    def scattering(self, frequency: Any = None) -> Scattering:
        """Compute S-parameters between the ports of the circuit, and the noise parameters of a two-port.

        Ports are V sources with portnum= and z0=, such as V1 in 0 DC 0 AC 1 portnum=1 z0=50.

        Parameters
        ----------
        frequency : array_like, optional
            Frequencies in Hz; by default those of .sp.

        Returns
        -------
        Scattering
            scattering[2, 1] is S₂₁; with two ports, scattering.noise has Fmin, Rn and Γopt.

        Raises
        ------
        ValueError
            If the circuit has no ports, or no frequencies are given.
        """
        netlist = self.network.netlist
        if not netlist.ports:
            raise ValueError("scattering: there are no ports; write V1 in 0 DC 0 AC 1 portnum=1 z0=50")
        if frequency is None:
            if netlist.scattering is None:
                raise ValueError("frequency: there is no .sp in the netlist; give frequencies in Hz")
            frequency = netlist.scattering.frequencies
        f = np.atleast_1d(np.asarray(frequency, float))
        if f.ndim != 1 or not (np.isfinite(f).all() and (f > 0.0).all()):
            raise ValueError(f"frequency: expected frequencies above 0 in Hz, got {frequency!r}")
        return scattering(self.small_signal, f)

    @checks_arguments
    def measured(self, analysis: str, run: Any = None) -> dict[str, np.ndarray]:
        """Evaluate the .measure lines of an analysis.

        Parameters
        ----------
        analysis : {"tran", "ac", "noise"}
            The analysis; "ac" and "noise" are computed at the operating point.
        run : optional
            For "tran", a run that has collected statistics.Paths.

        Returns
        -------
        dict
            Name of each measurement -> values (paths,), NaN where the event does not occur on a path.

        Raises
        ------
        ValueError
            If the analysis is unknown, or "tran" is asked for without paths.
        """
        netlist = self.network.netlist
        wanted = [measure for measure in netlist.measures if measure.analysis == analysis]
        if analysis == "ac":
            ac = self.response()
            return measures.measured(wanted, measures.Waveforms(ac.frequency, ac.__getitem__, ac.names))
        if analysis == "noise":
            noise = self.noise_spectrum()
            more = {"onoise": np.sqrt(noise.density), "inoise": np.sqrt(noise.input_density)}
            return measures.measured(wanted, measures.Waveforms(noise.frequency, lambda name: more[name], (), more))
        if analysis != "tran":
            raise ValueError(f"analysis: expected tran, ac or noise, got {analysis!r}")
        if run is None or "path" not in run:
            raise ValueError("run: .measure tran looks at paths; give a run with collect=statistics.Paths(...)")
        paths, names = run["path"], list(self.network.names)
        times = paths[next(str(dim) for dim in paths.dims if str(dim).startswith("time"))].values
        return measures.measured(
            wanted,
            measures.Waveforms(times, lambda name: paths.values[:, :, names.index(name)], self.network.names),
        )

    @checks_arguments
    def valued(self, values: Mapping[str, float]) -> Circuit:
        """Build the circuit of the same netlist with other values.

        Parameters
        ----------
        values : mapping of str to float
            The values that change, such as {"r1.value": 2e3, "m1.w": 2e-6, "temp": 85}. A .param goes by its name (x1.r
            inside the instance x1), a parameter of an element or a model as m1.w or nch.vto, the number of a simple
            element as r1.value, the temperature (°C) as temp.

        Returns
        -------
        Circuit
            The new circuit; this one is left as it is.

        Raises
        ------
        NetlistError
            If the netlist has no such value.
        ValueError
            If a value is not a finite number.
        """
        netlist = self.network.netlist
        circuit = _built(laid_out(netlist.deck, {**netlist.overrides.values, **_lowered(values)}))
        gone = {*_lowered(values), *netlist.overrides.random} - {*circuit.network.netlist.overrides.random}
        return dataclasses.replace(circuit, random={name: law for name, law in self.random.items() if name not in gone})

    @checks_arguments
    def steps(self) -> Iterator[tuple[dict[str, float], Circuit]]:
        """Iterate over all combinations of the values of .step and .temp, the first .step innermost.

        Yields
        ------
        values : dict
            The values of this combination, by name.
        circuit : Circuit
            The circuit with these values.
        """
        steps = self.network.netlist.steps
        for values in itertools.product(*(step.values for step in reversed(steps))):
            setting = dict(zip((step.place for step in steps), reversed(values), strict=True))
            yield setting, self.valued(setting)

    @functools.cached_property
    def family(self) -> Family:
        """The family of this circuit: all values of its random parameters in one program."""
        if self.of_family is not None:
            return self.of_family
        if not self.random:
            raise ValueError(
                "random: nothing in this circuit is random; write gauss(...), agauss, unif, aunif or limit in the "
                "netlist, or give random={name: distribution} to read"
            )
        memories = self.network.memories
        if memories is not None:
            raise ValueError(
                f"random: {', '.join(memories.names)} has a memory (VH > 0, or a control at VT), and circuits with "
                "such switches take no random values; circuit.valued(...) builds the circuit for other values"
            )
        return Family(self.network.netlist, self.random)

    @checks_arguments
    def sampled(self, paths: Count, seed: Integer) -> Circuit:
        """Draw new random values for each path; each path starts at its own operating point.

        Parameters
        ----------
        paths : int
            The number of paths: simulate(circuit.sampled(1000, 1), paths=1000, ...).
        seed : int
            The seed; path k has the same values whatever the number of paths.

        Returns
        -------
        Circuit
            A circuit whose `params["devices"]` holds the numbers of the devices on each path; `sampled_values`, called
            with the same paths and seed, gives the values drawn.

        Raises
        ------
        ValueError
            If `paths` is not a whole number >= 1, or nothing in the circuit is random.
        """
        data = self.family.data(self.sampled_values(paths, seed))
        network = self.family.network
        usual = _start(network)
        mean = usual.mean if isinstance(usual, GaussianStart) else usual
        start = self.family.starts(data, mean, _held(network))
        if network.filters is not None:
            rng = generator(int(seed), 0, "start", 1)
            for part in network.flickers:
                for states in part.states:
                    start[:, states] = rng.multivariate_normal(
                        np.zeros(len(states)), network.filters.state_covariance, len(start), method="eigh"
                    )
        return _of_family(self, network, PerPath(data), PerPath(start))

    def sampled_values(self, paths: Count, seed: Integer) -> dict[str, np.ndarray]:
        """Return the random values that `sampled` draws, by the names in `random`, which `at` takes too.

        A random function of the netlist such as unif(r1.value, 0.1) goes by its ξ, a uniform number from -1 to 1 or a
        standard normal one, not by the value that it gives.

        Parameters
        ----------
        paths, seed : int
            As in `sampled`.

        Returns
        -------
        dict
            Name of each random value -> array (paths,).
        """
        return self.family.draws(whole("paths", paths), int(seed))

    def at(self, values: Mapping[str, float]) -> Circuit:
        """Return the circuit at chosen values of its random parameters; one program serves all of them.

        Parameters
        ----------
        values : mapping of str to float
            Values by the names in `random`; the others keep their nominal values.

        Returns
        -------
        Circuit

        Raises
        ------
        ValueError
            If a name is not one of the random values.
        """
        unknown = [name for name in values if name not in self.random]
        if unknown:
            raise ValueError(f"values: {unknown[0]!r} is not random; the random values are {', '.join(self.random)}")
        data = self.family.numbers(_lowered(values))
        network = self.family.at(data, np)
        return _of_family(self, network, data, _start(network))

    @checks_arguments
    def corners(
        self, sigmas: float = 3.0, of: Sequence[str] | None = None
    ) -> Iterator[tuple[dict[str, float], Circuit]]:
        """Iterate over all combinations of the extremes of random values.

        Parameters
        ----------
        sigmas : float
            The extremes lie this many standard deviations from the mean, or at the bounds of the distribution if these
            are nearer.
        of : sequence of str, optional
            The names of the values taken to their extremes, at most 12; by default all that are random.

        Yields
        ------
        values : dict
            The values at this corner, by name.
        circuit : Circuit
            The circuit with these values.

        Raises
        ------
        ValueError
            If a name is not random, or there are more than 12.
        """
        names = list(self.random) if of is None else list(of)
        unknown = [name for name in names if name not in self.random]
        if unknown or not names:
            known = ", ".join(self.random) or "none"
            raise ValueError(f"of: {unknown or 'nothing'} is not random; the random values are {known}")
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
            corner = {name: float(value) for name, value in zip(names, values, strict=True)}
            yield corner, self.at(corner)


@checks_arguments
def read(
    source: str | Path,
    values: Mapping[str, float] | None = None,
    libraries: Sequence[str | Path] = (),
    random: Mapping[str, Any] | None = None,
) -> Circuit:
    """Read a circuit from a SPICE netlist.

    The subset: R, C, L, V, I (DC, SIN, PULSE, PWL, EXP), E, G, F, H, D, M (level 1), Q, J, S, W, K, B, X; .param,
    .func, .model, .subckt, .tran, .ic, .nodeset, .temp, .step, .include, .lib, .options, .op, .ac, .noise, .measure.
    Every resistor has thermal noise, every diode shot noise, every transistor channel noise, and those whose model
    gives KF also have flicker noise; `noise=off` on an element, or .options noise=off, removes it. The circuit starts
    at the operating point at t = 0 with the nodes of .ic held; with .tran ... uic it starts from .ic and the ic= of
    capacitors and inductors, and from 0 elsewhere. The netlist is data: nothing in it is executed, and no file outside
    its folder and the libraries is read.

    Parameters
    ----------
    source : str or pathlib.Path
        The path of a netlist, or the netlist itself as text of several lines.
    values : mapping of str to float, optional
        Values that replace those of the netlist, by name: see Circuit.valued.
    libraries : sequence of str or pathlib.Path, optional
        Folders, besides that of the netlist, from which .include and .lib may read.
    random : mapping of str to Distribution, optional
        Distributions of values, by the same names; the nominal value is that of the netlist.

    Returns
    -------
    Circuit

    Raises
    ------
    NetlistError
        If the netlist cannot be read; the message names the line, the element and the way out.

    Examples
    --------
    >>> import stodyn as sd
    >>> sd.circuits.read("A low-pass filter\\nR1 a 0 1k\\nC1 a 0 1p\\n").names
    ('a',)
    """
    deck = read_deck(source, libraries)
    warn(deck.notes)  # before an error that a lost first line may cause
    with causes_in_errors(deck.notes):
        netlist = laid_out(deck, _lowered(values or {}))
        if chances := netlist.overrides.random:
            netlist.notes.append(f"{several(chances)}: nominal until they are drawn by .sampled(paths, seed) or chosen "
                                 "by .at({...}); ngspice draws each once where it reads the netlist")  # fmt: skip
        warn(netlist.notes[len(deck.notes) :])
        laws = {name.lower(): distribution(law, f"random[{name!r}]") for name, law in (random or {}).items()}
        if laws:
            laid_out(deck, {**_lowered(values or {}), **{name: law.mean for name, law in laws.items()}})
        return dataclasses.replace(_built(netlist), random={**netlist.overrides.random, **laws})


def _lowered(values: Mapping[str, float]) -> dict[str, float]:
    for name, value in values.items():
        if not isinstance(value, float | int | np.floating | np.integer) or not np.isfinite(value):
            raise ValueError(f"values[{name!r}]: expected a finite number, got {value!r}")
    return {name.lower(): float(value) for name, value in values.items()}


def _built(netlist: Netlist) -> Circuit:
    """The circuit of a flat netlist."""
    network = assemble(netlist)
    start = _start(network)
    if not netlist.deck.bodies and _held(network) is not None:
        forward = _forward_bodies(network, start.mean if isinstance(start, GaussianStart) else start)
        if forward:
            note = f"{'; '.join(forward)}. All transistors whose models give no junctions have SPICE's, IS=1e-14"
            warn([note])
            deck = netlist.deck._replace(notes=(*netlist.deck.notes, note), bodies=True)
            return _built(laid_out(deck, netlist.overrides.values))
    if (held := _held(network)) is not None:
        at_start = start.mean if isinstance(start, GaussianStart) else start
        netlist.notes += remarks(network, network.sources.values(0.0, np), held, at_start)
    if netlist.least_capacitance:
        netlist.notes.append(_effect_of_cmin(network, start.mean if isinstance(start, GaussianStart) else start))
    return _problem(network, lambda params: network, {"noise": 1.0}, start)


def _effect_of_cmin(network: Network, x: np.ndarray) -> str:
    """Say what the capacitors of .options cmin change, by the resistance from each node to ground at the start."""
    farads = network.netlist.least_capacitance
    nodes = [e.nodes[0] for e in network.netlist.elements if e.name.endswith(LEAST)]
    if not nodes:
        return f".options cmin={farads:g}: every node has a capacitor already; nothing is added"
    rows = [network.nodes[node] for node in nodes]
    unit = np.zeros((network.n, len(rows)))
    unit[rows, np.arange(len(rows))] = 1.0
    ohms = np.abs(direct.solved(network.slopes_at_rest(x), unit)[rows, np.arange(len(rows))])
    corner = 1.0 / (2.0 * np.pi * farads * ohms.max())
    return (
        f".options cmin={farads:g}: added from {', '.join(nodes)} to ground. Alone they act from {corner:.3g} Hz on, "
        f"at {nodes[int(ohms.argmax())]}, which has {ohms.max():.3g} ohm to ground at the start; far below that they "
        "change nothing"
    )


def _of_family(circuit: Circuit, network: Network, data: Any, start: Any) -> Circuit:
    """A member of a family with the numbers `data`; analyses at rest use `network`."""
    family = circuit.family
    params = {"noise": 1.0, "devices": data}
    return _problem(network, lambda params: family.at(params["devices"], jnp), params, start, circuit.random, family)


# --- numbers of the netlist by which paths are differentiated ---------------------------------------------------------


@holding.register(Circuit)
def _holding(circuit: Circuit, names: Sequence[str]) -> Circuit:
    """A circuit with the numbers of the netlist that are named in the params of its runs."""
    met = circuit.network.netlist.overrides.met
    free = [name for name in names if name.lower() in met and name not in circuit.params]
    if "devices" in circuit.params:
        return circuit
    for name in names:
        if name not in free and name not in circuit.params and not name.startswith("start."):
            raise ValueError(
                f"of: {name!r} is no number of the netlist; these are {', '.join(met)}{suggestion(name, list(met))}"
            )
    if not free:
        return circuit
    near = {name: _near(met[name.lower()]) for name in map(str.lower, free)}
    family = Family(circuit.network.netlist, near)
    data = family.numbers({name: met[name] for name in near})
    network = family.at(data, np)
    params = {"noise": 1.0, "devices": data}
    freed = _problem(network, lambda params: family.at(params["devices"], jnp), params, _start(network), None, family)
    _ = freed.channels.total  # an error in words where noise can be placed for fixed values alone
    return freed


@along.register(Circuit)
def _along(circuit: Circuit, name: str) -> tuple[str, Along] | None:
    """How the numbers of the devices and the operating point at the start go with a number of the netlist."""
    family, low = circuit.of_family, name.lower()
    if family is None or low not in family.random or low not in (met := circuit.network.netlist.overrides.met):
        return None
    usual = family.numbers({name: met[name] for name in family.random if name in met})
    if not (isinstance(circuit.params["devices"], np.ndarray) and np.array_equal(circuit.params["devices"], usual)):
        return None  # at other values than those of the netlist, where the slopes are others
    value, step = met[low], SLOPE_STEP * (abs(met[low]) or 1.0)
    data = [family.numbers({low: value + side}) for side in (step, -step)]
    starts = [_start(family.at(one, np)) for one in data]
    means = [start.mean if isinstance(start, GaussianStart) else start for start in starts]
    slopes = [(above - below) / (2.0 * step) for above, below in (data, means)]
    return "devices", Along(value, *(tuple(map(float, slope)) for slope in slopes))


def _near(value: float) -> Distribution:
    """A law about the value of a number of the netlist, from which the devices that it changes are told."""
    spread = NEAR * (abs(value) or 1.0)
    return distribution(scipy.stats.uniform(value - spread, 2.0 * spread), "value")


def _transient(network: Network) -> Any:
    """The .tran of the netlist."""
    transient = network.netlist.transient
    if transient is None:
        raise NetlistError("there is no .tran in the netlist; add .tran STEP STOP, or give t and dt yourself")
    return transient


def _usual_start(circuit: Circuit) -> np.ndarray:
    """The start without the spread due to random values and flicker filters."""
    start = circuit.start.mean if isinstance(circuit.start, GaussianStart) else circuit.start
    if isinstance(start, PerPath):
        start = _start(circuit.network)
        start = start.mean if isinstance(start, GaussianStart) else start
    return np.asarray(start, float)


def _check_time(network: Network) -> None:
    """Refuse whatever happens in time where nothing takes time, or something takes a delay."""
    if network.lines:
        raise NetlistError(
            f"{network.lines[0].name}: an ideal line delays signals, which the methods for transients cannot; "
            ".op, .ac and .noise have it. For a transient, take a ladder of L and C",
            network.lines[0].at,
        )
    for name, at in network.netlist.at_rest[:1]:
        raise NetlistError(f"{name}: is known at rest alone: .op, .ac and .noise have it. For a transient, take "
                           "transistors or switches", at)  # fmt: skip
    if not takes_time(network):
        raise NetlistError(
            "there is neither a capacitor nor an inductor: nothing in this circuit takes time. .op, .ac and .noise "
            "work; for a transient, add a capacitor"
        )


def _output(node: str | None, reference: str, default: Output | None, directive: str) -> Output:
    """The output that was asked for, or that of a directive."""
    if node is None and default is None:
        raise ValueError(f"node: there is no {directive} in the netlist; give the name of a node")
    return default if node is None else Output(node.lower(), reference.lower())  # type: ignore[return-value]


def _forward_bodies(network: Network, x: np.ndarray) -> list[str]:
    """The transistors without junctions to the body where a real one would conduct, in words."""
    voltages = {GROUND: 0.0, **dict(zip(network.names, x, strict=True))}
    ends = (
        (bare, voltages.get(bare.plus, 0.0) - voltages.get(bare.minus, 0.0))
        for bare in mosfet.bare_ends(network.netlist.elements, network.netlist.terminals)
    )
    return [
        f"{bare.at}: {bare.name}: at the operating point the junction between its body and its {bare.end} would be "
        f"{forward:.2g} V forward, but its .model gives no IS"
        for bare, forward in ends if forward > CONDUCTING
    ]  # fmt: skip


def _warn_of_bodies(circuit: Circuit, x: np.ndarray) -> None:
    """Warn of junctions to the body that are missing where they would conduct; `read` adds those of its start."""
    for words in _forward_bodies(circuit.network, x):
        tell(f"{words}, so that it has none; SPICE has IS=1e-14 there. Give IS in the .model")


def _warn_of_thresholds(circuit: Circuit, x: np.ndarray) -> None:
    """Warn of switches that are half closed, where SPICE's are open or closed."""
    for group in (group for group in circuit.network.groups if group.law is switch.SWITCH):
        _, control = group.read(np.append(x, 0.0))
        for e, c in zip(group.elements, np.broadcast_to(control, len(group.elements)), strict=True):
            middle, reach, unit = e.value["middle"], e.value["reach"], "A" if e.reads[1][0].startswith("i(") else "V"
            if abs(c - middle) < reach == switch.narrowest(middle, unit):
                tell(
                    f"{e.at}: {e.name}: at the operating point its control, {c:.6g} {unit}, is within {reach:g} {unit} "
                    f"of the threshold {middle:g} {unit}, where its resistance is on the way between ROFF and RON; in "
                    "SPICE it is on or off. Choose a threshold between the levels of the control"
                )


def _rebuilt(netlist: Netlist, values: dict[str, float]) -> Network:
    """The network of a netlist with other values of some numbers."""
    return assemble(laid_out(netlist.deck, {**netlist.overrides.values, **values}))


def _weights(circuit: Circuit, output: Output) -> np.ndarray:
    """Return the vector e (n,) of the output e'x."""
    weights = np.zeros(circuit.n)
    for name, sign in ((output.node, 1.0), (output.reference, -1.0)):
        if name != GROUND:
            charge = f"q{name[1:]}"  # of a source in a loop with capacitors, which stands for its current at DC
            known = charge if name not in circuit.names and charge in circuit.names else name
            weights[circuit.small_signal.component(known)] += sign
    return weights


def _in_double_precision(function: Callable) -> Callable:
    """The function in float64 whatever the caller's precision: float32 does not resolve the currents of a circuit, and
    its constants are float64."""

    @functools.wraps(function)
    def called(t, x, params):
        if jnp.result_type(float) == np.float64:
            return function(t, x, params)
        with jax.enable_x64(True):
            return function(
                *jax.tree.map(lambda value: jnp.asarray(value, jnp.result_type(value, float)), (t, x, params))
            )

    return called


def _problem(
    network: Network, of: Callable[[Any], Network], params: dict[str, Any], start: Any,
    random: Mapping[str, Distribution] | None = None, family: Family | None = None,
) -> Circuit:  # fmt: skip
    """The SDAE of a network; `of` returns the network with the numbers in the parameters of a run."""
    noise = channels(network)
    n, m = network.n, 1 if isinstance(noise, Unplaced) else max(noise.total, 1)
    additive = network.has_additive_noise
    structure = "additive" if additive else "general" if n * n * m > LOOKED_AT else None

    @TracedOnce
    def rates(t, x, params):
        return of(params).rates(x, network.sources.values(t, jnp), jnp)

    @_in_double_precision
    def drift(t, x, params):
        return rates(t, x, params)

    @_in_double_precision
    def diffusion(t, x, params):
        if isinstance(noise, Unplaced):  # Circuit.multiplier refuses to use it
            return jnp.zeros((n, 1))
        intensity = of(params).intensity(x, network.sources.values(t, jnp), jnp)
        if n > FOLLOWED:
            return noise.operator(n, intensity, params["noise"])
        return noise.matrix(n, intensity, params["noise"], jnp)

    mass: Any = network.mass.matrix(n)
    if n <= FOLLOWED:
        mass = mass.toarray()
        mass.flags.writeable = False
    units = dict(zip(network.names, network.units, strict=True)) | {"time": "s"}
    return Circuit(mass, drift, diffusion, start, params, network.names, units, structure, network, noise,
                   random or {}, family)  # fmt: skip


def _held(network: Network) -> dict[int, float] | None:
    """The voltages of .ic, at which nodes are held while the starting point is computed; None with uic.

    Nodes that inductors and sources hold already are left out."""
    netlist = network.netlist
    if netlist.transient is not None and netlist.transient.uic:
        return None
    stiff = topology.held_at_rest(netlist.elements) if netlist.initial else frozenset()
    return {network.nodes[name]: value for name, (value, _) in netlist.initial.items() if name not in stiff}


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
        if network.memories is not None:
            x[network.memories.rows] = network.memories.at_first
            x = network.memories.changed(x, network.memories.distances(x, np) <= 0.0, np)
    else:
        for element in netlist.elements:
            if element.kind in "ve" and element.nodes[1] == "0" and element.nodes[0] in netlist.initial:
                at = netlist.initial[element.nodes[0]][1]
                raise NetlistError(f".ic v({element.nodes[0]}): {element.name} holds this node already", at)
        x = operating_point(network, network.sources.values(0.0, np), held).x.copy()
        for name, (value, at) in netlist.initial.items():
            there = x[network.nodes[name]]
            if abs(there - value) > OFF_INITIAL * (1.0 + abs(value)):
                raise NetlistError(f".ic v({name})={value:g}: inductors and sources hold it at {there:g} V while the "
                                   "circuit rests. Take it out, or start from it with .tran ... uic", at)  # fmt: skip
        x[[network.branches[name] for name in network.charged]] = 0.0
    if network.filters is None:
        return x
    covariance = np.zeros((network.n, network.n))
    for part in network.flickers:
        for states in part.states:
            covariance[np.ix_(states, states)] = network.filters.state_covariance
    return GaussianStart(x, covariance)


def _given_voltages(netlist: Netlist) -> dict[str, float]:
    """The node voltages at the start with uic: those of .ic, then v(n+) - v(n-) = ic= across each capacitor, computed
    from its known end to the other.

    Where neither end is known, n- is put at 0 V: only charges matter, since the constraints move the voltages.
    """
    volts = {GROUND: 0.0} | {name: value for name, (value, _) in netlist.initial.items()}
    waiting = [(e, e.initial) for e in netlist.elements if topology.is_capacitive(e) and e.initial is not None]
    while waiting:
        later = []
        for e, initial in waiting:
            plus, minus = topology.ends(e)
            if plus in volts and minus in volts:
                voltage = volts[plus] - volts[minus]
                if abs(voltage - initial) > 1e-9 * (1.0 + abs(voltage)):
                    raise NetlistError(f"{e.name}: ic={initial:g}, but .ic, or ic= of other capacitors, leaves "
                                       f"{voltage:g} V across it", e.at)  # fmt: skip
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


def _state_space(circuit: Circuit) -> tuple[Any, str] | None:
    """A circuit as an SDE: as any SDAE, unless it has switches with memory."""
    return None if circuit.network.memories is not None else contract.conversions[SDAE, SDE](circuit)


contract.conversions[Circuit, SDE] = _state_space
looped.INPUTS[Circuit] = inputs_of_sources.as_plant
