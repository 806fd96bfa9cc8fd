"""MOS transistors of levels 2 and 3: currents of random cards beside those of ngspice 39, slopes, noise, gates."""

import jax.numpy as jnp
import numpy as np
import pytest

from stodyn.circuits import NetlistError, read
from stodyn.circuits.devices import BOLTZMANN, Numbers
from stodyn.circuits.elements import mosfet
from stodyn.numerics import dual
from stodyn.numerics.printing.points import AtPoints

BIAS = np.array(
    [(2.5, 0.1, 0.0), (2.5, 3.0, 0.0), (1.0, 3.0, -1.0), (3.5, 1.0, -2.0), (2.0, -1.0, -3.0), (0.6, 2.0, 0.3)]
)
# Random cards of benchmarks/cards.py, W = 20 µm, L = 2 µm, 40 °C: @m1[id] of ngspice 39 at the v_gs, v_ds, v_bs above.
CARDS = [
    ("nmos level=2 kp=3.80613e-05 lambda=0.0689694 gamma=0.281994 tox=9.11288e-08 uo=330.289 "
     "nss=2.5208e+09 vmax=35307.1 xj=1.1362e-07 nfs=1.49887e+11 uexp=0.158048 neff=2.26951",
     (6.246011768e-05, 0.0007932124639, 0.0001287211813, 0.0007107747887, -0.0005965972703, 7.423519786e-05)),
    ("nmos level=2 kp=0.00013568 lambda=0.0707665 gamma=0.802949 tox=9.34752e-08 uo=289.841 "
     "nss=1.93751e+09 pb=0.80549 delta=0.147986 vmax=175474 xj=3.54792e-07 nfs=1.936e+11",
     (0.0003143323853, 0.003692819541, 0.000242123781, 0.00304769554, -0.002362617765, 0.00036267889)),
    ("nmos level=2 kp=0.000115116 lambda=0.0689679 gamma=0.56654 tpg=-1 pb=0.670041 delta=0.370158 "
     "xj=1.61297e-07 uexp=0.35676 neff=3.76162",
     (0.0001248405936, 0.001590941419, 0.0002193835938, 0.001243683949, -0.001055228389, 0.0002080979874)),
    ("nmos level=2 kp=8.95225e-05 lambda=0.0246992 nsub=4.21251e+15 nss=3.24224e+09 tnom=1.75225 "
     "delta=0.465267 vmax=264958 nfs=5.37293e+10 neff=4.54949",
     (0.000144840817, 0.001046486242, 1.501395481e-07, 0.001078910296, -0.000701422911, 6.934057598e-05)),
    ("pmos level=2 kp=8.83038e-05 vto=-0.918879 gamma=0.494615 phi=0.605339 tox=7.84893e-08 uo=242.362 "
     "nsub=1.40019e+14 ld=5.72432e-08 pb=0.792596 uexp=0.182753 ucrit=11738.9 neff=1.10093",
     (0.0001577734597, 0.001246550568, 5.466445659e-20, 0.001585995213, -0.001176850152, 7.428404483e-21)),
    ("pmos level=2 kp=0.000108085 gamma=0.827954 phi=0.751044 tpg=-1 nss=1.71519e+10 delta=0.791043 "
     "vmax=163480 nfs=1.01833e+11 ucrit=68182.3 neff=2.84609",
     (0.0002477898244, 0.002261399096, 0.0001513270705, 0.002245987996, -0.001738863804, 0.0002420258922)),
    ("pmos level=3 vto=-0.644691 uo=521.195 pb=0.50263 tnom=51.9327 delta=1.1893 vmax=288153 xj=1.872e-07 "
     "nfs=3.05633e+10 theta=0.101397 delvto=0.118904",
     (2.983728213e-05, 0.0002546622809, 1.472595901e-05, 0.0003252998952, -0.0002664737447, 2.171129252e-07)),
    ("nmos level=3 kp=0.000140431 vto=0.57868 tpg=0 ld=9.51744e-08 delta=0.327683 kappa=0.938931 "
     "delvto=-0.136231",
     (0.0002935537813, 0.003084422556, 0.00022523378, 0.003709001909, -0.002980808052, 2.031229558e-05)),
    ("nmos level=3 kp=0.000116691 gamma=0.498734 tox=1.66496e-08 uo=356.645 nfs=1.41903e+10 eta=0.113976 "
     "kappa=0.505572 wd=5.34241e-08 xl=-6.63644e-08",
     (0.0002776663051, 0.003121632965, 0.0003219298218, 0.002891656984, -0.002328388792, 0.0002371053603)),
    ("pmos level=3 kp=0.000124413 phi=0.735681 tox=8.00942e-08 uo=760.28 nsub=1.27056e+16 tpg=-1 "
     "ld=3.40761e-08 delta=0.400065 vmax=51560 xj=2.12916e-07 nfs=8.78966e+11 delvto=-0.050729 "
     "wd=5.58979e-07 xl=-5.63801e-08",
     (3.421963133e-05, 5.719165606e-05, 5.778745262e-12, 7.004479153e-05, -1.357801488e-06, 2.487612394e-10)),
    ("pmos level=3 vto=-0.693027 tox=8.95234e-08 nsub=2.76535e+16 tpg=-1 nss=2.73852e+09 ld=8.13372e-08 "
     "eta=0.0774677 theta=0.0116662 xl=-6.59295e-08",
     (4.247528512e-05, 0.0002832958953, 1.082406572e-29, 7.358718772e-05, -1.46763064e-05, 9.846268976e-06)),
    ("pmos level=3 gamma=0.664859 phi=0.620237 tox=4.0315e-08 uo=584.948 nsub=2.73564e+15 tpg=0 "
     "nss=2.66969e+09 ld=1.17937e-07 delta=0.331933 kappa=0.352657",
     (5.431513017e-05, 0.0003893631082, 1.082406572e-29, 0.0005268920244, -0.0002764812486, 8.524031843e-30)),
    ("pmos level=3 vto=-0.681025 gamma=0.110523 phi=0.659178 tox=4.66076e-08 nsub=7.81652e+15 tpg=0 "
     "nss=4.10024e+09 vmax=139856 theta=0.120588 kappa=0.65255 delvto=0.187151",
     (6.505382058e-05, 0.0005340310198, 4.07736662e-05, 0.0006501129755, -0.0005367819771, 3.787321874e-06)),
]  # fmt: skip
NAMES = [f"{card.split()[1]} {k}" for k, (card, _) in enumerate(CARDS)]


