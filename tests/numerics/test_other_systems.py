"""Printed programs for systems on which no test runs: LLVM translates them, and they call hardly anything outside."""

import re

import jax.numpy as jnp
import llvmlite.binding as llvm
import numpy as np
import pytest

import stodyn as sd
from stodyn import statistics as st
from stodyn.numerics.printing import compiling

# What memory is copied by, and what touches the pages of a large stack on Windows, where LLVM finds it in ntdll.dll.
OUTSIDE = {"memcpy", "memset", "__chkstk", "_GLOBAL_OFFSET_TABLE_"}
SYSTEMS = {
    "x86_64-pc-windows-msvc-elf": "haswell",  # llvmlite asks for ELF on Windows
    "x86_64-apple-darwin": "haswell",
    "arm64-apple-darwin": "apple-m1",
    "x86_64-unknown-linux-gnu": "haswell",
}


def pendulum():
    return sd.SDE(
        lambda t, x: jnp.array([x[1], -1.0625 * jnp.sin(x[0]) - jnp.tanh(x[1]) + jnp.exp(-x[0])]),
        lambda t, x: jnp.array([[0.0], [0.1 * jnp.sqrt(1.0 + x[0] ** 2)]]),
        [1.0, 0.0],
    )


@pytest.fixture(scope="module")
def texts():
    """The modules of two methods and three statistics."""
    printed, compiled = [], compiling.compiled

    def noted(text, names, level, passes=0):
        printed.append((text, level))
        return compiled(text, names, level, passes)

    asked = [st.Moments(), st.Histogram(np.linspace(-3, 3, 30)), st.Extreme(lambda t, x: x[0], levels=[0.5])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling, "compiled", noted)
        for method in ("SRIW1", "ImplicitMidpoint"):
            sd.simulate(pendulum(), method, t=(0, 1), dt=0.05, paths=64, seed=1, collect=asked)
    return printed


def outside(assembly: str) -> set[str]:
    """Return the names in the instructions of a text of assembly that it does not define."""
    x86, arm = r"(?<![%\w.@])\$?([A-Za-z_]\w*)", r"(?<![\w.])(_\w+)(?=@|$)"
    defined = set(re.findall(r"^\"?([\w.$]+)\"?:", assembly, re.MULTILINE))
    lines = (line.partition("#")[0].partition(";")[0] for line in assembly.splitlines())
    operands = (line.split(None, 1)[1] for line in lines if re.match(r"\s+[a-z]\w*\s+\S", line))
    return {found for operand in operands for found in re.findall(x86 if "%" in assembly else arm, operand)} - defined


@pytest.mark.parametrize("system", SYSTEMS)
def test_programs_for_another_system_call_copies_and_stack_probes_alone(texts, system):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple(system)
    except RuntimeError as error:
        pytest.skip(f"this llvmlite has no such target: {error}")
    assert texts
    for text, level in texts:
        machine = target.create_target_machine(cpu=SYSTEMS[system], opt=level, jit=True)
        module = llvm.parse_assembly(text, llvm.create_context())
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        assembly = machine.emit_assembly(module)
        assert {name.removeprefix("_") if "apple" in system else name for name in outside(assembly)} <= OUTSIDE
        assert machine.emit_object(module)


def test_names_from_outside_are_found():
    x86 = "run:\n\tmovabsq\t$sin, %rax\n\tcallq\t*%rax\n\tcallq\texp@PLT\n\tmovsd\t.LC0(%rip), %xmm0\n"
    assert outside(x86) == {"sin", "exp"}
    assert outside("\t.arch armv8\n_run:\n\tbl\t_cos\n\tadrp\tx8, _sin@GOTPAGE\n\tret\n") == {"_cos", "_sin"}
