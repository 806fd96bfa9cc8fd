"""The generators of paths (path_normals) as LLVM text: seeding, and filling rows of eight normals.

There are two layouts, with the same numbers. *Interleaved*: the lanes in turn, a few at a time in scalar registers,
whose work then overlaps. *Vector*: all eight in vectors, the layers gathered from the table. On Neoverse-N1 the first
takes 2.6 ns per normal and the second 3.9; with AVX-512, where gathers are instructions, the second is better.
A number that falls outside its layer's rectangle, one in 84, is finished lane by lane in a function of its own.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from stodyn.noise.sfc64 import DISCARDED, FIRST_FACTOR, INCREMENT, LANES, SECOND_FACTOR
from stodyn.noise.ziggurat import LAYERS, TAIL, layer_table
from stodyn.numerics.printing import compiling, elementary
from stodyn.numerics.printing.vectors import REAL, literal

WORDS = 4  # of a generator's state
INTERLEAVED, VECTOR = "interleaved", "vector"

WIDE = '"prefer-vector-width"="512" "min-legal-vector-width"="512"'  # else LLVM may cut vectors in two
FILL, SEED, KEY = "sd_fill_normals", "sd_seed_normals", "sd_key"
POOL = 4  # words of NumPy's SeedSequence, a hash by M. E. O'Neill whose numbers its authors keep
INTO, OUT = (0x43B0D7E5, 0x931E8875), (0x8B51F9DD, 0x58F38DED)  # its constants in and out of the pool: first, factor
LEFT, RIGHT = 0xCA01F9DD, 0x4973F715  # by which two words are mixed
WORD_VECTOR, REAL_VECTOR, MASK_VECTOR = (f"<{LANES} x {t}>" for t in ("i64", "double", "i1"))


class Compiled(NamedTuple):
    """The functions' addresses, the same as Python callables, and the objects that must live as long as they do."""

    fill_address: int
    seed_address: int
    fill: Any
    seed: Any
    key: Any
    machine: compiling.Machine


@compiling.once
def compiled(layout: str | None = None) -> Compiled:
    """Return the functions for this processor, which are compiled once in a process; `layout` is chosen by the
    processor."""
    wide = compiling.processor().register == 8
    machine = compiling.compiled(
        text(layout or (VECTOR if wide else INTERLEAVED), WIDE if wide else ""), [FILL, SEED, KEY], level=2
    )
    fill, seed = machine.address(FILL), machine.address(SEED)
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    return Compiled(
        fill,
        seed,
        ctypes.CFUNCTYPE(None, pointer, pointer, count, count)(fill),
        ctypes.CFUNCTYPE(None, pointer, pointer, pointer, count)(seed),
        ctypes.CFUNCTYPE(None, pointer, pointer)(machine.address(KEY)),
        machine,
    )


def text(layout: str, attributes: str = "") -> str:
    """The text of the whole module that is compiled; `attributes` are the processor's."""
    fill = _interleaved() if layout == INTERLEAVED else _vector(attributes)
    return "\n".join([_tables(), elementary.definitions({"exp", "log1p"}, 1), _finish(), _key(), _seed(), fill])


def _number(x: float) -> str:
    return literal(x, REAL, 1)


def _tables() -> str:
    rows = layer_table().tolist()
    pair = lambda a, b: f"double {_number(a)}, double {_number(b)}"  # noqa: E731
    layers = ", ".join(pair(threshold, width) for threshold, width, _, _ in rows)
    edges = ", ".join(pair(rise, height) for _, _, rise, height in rows[:LAYERS])
    return (
        f"@layers = internal constant [{4 * LAYERS} x double] [{layers}], align 64\n"
        f"@edges = internal constant [{2 * LAYERS} x double] [{edges}], align 64"
    )


