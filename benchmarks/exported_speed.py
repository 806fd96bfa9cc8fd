"""What exported models cost: a step in C, a step of a unit, files and the time to write them.

    python benchmarks/exported_speed.py [compiler ...]

Times are processor time, the least of several runs in one process; on a busy machine they are good for ratios alone. A
step of the vector program is that of `simulate`, per path, from runs of two lengths.
"""

import ctypes
import math
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import stodyn as sd

STEPS, RUNS, DT, PATHS = 200_000, 5, 0.01, 20_000
MAIN = """#include "model.h"
#include <math.h>
double model_many(long count, double u)
{
    model_state s;
    double out[MODEL_OUTPUTS];
    model_begin(&s, 7, 0, 0);
    for (long k = 0; k < count; k++)
        if (model_step(&s, &u, out)) return NAN;
    return out[0];
}
"""


def plant():
    """Two coupled pendulums: four states, two sines."""

    def drift(t, x, p):
        a, b, va, vb = x
        pull = 0.5 * (a - b)
        return jnp.array([va, vb, -2 * jnp.sin(a) - pull - 0.1 * va + p["u"], -jnp.sin(b) + pull - 0.1 * vb])

    noise = np.array([[0.0, 0.0], [0.0, 0.0], [0.3, 0.0], [0.0, 0.2]])
    return sd.SDE(drift, lambda t, x: noise + 0 * x[0], start=[1.0, 0.0, 0.0, 0.0], params={"u": 0.0})


def least(function):
    """The least time of some calls, in seconds."""
    times = []
    for _ in range(RUNS):
        begin = time.process_time()
        function()
        times.append(time.process_time() - begin)
    return min(times)


def in_c(folder, problem, method, compiler, flags):
    """Nanoseconds of a step, all of it in C."""
    sd.export(problem, method, dt=DT, to=folder / "model.c", inputs=["u"])
    (folder / "main.c").write_text(MAIN)
    library = folder / f"{method}-{compiler}{''.join(flags)}.so"  # one name is opened once
    call = [compiler, "-std=c99", "-ffp-contract=off", *flags, "-shared", "-fPIC", "-o", library, "main.c", "model.c"]
    subprocess.run([*call, "-lm"], cwd=folder, check=True)
    many = ctypes.CDLL(library).model_many
    many.argtypes, many.restype = [ctypes.c_long, ctypes.c_double], ctypes.c_double
    if not math.isfinite(many(STEPS, 0.1)):
        raise RuntimeError(f"{method}: a step failed")
    return 1e9 * least(lambda: many(STEPS, 0.1)) / STEPS


def in_a_run(problem, method):
    """Nanoseconds of a step of one path among many."""

    def run(steps):
        sd.simulate(problem, method, t=(0, steps * DT), dt=DT, paths=PATHS, seed=1, progress=False,
                    place=sd.place.Threads(1))  # fmt: skip

    short, long = (least(lambda steps=steps: run(steps)) for steps in (20, 120))
    return 1e9 * (long - short) / (100 * PATHS)


def of_a_unit(file, folder):
    """Nanoseconds of doStep, called through ctypes, and of a call that does nothing."""
    with zipfile.ZipFile(file) as unit:
        unit.extractall(folder)
        token = unit.read("modelDescription.xml").decode().split('instantiationToken="')[1].split('"')[0]
    (library,) = (path for path in (folder / "binaries").rglob("*") if path.is_file())
    c, none = ctypes.CDLL(library), ctypes.c_void_p(None)
    c.fmi3InstantiateCoSimulation.restype = ctypes.c_void_p
    made = c.fmi3InstantiateCoSimulation(b"a", token.encode(), b"", False, False, False, False, none,
                                         ctypes.c_size_t(0), none, none, none)  # fmt: skip
    instance = ctypes.c_void_p(made)
    c.fmi3ExitInitializationMode(instance)
    flags, now = [ctypes.byref(ctypes.c_bool()) for _ in range(3)], ctypes.c_double(0.0)  # a step writes its end there
    arguments = [instance, now, ctypes.c_double(DT), True, *flags, ctypes.byref(now)]
    idle = [instance, now, ctypes.c_double(0.0), True, *flags, ctypes.byref(now)]

    def many(words):
        for _ in range(20_000):
            c.fmi3DoStep(*words)

    return tuple(1e9 * least(lambda words=words: many(words)) / 20_000 for words in (arguments, idle))


def main(compilers):
    problem = plant()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for method in ("EulerMaruyama", "Heun", "RK4", "ImplicitMidpoint"):
            begin = time.process_time()
            sd.export(problem, method, dt=DT, to=folder / "model.c", inputs=["u"])
            written = time.process_time() - begin
            size = (folder / "model.c").stat().st_size
            vector = in_a_run(problem, method)
            steps = ", ".join(
                f"{compiler} {' '.join(flags)} {in_c(folder, problem, method, compiler, flags):.0f} ns"
                for compiler in compilers
                for flags in (("-O2",), ("-O3",))
            )
            print(f"{method:16s} {size / 1000:.0f} kB in {written:.2f} s; a step {steps}; of a path in a run "
                  f"{vector:.1f} ns")  # fmt: skip
        for fmi in ("2.0", "3.0"):
            (file,) = sd.export(problem, "Heun", dt=DT, to=folder / f"unit{fmi[0]}.fmu", inputs=["u"], fmi=fmi)
            print(f"unit of FMI {fmi}: {file.stat().st_size / 1000:.0f} kB")
        step, idle = of_a_unit(folder / "unit3.fmu", folder / "unit")
        print(f"doStep by ctypes {step:.0f} ns, {idle:.0f} ns of which for a step of length 0")


if __name__ == "__main__":
    main(sys.argv[1:] or ["cc"])
