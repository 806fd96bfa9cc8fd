"""What a circuit knows about its equations from its elements, so that nothing has to be traced for it."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy

from stodyn.circuits import points
from stodyn.circuits.assembly import Network
from stodyn.circuits.jacobian import RestJacobian
from stodyn.numerics.block_triangular import determining
from stodyn.numerics.traced_once import TracedOnce
from stodyn.problems.explicit import Explicit, Rest
from stodyn.problems.facts import Known
from stodyn.problems.index import STATES, Split

CONTROLLED = frozenset("efgh")


def known_of(circuit: Any) -> Known:
    """Return what the elements of a circuit show about its equations."""
    network = circuit.network
    is_affine = not network.groups and not network.charges
    return Known(
        is_static=not takes_time(network),
        is_affine=is_affine,
        orientation=functools.partial(_has_constant_orientation, network),
        explicit=None if is_affine else _explicit(network),
        coefficients=functools.partial(_coefficients, circuit),
        noise_slopes=functools.partial(_noise_slopes, circuit),
        rest_matrix=functools.partial(RestMatrix, circuit),
        noise="from its elements" if circuit.structure == "additive" else "not examined: the circuit is large",
        memories=network.memories,
        lines=tuple(e.name for e in network.lines),
    )


def takes_time(network: Network) -> bool:
    """Whether there is a capacitor or an inductor."""
    return bool(len(network.mass.values))


class RestMatrix:
    """(x, a, params) -> the matrix of a step in the unknowns that are not explicit, from the slopes of the devices."""

    def __init__(self, circuit: Any, split: Split, rest: Rest):
        self.jacobian = RestJacobian(circuit.network, split, rest)

        def matrix(x, a, params):
            varies = "devices" in circuit.params
            network = circuit.family.at(params["devices"], jnp) if varies else circuit.network
            return self.jacobian(network, x, a)

        self._traced = TracedOnce(matrix)

    def __call__(self, x, a, params):
        return self._traced(x, a, params)

    @property
    def constants(self) -> Any:
        """The constants of the matrix as plain arrays."""
        stamps = [(part.indptr, part.indices, part.data) for part in self.jacobian.stamps]
        return self.jacobian.constant, stamps


def _explicit(network: Network) -> Explicit:
    """The stored charges and the filters of flicker noise."""
    stored = [group.rows for group in network.charges]
    filtered = [part.states.ravel() for part in network.flickers]
    poles = np.diagonal(network.filters.A) if network.filters is not None else np.zeros(0)
    rates = [np.tile(poles, len(part.states)) for part in network.flickers]
    held, loud = (np.concatenate([np.zeros(0, int), *parts]).astype(int) for parts in (stored, filtered))
    return Explicit(held, loud, np.concatenate([np.zeros(0), *rates]))


def _has_constant_orientation(network: Network, split: Split) -> bool:
    """Whether the stamps show that the constraints' Jacobian keeps its sign.

    No nonlinear part may have a slope in an entry that its determinant depends on. Charges that grow with the voltage
    of their own node and fall with those of others may, without controlled sources: the determinant is then a sum over
    directed trees of the network (W. T. Tutte's theorem), in which every slope has a positive factor, as a capacitance
    has.
    """
    N, K = (scipy.sparse.csr_array(matrix) for matrix in (split.N, split.K))
    is_reciprocal = not any(e.kind in CONTROLLED for e in network.netlist.elements)
    linear = scipy.sparse.coo_array(abs(N) @ abs(network.linear.matrix(network.n)) @ abs(K))
    places, changes = [linear.coords], [np.zeros(linear.nnz, bool)]
    ends = N.T, K  # a row for each unknown
    N, K = (scipy.sparse.vstack([rows, scipy.sparse.csr_array((1, rows.shape[1]))], format="csr") for rows in ends)
    for group in (*network.groups, *network.charges):
        out = N[group.rows] if group.law.stores else N[group.out[0]] - N[group.out[1]]
        for c, d in group.control:
            pairs = _pairs_in_rows(out, K[c] - K[d])
            places.append(pairs)
            changes.append(np.full(len(pairs[0]), not (group.couples and is_reciprocal)))
    rows, columns = np.concatenate(places, axis=1)
    return not np.any(np.concatenate(changes) & determining(rows, columns, K.shape[1]))


def _pairs_in_rows(a: scipy.sparse.csr_array, b: scipy.sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """For each row, its columns where `a` is not zero, with each of those where `b` is not."""
    for matrix in (a, b):
        matrix.eliminate_zeros()
    return scipy.sparse.coo_array((a != 0).astype(int).T @ (b != 0).astype(int)).coords


def _sampled(circuit: Any, params: Any) -> tuple[Network, np.ndarray]:
    """The network with the numbers of STATES sampled parameters, and the factor of its white noise."""
    network = circuit.network
    if "devices" in circuit.params:
        network = circuit.family.at(np.asarray(params["devices"]), np)
    return network, np.broadcast_to(np.asarray(params["noise"], float), STATES)


def _coefficients(circuit: Any, times: np.ndarray, states: np.ndarray, params: Any) -> tuple[np.ndarray, ...]:
    """f, ∂f/∂x and g at STATES times and states."""
    network, factor = _sampled(circuit, params)
    return (points.rates(network, times, states), points.slopes(network, states),
            points.noise(network, circuit.channels, times, states, factor))  # fmt: skip


def _noise_slopes(circuit: Any, times: np.ndarray, states: np.ndarray, params: Any) -> np.ndarray:
    """∂g/∂x at STATES times and states."""
    network, factor = _sampled(circuit, params)
    return points.noise_slopes(network, circuit.channels, times, states, factor)