def _next(tag: str, kind: str = "i64") -> str:
    """The word %t of SFC64 and its state %a1, %b1, %c1, %w1 after it, from %a, %b, %c, %w; every name ends in `tag`."""
    of = lambda n: str(n) if kind == "i64" else f"splat (i64 {n})"  # noqa: E731
    mangled = "i64" if kind == "i64" else f"v{LANES}i64"
    return f"""  %ab{tag} = add {kind} %a{tag}, %b{tag}
  %t{tag} = add {kind} %ab{tag}, %w{tag}
  %w1{tag} = add {kind} %w{tag}, {of(1)}
  %b11{tag} = lshr {kind} %b{tag}, {of(11)}
  %a1{tag} = xor {kind} %b{tag}, %b11{tag}
  %c3{tag} = shl {kind} %c{tag}, {of(3)}
  %b1{tag} = add {kind} %c{tag}, %c3{tag}
  %c24{tag} = call {kind} @llvm.fshl.{mangled}({kind} %c{tag}, {kind} %c{tag}, {kind} {of(24)})
  %c1{tag} = add {kind} %c24{tag}, %t{tag}
"""


def _places(tag: str = "", lane: int = 0) -> str:
    """The places of a lane's words in the state."""
    return "".join(
        f"  %{word}at{tag} = getelementptr i64, ptr %state, i64 {LANES * k + lane}\n" for k, word in enumerate("abcw")
    )


def _load(name: str, tag: str = "", kind: str = "i64") -> str:
    return "".join(f"  %{word}{name} = load {kind}, ptr %{word}at{tag}, align 8\n" for word in "abcw")


def _store(name: str, tag: str = "", kind: str = "i64") -> str:
    return "".join(f"  store {kind} %{word}{name}, ptr %{word}at{tag}, align 8\n" for word in "abcw")


def _finish() -> str:
    """The normal of a lane whose first word fell outside, by as many more words as it takes."""
    return f"""
define internal i64 @next(ptr %state) nounwind {{
{_places()}{_load("")}{_next("")}{_store("1")}  ret i64 %t
}}

define internal double @uniform(ptr %state) nounwind {{
  %word = call i64 @next(ptr %state)
  %upper = lshr i64 %word, 11
  %whole = uitofp i64 %upper to double
  %u = fmul double %whole, {_number(2.0**-53)}
  ret double %u
}}

define internal double @exponential(ptr %state) nounwind {{
  %u = call double @uniform(ptr %state)
  %minus = fneg double %u
  %log = call double @{elementary.call_name("log1p", 1)}(double %minus)
  %x = fneg double %log
  ret double %x
}}

define internal double @finish(ptr %state, i64 %first) nounwind noinline cold {{
entry:
  br label %look
look:
  %word = phi i64 [ %first, %entry ], [ %again, %anew ]
  %row = and i64 %word, {2 * LAYERS - 1}
  %layer = and i64 %word, {LAYERS - 1}
  %left = shl i64 %word, 3
  %whole = lshr i64 %left, 12
  %place = uitofp i64 %whole to double
  %at = getelementptr <2 x double>, ptr @layers, i64 %row
  %width_at = getelementptr double, ptr %at, i64 1
  %threshold = load double, ptr %at, align 8
  %width = load double, ptr %width_at, align 8
  %x = fmul double %place, %width
  %inside = fcmp olt double %place, %threshold
  br i1 %inside, label %done, label %outside
outside:
  %lowest = icmp eq i64 %layer, 0
  br i1 %lowest, label %tail, label %edge
edge:
  %u = call double @uniform(ptr %state)
  %edge_at = getelementptr <2 x double>, ptr @edges, i64 %layer
  %height_at = getelementptr double, ptr %edge_at, i64 1
  %rise = load double, ptr %edge_at, align 8
  %height = load double, ptr %height_at, align 8
  %risen = fmul double %rise, %u
  %y = fadd double %risen, %height
  %squared = fmul double %x, %x
  %half = fmul double %squared, {_number(-0.5)}
  %density = call double @{elementary.call_name("exp", 1)}(double %half)
  %under = fcmp olt double %y, %density
  br i1 %under, label %done, label %anew
anew:
  %again = call i64 @next(ptr %state)
  br label %look
tail:
  %first_wait = call double @exponential(ptr %state)
  %beyond = fmul double %first_wait, {_number(1.0 / TAIL)}
  %second_wait = call double @exponential(ptr %state)
  %twice = fadd double %second_wait, %second_wait
  %square = fmul double %beyond, %beyond
  %accepted = fcmp ogt double %twice, %square
  br i1 %accepted, label %signed, label %tail
signed:
  %far = fadd double %beyond, {_number(TAIL)}
  %moved = shl i64 %word, 46
  %sign = and i64 %moved, {-(2**63)}
  %bits = bitcast double %far to i64
  %both = or i64 %bits, %sign
  %tailed = bitcast i64 %both to double
  br label %done
done:
  %found = phi double [ %x, %look ], [ %x, %edge ], [ %tailed, %signed ]
  ret double %found
}}
"""


