"""A stepping model as C99: a header, and one source file without allocation, global state or libraries but libm.

The noise is that of a run: path p of a seed draws the numbers of path p of `stodyn.simulate` with that seed.
"""

from __future__ import annotations

import hashlib
import keyword
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from stodyn.engine import grid
from stodyn.engine.record.identity import versions
from stodyn.exporting.noises import SAMPLE
from stodyn.exporting.stepper import EARLY
from stodyn.exporting.stepping import Stepping
from stodyn.noise import from_normals
from stodyn.noise.sfc64 import DISCARDED, FIRST_FACTOR, INCREMENT, SECOND_FACTOR
from stodyn.noise.stream import STREAMS
from stodyn.noise.ziggurat import LAYERS, TAIL, layer_table
from stodyn.numerics.printing import c99

PREFIX = "sd"  # with it and _ begin the names of the functions that a file has for itself
SPELLED = str.maketrans({"∫": "int_", "ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"})
MARKS = {"COMBINING DOT ABOVE": "dot", "COMBINING DIAERESIS": "ddot", "COMBINING CIRCUMFLEX ACCENT": "hat",
         "COMBINING MACRON": "bar", "COMBINING TILDE": "tilde"}  # fmt: skip
# With -O2 gcc 12 numbers the values of steps with many loops, such as those of switches in a netlist, for minutes, and
# makes nothing faster: -O1 takes seconds.
FLAGS = "-std=c99 -O1 -ffp-contract=off"
# Clang fuses even C99 by default, and listens to the pragma of C99. gcc has one of its own; gcc 12 fuses pairs of
# products with a sum beside a difference (vfmaddsub) whatever it is told, unless it does not vectorise.
UNFUSED = """#if defined __clang__
#pragma STDC FP_CONTRACT OFF
#elif defined __GNUC__
#pragma GCC optimize ("fp-contract=off", "no-tree-vectorize")
#elif defined _MSC_VER
#pragma fp_contract(off)
#endif
"""


def identifier(name: str) -> str:
    """A word that C and C++ take as a name, of ASCII letters alone: x₁ is x1, θ is theta, and ẋ is xdot."""
    spelled = "".join(map(_ascii, unicodedata.normalize("NFKD", name.translate(SPELLED))))
    word = re.sub(r"\W+", "_", spelled).strip("_") or "model"
    return f"m_{word}" if word[0].isdigit() or keyword.iskeyword(word) or word == PREFIX else word


def _ascii(letter: str) -> str:
    """A letter in ASCII; a blank for signs."""
    if letter.isascii():
        return letter
    called = unicodedata.name(letter, "")
    if unicodedata.combining(letter):
        return MARKS.get(called, "")
    if called.startswith("GREEK") and "LETTER" in called:
        word = called.partition("LETTER ")[2].split()[0].replace("LAMDA", "LAMBDA")
        return word.lower() if "SMALL" in called else word.capitalize()
    return f"u{ord(letter):04x}" if letter.isalnum() else " "


