"""When code is compiled again with care: once it has run long enough for that to pay, by one thread."""

import mmap
import threading
from pathlib import Path

import pytest

from stodyn.numerics.printing import compiling


@pytest.fixture
def made(monkeypatch):
    efforts = []

    def compiled(text, names, level, passes):
        efforts.append((level, passes))
        return object()

    monkeypatch.setattr(compiling, "compiled", compiled)
    return efforts


@pytest.mark.parametrize(("instructions", "pays", "care"),
                         [(100, 3e8, (3, 3)), (1000, 3e8, (1, 0)), (20_000, 3e10, (1, 0))])  # fmt: skip
def test_long_code_is_compiled_with_care_later(made, instructions, pays, care):
    program = compiling.Program("", ["run"], instructions, work=1)
    quick = program.machine(0.5 * pays)
    assert program.machine(0.4 * pays) is quick and made == [(0, 0)]
    careful = program.machine(0.2 * pays)
    assert careful is not quick and program.machine(1) is careful and made == [(0, 0), care]


def test_other_threads_compute_with_quick_code_meanwhile(made, monkeypatch):
    program = compiling.Program("", ["run"], 20_000, work=1)
    quick = program.machine(1)
    began, may_end = threading.Event(), threading.Event()

    def slowly(text, names, level, passes):
        began.set()
        may_end.wait(10)
        return "careful"

    monkeypatch.setattr(compiling, "compiled", slowly)
    improving = threading.Thread(target=program.machine, args=(1e12,))
    improving.start()
    began.wait(10)
    assert program.machine(1) is quick
    may_end.set()
    improving.join()
    assert program.machine(1) == "careful"


def memory_in_use() -> int:
    """Bytes of this process, without those of files."""
    resident, of_files = map(int, Path("/proc/self/statm").read_text().split()[1:3])
    return (resident - of_files) * mmap.PAGESIZE


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell what a process uses")
def test_constants_of_programs_that_are_gone_are_gone():
    """LLVM's global context would keep the 4 MB of each."""

    def compile_with_table(number: int) -> None:
        table = f"{number:08}" * 500_000
        text = f'@table = constant [4000000 x i8] c"{table}"\ndefine void @run(ptr %p) {{\n  ret void\n}}\n'
        machine = compiling.compiled(text, ["run"], **compiling.QUICK)
        machine["run"](None)

    compile_with_table(0)
    before = memory_in_use()
    for number in range(1, 7):
        compile_with_table(number)
    assert memory_in_use() - before < 12_000_000
