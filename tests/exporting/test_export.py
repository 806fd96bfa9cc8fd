"""Models exported as C and as FMUs: the bits of runs, whatever the method, the loop or the host."""

import ctypes
import platform
import shutil
import subprocess
import xml.etree.ElementTree as ET
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest
from exporting.compiled import COMPILER, DT, SEED, STEPS, Library, Unit, needs_compiler

import stodyn as sd
from stodyn import statistics as st
from stodyn import warnings
from stodyn.exporting import c_file, fmu, libraries
from stodyn.exporting.stepping import stepping
from stodyn.methods import catalogue as methods
from stodyn.methods.contract import Method
from stodyn.models import catalogue
from stodyn.models.noise_structures import general_noise

NATIVE = ("-march=native",) if platform.machine() in ("x86_64", "AMD64") else ()  # ARM's compilers fuse anyway


def pendulum(damping):
    return sd.SDE(
        lambda t, x, p: jnp.array([x[1], -p["k"] * jnp.sin(x[0]) - damping * x[1] + p["u"] * jnp.cos(t)]),
        lambda t, x, p: jnp.array([[0.0], [0.3]]) * jnp.exp(-(x[0] ** 2)),
        start=[1.0, 0.0],
        params={"k": 2.0, "u": 0.1},
        names=("x", "v"),
        units={"x": "rad"},
    )


PENDULUM = pendulum(0.1)
DAMPED = pendulum(1.0)  # what Euler's method gains does not show
ADDITIVE = sd.SDE(
    lambda t, x: -x + jnp.sin(t), lambda t, x: jnp.eye(2), start=sd.from_normals(lambda z: 0.7 * z[1:] + 0.1, 3)
)
INTEGRATOR = sd.SDE(
    lambda t, x, p: p["u"] + 0 * x, lambda t, x: jnp.ones((1, 1)), start=[0.0], params={"u": 0.0}, names=("x",)
)
LOOP = sd.with_loop(
    INTEGRATOR,
    sd.Sensor("y", of="x", every=0.1, noise=sd.per_sample(0.1), loss=0.2),
    sd.Part("law", every=0.1, delay=0.05, reads="y", writes="u",
            update=lambda t, own, seen, p: (own, -5.0 * seen["y"])),
)  # fmt: skip


GUSTS = sd.with_noise(ADDITIVE, sd.noise.coloured.gauss_markov2(1.0, 2.0, 0.3), into=[[1.0], [0.0]])
GUSTS = GUSTS.changed(start=sd.from_normals(lambda z: 0.7 * z, 4))
NORMAL = sd.linear([[-1.0, 1.0], [0.0, -2.0]], [[1.0], [1.0]], mean=[1.0, 2.0], covariance=[[2.0, 0.5], [0.5, 1.0]])


DRIVEN = sd.with_noise(
    sd.Mechanical(lambda t, x, v: -(x**3) - 0.1 * v, None, sd.from_normals(lambda z: jnp.array([1.0, z[0]]), 1),
                  names=["x"]),
    sd.noise.coloured.delayed(sd.noise.coloured.gauss_markov(1.0, 0.5), [0.0, 2 * DT], DT), into=[[1.0, 0.5]],
)  # fmt: skip


def with_start(loop, start):
    return sd.with_loop(loop.problem.changed(start=start), *loop.sensors, *loop.parts)


def of_model(name):
    return catalogue.catalogue()[name].problem


CASES = {
    "Heun": lambda: (PENDULUM, "Heun"),
    "EulerMaruyama": lambda: (DAMPED, "EulerMaruyama"),
    "ImplicitMidpoint": lambda: (PENDULUM, "ImplicitMidpoint"),
    "AB2": lambda: (PENDULUM, "AB2"),
    "DRI1": lambda: (PENDULUM, "DRI1"),
    "SRA1, drawn start": lambda: (ADDITIVE, "SRA1"),
    "E1": lambda: (PENDULUM, "E1"),
    "RK4 with fresh noise": lambda: (PENDULUM, sd.method("RK4")(noise="fresh")),
    "MilsteinLevy": lambda: (general_noise(damping=1.0), "MilsteinLevy"),
    "PlatenWeak2": lambda: (PENDULUM, "PlatenWeak2"),
    "TamedEuler": lambda: (DAMPED, "TamedEuler"),
    "StochasticAlpha": lambda: (of_model("spring_pendulum"), "StochasticAlpha"),
    "ProjectedAlpha": lambda: (of_model("jointed_pendulum"), "ProjectedAlpha"),
    "RattleAlpha": lambda: (of_model("jointed_pendulum"), "RattleAlpha"),
    "Rattle": lambda: (of_model("jointed_pendulum"), "Rattle"),
    "Midpoint": lambda: (of_model("damped_kubo"), "Midpoint"),
    "ShiftedVerlet": lambda: (of_model("harmonic_langevin"), "ShiftedVerlet"),
    "BAOAB": lambda: (of_model("harmonic_langevin"), "BAOAB"),
    "RK1A4": lambda: (of_model("nonlinear_dae"), "RK1A4"),
    "ExactNoise": lambda: (GUSTS, sd.ExactNoise("RK4")),
    "mechanics in delayed noise": lambda: (DRIVEN, "StochasticAlpha"),
    "walls": lambda: (sd.with_walls(INTEGRATOR, sd.Walls({"x": (-1.0, 1.0)})), "Heun"),
    "loop": lambda: (LOOP, "Heun"),
    "loop, drawn start": lambda: (with_start(LOOP, sd.from_normals(lambda z: z[:1], 1)), "Heun"),
    "VanLoan": lambda: (INTEGRATOR, "VanLoan"),
    "VanLoan in a loop": lambda: (LOOP, "VanLoan"),
}


