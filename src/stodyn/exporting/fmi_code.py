"""The functions of FMI 2.0 and 3.0 around a stepping model, in C.

A common part holds an instance: the model's state, what the host has set, and what it may read. Each version then
spells the same acts in its own words. A value of the host's that cannot be used is refused with a message; a step that
fails leaves the state before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stodyn.exporting.stepping import Stepping
from stodyn.numerics.printing import c99

TOLERANCE = 1e-6  # of dt: how nearly a communication step must be a whole number of them
MAGIC = 0x7374_6F64_796E_3031  # "stodyn01": a serialised state begins with it

WHOLE = ["Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64"]  # types of FMI 3.0 that no variable has
C_TYPES = {"Float32": "float", "Int8": "int8_t", "UInt8": "uint8_t", "Int16": "int16_t", "UInt16": "uint16_t",
           "Int32": "int32_t", "UInt32": "uint32_t", "Int64": "int64_t"}  # of FMI 3.0 that no variable has  # fmt: skip
# Functions of FMI 3.0 for what a model for co-simulation without events does not have; hosts look all of them up.
ABSENT = (
    "ActivateModelPartition", "CompletedIntegratorStep", "EnterContinuousTimeMode", "EnterConfigurationMode",
    "EnterEventMode", "EvaluateDiscreteStates", "ExitConfigurationMode", "GetAdjointDerivative",
    "GetContinuousStateDerivatives", "GetContinuousStates", "GetDirectionalDerivative", "GetEventIndicators",
    "GetIntervalDecimal", "GetIntervalFraction", "GetNominalsOfContinuousStates", "GetNumberOfContinuousStates",
    "GetNumberOfEventIndicators", "GetNumberOfVariableDependencies", "GetOutputDerivatives", "GetShiftDecimal",
    "GetShiftFraction", "GetVariableDependencies", "SetContinuousStates", "SetIntervalDecimal", "SetIntervalFraction",
    "SetShiftDecimal", "SetShiftFraction", "SetTime", "UpdateDiscreteStates",
)  # fmt: skip


def text(model: Stepping, name: str, inputs: Sequence[str], listed: Sequence[Any], digest: str, fmi: str) -> str:
    """The file fmi.c."""
    places = {p.name: p.place for p in model.parameters}
    reals = [v for v in listed if not v.is_whole]
    kinds = {"parameter": 0, "input": 1, "output": 2}
    rows = ", ".join(
        f"{{{v.number}, {kinds[v.causality]}, {v.place}, {places[v.name] if v.causality == 'input' else 0}}}"
        for v in reals
    )
    whole = {v.name: v for v in listed if v.is_whole}
    common = _COMMON.format(
        name=name, upper=name.upper(), digest=digest, magic=MAGIC, variables=rows, count=len(reals),
        seed=whole["seed"].number, path=whole["path"].number, first_seed=whole["seed"].start,
        dt=c99.real_number(model.dt), begin=repr(model.begins_at), spelled=f"{model.dt!r}", tolerance=TOLERANCE,
        inputs_at=", ".join(str(places[i]) for i in inputs) or "0",
        is_alone=int(model.noise is not None and model.noise.is_held),
    )  # fmt: skip
    return common + (_TWO if fmi == "2.0" else _THREE + _absent())


def _absent() -> str:
    lines = []
    for word, kind in C_TYPES.items():
        for verb, const in (("Get", ""), ("Set", "const ")):
            lines.append(
                f"EXPORT int fmi3{verb}{word}(void *i, const uint32_t v[], size_t n, {const}{kind} x[], size_t m)\n"
                '{ (void)v; (void)x; (void)m; return n ? refused(i, "no variable has this type") : OK; }'
            )
    lines += [f'EXPORT int fmi3{word}(void *i) {{ return refused(i, "fmi3{word} is not part of this model"); }}'
              for word in ABSENT]  # fmt: skip
    return "\n".join(lines) + "\n"


_COMMON = """#include "model.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

enum {{ OK, WARNING, DISCARD, ERROR, FATAL }};

typedef struct {{ uint32_t number; int kind, place, param; }} variable;
static const variable variables[{count}] = {{{variables}}};
static const int inputs_at[] = {{{inputs_at}}};
static const char digest[] = "{digest}";