def channel(card: str):
    """The law of a transistor, its numbers, and the sign of its voltages."""
    lines = "V1 d 0 1\nV2 g 0 1\nRD d x 1\nM1 x g 0 0 c W=20u L=2u\n"
    netlist = read(f"title\n{lines}.model c {card} is=1e-30\n.temp 40\n.options noise=off\n").network.netlist
    (element,) = (e for e in netlist.elements if e.name == "m1")
    numbers = {key: np.array([value]) for key, value in element.value.items()}
    return element.law, Numbers(numbers, netlist.kelvin), element.value["sign"]


@pytest.mark.parametrize(("card", "expected"), CARDS, ids=NAMES)
def test_the_current_is_that_of_ngspice(card, expected):
    law, numbers, sign = channel(card)
    found = law.value(tuple(sign * BIAS.T), numbers, np) * sign
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-18)  # ngspice has rounded constants of nature


@pytest.mark.parametrize("level", [2, 3])
def test_slopes_and_noise_are_those_of_the_current(level):
    """Printed programs and dual numbers agree with numpy, and white noise is 2kT (2/3) g_m."""
    card = f"nmos level={level} vto=0.5 tox=30n nsub=1e16 xj=0.2u vmax=1e5 nfs=1e11 delta=0.3 theta=0.1"
    law, numbers, _ = channel(card.replace("theta=0.1", "") if level == 2 else card)
    made = AtPoints(lambda v: law.value(tuple(v[:, None]), numbers, jnp))
    np.testing.assert_allclose(made(BIAS)[:, 0], law.value(tuple(BIAS.T), numbers, np), rtol=1e-12)
    _, slopes = dual.slopes(lambda v, xp: law.value(v, numbers, xp), tuple(BIAS.T))
    for k in range(3):
        step = 1e-6 * np.eye(3)[k]
        high, low = (law.value(tuple((BIAS + side).T), numbers, np) for side in (step, -step))
        np.testing.assert_allclose(slopes[k], (high - low) / 2e-6, rtol=1e-4, atol=1e-10)
    white = law.noise(tuple(BIAS.T), numbers, np)
    np.testing.assert_allclose(white, 2 * BOLTZMANN * 313.15 * (2 / 3) * (np.abs(slopes[0]) + 1e-12), rtol=1e-12)
    _, rises = dual.slopes(lambda v, xp: law.noise(v, numbers, xp), tuple(BIAS.T))
    step = np.array([1e-4, 0.0, 0.0])
    high, low = (law.noise(tuple((BIAS[:4] + side).T), numbers, np) for side in (step, -step))
    np.testing.assert_allclose(rises[0][:4], (high - low) / 2e-4, rtol=1e-3, atol=1e-26)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_small_signals_see_the_oxide_of_the_gate(level):
    """In saturation 2/3 of ε W L/TOX between gate and source; levels 2 and 3 have an oxide without TOX, of 0.1 µm."""
    tox = "tox=100n" if level == 1 else ""
    circuit = read(
        f"title\nV1 in 0 2 AC 1\nR1 in g 1meg\nV2 d 0 5\nRD d x 1\nM1 x g 0 0 c W=20u L=2u\n.model c nmos "
        f"level={level} vto=0.5 {tox}\n"
    )
    f = np.array([1e6])
    response = circuit.small_signal.response(f)[0, circuit.names.index("g")]
    oxide = 3.9 * 8.854214871e-12 / 1e-7 * 40e-12
    assert (1 / response - 1).imag / (2e6 * np.pi * 1e6) == pytest.approx(oxide * 2 / 3, rel=1e-4)


def test_parameters_of_other_levels_are_left_out_with_a_warning():
    text = "title\nV1 d 0 1\nRD d x 1\nM1 x d 0 0 c\n.model c nmos level={} {}\n"
    with pytest.warns(UserWarning, match=r"left out unknown parameters of models: c: theta \(of another level\)"):
        read(text.format(1, "theta=0.1"))
    with pytest.warns(UserWarning, match=r"uexp \(of another level\)"):
        read(text.format(3, "uexp=0.1"))


REFUSED = [("level=8", "BSIM3, but only levels 1, 2, 3"), ("level=2 nlev=3", "level 1"), ("level=3 alpha=1", "level 1")]


@pytest.mark.parametrize(("card", "words"), REFUSED)
def test_what_is_not_implemented_is_refused_by_name(card, words):
    with pytest.raises(NetlistError, match=f"line 5: .model c: .*{words}"):
        read(f"title\nV1 d 0 1\nRD d x 1\nM1 x d 0 0 c\n.model c nmos {card}\n")


def test_every_level_is_among_the_channels():
    assert all(level.law in mosfet.CHANNELS for level in mosfet.CHANNEL_OF.values())
