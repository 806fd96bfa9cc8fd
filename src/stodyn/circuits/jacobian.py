"""The Jacobian of a step of a circuit in the unknowns that are not explicit, from the slopes of its devices.

A device reads a few voltages, so that its slopes in these, stamped at their places, are much less to trace than
derivatives of all currents in all unknowns. With E_R and E_N the equations of these unknowns, M_q the columns of the
charges and f_x = L + stamps of slopes, the matrix is
    (E_R M)_u + (E_N - E_R M_q) f_x - a E_R f_x,
where E_R M_q acts on the equations of the charges.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from stodyn.circuits.assembly import Group, Network, Sums
from stodyn.circuits.devices import flicker_size
from stodyn.problems.explicit import Rest
from stodyn.problems.index import Split


class RestJacobian:
    """(network, x, a) -> the matrix at a state x, the network with the numbers of a path; a may be None for 0."""

    def __init__(self, network: Network, split: Split, rest: Rest):
        n, self.size = network.n, len(rest.unknowns)
        R = scipy.sparse.eye_array(n, format="csr")[split.rows]
        is_moving = rest.rows < len(split.rows)
        both = scipy.sparse.vstack([R, scipy.sparse.csr_array(split.N)], format="csr")[rest.rows]
        moving, held = (scipy.sparse.diags_array(kind.astype(float)) @ both for kind in (is_moving, ~is_moving))
        masses = scipy.sparse.csc_array(moving @ network.mass.matrix(n))
        stored = np.zeros(n)
        stored[rest.explicit.stored] = 1.0
        self._place = np.full(n, -1)
        self._place[rest.unknowns] = np.arange(self.size)
        places, constant, stamps = network.slope_stamps
        parts = []
        for left in (held - masses @ scipy.sparse.diags_array(stored), moving):
            carried = self._carried(scipy.sparse.csc_array(left), places // n, places % n)
            parts.append((carried @ constant, scipy.sparse.csr_array(carried @ stamps)))
        inertia = masses[:, rest.unknowns].toarray().ravel()
        self.constant = inertia + parts[0][0], parts[1][0]
        self.stamps = parts[0][1], parts[1][1]
        holds = (self.constant[0] != 0.0) | (self.constant[1] != 0.0)
        for stamped in self.stamps:
            holds[np.unique(stamped.tocoo().row)] = True
        self.holds = np.flatnonzero(holds)
        self.table = np.full(self.size**2, len(self.holds))
        self.table[self.holds] = np.arange(len(self.holds))
        self._added = [self._adding(stamped[self.holds].tocoo()) for stamped in self.stamps]

    def _carried(self, left: scipy.sparse.csc_array, rows: np.ndarray, columns: np.ndarray) -> scipy.sparse.csr_array:
        """(size², places): from entries of f_x at these places to those of left f_x in the unknowns."""
        entries: list[tuple[int, int, float]] = []
        for k in np.flatnonzero(self._place[columns] >= 0):
            for at in range(left.indptr[rows[k]], left.indptr[rows[k] + 1]):
                entries.append((left.indices[at] * self.size + self._place[columns[k]], int(k), left.data[at]))
        which, of, values = zip(*entries, strict=True) if entries else ((), (), ())
        return scipy.sparse.csr_array((values, (which, of)), (self.size**2, len(rows)))

    def _adding(self, stamped: scipy.sparse.coo_array) -> tuple[Sums, np.ndarray, np.ndarray]:
        return Sums(stamped.row, len(self.holds) + 1), stamped.col, stamped.data

    def __call__(self, network: Network, x: Array, a: Any) -> Array:
        y = jnp.concatenate([x, jnp.zeros(1, x.dtype)])
        groups = enumerate((*network.groups, *network.charges))
        each = [slope for k, group in groups for slope in _slopes(network, k, group, y)]
        slopes = jnp.concatenate([jnp.zeros(0, x.dtype), *each])
        parts = []
        for constant, (sums, which, values) in zip(self.constant, self._added, strict=True):
            still = jnp.asarray(constant[self.holds], x.dtype)
            parts.append(still + sums(values * slopes[which], jnp)[:-1] if len(which) else still)
        entries = parts[0] if a is None else parts[0] - a * parts[1]
        return jnp.append(entries, jnp.zeros(1, x.dtype))[self.table].reshape(self.size, self.size)


def _slopes(network: Network, k: int, group: Group, y: Array) -> list[Array]:
    """The slopes of the k-th group in each of the voltages that it reads, flicker noise included."""
    parts = [part for part in network.flickers if part.group == k]

    def value(*read: Array) -> Array:
        current = group.of(read, jnp)
        for part in parts:
            place = np.full(len(group.elements), len(part.devices))
            place[part.devices] = np.arange(len(part.devices))
            size = flicker_size(current[part.devices], group.numbers.chosen(part.devices), jnp)
            flickers = size * y[part.states].sum(-1)
            current = current + jnp.append(flickers, jnp.zeros(1, y.dtype))[place]
        return current

    read = group.read(y)
    _, slope = jax.linearize(value, *read)
    units = jnp.eye(len(read), dtype=y.dtype)[:, :, None] * jnp.ones(len(group.elements), y.dtype)
    slopes = jax.vmap(lambda unit: slope(*unit))(units)
    return [slopes[j] for j in range(len(read))]