def _key() -> str:
    """void sd_key(const uint32_t entropy[5], uint64_t key[3]): generate_state(3, uint64) of NumPy's
    SeedSequence(seed, spawn_key=(stream,)); the entropy is four words of the seed, the lowest first, and the stream."""
    lines: list[str] = []

    def new(instruction: str) -> str:
        lines.append(f"  %x{len(lines)} = {instruction}")
        return f"%x{len(lines) - 1}"

    def folded(x: str) -> str:
        return new(f"xor i32 {x}, {new(f'lshr i32 {x}, 16')}")

    def hashing(first: int, factor: int) -> Callable[[str], str]:
        """A hash whose constants change from call to call."""
        constants = itertools.accumulate(itertools.repeat(factor), lambda c, f: c * f % 2**32, initial=first)
        pairs = itertools.pairwise(constants)

        def hashed(x: str) -> str:
            before, after = next(pairs)
            return folded(new(f"mul i32 {new(f'xor i32 {x}, {before}')}, {after}"))

        return hashed

    def mixed(x: str, y: str) -> str:
        return folded(new(f"sub i32 {new(f'mul i32 {x}, {LEFT}')}, {new(f'mul i32 {y}, {RIGHT}')}"))

    entropy = [new(f"load i32, ptr {new(f'getelementptr i32, ptr %entropy, i64 {k}')}") for k in range(POOL + 1)]
    hashed = hashing(*INTO)
    pool = [hashed(word) for word in entropy[:POOL]]
    for source in range(POOL):
        for place in range(POOL):
            if place != source:
                pool[place] = mixed(pool[place], hashed(pool[source]))
    pool = [mixed(word, hashed(entropy[POOL])) for word in pool]
    hashed = hashing(*OUT)
    for k in range(2 * 3):
        half = new(f"getelementptr i32, ptr %key, i64 {k}")
        lines.append(f"  store i32 {hashed(pool[k % POOL])}, ptr {half}, align 4")
    return "\n".join([f"define void @{KEY}(ptr %entropy, ptr %key) nounwind {{", *lines, "  ret void", "}", ""])


