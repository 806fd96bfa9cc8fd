"""LLVM text -> functions in memory, for the processor this runs on, or PTX for a GPU."""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

OPTIMISED = 400  # instructions up to which LLVM's own passes are worth their time
LEVEL_ONE = 3000  # instructions up to which registers are soon allocated with care
QUICK = {"level": 0, "passes": 0}
PAYS = 3e8  # operations on numbers, a fraction of a second, beyond which compiling with care pays
PAYS_LATER = 1.5e6  # the same for each instruction where there are more than LEVEL_ONE, which take seconds to compile


class Processor(NamedTuple):
    """The processor that programs are made for.

    register  doubles of one vector register
    registers how many there are
    is_arm    whether it is one of ARM's, whose largest of a vector's numbers is NaN where one of them is, and which
              loads a number faster than it puts one together
    """

    name: str
    features: str
    register: int
    registers: int
    has_fma: bool
    is_arm: bool


@functools.cache
def llvm() -> Any:
    """llvmlite's module of LLVM, opened when the first program is needed; None where it is not installed."""
    try:
        import llvmlite.binding
    except ImportError:  # it comes with Numba; without it nothing is printed
        return None
    return llvmlite.binding


@functools.cache
def processor() -> Processor:
    """The processor of this machine, as LLVM names it."""
    features = llvm().get_host_cpu_features()
    flat, has = features.flatten(), lambda word: bool(features.get(word, False))
    if llvm().get_default_triple().startswith(("aarch64", "arm64")):
        return Processor(llvm().get_host_cpu_name(), flat, 2, 32, True, True)
    if has("avx512f") and has("avx512dq") and has("avx512vl"):
        return Processor(llvm().get_host_cpu_name(), flat, 8, 32, True, False)
    return Processor(llvm().get_host_cpu_name(), flat, 4 if has("avx2") else 2, 16, has("fma"), False)


def unavailable() -> str | None:
    """Why no program can be printed here, in words; None where it can."""
    if llvm() is None:
        return "llvmlite is not installed (it comes with Numba)"
    if not processor().has_fma:
        return "this processor has no fused multiply-add"
    return None


@functools.cache
def _initialised() -> None:
    llvm().initialize_native_target()
    llvm().initialize_native_asmprinter()


_compiling = threading.Lock()  # LLVM's global context may be used by one thread at a time


F = TypeVar("F", bound=Callable[..., Any])


def once(function: F) -> F:
    """`function`, called once for equal arguments by whichever thread is first; the others wait for it.

    functools.cache would let two threads compile the same code, and one copy would be freed while it is in use.
    """
    results: dict[tuple[Any, ...], Any] = {}
    making = threading.RLock()

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        key = (arguments, tuple(sorted(options.items())))
        with making:
            if key not in results:
                results[key] = function(*arguments, **options)
            return results[key]

    return cast(F, call)


class Machine:
    """Compiled functions by name, each called as function(address of its arguments); calls release the GIL."""

    def __init__(self, engine: Any, names: Sequence[str]):
        self._engine = engine
        self._addresses = {name: engine.get_function_address(name) for name in names}
        of_a_pointer = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        self._functions = {name: of_a_pointer(address) for name, address in self._addresses.items()}

    def __getitem__(self, name: str) -> Any:
        return self._functions[name]

    def address(self, name: str) -> int:
        return self._addresses[name]

    def __contains__(self, name: str) -> bool:
        return name in self._functions


def effort(operations: int) -> dict[str, int]:
    """How hard to try for a function of so many instructions: the passes of LLVM, and its level of code generation."""
    return {"level": 3, "passes": 3} if operations <= OPTIMISED else {"level": 1, "passes": 0}


def compiled(text: str, names: Sequence[str], level: int, passes: int = 0) -> Machine:
    """The functions `names` of a module.

    It has a context of its own, since LLVM's global one keeps every constant that it has ever seen; and once there is
    code, the module itself, which is larger, goes.
    """
    with _compiling:
        _initialised()
        here = processor()
        module = llvm().parse_assembly(text, llvm().create_context())
        module.verify()
        target = (
            llvm()
            .Target.from_default_triple()
            .create_target_machine(cpu=here.name, features=here.features, opt=level, jit=True)
        )
        module.triple, module.data_layout = target.triple, str(target.target_data)
        if passes:
            tuning = llvm().create_pipeline_tuning_options(speed_level=passes)
            tuning.slp_vectorization = tuning.loop_vectorization = tuning.loop_unrolling = False
            builder = llvm().create_pass_builder(target, tuning)
            builder.getModulePassManager().run(module, builder)
        engine = llvm().create_mcjit_compiler(module, target)
        engine.finalize_object()
        engine.remove_module(module)
        module.close()
        return Machine(engine, names)


