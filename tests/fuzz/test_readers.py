"""Mutated netlists, run files, ledgers and matrices: a result or an error in words, no import, no file outside.

NetCDF files are not among them: the HDF5 library, which reads them, is not made for this (docs/security.md).

1000 of each kind in CI, or 100, the same ones every time; `make fuzz` makes 100 000 new ones.
"""

import contextlib
import hashlib
import json
import os
import random
import signal
import sys
import sysconfig
import traceback
from pathlib import Path

import numpy as np
import pytest
import typer

import stodyn
from stodyn import circuits, load, runfile, simulate
from stodyn.circuits.netlist import laid_out, read_deck
from stodyn.cli.allan import read_columns
from stodyn.cli.covariance import read_system
from stodyn.engine.record import ledger, plain
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck
from stodyn.noise import inertial

FULL = bool(os.environ.get("STODYN_FUZZ"))
COUNT = 100_000 if FULL else 1000
FEWER = COUNT if FULL else 100  # of what is read slowly
SECONDS = 5
HOME = str(Path(stodyn.__file__).parent)
OWN = (ValueError, TypeError, MemoryError, OSError, typer.BadParameter)
CODE = [HOME, *filter(None, sys.path), *sysconfig.get_paths().values(), "/proc", "/sys", "/dev/null"]
FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class", "socket.connect")
TOKENS = [
    b"os:system", b"stranger:energy", b"../../", b"/etc/passwd", b"1e999", b"-1", b"[" * 200, b"{" * 200, b'"', b"\n",
    b"9" * 30, b"\x00", b"nan", b".include ", b"{a.b}", b"\xff\xfe", b"()", b"=", b"'", b"module", b"|O8", b"#",
]  # fmt: skip
RUN = """model = {name = "stranger:problem", parameters = {rate = 0.5}}
method = {name = "EulerMaruyama"}
grid = {t = [0, 1], dt = 0.25}
run = {paths = 5, seed = 1, block = 8, ledger = "runs"}
collect = [{statistic = "Moments", every = 1}, {statistic = "Observable", function = "stranger:energy"}]
stop = [{level = 1.0, of = "x", direction = "up"}]
place = {kind = "threads", workers = 2}
output = {netcdf = "out.nc", csv = "tables"}
"""
ESTIMATE = """model = {name = "ornstein_uhlenbeck"}
estimate = {t = [0, 1], error = 0.1, seed = 1, function = "stranger:energy", functional = "TimeAverage"}
"""
FIT = """model = {name = "ornstein_uhlenbeck"}
data = {file = "record.csv", time = "time"}
sensors.gauge = {of = "x", noise = {density = 0.1, sides = 2}, every = 0.1, unit = "m", range = [-1, 1]}
free = {rate = [0, inf], sigma = {prior = "LogNormal", mu = 0, sigma = 1}}
fit = {t0 = 0, profile = true, seed = 1}
"""
RECORD = b"time,gauge [m]\n0,0.5\n0.1,\n0.2,-2.5e-1\n"
DATED = b"time,gauge\n2024-05-01T12:00:00Z,0.5\n2024-05-01T13:00:01+01:00,0.25\n"
NOISE = (
    'noise = {name = "gyro", parameters = {arw = "0.3 deg/sqrt(h)", turn_on = 0.1}}\nexport = {dt = 0.01, seed = 1}\n'
)
DENSITY = NOISE.replace('arw = "0.3 deg/sqrt(h)"', 'arw = {density = "8 mdeg/s/sqrt(Hz)", sides = 1}')
KALIBR = b"""gyroscope_noise_density: 0.0002  # rad/s/sqrt(Hz)
gyroscope_random_walk: 4e-06
accelerometer_noise_density: 0.002
accelerometer_random_walk: 3e-3
update_rate: 200.0
"""
RARE = 'model = {name = "kubo"}\nrare = {event = {level = 2.0}, before = [1.0], dt = 0.25, seed = 1, score = "index"}\n'