def digest(model: Stepping, inputs: Sequence[str]) -> str:
    """A digest of everything that the model computes: two files with the same digest are the same model."""
    parts = [model.text(), repr(model.start.tolist()), repr(model.dt), repr(model.begins_at), repr(model.streams),
             repr([(p.name, p.value) for p in model.parameters]), repr(model.outputs), repr(tuple(inputs))]  # fmt: skip
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def header(model: Stepping, name: str, inputs: Sequence[str]) -> str:
    """The declarations."""
    upper = name.upper()
    params = ", ".join(f"{upper}_PARAM_{identifier(p.name)} = {p.place}" for p in model.parameters)
    outputs = ", ".join(f"{upper}_OUTPUT_{identifier(word)}" for word in model.outputs)
    lines = [
        f"/* {name}: {model.title}.",
        f"   Written by stodyn {versions()['stodyn']}; digest {digest(model, inputs)[:16]}.",
        f"   Compile with {FLAGS} and link with -lm; {name}_check() says whether the arithmetic is right. */",
        f"#ifndef {upper}_H",
        f"#define {upper}_H",
        "#include <stdint.h>",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        f"enum {{ {upper}_INPUTS = {len(inputs)}, {upper}_OUTPUTS = {len(model.outputs)} }};",
        *([f"enum {{ {params} }};"] if params else []),
        f"enum {{ {outputs} }};",
        "/* Plain numbers: a copy is a snapshot. */",
        "typedef struct {",
        f"    double state[{model.state_words}];",
        f"    double params[{max(model.words.size, 1)}];",
        *(["    double keys[4];"] if model.has_keys else []),
        f"    uint64_t noise[{max(len(model.streams), 1)}][4];",
        *(["    uint64_t counted[3];"] if model.is_by_time else []),
        "    int64_t steps;",
        f"}} {name}_state;",
        "/* 0 where the compiler neither fuses nor reorders arithmetic: call it once. */",
        f"int {name}_check(void);",
        "/* The beginning of a path; params: as many numbers as the state holds, NULL for those of the problem. */",
        f"void {name}_begin({name}_state *s, uint64_t seed, uint64_t path, const double *params);",
        "/* A step with the inputs held; 0, or 1 where it failed and the state is the one before. Both may be NULL. */",
        f"int {name}_step({name}_state *s, const double *inputs, double *outputs);",
        f"void {name}_outputs(const {name}_state *s, double *outputs);",
        f"double {name}_time(const {name}_state *s);",
        f"void {name}_defaults(double *params);",
        *(_declared_by_time(name) if model.is_by_time else []),
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "#endif",
        "",
    ]
    return "\n".join(lines)


def _declared_by_time(name: str) -> list[str]:
    return [
        "/* The sample that is held at time t, the same however often and in whatever order it is asked for. These",
        "   samples are another path than those of the steps. NaN where t is no number of a sample. */",
        f"void {name}_at(const {name}_state *s, double t, double *outputs);",
    ]


def source(model: Stepping, name: str, inputs: Sequence[str], included: str) -> str:
    """The definitions; `included` is the name of the header."""
    text = "\n".join([
        c99.translated(model.text(("exp", "log1p") if model.streams else ())), _seeds() if model.is_random else "",
        _normals() if model.streams else "", _counted(model), _times(), _interface(model, name, inputs),
    ])  # fmt: skip
    return "\n".join(
        [f'#include "{included}"', "#include <math.h>", "#include <string.h>", UNFUSED, c99.helpers(name, text), text]
    )


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(c99.real_number(float(x)) for x in values)


def _seeds() -> str:
    """Words of a path from its seed, as by NumPy's SeedSequence and SplitMix64."""
    constant = lambda x: f"UINT64_C({int(x)})"  # noqa: E731
    return f"""
static uint32_t sd_hashed(uint32_t x, uint32_t *factor, uint32_t next)
{{
    x ^= *factor;
    *factor *= next;
    x *= *factor;
    return x ^ x >> 16;
}}

static uint64_t sd_mixed(uint64_t z)
{{
    z = (z ^ z >> 30) * {constant(FIRST_FACTOR)};
    z = (z ^ z >> 27) * {constant(SECOND_FACTOR)};
    return z ^ z >> 31;
}}

/* NumPy's SeedSequence(seed, spawn_key=(stream,)), without spawn_key where stream is negative. */
static void sd_words(uint32_t *words, int count, uint64_t seed, int stream)
{{
    uint32_t pool[4], given[4] = {{(uint32_t)seed, (uint32_t)(seed >> 32), 0, 0}};
    uint32_t factor = UINT32_C(0x43b0d7e5), out = UINT32_C(0x8b51f9dd);
    for (int i = 0; i < 4; i++) pool[i] = sd_hashed(given[i], &factor, UINT32_C(0x931e8875));
    for (int from = 0; from < (stream < 0 ? 4 : 5); from++)
        for (int to = 0; to < 4; to++)
            if (from != to) {{
                uint32_t x = sd_hashed(from < 4 ? pool[from] : (uint32_t)stream, &factor, UINT32_C(0x931e8875));
                x = UINT32_C(0xca01f9dd) * pool[to] - UINT32_C(0x4973f715) * x;
                pool[to] = x ^ x >> 16;
            }}
    for (int i = 0; i < count; i++) words[i] = sd_hashed(pool[i % 4], &out, UINT32_C(0x58f38ded));
}}

/* Three words of a path and a stream. */
static void sd_path_words(uint64_t *g, uint64_t seed, uint64_t path, int stream)
{{
    uint32_t words[6];
    sd_words(words, 6, seed, stream);
    for (int i = 0; i < 3; i++)
        g[i] = sd_mixed((words[2 * i] | (uint64_t)words[2 * i + 1] << 32) + (path + 1) * {constant(INCREMENT)});
}}
"""