def _seed() -> str:
    """void sd_seed_normals(const uint64_t key[3], const uint64_t *paths, uint64_t (*states)[4][8], int64_t count)."""
    signed = lambda n: int(n) - 2**64  # noqa: E731
    words = "".join(
        f"""  %keyat{n} = getelementptr i64, ptr %key, i64 {k}
  %key{n} = load i64, ptr %keyat{n}, align 8
  %z{n} = add i64 %key{n}, %moved
  %z30{n} = lshr i64 %z{n}, 30
  %y{n} = xor i64 %z{n}, %z30{n}
  %m{n} = mul i64 %y{n}, {signed(FIRST_FACTOR)}
  %m27{n} = lshr i64 %m{n}, 27
  %v{n} = xor i64 %m{n}, %m27{n}
  %u{n} = mul i64 %v{n}, {signed(SECOND_FACTOR)}
  %u31{n} = lshr i64 %u{n}, 31
  %{n}first = xor i64 %u{n}, %u31{n}
"""
        for k, n in enumerate("abc")
    )
    phis = "".join(f"  %{n} = phi i64 [ %{n}first, %path ], [ %{n}1, %round ]\n" for n in "abc")
    return f"""
define void @{SEED}(ptr %key, ptr %paths, ptr %states, i64 %count) nounwind {{
entry:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %path, label %end
path:
  %i = phi i64 [ 0, %entry ], [ %i_next, %kept ]
  %path_at = getelementptr i64, ptr %paths, i64 %i
  %number = load i64, ptr %path_at, align 8
  %from_one = add i64 %number, 1
  %moved = mul i64 %from_one, {signed(INCREMENT)}
{words}  br label %round
round:
  %k = phi i64 [ 0, %path ], [ %k_next, %round ]
{phis}  %w = phi i64 [ 1, %path ], [ %w1, %round ]
{_next("")}  %k_next = add i64 %k, 1
  %more_rounds = icmp slt i64 %k_next, {DISCARDED}
  br i1 %more_rounds, label %round, label %kept
kept:
  %group = lshr i64 %i, 3
  %lane = and i64 %i, {LANES - 1}
  %group_word = mul i64 %group, {LANES * WORDS}
  %first_word = add i64 %group_word, %lane
  %state = getelementptr i64, ptr %states, i64 %first_word
{_places()}{_store("1")}  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %count
  br i1 %more, label %path, label %end
end:
  ret void
}}
"""


def _interleaved() -> str:
    """void sd_fill_normals(uint64_t state[4][8], double *out, int64_t rows, int64_t stride), a few lanes at a time."""
    at_once = 4
    lanes = range(at_once)
    last = f"next{at_once - 1}"
    begin = "".join(_places(str(l), l) + _load(f"_{l}", str(l)) for l in lanes)
    phis = "".join(
        f"  %{n}{l} = phi i64 [ %{n}_{l}, %entry ], [ %{n}new{l}, %{last} ]\n" for l in lanes for n in "abcw"
    )
    look = "".join(
        f"""{_next(str(l))}  %row{l} = and i64 %t{l}, {2 * LAYERS - 1}
  %left{l} = shl i64 %t{l}, 3
  %whole{l} = lshr i64 %left{l}, 12
  %place{l} = uitofp i64 %whole{l} to double
  %at{l} = getelementptr <2 x double>, ptr @layers, i64 %row{l}
  %width_at{l} = getelementptr double, ptr %at{l}, i64 1
  %threshold{l} = load double, ptr %at{l}, align 8
  %width{l} = load double, ptr %width_at{l}, align 8
  %x{l} = fmul double %place{l}, %width{l}
  %inside{l} = fcmp olt double %place{l}, %threshold{l}
"""
        for l in lanes
    )
    take, odds = "", '!prof !{!"branch_weights", i32 2000, i32 24}'
    for l in lanes:
        before = f"next{l - 1}" if l else "row"
        take += f"""  br i1 %inside{l}, label %next{l}, label %outside{l}, {odds}
outside{l}:
{_store(f"1{l}", str(l))}  %z{l} = call double @finish(ptr %aat{l}, i64 %t{l})
{_load(f"2{l}", str(l))}  br label %next{l}
next{l}:
  %v{l} = phi double [ %x{l}, %{before} ], [ %z{l}, %outside{l} ]
"""
        take += "".join(f"  %{n}new{l} = phi i64 [ %{n}1{l}, %{before} ], [ %{n}2{l}, %outside{l} ]\n" for n in "abcw")
        take += f"  %out{l} = getelementptr double, ptr %o, i64 {l}\n  store double %v{l}, ptr %out{l}, align 8\n"
    parts = "".join(
        f"""  %state{l} = getelementptr i64, ptr %state, i64 {l}
  %out{l} = getelementptr double, ptr %out, i64 {l}
  call void @fill_some(ptr %state{l}, ptr %out{l}, i64 %rows, i64 %stride)
"""
        for l in range(0, LANES, at_once)
    )
    return f"""
define internal void @fill_some(ptr %state, ptr noalias %out, i64 %rows, i64 %stride) nounwind noinline {{
entry:
{begin}  br label %row
row:
  %left = phi i64 [ %rows, %entry ], [ %fewer, %{last} ]
  %o = phi ptr [ %out, %entry ], [ %o_next, %{last} ]
{phis}{look}{take}  %o_next = getelementptr double, ptr %o, i64 %stride
  %fewer = add i64 %left, -1
  %more = icmp sgt i64 %fewer, 0
  br i1 %more, label %row, label %end
end:
{"".join(_store(f"new{l}", str(l)) for l in lanes)}  ret void
}}

define void @{FILL}(ptr %state, ptr noalias %out, i64 %rows, i64 %stride) nounwind {{
  %some = icmp sgt i64 %rows, 0
  br i1 %some, label %fill, label %end
fill:
{parts}  br label %end
end:
  ret void
}}
"""


