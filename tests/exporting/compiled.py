"""Exported models compiled and called as hosts call them: in C, and as Functional Mock-up Units."""

import ctypes
import os
import shutil
import subprocess
import xml.etree.ElementTree as ET
import zipfile

import numpy as np
import pytest

import stodyn as sd
from stodyn.exporting.stepping import stepping

COMPILER = shutil.which(os.environ.get("CC", "cc"))
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
STRICT = ("-std=c99", "-ffp-contract=off", "-Wall", "-Wextra", "-pedantic", "-Werror")
SEED, STEPS, DT = 2**40 + 3, 12, 0.05


class Library:
    """An exported model compiled and called from Python."""

    def __init__(self, folder, problem, method, dt=DT, flags=("-O1",), **options):
        self.files = sd.export(problem, method, dt=dt, to=folder / "model.c", **options)
        model = stepping(problem, method, dt, options.get("outputs"), options.get("t0", 0.0))
        library = folder / "model.so"
        call = [COMPILER, *STRICT, *flags, "-shared", "-fPIC", "-o", library, self.files[0], "-lm"]
        subprocess.run(call, check=True)
        self.c = ctypes.CDLL(library)
        self.c.model_time.restype = ctypes.c_double
        words = model.state_words + max(model.words.size, 1) + 4 * model.has_keys + 4 * max(len(model.streams), 1)
        words += 1 + 3 * model.is_by_time
        self.size, self.outputs = 8 * words, len(model.outputs)

    def path(self, number, steps, inputs=None):
        """Times, outputs, and the state at the end."""
        state, shown = (ctypes.c_char * self.size)(), (ctypes.c_double * self.outputs)()
        self.c.model_begin(state, ctypes.c_uint64(SEED), ctypes.c_uint64(number), None)
        self.c.model_outputs(state, shown)
        times, rows = [self.c.model_time(state)], [list(shown)]
        given = None if inputs is None else (ctypes.c_double * len(inputs))(*inputs)
        for _ in range(steps):
            assert self.c.model_step(state, given, shown) == 0
            times.append(self.c.model_time(state))
            rows.append(list(shown))
        return np.array(times), np.array(rows), state


class Unit:
    """An FMU, called as a host calls it."""

    def __init__(self, file, folder, version):
        with zipfile.ZipFile(file) as unit:
            unit.extractall(folder)
        self.description = ET.parse(folder / "modelDescription.xml").getroot()
        (library,) = (folder / "binaries").rglob("*.so")
        self.c, self.version, self.said, self.kept = ctypes.CDLL(library), version, [], []
        tags = self.description.find("ModelVariables")
        self.numbers = {tag.get("name"): int(tag.get("valueReference")) for tag in tags}
        self.token = self.description.get("guid" if version == 2 else "instantiationToken")
        self.word = "FMUstate" if version == 2 else "FMUState"
        for name in ("fmi2Instantiate", "fmi3InstantiateCoSimulation"):
            if hasattr(self.c, name):
                getattr(self.c, name).restype = ctypes.c_void_p

    def call(self, name, *arguments):
        given = [ctypes.c_void_p(a) if isinstance(a, int) and a > 2**31 else a for a in arguments]
        return getattr(self.c, f"fmi{self.version}{name}")(*given)

    def instance(self, token=None, path=0, has_begun=True, **parameters):
        token, none, hear = (token or self.token).encode(), ctypes.c_void_p(None), self.said.append
        word, pointer = ctypes.c_char_p, ctypes.c_void_p
        if self.version == 2:
            kind = ctypes.CFUNCTYPE(None, pointer, word, ctypes.c_int, word, word)
            logger = kind(lambda *said: hear(said[-1].decode()))
            callbacks = (pointer * 5)(ctypes.cast(logger, pointer))
            i = self.call("Instantiate", b"a", 1, token, b"", callbacks, 0, 0)
        else:
            kind = ctypes.CFUNCTYPE(None, pointer, ctypes.c_int, word, word)
            logger = kind(lambda *said: hear(said[-1].decode()))
            callbacks = None
            i = self.call("InstantiateCoSimulation", b"a", token, b"", False, False, False, False, none,
                          ctypes.c_size_t(0), none, logger, none)  # fmt: skip
        self.kept.append((logger, callbacks))
        if i is not None:
            number = (ctypes.c_uint32 * 1)(self.numbers["path"])
            if self.version == 2:
                assert self.call("SetInteger", i, number, ctypes.c_size_t(1), (ctypes.c_int * 1)(path)) == 0
            else:
                value = (ctypes.c_uint64 * 1)(path)
                assert self.call("SetUInt64", i, number, ctypes.c_size_t(1), value, ctypes.c_size_t(1)) == 0
            self.set(i, **parameters)
            assert not has_begun or self.call("ExitInitializationMode", i) == 0
        return i

    def set(self, i, **values):
        for name, value in values.items():
            number, count = (ctypes.c_uint32 * 1)(self.numbers[name]), ctypes.c_size_t(1)
            word = "SetReal" if self.version == 2 else "SetFloat64"
            one = (ctypes.c_double * 1)(value)
            assert self.call(word, i, number, count, one, *([count] if self.version == 3 else [])) == 0

    def begins(self, i, start):
        """What the unit says to the host's time of the start."""
        word = "SetupExperiment" if self.version == 2 else "EnterInitializationMode"
        return self.call(word, i, False, ctypes.c_double(), ctypes.c_double(start), False, ctypes.c_double())

    def get(self, i, *names):
        numbers, values = (
            (ctypes.c_uint32 * len(names))(*map(self.numbers.get, names)),
            (ctypes.c_double * len(names))(),
        )
        count = ctypes.c_size_t(len(names))
        word = "GetReal" if self.version == 2 else "GetFloat64"
        assert self.call(word, i, numbers, count, values, *([count] if self.version == 3 else [])) == 0
        return list(values)

    def time(self, i):
        value = ctypes.c_double()
        if self.version == 2:
            self.call("GetRealStatus", i, 2, ctypes.byref(value))
        else:
            number, one = (ctypes.c_uint32 * 1)(0), ctypes.c_size_t(1)
            self.call("GetFloat64", i, number, one, ctypes.byref(value), one)
        return value.value

    def step(self, i, length, t=None):
        """A step from time t, by default that of the unit."""
        t, h = ctypes.c_double(self.time(i) if t is None else t), ctypes.c_double(length)
        if self.version == 2:
            return self.call("DoStep", i, t, h, 1)
        flags, last = [ctypes.c_bool() for _ in range(3)], ctypes.c_double()
        return self.call("DoStep", i, t, h, True, *map(ctypes.byref, flags), ctypes.byref(last))