def _normals() -> str:
    """NumPy's ziggurat on the generator of a path."""
    rows = layer_table()
    return f"""
static const double sd_layers[{2 * len(rows)}] = {{{_numbers(rows[:, :2].ravel())}}};
static const double sd_edges[{2 * LAYERS}] = {{{_numbers(rows[:LAYERS, 2:].ravel())}}};

static uint64_t sd_next(uint64_t g[4])
{{
    uint64_t word = g[0] + g[1] + g[3]++;
    g[0] = g[1] ^ g[1] >> 11;
    g[1] = g[2] + (g[2] << 3);
    g[2] = sd_fshl(g[2], g[2], 24) + word;
    return word;
}}

static void sd_seeded(uint64_t g[4], uint64_t seed, uint64_t path, int stream)
{{
    sd_path_words(g, seed, path, stream);
    g[3] = 1;
    for (int i = 0; i < {DISCARDED}; i++) sd_next(g);
}}

static double sd_uniform(uint64_t g[4]) {{ return (double)(sd_next(g) >> 11) * 0x1p-53; }}

static double sd_normal(uint64_t g[4])
{{
    for (;;) {{
        uint64_t word = sd_next(g), row = word & {2 * LAYERS - 1}, layer = word & {LAYERS - 1};
        double place = (double)((word << 3) >> 12), x = place * sd_layers[2 * row + 1];
        if (place < sd_layers[2 * row]) return x;
        if (layer) {{
            double risen = sd_edges[2 * layer] * sd_uniform(g), square = x * x;
            if (risen + sd_edges[2 * layer + 1] < sd_exp_v1(-0.5 * square)) return x;
        }} else {{
            double far, twice, beyond;
            do {{
                far = -sd_log1p_v1(-sd_uniform(g)) * {c99.real_number(1.0 / TAIL)};
                beyond = -sd_log1p_v1(-sd_uniform(g));
                twice = beyond + beyond;
            }} while (!(twice > far * far));
            far += {c99.real_number(TAIL)};
            return word >> 17 & 1 ? -far : far;
        }}
    }}
}}
"""


def _counted(model: Stepping) -> str:
    """The C functions that make normals by their numbers."""
    if "pair" not in model.functions:
        return ""
    return f"""
static void sd_key(uint64_t key[2], uint64_t seed)
{{
    uint32_t words[2];
    sd_words(words, 2, seed, -1);
    key[0] = words[0], key[1] = words[1];
}}

static void sd_counted(double *z, int count, const uint64_t *key, uint64_t path, uint64_t stream, uint64_t first)
{{
    for (int i = 0; i < count; i += 2) {{
        double two[2];
        uint64_t number = first + (uint64_t)i / 2;
        {_call(model, "pair", "two")}
        z[i] = two[0];
        if (i + 1 < count) z[i + 1] = two[1];
    }}
}}
"""