class Program:
    """The functions of a module, compiled quickly at first, and carefully once they have run long enough for it to pay.

    Both do the same arithmetic: how hard LLVM tries changes the time a program takes, never its bits.

    operations  in the text of the longest function
    work        operations that it does when it is called for one point or one step of a path; default: as many
    """

    def __init__(self, text: str, names: Sequence[str], operations: int, work: int | None = None):
        self.text, self.names, self.operations = text, names, operations
        self.work = operations if work is None else work
        self._worked, self._choosing = 0.0, threading.Lock()
        self._quick: Machine | None = None
        self._careful: Machine | None = None
        self._is_improving = False

    def machine(self, times: float) -> Machine:
        """The machine that computes a function for that many more points or steps."""
        with self._choosing:
            self._worked += times * self.work
            if self._careful is not None:
                return self._careful
            if self._is_improving or self._worked <= self._pays():
                self._quick = self._quick or compiled(self.text, self.names, **QUICK)
                return self._quick
            self._is_improving = True  # in this thread; others go on with quick code
        self._careful = compiled(self.text, self.names, **effort(self.operations))
        return self._careful

    def _pays(self) -> float:
        """The operations after which compiling with care pays."""
        return PAYS if self.operations <= LEVEL_ONE else PAYS_LATER * self.operations


GPU, OLDEST = "nvptx64-nvidia-cuda", "sm_75"  # PTX for the oldest supported cards runs on all later ones


def ptx(text: str) -> str:
    """A module as PTX, the assembly of NVIDIA's GPUs, which the driver optimises and translates for its card.

    Few passes are run here: combining instructions would widen the 32-bit arithmetic of counted normals to 64 bits.
    """
    with _compiling:
        llvm().initialize_all_targets()
        llvm().initialize_all_asmprinters()
        module = llvm().parse_assembly(text)
        module.verify()
        target = llvm().Target.from_triple(GPU).create_target_machine(cpu=OLDEST, opt=3)
        module.triple, module.data_layout = GPU, str(target.target_data)
        passes = llvm().create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_dead_code_elimination_pass()
        passes.run(module, llvm().create_pass_builder(target, llvm().create_pipeline_tuning_options(speed_level=1)))
        return with_numbers_in_memory(target.emit_assembly(module))


ARITHMETIC = re.compile(r"\s+(?:fma|mul|add|sub)\.rn\.f64\s")
NUMBER = re.compile(r"\b0d([0-9A-F]{8})([0-9A-F]{8})\b")
HEAD = ".address_size 64\n"
ROOM = 4096  # numbers, half of a card's constant memory


def with_numbers_in_memory(text: str) -> str:
    """PTX whose arithmetic reads its numbers from constant memory.

    An instruction of the card holds the upper half of a number at most: one with digits in its lower half would be put
    together by two further instructions, wherever it is used. From constant memory it comes by one.
    """
    places: dict[str, int] = {}
    lines, loads = [], 0
    for line in text.splitlines():
        if ARITHMETIC.match(line):
            for high, low in NUMBER.findall(line):
                word = high + low
                if low == "00000000" or (word not in places and len(places) == ROOM):
                    continue
                place = places.setdefault(word, len(places))
                lines.append(f"\tld.const.f64 \t%number{loads}, [numbers+{8 * place}];")
                line = line.replace(f"0d{word}", f"%number{loads}", 1)
                loads += 1
        lines.append(line)
    if not places:
        return text
    words = ", ".join(f"0x{word}" for word in places)
    memory = f".const .align 8 .b64 numbers[{len(places)}] = {{{words}}};\n"
    moved = "\n".join(lines).replace(HEAD, HEAD + memory, 1) + "\n"
    return moved.replace("\n{\n", f"\n{{\n\t.reg .f64 \t%number<{loads}>;\n")
