"""Textbook oscillators start by themselves; their periods are those of ngspice 39 with 2000 steps per period."""

import types

import numpy as np
import pytest

import stodyn as sd
from stodyn.analysis.cycle import periodic_start

CMOS = (
    ".model n nmos(vto=0.6 kp=100u lambda=0.05 cgso=0.3n cgdo=0.3n)\n"
    ".model p pmos(vto=-0.6 kp=40u lambda=0.05 cgso=0.3n cgdo=0.3n)\n"
)
CROSS_COUPLED = (
    "V1 v 0 2\nL1 v a 10n\nL2 v b 10n\nRA v a 1k\nRB v b 1k\nCA a 0 1p\nCB b 0 1p\nM1 a b s 0 n W=100u L=1u\n"
    "M2 b a s 0 n W=100u L=1u\nI1 s 0 2m\n"
)
PIERCE = (
    "V1 v 0 3\nMP o a v v p W=40u L=1u\nMN o a 0 0 n W=16u L=1u\nRF o a 1meg\nC1 a 0 20p\nC2 o 0 20p\nLM a m 1m\n"
    "CM m k 10p\nRM k o 100\nCP a o 2p\n"
)
HARTLEY = (
    "V1 v 0 10\nR1 v b 47k\nR2 b 0 10k\nCB b 0 1n\nRE e 0 2.2k\nL1 c t 9u\nL2 t v 1u\nK1 L1 L2 0.9\nCT c v 1n\n"
    "RL c v 2k\nRX e y 100\nCE y t 1n\nRD t v 1k\nQ1 c b e q\n"
    ".model q npn(is=1e-15 bf=150 vaf=80 cje=2p cjc=1p tf=0.3n rb=50)\n"
)


@pytest.mark.parametrize(
    ("text", "node", "period", "swing"),
    [
        (CROSS_COUPLED, "a", 6.7597847e-10, 2.526127),
        (PIERCE, "a", 4.7694924e-7, 5.161422),
        (HARTLEY, "c", 7.6461349e-7, 1.634459),
    ],
    ids=["cross_coupled", "pierce", "hartley"],
)
def test_oscillators_start_by_themselves(text, node, period, swing):
    circuit = sd.circuits.read(f"title\n{text}{CMOS}")
    cycle = sd.analysis.periodic(circuit)
    voltage = cycle.at(np.linspace(0.0, cycle.period, 2001))[:, circuit.names.index(node)]
    trapezoidal = 1.0 - (2.0 * np.pi / 2000) ** 2 / 12.0  # what ngspice's rule adds to a period
    assert cycle.period == pytest.approx(period * trapezoidal, rel=2e-6)
    assert np.ptp(voltage) == pytest.approx(swing, rel=1e-5)


def test_turns_are_counted_by_the_components_that_keep_time():
    """A current that was once larger now just misses the levels between which turns are counted, or does not: it does
    not hide the turns of the others."""
    times = np.linspace(0.0, 24.0, 1921)
    turning = np.sin(2.0 * np.pi * times)
    current = 0.203 * turning * (1.0 + 0.02 * np.cos(7.3 * times))
    current[:2] = -0.5, 0.5
    states = np.stack([turning, current, 0.1 * times], axis=1)
    system = types.SimpleNamespace(n=3, wandering=np.zeros(0, int))
    counts = [len(rises) for rises in periodic_start._rises_of_each(system, times, states)]
    assert counts[0] == 23 and 10 <= counts[1] < 20
    assert periodic_start._drifting(system, times, states).period == pytest.approx(1.0, rel=1e-3)