def _times() -> str:
    """The time of step k, as in engine.grid.step_time."""
    count = len(grid.SIZES)
    return f"""
static double sd_time(double begin, double dt, int64_t k)
{{
    static const double sizes[{count}] = {{{_numbers(grid.SIZES)}}};
    static const double scales[{count}] = {{{_numbers(grid.SCALES)}}};
    double along = (double)k * dt, t = begin + along, size = fabs(begin) > fabs(t) ? fabs(begin) : fabs(t), decimal;
    int i = {count - 1};
    if (!k || size > sizes[i]) return t;
    while (i > 0 && size <= sizes[i - 1]) i--;
    decimal = rint(t * scales[i]) / scales[i];
    return fabs(decimal - t) <= 2 * (nextafter(size, INFINITY) - size) ? decimal : t;
}}
"""


def _interface(model: Stepping, name: str, inputs: Sequence[str]) -> str:
    begin, dt = c99.real_number(model.begins_at), c99.real_number(model.dt)
    return f"""
void {name}_defaults(double *params)
{{
{_lines(f"params[{k}] = {x};" for k, x in enumerate(_defaults(model)))}
}}

double {name}_time(const {name}_state *s) {{ return sd_time({begin}, {dt}, s->steps); }}

void {name}_begin({name}_state *s, uint64_t seed, uint64_t path, const double *params)
{{
    double start[{len(model.start)}] = {{{_numbers(model.start)}}}, t = {begin};
    memset(s, 0, sizeof *s);
    if (params) memcpy(s->params, params, sizeof s->params);
    else {name}_defaults(s->params);
{_lines(_begun(model))}
}}

void {name}_outputs(const {name}_state *s, double *outputs)
{{
    double t = {name}_time(s);
    (void)t;
    {_call(model, "look", "outputs")}
}}

int {name}_step({name}_state *s, const double *inputs, double *outputs)
{{
    double t = {name}_time(s), h = {dt}, after[{model.state_words + 1}];
{_lines(_stepped(model, inputs))}
    s->steps++;
    if (outputs) {name}_outputs(s, outputs);
    return 0;
}}
{_by_time(model, name) if model.is_by_time else ""}"""