def test_every_family_whose_steps_are_printed_is_compared_with_runs():
    """A family is a module of methods; the others make whole paths, which the refusal says."""
    families = {type(m).__module__ for m in methods.catalogue().values() if isinstance(m, Method)}
    compared = {type(methods.named(case()[1])).__module__ for case in CASES.values()}
    assert families <= compared


def expected(problem, method, dt=DT, steps=STEPS, paths=3):
    run = sd.simulate(problem, method, t=(0.0, steps * dt), dt=dt, paths=paths, seed=SEED,
                      collect=st.Paths(paths, every=1), progress=False)  # fmt: skip
    return run["path"].transpose("number", "time", "component")


@needs_compiler
@pytest.mark.brief(
    "Heun", "EulerMaruyama", "ImplicitMidpoint", "AB2", "DRI1", "SRA1, drawn start", "MilsteinLevy", "StochasticAlpha",
    "RattleAlpha", "Midpoint", "RK1A4", "ExactNoise", "mechanics in delayed noise", "walls", "loop",
    "loop, drawn start", "VanLoan",
)  # fmt: skip
@pytest.mark.parametrize("name", CASES)
def test_a_model_in_c_has_the_bits_of_the_run(name, tmp_path):
    problem, method = CASES[name]()
    paths, library = expected(problem, method), Library(tmp_path, problem, method)
    assert library.c.model_check() == 0
    for number in (0, 2):
        times, rows, _ = library.path(number, STEPS)
        np.testing.assert_array_equal(rows, paths[number])
        np.testing.assert_array_equal(times[:-1], paths["time"][:-1])


@needs_compiler
def test_inputs_outputs_and_snapshots(tmp_path):
    library = Library(
        tmp_path, PENDULUM, "Heun", inputs=["u"], outputs={"energy": lambda t, x, p: x[1] ** 2 - p["k"] * jnp.cos(x[0])}
    )
    _, rows, state = library.path(1, STEPS, inputs=[0.7])
    pushed = sd.SDE(PENDULUM.drift, PENDULUM.diffusion, start=[1.0, 0.0], params={"k": 2.0, "u": 0.7})
    x = expected(pushed, "Heun")[1].values
    np.testing.assert_allclose(rows[:, 0], x[:, 1] ** 2 - 2.0 * np.cos(x[:, 0]), rtol=0, atol=1e-14)
    copies, shown = [], (ctypes.c_double * 1)()
    for _ in range(2):
        copy = ctypes.create_string_buffer(bytes(state))
        library.c.model_step(copy, None, shown)
        copies.append((bytes(copy), shown[0]))
    assert copies[0] == copies[1]


MASS = sd.Mechanical(lambda t, x, v, p: p["u"] - x, lambda t, x, v: 0.3, (1.0, 0.0), params={"u": 0.0}, names=["x"])


def followed(library, inputs, path=1):
    """The outputs where the host gives these inputs, one for each step."""
    state, shown = (ctypes.c_char * library.size)(), (ctypes.c_double * library.outputs)()
    library.c.model_begin(state, ctypes.c_uint64(SEED), ctypes.c_uint64(path), None)
    rows = []
    for u in inputs:
        assert library.c.model_step(state, (ctypes.c_double * 1)(u), shown) == 0
        rows.append(list(shown))
    return np.array(rows)


PUSHED = sd.with_loop(
    MASS,
    sd.Part("law", every=6 * DT, reads=(), writes="u", update=lambda t, own, seen, p: (own, 0.1 + t)),
)