/* What a host may copy, keep and bring back: plain numbers. */
typedef struct {{
    uint64_t magic, seed, path;
    char digest[64];
    {name}_state s;
    double params[sizeof(((({name}_state *)0)->params)) / sizeof(double)];
    double inputs[{upper}_INPUTS + 1];
    int has_begun;
}} content;

typedef void (*logger_function)(void *environment, const char *name, int status, const char *text);

typedef struct {{
    content now;
    double outputs[{upper}_OUTPUTS + 1];
    double discarded; /* the length of the step that was discarded last, if none was taken since */
    int is_stale;
    char *name;
    void *environment;
    void *logger;
}} instance;

static void tell(instance *c, int status, const char *text);

static int refused(instance *c, const char *text)
{{
    tell(c, ERROR, text);
    return ERROR;
}}

/* A host that asks again for a step that was discarded would do so for ever: it is told that this is an error. */
static int discards(instance *c, double length, const char *text)
{{
    if (!(length > 0) || !isfinite(length) || length == c->discarded) return refused(c, text);
    c->discarded = length;
    tell(c, DISCARD, text);
    return DISCARD;
}}

static void reset(instance *c)
{{
    c->discarded = 0;
    memset(&c->now, 0, sizeof c->now);
    c->now.magic = UINT64_C({magic});
    memcpy(c->now.digest, digest, 64);
    c->now.seed = UINT64_C({first_seed});
    {name}_defaults(c->now.params);
    for (int j = 0; j < {upper}_INPUTS; j++) c->now.inputs[j] = c->now.params[inputs_at[j]];
    c->is_stale = 1;
}}

static instance *made(const char *name, const char *token, void *environment, void *logger)
{{
    instance *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->environment = environment;
    c->logger = logger;
    c->name = malloc(strlen(name) + 1);
    if (c->name) strcpy(c->name, name);
    size_t skipped = token && token[0] == '{{';
    if (!c->name || {name}_check()) {{
        tell(c, ERROR, "the library was compiled so that it rounds differently: compile it with -ffp-contract=off");
    }} else if (!token || strncmp(token + skipped, digest, 64)) {{
        tell(c, ERROR, "modelDescription.xml belongs to another model: its token is not the one of this library");
    }} else {{
        reset(c);
        return c;
    }}
    free(c->name);
    free(c);
    return NULL;
}}

static void released(instance *c)
{{
    if (c) free(c->name);
    free(c);
}}

/* What the host has set by then holds from the first instant on: the beginning may read its inputs. */
static void begin(instance *c)
{{
    for (int j = 0; j < {upper}_INPUTS; j++) c->now.params[inputs_at[j]] = c->now.inputs[j];
    {name}_begin(&c->now.s, c->now.seed, c->now.path, c->now.params);
    c->is_stale = 1;
}}

static void look(instance *c)
{{
    if (!c->is_stale) return;
    if (!c->now.has_begun) begin(c);
    {name}_state shown = c->now.s; /* the inputs of the last step stay, by which the next one knows of a jump */
    for (int j = 0; j < {upper}_INPUTS; j++) shown.params[inputs_at[j]] = c->now.inputs[j];
    {name}_outputs(&shown, c->outputs);
    c->is_stale = 0;
}}

static const variable *found(uint32_t number)
{{
    for (int j = 0; j < {count}; j++)
        if (variables[j].number == number) return &variables[j];
    return NULL;
}}

static int get_real(instance *c, uint32_t number, double *x)
{{
    const variable *v = found(number);
    if (number == 0) {{
        look(c);
        *x = {name}_time(&c->now.s);
        return OK;
    }}
    if (!v) return refused(c, "there is no real variable with this reference");
    if (v->kind == 2) look(c);
    *x = v->kind == 0 ? c->now.params[v->place] : v->kind == 1 ? c->now.inputs[v->place] : c->outputs[v->place];
    return OK;
}}

static int set_real(instance *c, uint32_t number, double x)
{{
    const variable *v = found(number);
    if (!v || v->kind == 2) return refused(c, "no parameter or input has this reference");
    if (!isfinite(x)) return refused(c, "a parameter or input must be a finite number");
    if (v->kind == 0 && c->now.has_begun) return refused(c, "parameters are fixed once initialisation has ended");
    if (v->kind == 0) c->now.params[v->place] = x;
    else c->now.inputs[v->place] = x;
    c->is_stale = 1;
    return OK;
}}