def _vector(attributes: str) -> str:
    """Return the text of the function with all lanes in vectors."""
    words, reals, masks = WORD_VECTOR, REAL_VECTOR, MASK_VECTOR
    gather = f"call {reals} @llvm.masked.gather.v{LANES}f64.v{LANES}p0"
    every = f"i32 8, {masks} splat (i1 true), {reals} poison"
    rare = "".join(
        f"""  %inside{l} = extractelement {masks} %inside, i32 {l}
  br i1 %inside{l}, label %past{l}, label %outside{l}
outside{l}:
  %word{l} = extractelement {words} %t, i32 {l}
  %state{l} = getelementptr i64, ptr %state, i64 {l}
  %z{l} = call double @finish(ptr %state{l}, i64 %word{l})
  %out{l} = getelementptr double, ptr %o, i64 {l}
  store double %z{l}, ptr %out{l}, align 8
  br label %past{l}
past{l}:
"""
        for l in range(LANES)
    )
    last = f"past{LANES - 1}"
    before = "".join(f"  %{n} = phi {words} [ %{n}_, %entry ], [ %{n}new, %next ]\n" for n in "abcw")
    after = "".join(f"  %{n}new = phi {words} [ %{n}1, %row ], [ %{n}2, %{last} ]\n" for n in "abcw")
    return f"""
define void @{FILL}(ptr %state, ptr noalias %out, i64 %rows, i64 %stride) nounwind {attributes} {{
entry:
{_places()}{_load("_", kind=words)}  %some = icmp sgt i64 %rows, 0
  br i1 %some, label %row, label %none
none:
  ret void
row:
  %left = phi i64 [ %rows, %entry ], [ %fewer, %next ]
  %o = phi ptr [ %out, %entry ], [ %o_next, %next ]
{before}{_next("", words)}  %layer = and {words} %t, splat (i64 {2 * LAYERS - 1})
  %pair = shl {words} %layer, splat (i64 1)
  %moved = shl {words} %t, splat (i64 3)
  %whole = lshr {words} %moved, splat (i64 12)
  %place = uitofp {words} %whole to {reals}
  %at = getelementptr double, ptr @layers, {words} %pair
  %width_at = getelementptr double, ptr getelementptr (i8, ptr @layers, i64 8), {words} %pair
  %threshold = {gather}(<{LANES} x ptr> %at, {every})
  %width = {gather}(<{LANES} x ptr> %width_at, {every})
  %x = fmul {reals} %place, %width
  store {reals} %x, ptr %o, align 8
  %inside = fcmp olt {reals} %place, %threshold
  %all = call i1 @llvm.vector.reduce.and.v{LANES}i1({masks} %inside)
  br i1 %all, label %next, label %rare, !prof !{{!"branch_weights", i32 2000, i32 200}}
rare:
{_store("1", kind=words)}{rare}{_load("2", kind=words)}  br label %next
next:
{after}  %o_next = getelementptr double, ptr %o, i64 %stride
  %fewer = add i64 %left, -1
  %more = icmp sgt i64 %fewer, 0
  br i1 %more, label %row, label %end
end:
{_store("new", kind=words)}  ret void
}}
"""