class Watch:
    """What happens while a file is read: an audit hook cannot be taken off, so this one looks only when it is asked."""

    def __init__(self):
        self.folder: str | None = None
        self.faults: list[str] = []
        sys.addaudithook(self.see)

    def see(self, event, arguments):
        if self.folder is None:
            return
        if event in FORBIDDEN:
            self.faults.append(f"{event} {arguments}")
        if event == "open" and isinstance(arguments[0], (str, bytes)):
            file = os.path.realpath(os.fsdecode(arguments[0]))
            if not file.startswith((self.folder, *CODE)):
                self.faults.append(f"open {file}")

    @contextlib.contextmanager
    def looking(self, folder):
        self.folder, self.faults = os.path.realpath(folder), []
        packages = {name.partition(".")[0] for name in sys.modules}
        try:
            yield
        finally:
            self.folder = None
        assert not self.faults
        new = {name.partition(".")[0] for name in sys.modules} - packages
        public = {name for name in new if not name.startswith("_")}  # others are parts of packages that are known
        assert not public - sys.stdlib_module_names  # Python imports some of its own when they are first needed


WATCH = Watch()


@pytest.fixture(scope="module", autouse=True)
def hang():
    def heard(*_):
        raise AssertionError(f"a file was read for more than {SECONDS} s of processor time")

    before = signal.signal(signal.SIGVTALRM, heard)
    yield
    signal.signal(signal.SIGVTALRM, before)


def mutated(seeds, draw):
    """One of the seeds after a few changes: bytes, cuts, copies, words with a meaning, and parts of another seed."""
    data = bytearray(draw.choice(seeds))
    for _ in range(draw.randint(1, 4)):
        at, length = draw.randrange(len(data) + 1), draw.randint(1, 40)
        match draw.randrange(6):
            case 0:
                data[at : at + 1] = bytes([draw.randrange(256)])
            case 1:
                del data[at : at + length]
            case 2:
                data[at:at] = data[at : at + length]
            case 3:
                data[at:at] = draw.choice(TOKENS)
            case 4:
                data[at : at + length] = draw.choice(TOKENS)
            case 5:
                other = draw.choice(seeds)
                data[at : at + length] = other[at : at + length]
    return bytes(data)


def attempted(read, *arguments):
    """Read within some seconds; an error is one of ours, in words."""
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        read(*arguments)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        if not (last.filename.startswith(HOME) and isinstance(error, OWN) and len(str(error)) > 8):
            raise AssertionError(f"a raw {type(error).__name__} from {last.filename}:{last.lineno}") from error
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def fuzz(folder, seeds, read, count=COUNT):
    """read(mutated bytes), after each of the seeds as it is."""
    draw = random.Random(None if FULL else 1)
    for seed in seeds:
        attempted(read, seed)
    with WATCH.looking(folder):
        for _ in range(count):
            data = mutated(seeds, draw)
            try:
                attempted(read, data)
            except AssertionError as error:
                raise AssertionError(f"{error}, for {data!r}") from error


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """A ledger with its result, of a run that a file described."""
    folder = tmp_path_factory.mktemp("ledgers") / "complete"
    text = 'model = {name = "ornstein_uhlenbeck"}\ngrid = {t = [0, 1], dt = 0.5}\nrun = {paths = 8, seed = 1}\n'
    described = ledger.DescribedLedger(folder, f"{runfile.HOME}{folder.parent}\n{text}")
    run = simulate(ornstein_uhlenbeck(), "EulerMaruyama", t=(0, 1), dt=0.5, paths=8, seed=1, ledger=described)
    return folder, run


def test_mutated_netlists_are_read_or_refused_in_words(tmp_path):
    seeds = [path.read_bytes() for _, path in sorted(circuits.examples().items())][:8]
    seeds.append(
        b"t\n.include /etc/passwd\n.func f(x) {x*x}\n.param a={f(2)+gauss(1,.1)}\nR1 a 0 {a}\nV1 a 0 1\n.end\n"
    )
    file = tmp_path / "fuzzed.cir"

    def read(data):
        file.write_bytes(data)
        laid_out(read_deck(file))

    fuzz(tmp_path, seeds, read)


def test_mutated_run_files_are_read_or_refused_and_import_nothing(tmp_path):
    (tmp_path / "stranger.py").write_text("raise SystemExit('imported')")
    seeds = [RUN.encode(), RUN.replace("stranger:problem", "ornstein_uhlenbeck").encode(), RARE.encode()]
    seeds.append(b'model = {name = "kubo"}\ngrid = {t = [0, 1], dt = 0.25}\nrun = {paths = 5, seed = 1}\n')
    file = tmp_path / "fuzzed.toml"

    def read(data):
        file.write_bytes(data)
        runfile.read(file)

    fuzz(tmp_path, seeds, read)
    assert {path.name for path in tmp_path.iterdir()} == {"stranger.py", "fuzzed.toml"}