static int whole(instance *c, uint32_t number, uint64_t **x)
{{
    *x = number == {seed} ? &c->now.seed : number == {path} ? &c->now.path : NULL;
    return *x ? OK : refused(c, "there is no whole variable with this reference");
}}

static int set_whole(instance *c, uint32_t number, uint64_t x)
{{
    uint64_t *place;
    if (whole(c, number, &place)) return ERROR;
    if (c->now.has_begun) return refused(c, "seed and path are fixed: set them before initialisation ends");
    *place = x;
    c->is_stale = 1;
    return OK;
}}

static int advance(instance *c, double t, double length)
{{
    double count = length / {dt}, nearest = rint(count), here = {name}_time(&c->now.s);
    char text[240];
    if (!c->now.has_begun) return refused(c, "a step before initialisation has ended");
    if (!(fabs(t - here) <= 0.5 * {dt})) {{
        snprintf(text, sizeof text, "the host asks for a step from time %.12g, but the model is at %.12g: a step is "
                 "repeated from a state that was kept, and a model that begins elsewhere is exported with t0", t, here);
        return refused(c, text);
    }}
    if (!(fabs(count - nearest) <= {tolerance!r}) || nearest < 0) {{
        snprintf(text, sizeof text, "communication step %.12g is not a multiple of dt = {spelled}", length);
        return discards(c, length, text);
    }}
    if ({is_alone} && nearest != 1) {{
        snprintf(text, sizeof text, "communication step %.12g: white noise is scaled for dt = {spelled}, and held over "
                 "any other step it has another spectrum", length);
        return discards(c, length, text);
    }}
    const {name}_state before = c->now.s;
    for (; nearest > 0; nearest--) {{
        if ({name}_step(&c->now.s, c->now.inputs, NULL)) {{
            snprintf(text, sizeof text, "the step from time %.12g failed: its equations have no solution, or a number "
                     "is not finite", {name}_time(&c->now.s));
            c->now.s = before;
            return refused(c, text);
        }}
    }}
    c->is_stale = 1;
    c->discarded = 0;
    return OK;
}}

static int begins(instance *c, double start)
{{
    char text[160];
    if (fabs(start - {begin}) <= {tolerance!r} * {dt}) return OK;
    snprintf(text, sizeof text, "the host begins at time %.12g, but the model counts its own from {begin}", start);
    tell(c, WARNING, text);
    return WARNING;
}}

static int restored(instance *c, const content *kept)
{{
    int is_finite = 1;
    if (kept->magic != c->now.magic) return refused(c, "this is not a state of an exported model");
    if (memcmp(kept->digest, digest, 64)) return refused(c, "this is the state of another model");
    for (int j = 0; j < {upper}_INPUTS; j++) is_finite = is_finite && isfinite(kept->inputs[j]);
    if (!is_finite || kept->s.steps < 0 || (kept->has_begun != 0 && kept->has_begun != 1))
        return refused(c, "the state is damaged");
    c->now = *kept;
    c->is_stale = 1;
    return OK;
}}

static int saved(instance *c, void **kept)
{{
    if (!*kept) *kept = malloc(sizeof(content));
    if (!*kept) return refused(c, "no memory for a state");
    memcpy(*kept, &c->now, sizeof(content));
    return OK;
}}

static uint64_t checksum(const unsigned char *bytes)
{{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t j = 0; j < sizeof(content); j++) sum = (sum ^ bytes[j]) * UINT64_C(0x100000001b3);
    return sum;
}}

static int written(instance *c, const void *kept, unsigned char *bytes, size_t size)
{{
    if (size < sizeof(content) + sizeof(uint64_t)) return refused(c, "there is too little room for the state");
    memcpy(bytes, kept, sizeof(content));
    uint64_t sum = checksum(bytes);
    memcpy(bytes + sizeof(content), &sum, sizeof sum);
    return OK;
}}

static int taken(instance *c, const unsigned char *bytes, size_t size, void **kept)
{{
    content copy;
    instance probe = *c;
    uint64_t sum;
    if (size != sizeof copy + sizeof sum) return refused(c, "a serialised state of this model has another length");
    memcpy(&copy, bytes, sizeof copy);
    memcpy(&sum, bytes + sizeof copy, sizeof sum);
    if (copy.magic == c->now.magic && sum != checksum(bytes)) return refused(c, "the serialised state is damaged");
    if (restored(&probe, &copy)) return ERROR;
    return saved(&probe, kept);
}}
"""

_TWO = """
typedef struct {
    void (*logger)(void *environment, const char *name, int status, const char *category, const char *text, ...);
    void *(*allocate)(size_t count, size_t size);
    void (*release)(void *);
    void (*finished)(void *environment, int status);
    void *environment;
} callbacks;