@needs_compiler
@pytest.mark.parametrize("method", ["Newmark", "StochasticAlpha"])
def test_a_method_that_carries_accelerations_begins_anew_where_an_input_jumps(method, tmp_path):
    """A loop with the same inputs has the same bits, and so has the first step, whatever the default of the input."""
    library = Library(tmp_path, MASS, method, inputs=["u"])
    inputs = [0.1 + 6 * DT * (k // 6) for k in range(STEPS)]
    in_loop = expected(PUSHED, method)[1].sel(component=["x", "dx"]).values
    np.testing.assert_array_equal(followed(library, inputs), in_loop[1:])
    alone = expected(MASS.changed(params={"u": 0.7}), method)[1].values
    np.testing.assert_array_equal(followed(library, [0.7] * STEPS), alone[1:])


@needs_compiler
def test_a_unit_tells_its_method_of_a_jump_that_its_host_has_looked_at(tmp_path):
    """Reading outputs between the setting of an input and the step must not hide the jump."""
    (file,) = sd.export(MASS, "Newmark", dt=DT, to=tmp_path / "unit.fmu", inputs=["u"], seed=SEED, fmi="3.0")
    unit = Unit(file, tmp_path / "unit", 3)
    i = unit.instance(path=1, u=0.1)
    for u in (0.1, 0.1 + 6 * DT):
        unit.set(i, u=u)
        unit.get(i, "x")
        assert unit.step(i, 6 * DT) == 0
    in_loop = expected(PUSHED, "Newmark")[1, -1].sel(component=["x", "dx"])
    assert unit.get(i, "x", "dx") == in_loop.values.tolist()


def test_every_variable_of_a_unit_has_a_place_of_its_own():
    """Among parameters, inputs, outputs and whole numbers each: the seed and the path would be one number."""
    listed = fmu.variables(stepping(MASS, "Newmark", DT, None, 0.0), ("u",), 7)
    kinds = [("whole" if v.is_whole else v.causality, v.place) for v in listed]
    assert len(set(kinds)) == len(kinds) and [v.number for v in listed] == list(range(1, len(listed) + 1))
    assert [(v.name, v.place, v.start) for v in listed[-2:]] == [("seed", 0, 7), ("path", 1, 0)]


def test_inputs_of_methods_that_do_not_say_how_they_go_on_after_a_jump_are_refused(tmp_path):
    bouncing = sd.with_walls(MASS, sd.Impact(sd.Level(-5.0, "x", "down")))
    with pytest.raises(ValueError, match=r"inputs: StochasticAlpha.* does not say how it goes on after a jump"):
        sd.export(bouncing, "StochasticAlpha", dt=DT, to=tmp_path / "model.c", inputs=["u"])


@needs_compiler
@pytest.mark.parametrize(("compiler", "flags", "verdict"), [
    (COMPILER, ("-O2", "-std=c99"), 0), (COMPILER, ("-O3", *NATIVE), 0), (COMPILER, ("-Ofast",), 1),
    (shutil.which("clang"), ("-O2",), 0), (shutil.which("clang"), ("-Ofast",), 1),
])  # fmt: skip
def test_the_self_test_finds_arithmetic_that_is_reordered(compiler, flags, verdict, tmp_path):
    """In a process of its own: a library made by -Ofast changes how the whole process rounds small numbers."""
    if compiler is None:
        pytest.skip("there is no clang")
    sd.export(INTEGRATOR, "Heun", dt=DT, to=tmp_path / "model.c")
    main = '#include "model.h"\nint main(void) { return model_check(); }\n'
    (tmp_path / "main.c").write_text(main)
    subprocess.run([compiler, *flags, "-o", "check", "main.c", "model.c", "-lm"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "check"]).returncode == verdict


@needs_compiler
def test_pairs_of_products_with_a_sum_and_a_difference_are_not_fused(tmp_path):
    """gcc 12 did, where the processor can, whatever -ffp-contract said: other bits, which the self test did not see."""
    lorenz = sd.SDE(
        lambda t, x: jnp.array([10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]]),
        lambda t, x: jnp.diag(jnp.array([1.0, 2.0, 0.5])), start=[1.0, 2.0, 20.0],
    )  # fmt: skip
    library = Library(tmp_path, lorenz, "SRA3", dt=0.01, flags=("-O3", *NATIVE))
    for number, path in enumerate(expected(lorenz, "SRA3", 0.01, 100).values):
        np.testing.assert_array_equal(library.path(number, 100)[1], path)


@needs_compiler
def test_a_step_that_fails_leaves_the_state_before_it(tmp_path):
    exploding = sd.SDE(lambda t, x, p: p["u"] * x**3, lambda t, x: 1.0, start=1e120, params={"u": 1.0})
    library = Library(tmp_path, exploding, "EulerMaruyama", inputs=["u"])
    state = (ctypes.c_char * library.size)()
    library.c.model_begin(state, ctypes.c_uint64(0), ctypes.c_uint64(0), None)
    before = bytes(state)
    assert library.c.model_step(state, (ctypes.c_double * 1)(2.0), None) == 1
    assert bytes(state) == before


@needs_compiler
def test_noise_of_size_zero_compiles_without_a_word(tmp_path):
    silent = sd.SDE(lambda t, x: -x, lambda t, x: 0.0, start=1.0)
    _, rows, _ = Library(tmp_path, silent, "EulerMaruyama").path(0, 1)
    assert rows[-1] == [1.0 - DT]


DIGEST = 24  # where it stands in the bytes of a state


def sealed(content):
    """The bytes of a state whose checksum is right."""
    total = 0xCBF29CE484222325
    for byte in content:
        total = (total ^ byte) * 0x100000001B3 % 2**64
    return content + total.to_bytes(8, "little")


@needs_compiler
@pytest.mark.parametrize("version", [2, 3])
def test_a_unit_has_the_bits_of_the_run_goes_back_and_refuses(version, tmp_path):
    (file,) = sd.export(PENDULUM, "Heun", dt=DT, to=tmp_path / "unit.fmu", inputs=["u"], seed=7, fmi=f"{version}.0")
    unit = Unit(file, tmp_path / "unit", version)
    run = sd.simulate(PENDULUM, "Heun", t=(0.0, STEPS * DT), dt=DT, paths=3, seed=7, collect=st.Paths(3, every=1))
    first, second = unit.instance(path=0), unit.instance(path=2)
    assert unit.get(first, "x", "v") == [1.0, 0.0]
    for k in range(1, 4):
        for i, path in ((first, 0), (second, 2)):
            assert unit.step(i, 4 * DT) == 0
            assert unit.get(i, "x", "v") == run["path"].isel(number=path, time=4 * k).values.tolist()
    kept, size = ctypes.c_void_p(None), ctypes.c_size_t()
    assert unit.call(f"Get{unit.word}", first, ctypes.byref(kept)) == 0
    unit.step(first, DT)
    after = unit.get(first, "x")
    assert unit.call(f"Set{unit.word}", first, kept) == 0
    unit.step(first, DT)
    assert unit.get(first, "x") == after
    unit.call(f"Serialized{unit.word}Size", first, kept, ctypes.byref(size))
    data = (ctypes.c_uint8 * size.value)()
    unit.call(f"Serialize{unit.word}", first, kept, data, size)
    word = "DeSerialize" if version == 2 else "Deserialize"
    again = ctypes.c_void_p(None)
    assert unit.call(f"{word}{unit.word}", second, data, size, ctypes.byref(again)) == 0
    assert unit.call(f"Set{unit.word}", second, again) == 0
    unit.step(second, DT)
    assert unit.get(second, "x") == after
    third = unit.instance(k=3.0)
    assert unit.get(third, "k") == [3.0]
    assert unit.call(f"Set{unit.word}", third, again) == 0
    assert unit.get(third, "k") == [2.0]
    other = sealed(bytes(data[:DIGEST]) + b"0" * 64 + bytes(data[DIGEST + 64 : -8]))
    foreign = (ctypes.c_uint8 * size.value)(*other)
    assert unit.call(f"{word}{unit.word}", second, foreign, size, ctypes.byref(again)) == 3
    data[size.value // 2] ^= 1
    assert unit.call(f"{word}{unit.word}", second, data, size, ctypes.byref(again)) == 3
    assert unit.call(f"{word}{unit.word}", second, data, ctypes.c_size_t(8), ctypes.byref(again)) == 3
    t = unit.time(first)
    assert [unit.step(first, length) for length in (0.03, 0.03, DT, 0.03)] == [2, 3, 0, 2]
    assert unit.time(first) == pytest.approx(t + DT), "FMPy would ask for ever for a step that is only discarded"
    assert unit.instance(token="{of another model}") is None
    early = unit.instance(has_begun=False)
    assert (unit.begins(early, 0.0), unit.begins(early, 5.0), unit.step(early, DT)) == (0, 1, 3)
    said = " ".join(unit.said)
    for words in (
        "is not a multiple of dt = 0.05",
        "another length",
        "damaged",
        "the state of another model",
        "belongs to another model",
        "the host begins at time 5, but the model counts its own from 0.0",
        "before initialisation",
    ):
        assert words in said


@needs_compiler
def test_forged_states_of_a_unit_are_numbers_and_no_addresses(tmp_path):
    """Their checksums fit; the step reads tables at places that the state and the parameters say."""
    table = jnp.cos(jnp.arange(40.0))
    problem = sd.SDE(
        lambda t, x, p: -x + table[(p["u"] * x).astype(int)] + x.at[(7.0 * x).astype(int)].get(mode="clip"),
        lambda t, x, p: 0.1 * jnp.eye(2).at[jnp.abs(9.0 * x).astype(int)].get(mode="fill", fill_value=0.5),
        [1.0, 2.0], params={"u": 3.0}, names=("x", "y"),
    )  # fmt: skip
    (file,) = sd.export(problem, "EulerMaruyama", dt=DT, to=tmp_path / "unit.fmu", inputs=["u"], seed=7)
    unit = Unit(file, tmp_path / "unit", 2)
    kept, size, i = ctypes.c_void_p(None), ctypes.c_size_t(), unit.instance()
    unit.call("GetFMUstate", i, ctypes.byref(kept))
    unit.call("SerializedFMUstateSize", i, kept, ctypes.byref(size))
    data = (ctypes.c_uint8 * size.value)()
    unit.call("SerializeFMUstate", i, kept, data, size)
    whole, rng, codes = bytes(data[:-8]), np.random.default_rng(1), set()
    assert sealed(whole) == bytes(data)
    numbers = (
        np.array([np.nan, np.inf, -np.inf, 1e300, -1e19, 2.0**63, 5e-324, -1.0, 41.0]).view(np.uint8).reshape(-1, 8)
    )
    for _ in range(500):
        forged = bytearray(whole)
        for place in rng.choice(np.arange(DIGEST + 64, len(whole), 8), 3):
            some = rng.integers(0, 256, 8) if rng.random() < 0.3 else rng.choice(numbers)
            forged[place : place + 8] = bytes(some.astype(np.uint8))[: len(whole) - place]
        given, again = (ctypes.c_uint8 * size.value)(*sealed(bytes(forged))), ctypes.c_void_p(None)
        taken = unit.call("DeSerializeFMUstate", i, given, size, ctypes.byref(again))
        if taken == 0:
            assert unit.call("SetFMUstate", i, again) == 0
            unit.call("FreeFMUstate", i, ctypes.byref(again))
            codes.add(unit.step(i, DT))
        else:
            codes.add("refused")
    assert codes == {0, 3, "refused"}, "some steps end, some fail, and some states are refused"


@needs_compiler
def test_a_unit_begins_with_the_inputs_that_its_host_has_set_by_then(tmp_path):
    """Newmark's begins with an acceleration, which reads them."""
    mass = sd.Mechanical(lambda t, x, v, p: p["u"] - x, lambda t, x, v: 0.3, (1.0, 0.0), params={"u": 0.0}, names=["x"])
    (file,) = sd.export(mass, "Newmark", dt=DT, to=tmp_path / "unit.fmu", inputs=["u"], seed=SEED, fmi="3.0")
    unit = Unit(file, tmp_path / "unit", 3)
    i = unit.instance(path=1, u=0.7)
    unit.step(i, STEPS * DT)
    assert unit.get(i, "x", "dx") == expected(mass.changed(params={"u": 0.7}), "Newmark")[1, -1].values.tolist()


@needs_compiler
@pytest.mark.parametrize("version", [2, 3])
def test_a_unit_refuses_a_step_from_another_time_than_its_own(version, tmp_path):
    (file,) = sd.export(INTEGRATOR, "Heun", dt=DT, to=tmp_path / "unit.fmu", fmi=f"{version}.0")
    unit = Unit(file, tmp_path / "unit", version)
    i = unit.instance()
    assert unit.step(i, DT, t=1e-15) == 0
    before = unit.get(i, "x")
    assert [unit.step(i, DT, t=t) for t in (0.0, 5.0, float("nan"))] == [3, 3, 3]
    assert "asks for a step from time 0, but the model is at 0.05" in unit.said[0]
    assert (unit.get(i, "x"), unit.step(i, DT, t=0.7 * DT)) == (before, 0)


@needs_compiler
def test_a_unit_whose_step_fails_half_way_is_as_before_it(tmp_path):
    blocked = sd.SDE(lambda t, x, p: 0.0 * jnp.sqrt(1.0 - x) + 1.0, lambda t, x: 0.0, start=0.78, names=["x"])
    (file,) = sd.export(blocked, "EulerMaruyama", dt=DT, to=tmp_path / "unit.fmu")
    unit = Unit(file, tmp_path / "unit", 2)
    i = unit.instance()
    assert unit.step(i, DT) == 0
    before = unit.get(i, "x")
    assert unit.step(i, 9 * DT) == 3
    assert "the step from time 0.25 failed" in unit.said[-1]
    assert (unit.get(i, "x"), unit.step(i, DT)) == (before, 0)
    assert unit.get(i, "x") == pytest.approx([0.88])


@pytest.mark.parametrize(("name", "convention"), [("k", "structured"), ("Stärke", "flat"), ('a & "b"', "flat")])
def test_names_in_a_unit_are_structured_or_taken_as_they_are(name, convention):
    problem = sd.SDE(lambda t, x, p: -p[name] * x, lambda t, x: 0.1, start=1.0, params={name: 1.0})
    model = stepping(problem, "Heun", DT, None, 0.0)
    root = ET.fromstring(fmu.description(model, "model", fmu.variables(model, (), 0), "0", "2.0"))
    assert root.get("variableNamingConvention") == convention
    assert name in {variable.get("name") for variable in root.find("ModelVariables")}


def test_inputs_of_methods_that_keep_derivatives_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"inputs: AB2.* keeps derivatives from before a jump of an input"):
        sd.export(PENDULUM, "AB2", dt=DT, to=tmp_path / "model.c", inputs=["u"])


def test_parameters_with_names_that_every_model_has_are_refused(tmp_path):
    problem = sd.SDE(lambda t, x, p: -p["seed"] * x, lambda t, x: 0.1, start=1.0, params={"seed": 1.0})
    with pytest.raises(ValueError, match="params: 'seed' would stand for two numbers of the model"):
        sd.export(problem, "Heun", dt=DT, to=tmp_path / "model.fmu")


def test_an_input_that_is_a_whole_number_is_refused_with_the_real_one(tmp_path):
    counted = INTEGRATOR.changed(params={"u": 0})
    with pytest.raises(ValueError, match=r"inputs: params\['u'\] is 0, a whole number, .* give 0\.0$"):
        sd.export(counted, "Heun", dt=DT, to=tmp_path / "model.c", inputs=["u"])


def test_a_parameter_with_the_name_of_an_output_is_refused_in_a_unit(tmp_path):
    same = sd.SDE(lambda t, x, p: -p["x"] * x, lambda t, x: 0.1, start=1.0, params={"x": 1.0}, names=["x"])
    with pytest.raises(ValueError, match="params: 'x' is the name of an output too"):
        sd.export(same, "Heun", dt=DT, to=tmp_path / "model.fmu")
    assert sd.export(LOOP, "Heun", dt=DT, to=tmp_path / "loop.fmu"), "a loop shows what it sets"


def test_the_description_of_a_unit_says_what_reads_the_input(tmp_path):
    functions = {"x": lambda t, x: x[0], "push": lambda t, x, p: p["u"] * x[1]}
    (file,) = sd.export(PENDULUM, "Heun", dt=DT, to=tmp_path / "unit.fmu", inputs=["u"], outputs=functions)
    with zipfile.ZipFile(file) as unit:
        root = ET.fromstring(unit.read("modelDescription.xml"))
    variables = {v.get("name"): k for k, v in enumerate(root.find("ModelVariables"), 1)}
    unknowns = {int(u.get("index")): u.get("dependencies") for u in root.find("ModelStructure/Outputs")}
    assert unknowns == {variables["x"]: "", variables["push"]: str(variables["u"])}


@pytest.mark.parametrize(("change", "words"), [
    (dict(inputs=["w"]), "inputs: the problem has no parameter 'w'; it has k, u"),
    (dict(inputs="u"), "inputs: expected a list of names"),
    (dict(outputs=["y"]), r"outputs: \['y'\] asked for; the components are \['x', 'v'\]"),
    (dict(to="model.f90"), "to: expected a file that ends in .c, .fmu, .py"),
    (dict(dt=0.0), "dt: expected a step > 0"),
    (dict(t0=float("inf")), "t0: expected the time at which the model begins, a finite"),
    (dict(t0="1"), "t0: expected the time at which the model begins"),
    (dict(inputs=["u", "u"]), "inputs: 'u' is given twice"),
    (dict(outputs="xv"), "outputs: expected a list of names"),
    (dict(outputs={}), "outputs: no function given"),
    (dict(to="nowhere/model.c"), "to: there is no folder '.*nowhere'; make it"),
    (dict(seed=-1), "seed: expected a whole number"),
    (dict(to="m.fmu", fmi="1.0"), 'fmi: expected "2.0" or "3.0"'),
    (dict(to="m.fmu", platforms=["x86_64-window"]), "platforms: expected some of x86_64-linux, .*x86_64-windows"),
    (dict(to="m.fmu", platforms="x86_64-linux"), "platforms: expected a list of names"),
    (dict(to="m.fmu", platforms=["x86_64-linux", "aarch64-linux"]), "units of FMI 2.0 have one folder for each system"),
    (dict(to="m.fmu", seed=2**31), "seed: integers of FMI 2.0 are below"),
    (dict(inputs=["u"], outputs={"u": lambda t, x: x[0]}), "outputs: 'u' would stand for two numbers"),
    (dict(outputs={"seed": lambda t, x: x[0]}), "outputs: 'seed' would stand for two numbers"),
])  # fmt: skip
def test_what_cannot_be_exported_is_refused_in_words(change, words, tmp_path):
    options = dict(dt=DT, to="model.c") | change
    with pytest.raises((ValueError, TypeError), match=words):
        sd.export(PENDULUM, "Heun", **options | dict(to=tmp_path / options["to"]))
    assert not list(tmp_path.iterdir())


def test_numbers_that_are_part_of_the_step_cannot_be_set_from_outside(tmp_path):
    """VanLoan's matrices are made of k and not of u."""
    decay = sd.SDE(lambda t, x, p: -p["k"] * x + p["u"], lambda t, x: jnp.ones((1, 1)), start=[0.0],
                   params={"k": 2.0, "u": 0.0}, names=("x",))  # fmt: skip
    sd.export(decay, "VanLoan", dt=DT, to=tmp_path / "model.c", inputs=["u"])
    assert "PARAM_u" in (tmp_path / "model.h").read_text() and "PARAM_k" not in (tmp_path / "model.h").read_text()
    with pytest.raises(ValueError, match="inputs: 'k' multiplies the state or the noise, and the matrices of a step"):
        sd.export(decay, "VanLoan", dt=DT, to=tmp_path / "other.c", inputs=["k"])


def test_libraries_for_other_platforms_are_compiled_by_zig(tmp_path, monkeypatch):
    """By a stand-in for zig that writes down how it was called."""
    platforms = [name for name in libraries.PLATFORMS if name != libraries.this_machine()]
    options = dict(dt=DT, to=tmp_path / "unit.fmu", fmi="3.0", platforms=platforms)
    monkeypatch.setattr(libraries, "_zig", lambda: None)
    with pytest.raises(ValueError, match="are compiled by zig, which is not installed here; pip install ziglang"):
        sd.export(INTEGRATOR, "Heun", **options)
    zig = tmp_path / "zig"
    zig.write_text('#!/bin/sh\nfor a in "$@"; do test "$before" = -o && out=$a; before=$a; done\necho "$@" > "$out"\n')
    zig.chmod(0o755)
    monkeypatch.setattr(libraries, "_zig", lambda: [str(zig)])
    (file,) = sd.export(INTEGRATOR, "Heun", **options)
    with zipfile.ZipFile(file) as unit:
        assert {"sources/model.c", "sources/fmi.c", "sources/model.h"} <= set(unit.namelist())
        for name in platforms:
            known = libraries.PLATFORMS[name]
            words = unit.read(f"binaries/{name}/unit{known.suffix}").decode()
            assert words.startswith(f"cc -target {known.target} -std=c99") and "-ffp-contract=off" in words


def test_random_starts_parameters_and_whole_paths_are_refused(tmp_path):
    drawn = sd.SDE(lambda t, x: -x, lambda t, x: 1.0, start=lambda rng, n: rng.normal(size=n))
    spread = sd.SDE(lambda t, x, p: -p["k"] * x, lambda t, x: 1.0, start=1.0,
                    params={"k": lambda rng, n: rng.uniform(1, 2, n)})  # fmt: skip
    noise = sd.noise.coloured.gauss_markov(1.0, 0.5)
    shaken = sd.with_noise(sd.Mechanical(lambda t, x, v: -x, None, (1.0, 0.0), names=["x"]), noise, into=[[1.0]])
    for problem, words in (
        (drawn, r"stodyn.from_normals\(function, count\)$"),
        (NORMAL, r"changed\(start=problem.start.from_normals\(\)\) has the same law$"),
        (
            sd.with_walls(INTEGRATOR.changed(start=sd.from_normals(lambda z: z[:1], 1)), sd.Walls({"x": (-9.0, 9.0)})),
            "taken of an SDE, a Hamiltonian or a mechanical system",
        ),
        (shaken, r"filter of its noise starts in its stationary law.* Give its x and v as"),
        (spread, r"params\['k'\] is a distribution"),
    ):
        with pytest.raises(ValueError, match=words):
            sd.export(problem, "Heun", dt=DT, to=tmp_path / "model.c")
    with pytest.raises(ValueError, match=r"components are computed by loops over arrays .* cannot be exported yet"):
        sd.export(of_model("oscillator_chain"), "StochasticAlpha", dt=DT, to=tmp_path / "model.c")
    with pytest.raises(ValueError, match=r"makes whole paths of this problem.* value of its parameters, as an SDAE"):
        sd.export(of_model("miller_integrator"), "Galerkin", dt=1e-6, to=tmp_path / "model.c")
    with pytest.raises(ValueError, match=r"makes whole paths of this problem.* take a method of steps"):
        sd.export(INTEGRATOR, "Dyadic", dt=DT, to=tmp_path / "model.c")


def test_a_normal_start_is_exported_as_a_function_of_normals():
    start = NORMAL.start.from_normals()
    of_units = np.array([start.function(z) for z in np.eye(2)]) - NORMAL.start.mean
    np.testing.assert_allclose(of_units.T @ of_units, NORMAL.start.covariance, rtol=1e-12)
    assert stepping(NORMAL.changed(start=start), "Heun", DT, None, 0.0).outputs == ("x0", "x1")


@needs_compiler
def test_a_model_begins_far_from_zero_where_runs_do(tmp_path):
    start, dt = 86_400_123.0, 1e-3
    library = Library(tmp_path, INTEGRATOR, "Heun", dt=dt, t0=start)
    run = sd.simulate(
        INTEGRATOR, "Heun", t=(start, start + 20), dt=dt, paths=1, seed=SEED, collect=st.Paths(1, every=1)
    )
    times, path, _ = library.path(0, 50)
    np.testing.assert_array_equal(times, run["time"][:51])
    np.testing.assert_array_equal(path, run["path"].isel(number=0)[:51])


def test_names_that_c_cannot_have_are_spelled_anew():
    spelled = {
        "wing in gusts": "wing_in_gusts", "2nd": "m_2nd", "for": "m_for", "a.b[0]": "a_b_0", "x₁": "x1", "θ": "theta",
        "Θ": "Theta", "λ₂": "lambda2", "q̇": "qdot", "ẍ": "xddot", "Stärke": "Staerke", "Ångström": "Angstroem",
        "µ": "mu", "é": "e", "力": "u529b", "x′": "x", "sd": "m_sd",
    }  # fmt: skip
    assert {word: c_file.identifier(word) for word in spelled} == spelled


@needs_compiler
def test_names_of_other_letters_are_ascii_in_c_and_as_they_are_in_a_unit(tmp_path):
    """A file called sd has functions of its own that begin so."""
    named = sd.SDE(lambda t, x, p: -p["ω₀"] * x, lambda t, x: jnp.ones((2, 1)), start=[1.0, 0.0], params={"ω₀": 1.0},
                   names=("θ", "θ̇"))  # fmt: skip
    Library(tmp_path, named, "Heun")
    header = (tmp_path / "model.h").read_text()
    assert "{ MODEL_OUTPUT_theta, MODEL_OUTPUT_thetadot }" in header and "MODEL_PARAM_omega0 = 0" in header
    source, _ = sd.export(named, "Heun", dt=DT, to=tmp_path / "sd.c")
    subprocess.run([COMPILER, "-std=c99", "-fsyntax-only", source], check=True)
    (file,) = sd.export(named, "Heun", dt=DT, to=tmp_path / "Ångström.fmu")
    unit = Unit(file, tmp_path / "unit", 2)
    assert unit.description.get("modelName") == "Angstroem"
    assert unit.get(unit.instance(), "θ", "ω₀") == [1.0, 1.0]


def test_an_array_among_the_inputs_stands_for_its_entries(tmp_path):
    pushed = INTEGRATOR.changed(drift=lambda t, x, p: p["u"][0] + 2.0 * p["u"][1] + 0 * x, params={"u": np.zeros(2)},
                                diffusion=None)  # fmt: skip
    for inputs in (["u"], ["u[0]", "u[1]"]):
        sd.export(pushed, "Heun", dt=DT, to=tmp_path / "model.c", inputs=inputs)
        assert "MODEL_INPUTS = 2" in (tmp_path / "model.h").read_text()
    with pytest.raises(ValueError, match=r"inputs: 'u\[0\]' is given twice"):
        sd.export(pushed, "Heun", dt=DT, to=tmp_path / "model.c", inputs=["u", "u[0]"])


def test_an_input_that_a_part_of_the_loop_writes_is_refused(tmp_path):
    with pytest.raises(ValueError, match="inputs: 'u' is written by the part 'law' of the loop"):
        sd.export(LOOP, "Heun", dt=DT, to=tmp_path / "model.c", inputs=["u"], outputs=["x"])


def test_what_a_loop_keeps_among_the_params_for_itself_is_no_parameter():
    line = sd.with_loop(
        INTEGRATOR,
        sd.Part("law", every=0.1, hold="first", reads=sd.true("x"), writes="u",
                update=lambda t, own, seen, p: (own, -seen["x"])),
    )  # fmt: skip
    assert [p.name for p in stepping(line, "Heun", DT, None, 0.0).parameters] == ["u"]


@pytest.mark.parametrize("fmi", ["2.0", "3.0"])
def test_units_of_components_inputs_params_and_of_time_are_declared(fmi, tmp_path):
    units = {"x": "m", "u": "N", "k": "N/m", "time": "ms"}
    problem = sd.SDE(lambda t, x, p: p["u"] - p["k"][0] * x, lambda t, x: jnp.ones((1, 1)), start=[0.0], names=["x"],
                     params={"u": 0.0, "k": np.ones(1)}, units=units)  # fmt: skip
    with pytest.warns(UserWarning, match="units: the time of the problem is in 'ms', .* most hosts count seconds"):
        (file,) = sd.export(problem, "Heun", dt=DT, to=tmp_path / "unit.fmu", inputs=["u"], fmi=fmi)
    with zipfile.ZipFile(file) as unit:
        root = ET.fromstring(unit.read("modelDescription.xml"))
    given = {v.get("name"): (v if fmi == "3.0" else v[0]).get("unit") for v in root.find("ModelVariables")}
    assert given == {"x": "m", "u": "N", "k[0]": "N/m", "time": "ms", "seed": None, "path": None}
    assert {unit.get("name") for unit in root.find("UnitDefinitions")} == set(units.values())
    assert root.get("description").endswith("dt = 0.05 ms")


def test_steps_that_are_unstable_or_make_variances_wrong_are_told_as_before_a_run(tmp_path):
    fast = INTEGRATOR.changed(drift=lambda t, x, p: p["u"] - 100.0 * x)
    with pytest.warns(warnings.UnstableSteps, match="steps of 0.05 are unstable"):
        sd.export(fast, "Heun", dt=DT, to=tmp_path / "model.c")
    damped = sd.Mechanical(lambda t, x, v: -x - 0.05 * v, lambda t, x, v: 0.1, (0.0, 0.0))
    with pytest.warns(warnings.ResponseNotDelivered, match="Newmark makes the variance"):
        sd.export(damped, "Newmark", dt=0.9, to=tmp_path / "model.c")


def test_what_cannot_be_printed_is_refused_with_a_way_out_that_is_one(tmp_path):
    times = np.linspace(0.0, 10.0, 300)
    table = INTEGRATOR.changed(drift=lambda t, x, p: jnp.interp(t, times, np.sin(times)) - x)
    with pytest.raises(ValueError, match=r"Let the host look up values of long tables, and read them from params"):
        sd.export(table, "Heun", dt=DT, to=tmp_path / "model.c")
    with pytest.raises(ValueError, match=r"a scan of 6 turns over series\. Take another method"):
        sd.export(of_model("ring_oscillator"), None, dt=1e-12, to=tmp_path / "model.c")