@pytest.mark.parametrize(("read_file", "texts"), [
    (runfile.read_estimate, [ESTIMATE, ESTIMATE.replace("stranger:energy", "math:fsum")]), (runfile.read_fit, [FIT]),
    (runfile.read_export, [NOISE, DENSITY, NOISE.replace("gyro", "stranger:white")]),
], ids=["estimate", "fit", "export"])  # fmt: skip
def test_mutated_files_of_the_other_commands_import_nothing(read_file, texts, tmp_path):
    (tmp_path / "stranger.py").write_text("raise SystemExit('imported')")
    (tmp_path / "record.csv").write_bytes(RECORD)
    file = tmp_path / "fuzzed.toml"

    def read(data):
        file.write_bytes(data)
        read_file(file, ["math"])

    fuzz(tmp_path, [text.encode() for text in texts], read, FEWER)
    assert {path.name for path in tmp_path.iterdir()} == {"stranger.py", "record.csv", "fuzzed.toml"}


def test_mutated_records_are_read_or_refused_in_words(tmp_path):
    """Those of `stodyn fit`, and those of `stodyn allan`."""
    (tmp_path / "file.toml").write_text(FIT)

    def fitted(data):
        (tmp_path / "record.csv").write_bytes(data)
        runfile.read_fit(tmp_path / "file.toml")

    fuzz(tmp_path, [RECORD, DATED], fitted, FEWER)
    np.save(tmp_path / "seed.npy", np.arange(6.0).reshape(3, 2))
    arrays = [(tmp_path / "seed.npy").read_bytes()]
    for ending, seeds in ((".csv", [b"rate,x\n0.5,1e3\n-2,nan\n", b"# words\n1 2\n3 4\n"]), (".npy", arrays)):
        file = tmp_path / f"fuzzed{ending}"

        def averaged(data, file=file):
            file.write_bytes(data)
            read_columns(file)

        fuzz(tmp_path, seeds, averaged, FEWER)


def test_mutated_lines_of_an_imu_are_read_or_refused_in_words(tmp_path):
    file = tmp_path / "imu.yaml"

    def read(data):
        file.write_bytes(data)
        inertial.from_kalibr(file)

    fuzz(tmp_path, [KALIBR], read, FEWER)


def sealed_manifest(data):
    with contextlib.suppress(ValueError, RecursionError, AttributeError):
        content = json.loads(data)
        content.pop("checksum", None)
        return json.dumps({**content, "checksum": ledger._checksum(content)}).encode()
    return data


def sealed_record(data):
    return data[: -plain.DIGEST] + hashlib.sha256(data[: -plain.DIGEST]).digest()


@pytest.mark.parametrize(("name", "sealed"), [
    ("manifest.json", sealed_manifest), ("result.record", sealed_record), ("run.toml", bytes),
])  # fmt: skip
def test_mutated_ledgers_are_read_or_refused_in_words(name, sealed, complete):
    """Their checksums fit: those that do not are noticed at once."""
    folder, _ = complete
    whole = (folder / name).read_bytes()

    def read(data):
        (folder / name).write_bytes(sealed(data))
        if name == "run.toml":
            runfile.resumed(folder)
        else:
            ledger.status(folder)
            load(folder)

    try:
        fuzz(folder, [whole], read)
    finally:
        (folder / name).write_bytes(whole)


def test_mutated_matrices_are_read_or_refused_in_words(tmp_path):
    np.savez(tmp_path / "seed.npz", A=np.eye(2), B=np.ones((2, 1)))
    np.savez_compressed(tmp_path / "small.npz", A=np.eye(2), B=np.ones((2, 1)))
    archives = [(tmp_path / name).read_bytes() for name in ("seed.npz", "small.npz")]
    for ending, seeds in ((".npz", archives), (".json", [b'{"A": [[-1.0]], "B": [[1.0]], "Q": [[2.5e-1]]}'])):
        file = tmp_path / f"fuzzed{ending}"

        def read(data, file=file):
            file.write_bytes(data)
            read_system(file)

        fuzz(tmp_path, seeds, read)