static void tell(instance *c, int status, const char *text)
{
    const callbacks *host = c->logger;
    if (host && host->logger) host->logger(host->environment, c->name ? c->name : "", status, "", text);
}

EXPORT const char *fmi2GetTypesPlatform(void) { return "default"; }
EXPORT const char *fmi2GetVersion(void) { return "2.0"; }
EXPORT int fmi2SetDebugLogging(void *i, int on, size_t n, const char *const names[])
{ (void)i; (void)on; (void)n; (void)names; return OK; }
EXPORT void *fmi2Instantiate(const char *name, int type, const char *token, const char *resources,
                             const callbacks *host, int visible, int logging)
{
    (void)resources; (void)visible; (void)logging;
    return type == 1 ? made(name, token, NULL, (void *)host) : NULL;
}
EXPORT void fmi2FreeInstance(void *i) { released(i); }
EXPORT int fmi2SetupExperiment(void *i, int has_tolerance, double tolerance, double start, int has_end, double end)
{ (void)has_tolerance; (void)tolerance; (void)has_end; (void)end; return begins(i, start); }
EXPORT int fmi2EnterInitializationMode(void *i) { (void)i; return OK; }
EXPORT int fmi2ExitInitializationMode(void *i)
{ instance *c = i; begin(c); c->now.has_begun = 1; return OK; }
EXPORT int fmi2Terminate(void *i) { (void)i; return OK; }
EXPORT int fmi2Reset(void *i) { reset(i); return OK; }
EXPORT int fmi2GetReal(void *i, const unsigned v[], size_t n, double x[])
{ for (size_t j = 0; j < n; j++) if (get_real(i, v[j], &x[j])) return ERROR; return OK; }
EXPORT int fmi2SetReal(void *i, const unsigned v[], size_t n, const double x[])
{ for (size_t j = 0; j < n; j++) if (set_real(i, v[j], x[j])) return ERROR; return OK; }
EXPORT int fmi2GetInteger(void *i, const unsigned v[], size_t n, int x[])
{
    for (size_t j = 0; j < n; j++) {
        uint64_t *place;
        if (whole(i, v[j], &place)) return ERROR;
        x[j] = (int)*place;
    }
    return OK;
}
EXPORT int fmi2SetInteger(void *i, const unsigned v[], size_t n, const int x[])
{
    for (size_t j = 0; j < n; j++) {
        if (x[j] < 0) return refused(i, "seed and path must not be negative");
        if (set_whole(i, v[j], (uint64_t)x[j])) return ERROR;
    }
    return OK;
}
EXPORT int fmi2GetBoolean(void *i, const unsigned v[], size_t n, int x[])
{ (void)v; (void)x; return n ? refused(i, "no variable has this type") : OK; }
EXPORT int fmi2SetBoolean(void *i, const unsigned v[], size_t n, const int x[])
{ (void)v; (void)x; return n ? refused(i, "no variable has this type") : OK; }
EXPORT int fmi2GetString(void *i, const unsigned v[], size_t n, const char *x[])
{ (void)v; (void)x; return n ? refused(i, "no variable has this type") : OK; }
EXPORT int fmi2SetString(void *i, const unsigned v[], size_t n, const char *const x[])
{ (void)v; (void)x; return n ? refused(i, "no variable has this type") : OK; }
EXPORT int fmi2GetFMUstate(void *i, void **kept) { return saved(i, kept); }
EXPORT int fmi2SetFMUstate(void *i, void *kept)
{ return kept ? restored(i, kept) : refused(i, "there is no state to go back to"); }
EXPORT int fmi2FreeFMUstate(void *i, void **kept) { (void)i; if (kept) { free(*kept); *kept = NULL; } return OK; }
EXPORT int fmi2SerializedFMUstateSize(void *i, void *kept, size_t *size)
{ (void)i; (void)kept; *size = sizeof(content) + sizeof(uint64_t); return OK; }
EXPORT int fmi2SerializeFMUstate(void *i, void *kept, unsigned char bytes[], size_t size)
{ return written(i, kept, bytes, size); }
EXPORT int fmi2DeSerializeFMUstate(void *i, const unsigned char bytes[], size_t size, void **kept)
{ return taken(i, bytes, size, kept); }
EXPORT int fmi2GetDirectionalDerivative(void *i, const unsigned u[], size_t n, const unsigned k[], size_t m,
                                        const double du[], double dz[])
{ (void)u; (void)n; (void)k; (void)m; (void)du; (void)dz; return refused(i, "there are no directional derivatives"); }
EXPORT int fmi2SetRealInputDerivatives(void *i, const unsigned v[], size_t n, const int order[], const double x[])
{ (void)v; (void)n; (void)order; (void)x; return refused(i, "inputs are held over a step"); }
EXPORT int fmi2GetRealOutputDerivatives(void *i, const unsigned v[], size_t n, const int order[], double x[])
{ (void)v; (void)n; (void)order; (void)x; return refused(i, "outputs of a noisy model have no derivatives"); }
EXPORT int fmi2DoStep(void *i, double t, double length, int no_return)
{ (void)no_return; return advance(i, t, length); }
EXPORT int fmi2CancelStep(void *i) { return refused(i, "no step is under way"); }
EXPORT int fmi2GetStatus(void *i, int kind, int *x) { (void)i; (void)kind; *x = OK; return DISCARD; }
EXPORT int fmi2GetRealStatus(void *i, int kind, double *x)
{ (void)kind; *x = 0; return get_real(i, 0, x); }
EXPORT int fmi2GetIntegerStatus(void *i, int kind, int *x) { (void)i; (void)kind; *x = 0; return DISCARD; }
EXPORT int fmi2GetBooleanStatus(void *i, int kind, int *x) { (void)i; (void)kind; *x = 0; return OK; }
EXPORT int fmi2GetStringStatus(void *i, int kind, const char **x) { (void)i; (void)kind; *x = ""; return DISCARD; }
"""

_THREE = """
typedef void (*log_message)(void *environment, int status, const char *category, const char *text);

