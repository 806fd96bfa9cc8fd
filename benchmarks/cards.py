"""Random model cards beside ngspice: parameters of diodes, bipolar, MOS and power transistors, each given or not.

python benchmarks/cards.py [--count 200] [--seed 1] [--kind d|q|m|2|3|v]    2, 3: MOS transistors of these levels

All devices of a kind stand in one netlist, each with its own card and its own resistors, and ngspice must be installed.
Printed are the largest differences of the operating point and of .ac, and the cards that have them. For levels 2 and 3,
whose conductances in ngspice are not everywhere the slopes of its current, .ac at 1 kHz is compared with ngspice's own
operating points as well, at sources 0.1 mV higher and lower; cards that it does not solve alone are left out.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np

from stodyn.circuits import read

SHOWN = 8  # the worst cards of each comparison
FREQUENCIES = (1e3, 1e5, 1e7)
CARDS = {
    "d": {
        "is": (1e-16, 1e-10), "n": (1.0, 2.0), "rs": (0.1, 100.0), "cjo": (1e-13, 1e-10), "vj": (0.5, 1.0),
        "m": (0.2, 0.6), "tt": (1e-10, 1e-8), "bv": (3.0, 30.0), "ibv": (1e-6, 1e-2), "nbv": (1.0, 3.0),
        "fc": (0.2, 0.8), "eg": (0.7, 1.3), "xti": (2.0, 4.0), "tnom": (0.0, 60.0), "ikf": (1e-4, 1.0),
        "isr": (1e-12, 1e-8), "nr": (1.6, 2.4), "trs1": (0.0, 5e-3),
    },
    "q": {
        "is": (1e-17, 1e-13), "bf": (20.0, 400.0), "br": (0.5, 10.0), "nf": (0.95, 1.1), "nr": (0.95, 1.1),
        "vaf": (20.0, 200.0), "var": (5.0, 50.0), "ikf": (1e-3, 0.3), "ikr": (1e-3, 0.3), "ise": (1e-16, 1e-13),
        "ne": (1.3, 2.0), "isc": (1e-16, 1e-13), "nc": (1.3, 2.0), "rb": (1.0, 300.0), "rc": (0.1, 30.0),
        "re": (0.1, 3.0), "cje": (1e-13, 1e-11), "vje": (0.5, 0.9), "mje": (0.2, 0.5), "cjc": (1e-13, 1e-11),
        "vjc": (0.5, 0.9), "mjc": (0.2, 0.5), "xcjc": (0.1, 1.0), "fc": (0.2, 0.8), "tf": (1e-11, 1e-9),
        "tr": (1e-9, 1e-7), "cjs": (1e-13, 1e-11), "eg": (1.0, 1.3), "xti": (2.0, 4.0), "xtb": (0.0, 2.0),
        "tnom": (0.0, 60.0), "xtf": (0.5, 20.0), "itf": (1e-3, 0.3), "vtf": (1.0, 10.0), "rbm": (0.1, 1.0),
        "irb": (1e-6, 1e-3), "vjs": (0.4, 0.9), "mjs": (0.2, 0.5),
    },
    "m": {
        "kp": (1e-5, 2e-4), "vto": (0.3, 1.2), "lambda": (0.005, 0.1), "gamma": (0.1, 1.0), "phi": (0.4, 0.8),
        "tox": (1e-8, 1e-7), "uo": (200.0, 800.0), "nsub": (1e14, 1e17), "tpg": (-1.0, 1.0), "nss": (1e9, 1e11),
        "ld": (1e-8, 2e-7), "rd": (1.0, 100.0), "rs": (1.0, 100.0), "rsh": (1.0, 50.0), "cgso": (1e-11, 1e-9),
        "cgdo": (1e-11, 1e-9), "cgbo": (1e-11, 1e-9), "js": (1e-9, 1e-6), "cbd": (1e-15, 1e-13),
        "cbs": (1e-15, 1e-13), "cj": (1e-5, 1e-3), "mj": (0.3, 0.6), "cjsw": (1e-11, 1e-9), "mjsw": (0.2, 0.5),
        "pb": (0.5, 1.0), "fc": (0.2, 0.8), "tnom": (0.0, 60.0),
    },
    "v": {
        "kp": (1.0, 50.0), "vto": (0.5, 3.0), "lambda": (0.001, 0.05), "theta": (0.01, 0.3), "mtriode": (0.5, 2.0),
        "ksubthres": (0.02, 0.2), "rd": (1e-3, 1.0), "rg": (0.5, 20.0), "rs": (1e-3, 0.3), "rds": (1e5, 1e8),
        "cgs": (1e-10, 3e-9), "cgdmin": (1e-11, 1e-10), "cgdmax": (2e-10, 3e-9), "a": (0.2, 2.0),
        "is": (1e-14, 1e-9), "n": (1.0, 1.8), "cjo": (1e-10, 2e-9), "vj": (0.5, 1.0), "m": (0.3, 0.6),
        "bv": (8.0, 60.0), "ibv": (1e-6, 1e-3), "rb": (1e-3, 0.1), "tt": (1e-9, 1e-7), "tnom": (0.0, 60.0),
        "mu": (-2.0, -1.0), "tcvth": (0.0, 5e-3), "texp0": (0.5, 2.0), "trs1": (0.0, 5e-3), "tksubthres1": (0.0, 1e-3),
    },
}  # fmt: skip
OF_LEVEL = {
    "2": {"uexp": (0.05, 0.4), "ucrit": (3e3, 1e5), "neff": (1.0, 5.0)},
    "3": {"eta": (0.05, 2.0), "theta": (0.01, 0.3), "kappa": (0.05, 1.0), "delvto": (-0.2, 0.2), "wd": (1e-8, 1e-6),
          "xl": (-1e-7, 1e-7)},
}  # fmt: skip
for level, own in OF_LEVEL.items():
    both = {"delta": (0.1, 3.0), "vmax": (2e4, 3e5), "xj": (1e-7, 5e-7), "nfs": (1e10, 1e12)}
    left = {name: limits for name, limits in CARDS["m"].items() if name != "lambda" or level == "2"}
    CARDS[level] = {**left, **both, **own}
WHOLE = {"tpg"}  # parameters that are -1, 0 or 1
TYPES = {
    "d": ("d",),
    "q": ("npn", "pnp"),
    "m": ("nmos", "pmos"),
    "2": ("nmos", "pmos"),
    "3": ("nmos", "pmos"),
    "v": ("vdmos", "vdmosp"),
}


HEAD = "Random cards\nVP pos 0 12 AC 1\nVN neg 0 -12 AC 1\nVG gp 0 2.5 AC 1\nVH gn 0 -2.5 AC 1\nVI in 0 0 AC 1\n"
MOVED = 1e-4  # V


def card(kind: str, k: int, rng: np.random.Generator) -> tuple[str, str]:
    """The .model of the k-th device and the lines of the device with its resistors, observed at the node o<k>."""
    model, sign = rng.choice(TYPES[kind]), 1.0
    chosen = [name for name in CARDS[kind] if rng.random() < 0.5]
    if model in ("pnp", "pmos", "vdmosp"):
        sign = -1.0
    numbers = {}
    for name in chosen:
        low, high = CARDS[kind][name]
        value = float(rng.integers(-1, 2)) if name in WHOLE else low + (high - low) * rng.random()
        if low > 0.0 and high / low > 20.0:
            value = float(low * (high / low) ** rng.random())
        numbers[name] = sign * value if name == "vto" else value
    if kind == "q" and "rb" not in numbers:  # ngspice does not solve circuits with RBM above RB
        numbers = {name: value for name, value in numbers.items() if name not in ("rbm", "irb")}
    level = f"level={kind} " if kind in OF_LEVEL else ""
    text = f".model card{k} {model} {level}{' '.join(f'{name}={value:.6g}' for name, value in numbers.items())}\n"
    supply = {1.0: "pos", -1.0: "neg"}[sign]
    bias = 10.0 ** rng.uniform(3.5, 5.0)
    if kind == "d":
        ends = rng.choice(["pos", "neg"])  # forward, or into the breakdown
        return text, f"R{k} {ends} o{k} {bias:.6g}\nD{k} o{k} 0 card{k} {rng.choice(['', 'area=2.5'])}\n"
    if kind == "q":
        lines = f"RB{k} {supply} b{k} {20 * bias:.6g}\nCB{k} in b{k} 1u\nRC{k} {supply} o{k} {bias / 10:.6g}\n"
        return text, lines + f"Q{k} o{k} b{k} 0 card{k} {rng.choice(['', 'm=3'])}\n"
    gate = {1.0: "gp", -1.0: "gn"}[sign]
    if kind == "v":
        power = rng.choice([supply, {1.0: "neg", -1.0: "pos"}[sign]], p=[0.8, 0.2])  # or through the body diode
        text = text.replace(f" {model} ", " vdmos nchan " if sign > 0.0 else " vdmos pchan ")
        lines = f"RG{k} {gate} g{k} 50\nRD{k} {power} o{k} {bias / 1000:.6g}\n"
        return text, lines + f"M{k} o{k} g{k} 0 card{k}\n"
    body = {1.0: "neg", -1.0: "pos"}[sign] if rng.random() < 0.5 else "0"
    sizes = "W=20u L=2u AD=100p AS=80p PD=50u PS=40u NRD=2 NRS=3"
    lines = f"RD{k} {supply} o{k} {bias:.6g}\nM{k} o{k} {gate} 0 {body} card{k} {sizes}\n"
    return text, lines


def netlist(kind: str, count: int, seed: int) -> tuple[str, list[str], list[str]]:
    """The netlist, the nodes that are compared, and the cards."""
    rng = np.random.default_rng(seed)
    drawn = dict(enumerate(card(kind, k, rng) for k in range(count)))
    if kind in OF_LEVEL:
        drawn = {k: pair for k, pair in drawn.items() if is_solved(HEAD + "".join(pair), f"o{k}")}
        print(f"{kind}: {count - len(drawn)} of {count} cards without an answer of ngspice")
    text = HEAD + "".join(model + lines for model, lines in drawn.values()) + ".temp 27\n"
    return text, [f"o{k}" for k in drawn], [model.strip() for model, _ in drawn.values()]


def is_solved(text: str, node: str) -> bool:
    """Whether ngspice finds an operating point within 2 s."""
    try:
        return bool(np.isfinite(peer(text, [node], 2.0)[0]).all())
    except (SystemExit, subprocess.TimeoutExpired, ValueError, OSError):
        return False


def peers(text: str, nodes: list[str], longest: float = 600.0) -> tuple[np.ndarray, np.ndarray]:
    """As `peer`, but with a run for each device: ngspice does not solve many of level 2 together."""
    head, *own = re.split(r"^(?=\.model)", text.removesuffix(".temp 27\n"), flags=re.MULTILINE)
    answers = [peer(f"{head}{lines}.temp 27\n", [node], longest) for lines, node in zip(own, nodes, strict=True)]
    return np.concatenate([point for point, _ in answers]), np.concatenate([swept for _, swept in answers], axis=1)


def moved(text: str, by: float) -> str:
    """The netlist with all its sources moved by a voltage."""
    for line in HEAD.splitlines()[1:-1]:
        name, node, _, value, *rest = line.split()
        text = text.replace(line, f"{name} {node} 0 {float(value) + by!r} {' '.join(rest)}")
    return text


def peer(text: str, nodes: list[str], longest: float = 600.0) -> tuple[np.ndarray, np.ndarray]:
    """The operating point and .ac (frequencies, nodes) by ngspice."""
    with tempfile.TemporaryDirectory() as folder:
        file, lines = Path(folder) / "cards.cir", []
        for k, f in enumerate(FREQUENCIES):
            lines.append(f"ac lin 1 {f:g} {f:g}\nwrdata ac{k}.data {' '.join(f'v({n})' for n in nodes)}")
        asked = "op\nwrdata op.data " + " ".join(f"v({n})" for n in nodes)
        control = "\n".join(["set wr_singlescale", "set numdgt=12", asked, *lines])
        file.write_text(f"{text}.options reltol=1e-9 abstol=1e-16 vntol=1e-12 gmin=1e-15\n.control\n{control}\nquit\n"
                        ".endc\n.end\n")  # fmt: skip
        done = subprocess.run(["ngspice", "-b", str(file)], cwd=folder, capture_output=True, text=True, timeout=longest)
        if not (Path(folder) / "ac0.data").exists():
            raise SystemExit(done.stdout[-3000:] + done.stderr[-3000:])
        point = np.loadtxt(Path(folder) / "op.data").ravel()[1:]
        swept = [np.loadtxt(Path(folder) / f"ac{k}.data").ravel()[1:] for k in range(len(FREQUENCIES))]
    return point, np.array([row[::2] + 1j * row[1::2] for row in swept])


def ours(text: str, nodes: list[str]) -> tuple[np.ndarray, np.ndarray]:
    circuit = read(text + ".options noise=off\n")
    place = [circuit.names.index(node) for node in nodes]
    response = circuit.response(np.array(FREQUENCIES))
    return circuit.operating_point.x[place], np.array([response[node] for node in nodes]).T


def show(title: str, off: np.ndarray, cards: list[str], theirs: np.ndarray, own: np.ndarray) -> None:
    order = np.argsort(off)[::-1]
    print(f"{title}: median {np.median(off):.1e}, largest {off[order[0]]:.1e}, {np.sum(off > 1e-5)} above 1e-5")
    for k in order[:SHOWN]:
        if off[k] > 1e-6:
            print(f"   {off[k]:.1e}  ngspice {theirs[k]:.8g}  stodyn {own[k]:.8g}  {cards[k]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=sorted(CARDS))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for kind in CARDS if asked.kind is None else asked.kind:
        text, nodes, cards = netlist(kind, asked.count, asked.seed)
        asked_of = peers if kind in OF_LEVEL else peer
        (point, swept), (own, own_swept) = asked_of(text, nodes), ours(text, nodes)
        show(f"{kind}, operating point", np.abs(own - point) / np.maximum(np.abs(point), 0.1), cards, point, own)
        off = np.abs(own_swept - swept) / np.maximum(np.abs(swept), 1e-3)
        worst = np.argmax(off, axis=0), np.arange(len(nodes))
        show(f"{kind}, .ac", off.max(axis=0), cards, np.abs(swept)[worst], np.abs(own_swept)[worst])
        if kind in OF_LEVEL:
            slopes = (peers(moved(text, MOVED), nodes)[0] - peers(moved(text, -MOVED), nodes)[0]) / (2.0 * MOVED)
            for name, found in (("ngspice", swept), ("stodyn", own_swept)):
                off = np.abs(found[0].real - slopes) / np.maximum(np.abs(slopes), 1e-2)
                show(f"{kind}, .ac of {name} beside the slopes of ngspice", off, cards, slopes, found[0].real)


if __name__ == "__main__":
    main()