def _by_time(model: Stepping, name: str) -> str:
    begin, dt = c99.real_number(model.begins_at), c99.real_number(model.dt)
    assert model.noise is not None
    count = model.noise.normals
    pairs, stream = -(-count // 2), STREAMS[SAMPLE]
    return f"""
void {name}_at(const {name}_state *s, double t, double *outputs)
{{
    double z[{count}], sample = floor((t - {begin}) / {dt} + {c99.real_number(EARLY)});
    if (!(fabs(sample) < 0x1p63)) {{
        for (int i = 0; i < {len(model.outputs)}; i++) outputs[i] = NAN;
        return;
    }}
    sd_counted(z, {count}, s->counted, s->counted[2], {stream}, (uint64_t)(int64_t)sample * {pairs});
    {_call(model, "at", "outputs")}
}}
"""


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _defaults(model: Stepping) -> list[str]:
    """The words of the params, whole numbers by their bits."""
    is_real = [value.dtype.kind == "f" for _, value in model.common_params for _ in range(value.size)]
    return [c99.real_number(float(x)) if real else f"sd_i64_as_double(UINT64_C({x.view(np.uint64)}))"
            for x, real in zip(model.words, is_real, strict=True)] or ["0.0"]  # fmt: skip


def _begun(model: Stepping) -> Iterator[str]:
    yield from ("(void)seed;", "(void)path;", "(void)t;")
    for j, (stream, _) in enumerate(model.streams):
        yield f"sd_seeded(s->noise[{j}], seed, path, {STREAMS[stream]});"
    if model.has_keys:
        yield f"uint64_t words[3];\n    sd_path_words(words, seed, path, {STREAMS['sensor']});"
        yield "for (int i = 0; i < 4; i++) s->keys[i] = (double)(words[0] >> 16 * i & 0xFFFF);"
    if "draw" in model.functions:
        count = model.spec.problem.start_from_normals.normals
        yield f"uint64_t key[2];\n    double z[{count}];"
        yield "sd_key(key, seed);"
        yield f"sd_counted(z, {count}, key, path, {STREAMS[from_normals.STREAM]}, 0);"
        yield _call(model, "draw", "start")
    if model.is_by_time:
        yield "s->counted[0] = key[0], s->counted[1] = key[1], s->counted[2] = path;"
    yield _call(model, "begin", "s->state")


def _stepped(model: Stepping, inputs: Sequence[str]) -> Iterator[str]:
    """The step itself; the state is left alone where it fails."""
    layout, now = model.source.layout, "now" if "jump" in model.functions else ARRAYS["now"]
    yield from ("(void)t;", "(void)h;", "(void)inputs;")
    yield from _inputs_set(model, inputs)
    if model.streams:
        yield f"double normals[{sum(count for _, count in model.streams)}];"
        yield f"uint64_t noise[{len(model.streams)}][4];"
        yield "memcpy(noise, s->noise, sizeof noise);"
    first = 0
    for j, (_, count) in enumerate(model.streams):
        yield f"for (int i = 0; i < {count}; i++) normals[{first} + i] = sd_normal(noise[{j}]);"
        first += count
    if model.streams:
        yield "(void)normals;"
    if "first_step" in model.functions:
        yield "double k = sd_i64_as_double((uint64_t)s->steps);\n    (void)k;"
        yield f"if (s->steps < {model.starting_steps}) {_call(model, 'first_step', 'after', now=now)}"
        yield f"else {_call(model, 'step', 'after', now=now)}"
    else:
        yield _call(model, "step", "after", now=now)
    reals = [f"isfinite(after[{k}])" for k in range(layout.of_method) if layout.real[k]]
    yield f"if (!({' && '.join([f'sd_double_as_i64(after[{model.state_words}])', *reals])})) {{"
    yield from (f"    s->params[{place}] = held[{j}];" for j, place in enumerate(_places(model, inputs)))
    yield "    return 1;\n    }"
    yield "memcpy(s->state, after, sizeof s->state);"
    if model.streams:
        yield "memcpy(s->noise, noise, sizeof noise);"


def _places(model: Stepping, inputs: Sequence[str]) -> list[int]:
    places = {p.name: p.place for p in model.parameters}
    return [places[name] for name in inputs]


def _inputs_set(model: Stepping, inputs: Sequence[str]) -> Iterator[str]:
    """The inputs among the params; a method that carries what they enter begins anew where one of them has jumped."""
    places = _places(model, inputs)
    if places:
        yield f"double held[{len(places)}] = {{{', '.join(f's->params[{place}]' for place in places)}}};"
    for j, place in enumerate(places):
        yield f"if (inputs) s->params[{place}] = inputs[{j}];"
    if "jump" in model.functions:
        yield f"double now[{model.state_words}];"
        yield "memcpy(now, s->state, sizeof now);"
        yield f"if ({' || '.join(f's->params[{place}] != held[{j}]' for j, place in enumerate(places))})"
        yield f"    {_call(model, 'jump', 'now')}"


ARRAYS = {"now": "s->state", "state": "s->state", "start": "start", "normals": "normals", "common_params": "s->params",
          "own_params": "s->keys", "t": "&t", "h": "&h", "k": "&k", "z": "z", "key": "key", "stream": "&stream",
          "path": "&path", "number": "&number"}  # fmt: skip


def _call(model: Stepping, name: str, results: str, **others: str) -> str:
    function = model.functions[name]
    arrays = {**ARRAYS, **others, "results": results}
    return f"{function.name}({', '.join(f'(char *){arrays[argument]}' for argument in function.arguments)});"