typedef union { void *object; log_message call; } any_pointer;

static void tell(instance *c, int status, const char *text)
{
    any_pointer host;
    host.object = c->logger;
    if (host.object) host.call(c->environment, status, "", text);
}

EXPORT const char *fmi3GetVersion(void) { return "3.0"; }
EXPORT int fmi3SetDebugLogging(void *i, _Bool on, size_t n, const char *const names[])
{ (void)i; (void)on; (void)n; (void)names; return OK; }
EXPORT void *fmi3InstantiateModelExchange(const char *name, const char *token, const char *resources, _Bool visible,
                                          _Bool logging, void *environment, log_message logger)
{
    (void)name; (void)token; (void)resources; (void)visible; (void)logging; (void)environment; (void)logger;
    return NULL;
}
EXPORT void *fmi3InstantiateCoSimulation(const char *name, const char *token, const char *resources, _Bool visible,
                                         _Bool logging, _Bool events, _Bool early, const uint32_t wanted[], size_t n,
                                         void *environment, log_message logger, void *update)
{
    any_pointer host;
    (void)resources; (void)visible; (void)logging; (void)events; (void)early; (void)wanted; (void)n; (void)update;
    host.object = NULL;
    host.call = logger;
    return made(name, token, environment, host.object);
}
EXPORT void *fmi3InstantiateScheduledExecution(const char *name, const char *token, const char *resources,
                                               _Bool visible, _Bool logging, void *environment, log_message logger,
                                               void *update, void *lock, void *unlock)
{
    (void)name; (void)token; (void)resources; (void)visible; (void)logging; (void)environment; (void)logger;
    (void)update; (void)lock; (void)unlock;
    return NULL;
}
EXPORT void fmi3FreeInstance(void *i) { released(i); }
EXPORT int fmi3EnterInitializationMode(void *i, _Bool has_tolerance, double tolerance, double start, _Bool has_end,
                                       double end)
{ (void)has_tolerance; (void)tolerance; (void)has_end; (void)end; return begins(i, start); }
EXPORT int fmi3ExitInitializationMode(void *i)
{ instance *c = i; begin(c); c->now.has_begun = 1; return OK; }
EXPORT int fmi3EnterStepMode(void *i) { (void)i; return OK; }
EXPORT int fmi3Terminate(void *i) { (void)i; return OK; }
EXPORT int fmi3Reset(void *i) { reset(i); return OK; }
EXPORT int fmi3GetFloat64(void *i, const uint32_t v[], size_t n, double x[], size_t m)
{ (void)m; for (size_t j = 0; j < n; j++) if (get_real(i, v[j], &x[j])) return ERROR; return OK; }
EXPORT int fmi3SetFloat64(void *i, const uint32_t v[], size_t n, const double x[], size_t m)
{ (void)m; for (size_t j = 0; j < n; j++) if (set_real(i, v[j], x[j])) return ERROR; return OK; }
EXPORT int fmi3GetUInt64(void *i, const uint32_t v[], size_t n, uint64_t x[], size_t m)
{
    (void)m;
    for (size_t j = 0; j < n; j++) {
        uint64_t *place;
        if (whole(i, v[j], &place)) return ERROR;
        x[j] = *place;
    }
    return OK;
}
EXPORT int fmi3SetUInt64(void *i, const uint32_t v[], size_t n, const uint64_t x[], size_t m)
{ (void)m; for (size_t j = 0; j < n; j++) if (set_whole(i, v[j], x[j])) return ERROR; return OK; }
EXPORT int fmi3GetBoolean(void *i, const uint32_t v[], size_t n, _Bool x[], size_t m)
{ (void)v; (void)x; (void)m; return n ? refused(i, "no variable has this type") : OK; }
EXPORT int fmi3SetBoolean(void *i, const uint32_t v[], size_t n, const _Bool x[], size_t m)
{ (void)v; (void)x; (void)m; return n ? refused(i, "no variable has this type") : OK; }
EXPORT int fmi3GetString(void *i, const uint32_t v[], size_t n, const char *x[], size_t m)
{ (void)v; (void)x; (void)m; return n ? refused(i, "no variable has this type") : OK; }
EXPORT int fmi3SetString(void *i, const uint32_t v[], size_t n, const char *const x[], size_t m)
{ (void)v; (void)x; (void)m; return n ? refused(i, "no variable has this type") : OK; }
EXPORT int fmi3GetBinary(void *i, const uint32_t v[], size_t n, size_t sizes[], const uint8_t *x[], size_t m)
{ (void)v; (void)sizes; (void)x; (void)m; return n ? refused(i, "no variable has this type") : OK; }
EXPORT int fmi3SetBinary(void *i, const uint32_t v[], size_t n, const size_t sizes[], const uint8_t *const x[],
                         size_t m)
{ (void)v; (void)sizes; (void)x; (void)m; return n ? refused(i, "no variable has this type") : OK; }
EXPORT int fmi3GetClock(void *i, const uint32_t v[], size_t n, _Bool x[])
{ (void)v; (void)x; return n ? refused(i, "no variable has this type") : OK; }
EXPORT int fmi3SetClock(void *i, const uint32_t v[], size_t n, const _Bool x[])
{ (void)v; (void)x; return n ? refused(i, "no variable has this type") : OK; }
EXPORT int fmi3GetFMUState(void *i, void **kept) { return saved(i, kept); }
EXPORT int fmi3SetFMUState(void *i, void *kept)
{ return kept ? restored(i, kept) : refused(i, "there is no state to go back to"); }
EXPORT int fmi3FreeFMUState(void *i, void **kept) { (void)i; if (kept) { free(*kept); *kept = NULL; } return OK; }
EXPORT int fmi3SerializedFMUStateSize(void *i, void *kept, size_t *size)
{ (void)i; (void)kept; *size = sizeof(content) + sizeof(uint64_t); return OK; }
EXPORT int fmi3SerializeFMUState(void *i, void *kept, uint8_t bytes[], size_t size)
{ return written(i, kept, bytes, size); }
EXPORT int fmi3DeserializeFMUState(void *i, const uint8_t bytes[], size_t size, void **kept)
{ return taken(i, bytes, size, kept); }
EXPORT int fmi3DoStep(void *i, double t, double length, _Bool no_return, _Bool *event, _Bool *ended, _Bool *early,
                      double *last)
{
    int status = advance(i, t, length);
    (void)no_return;
    *event = *ended = *early = 0;
    get_real(i, 0, last);
    return status;
}
"""
