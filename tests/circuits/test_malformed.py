"""Bad netlists: each is refused in the designer's terms, with its line."""

import pytest

from stodyn.circuits import NetlistError, assembly, netlist, read

RC = "R1 in out 1k\nC1 out 0 1n\nV1 in 0 1\n"  # lines 2 to 4 after a title
# (line, what is said, netlist after its title); the title is line 1.
CORPUS = [
    # elements
    (5, "no .model model", RC + "Q1 a b c model\n"),
    (5, "its delay is missing: TD=", RC + "T1 in 0 b 0 z0=50\n"),
    (5, "there is no inductor l2", RC + "K1 l1 l2 0.5\nL1 in b 1u\nR9 b 0 1\n"),
    (5, "must lie between -1 and 1", RC + "K1 l1 l2 1.1\n"),
    (5, "POLY(2) reads 4 nodes", RC + "E1 a 0 poly(2) in 0 out 0\n"),
    (5, "expected POLY(n)", RC + "E1 a 0 poly(x) in 0 out 0 1\n"),
    (5, "table(): its abscissas", RC + "E1 a 0 table {v(in)} = (1,2) (1,3)\n"),
    (5, "there is no parameter nothing", RC + "B1 out 0 i={1+nothing}\n"),
    (5, "a parenthesis is not closed", RC + "B1 x 0 V=V(nope\nR9 x 0 1\n"),
    (5, "a parenthesis is not closed", RC + "B1 out 0 i={2*(v(in)+1}\n"),
    (5, "a parenthesis is not opened", RC + "B1 out 0 i={2*v(in))}\n"),
    (5, "there is no source vx whose current", RC + "B1 out 0 i={i(vx)}\n"),
    (5, "delay() is not implemented: delays", RC + "B1 out 0 i={delay(v(in), 1n)}\n"),
    (5, "hertz: values that depend on the frequency", RC + "B1 out 0 i={hertz*v(in)}\n"),
    (5, "laplace: 'exp(-s)': expected a rational", RC + "E1 a 0 laplace {v(in)} = {exp(-s)}\n"),
    (6, "the node time stands for the time", RC + "R2 time 0 1\nB1 out 0 i={time*v(in)}\n"),
    (5, "no element Z", RC + "Z9 a 0 50\n"),
    (5, "expected R n", RC + "R2 out\n"),
    (5, "value is missing", RC + "R2 out 0\n"),
    (5, "did not expect '2k'", RC + "R2 out 0 1k 2k\n"),
    (5, "more than 0", RC + "C2 out 0 0\n"),
    (5, "more than 0", RC + "L2 out 0 0\n"),
    (5, "not a number", RC + "R2 out 0 4kk7\n"),
    (5, "no parameter many", RC + "R2 out 0 many\n"),
    (5, "no parameter out; expected R n+ n- value", RC + "R2 1k 0 out\n"),
    (5, "did not expect ic=", RC + "R2 out 0 1k ic=1\n"),
    (8, "c5: ic=2, but .ic, or ic= of other capacitors, leaves 0 V", RC + ".tran 1n 1u uic\nC3 a 0 1p ic=1\n"
     "C4 a b 1p ic=1\nC5 b 0 1p ic=2\n"),
    (5, "r1: is defined already", RC + "R1 out 0 2k\n"),
    (5, "q1 has 3 nodes, so that i(q1) says too little", RC + "B1 out 0 i=i(q1)\nQ1 in out 0 q\n.model q npn\n"),
    (5, "did not expect tolerance=", RC + "R2 out 0 2k tolerance=5\n"),
    (5, "hc=: Chan's model of cores", RC + "L2 out 0 hc=16 bs=0.4 br=0.1\n"),
    (5, "expected on or off", RC + "R2 out 0 2k noise=maybe\n"),
    (5, "has no noise", RC + "C2 out 0 2p noise=off\n"),
    (5, "is given twice", RC + "R2 out 0 2k noise=off noise=on\n"),
    (5, "has no value", RC + "R2 out 0 2k noise=\n"),
    (5, "without its partner", RC + "R2 out 0 {2*3\n"),
    (5, "not closed", RC + "R2 out 0 {(2*3}\n"),
    (5, "divides by zero", RC + "R2 out 0 {1/0}\n"),
    # sources
    (5, "expected vo va", RC + "I1 0 out SIN(1)\n"),
    (5, "freq is missing, and there is no .tran", RC + "I1 0 out SIN(0 1)\n"),
    (5, "not closed", RC + "I1 0 out SIN(0 1 1k\n"),
    (5, "times must increase", RC + "I1 0 out PWL(0 0 1u 1 0.5u 2)\n"),
    (5, "expected pairs", RC + "I1 0 out PWL(0 0 1u)\n"),
    (5, "r=3: expected a time of its points, 0 to 1", RC + "I1 0 out PWL(0 0 1 1) r=3\n"),
    (5, "trnoise: its 1/f noise", RC + "V2 a 0 TRNOISE(1 1n 1 1)\n"),
    (5, "two waveforms", RC + "I1 0 out SIN(0 1 1k) EXP(0 1 0 1n 2n 1n)\n"),
    (5, "no waveform sffn; there are SIN", RC + "I1 0 out SFFN(0 1 1k)\n"),
    (5, "did not expect 'noise'", RC + "I1 0 out 1m noise\n"),
    (5, "no voltage source v9", RC + "F1 out 0 V9 2\n"),
    (5, "short-circuited", RC + "V2 a a 1\n"),
    # models
    (5, "no .model dx", RC + "D1 out 0 dx\n"),
    (6, "unknown type bjt", RC + "D1 out 0 dx\n.model dx BJT(IS=1p)\n"),
    (5, "is a nmos, expected d", RC + "D1 out 0 n\n.model n NMOS(KP=1m)\n"),
    (6, "ikr = 1m would change the answer", RC + "D1 out 0 dx\n.model dx D(IS=1p IKR=1m)\n"),
    (6, "rco = 2 would change the answer", RC + "Q1 out in 0 qx\n.model qx NPN(RCO=2)\n"),
    (6, "more than 0", RC + "D1 out 0 dx\n.model dx D(IS=0)\n"),
    (6, "only levels 1, 2, 3", RC + "M1 out in 0 0 n\n.model n NMOS(LEVEL=6)\n"),
    (6, "level = 54 is BSIM4, but only levels 1, 2, 3 and VDMOS", RC + "M1 out in 0 0 n\n.model n NMOS(LEVEL=54)\n"),
    (6, "is defined already", RC + ".model a D(IS=1p)\n.model a D(IS=2p)\n"),
    (5, "expected .model NAME TYPE", RC + ".model dx\n"),
    # parameters
    (5, "is defined by itself", RC + ".param a={b} b={a}\nR2 out 0 {a}\n"),
    (6, "is given already", RC + ".param a=1\n.param a=2\n"),
    (5, "expected .param NAME=VALUE", RC + ".param 5\n"),
    (5, "there is a function of that name already", RC + ".param sqrt(x)={x*2}\n"),
    (5, "must be different names", RC + ".func f(x,x) {x*2}\n"),
    (5, "must be different names", RC + ".func f(x, x) {2}\n"),
    (5, "pi is a constant", RC + ".func f(pi) {2*pi}\n"),
    (5, "expected .func NAME(x, y) {expression}", RC + ".func f x*2\n"),
    (6, "f: is defined already (line 5)", RC + ".func f(x) {x}\n.func f(x) {2*x}\n"),
    (6, "f() takes 1 value(s), got 2", RC + ".func f(x) {x}\nR2 out 0 {f(1,2)}\n"),
    (6, "nested deeper than 50", RC + ".func f(x) {f(x)+1}\nR2 out 0 {f(1)}\n"),
    (6, ".param a: is defined by itself (a -> a)", RC + ".func f(x) {x*a}\n.param a={f(2)}\nR2 out 0 {a}\n"),
    (5, "there is no function gaus()", RC + ".param a={gaus(1,2)}\nR2 out 0 {a}\n"),
    (5, "gauss() takes 2 or 3 value(s), got 1", RC + ".param a={gauss(1)}\nR2 out 0 {a}\n"),
    (5, "unif() takes 2 value(s), got 3", RC + ".param a={unif(1,2,3)}\nR2 out 0 {a}\n"),
    (5, "gauss() cannot be used here", RC + "B1 out 0 i={v(in)*gauss(1,2)}\n"),
    (5, "gauss() cannot be used here", RC + ".tran {gauss(1n,0.1)} 1u\n"),
    # subcircuits
    (5, "no .subckt amp", RC + "X1 out 0 amp\n"),
    (5, "has the 2 node", RC + "X1 out amp\n.subckt amp a b\nR1 a b 1k\n.ends\n"),
    (6, "contains itself", RC + ".subckt amp a b\nX1 a b amp\n.ends\nX1 out 0 amp\n"),
    (5, "is not closed by .ends", RC + ".subckt amp a b\nR1 a b 1k\n"),
    (5, ".ends without .subckt", RC + ".ends\n"),
    (8, "has no parameter gain", RC + ".subckt amp a b\nR1 a b 1k\n.ends\nX1 out 0 amp gain=2\n"),
    (7, "is defined already", RC + ".subckt amp a b\nR1 a b 1k\nR1 a b 1k\n.ends\nX1 out 0 amp\n"),
    # directives
    (6, ".lib mos.lib: a netlist given as text has no folder", RC + ".lib mos.lib tt\nD1 out 0 gone\n"),
    (5, ".lib: expected .lib FILE [SECTION]", RC + ".lib a b c\n"),
    (5, ".endl without .lib", RC + ".endl\n"),
    (7, "outside of the subcircuit amp (line 5); is its .ends", RC + ".subckt amp a b\nR1 a b 1k\n.tran 1n 1u\n"),
    (5, "unknown directive .trn; did you mean .tran?", RC + ".trn 1n 1u\n"),
    (5, "expected .tran STEP STOP", RC + ".tran\n"),
    (5, "0 < step <= stop", RC + ".tran -1u 1n\n"),
    (5, "steps, expected at most", RC + ".tran 1f 1\n"),
    (5, "there is no node nowhere", RC + ".ic v(nowhere)=1\n"),
    (5, "expected .ic v(NODE)=VALUE", RC + ".ic out=1\n"),
    (5, "holds this node already", RC + ".ic v(in)=2\n"),
    (5, "more than -273.15", RC + ".temp -300\n"),
    (5, "expected .temp and a temperature", RC + ".temp\n"),
    (5, "there is no node nowhere", RC + ".nodeset v(nowhere)=1\n"),
    (5, "expected .nodeset v(NODE)=VALUE", RC + ".nodeset out 1\n"),
    (6, ".ic v(out): is given already (line 5)", RC + ".ic v(out)=1\n.ic v(out)=2\n"),
    (5, "the ground is at 0 V", RC + ".ic v(0)=1\n"),
    (5, "expected 0 <= start < stop", RC + ".tran 1n 1u 2u\n"),
    (6, ".tran: is given twice", RC + ".tran 1n 1u\n.tran 1n 1u\n"),
    (5, "expected .ac dec|oct|lin POINTS F1 F2", RC + ".ac 10 1 1k\n"),
    (5, "expected .ac dec|oct|lin POINTS F1 F2", RC + ".ac dec 10 1\n"),
    (5, "f1 <= f2", RC + ".ac dec 10 1k 1\n"),
    (5, "a whole number", RC + ".ac dec 2.5 1 1k\n"),
    (5, "more than 0", RC + ".ac dec 10 0 1k\n"),
    (6, ".ac: is given twice", RC + ".ac dec 1 1 1k\n.ac dec 1 1 1k\n"),
    (5, "there is no source v7 to refer", RC + ".noise v(out) V7 dec 10 1 1k\n"),
    (5, ".noise v(no): there is no node no", RC + ".noise v(no) V1 dec 10 1 1k\n"),
    (5, "expected .step param NAME", RC + ".step param r\n"),
    (5, "expected .step param NAME", RC + ".step param r 1 2\n"),
    (5, "no increment of -1 leads from 1 to 2", RC + ".step param r 1 2 -1\n"),
    (5, "no increment of 0 leads", RC + ".step param r 1 2 0\n"),
    (5, "values, expected at most 10,000", RC + ".step param r 1 2 1f\n"),
    (5, "0 < start <= stop", RC + ".step dec param r 0 2 5\n"),
    (5, "expected param NAME, temp, or the name of a V or I source", RC + ".step r1 1 2 1\n"),
    (6, ".step r: is stepped already", RC + ".step param r 1 2 1\n.step param r 1 2 1\n"),
    (5, "more than -273.15", RC + ".step temp -300 20 10\n"),
    (5, "the analysis is missing", RC + ".measure\n"),
    (5, "xy is not known; there are tran, ac, noise", RC + ".measure xy a max v(out)\n"),
    (5, "most is not known; there are trig", RC + ".measure tran a most v(out)\n"),
    (5, "a signal is missing", RC + ".measure tran a max\n"),
    (5, "did not expect 'till'", RC + ".measure tran a max v(out) till=1\n"),
    (5, "val= of v(in) is missing", RC + ".measure tran a trig v(in) rise=1 targ v(out) val=1 rise=1\n"),
    (5, "targ is missing", RC + ".measure tran a trig v(in) val=1 rise=1\n"),
    (5, "rise= and fall= of one event", RC + ".measure tran a when v(in)=1 rise=1 fall=1\n"),
    (5, "expected 1, 2, ... or last", RC + ".measure tran a when v(in)=1 rise=0\n"),
    (5, "at= or when is missing", RC + ".measure tran a find v(in)\n"),
    (6, "a: is given already", RC + ".measure tran a max v(in)\n.measure tran a max v(out)\n"),
    (5, "a name has letters", RC + ".measure tran 1a max v(in)\n"),
    (5, "has no folder", RC + ".include other.cir\n"),
    (5, "expected .noise", RC + ".noise out V1 dec 10 1 1k\n"),
    (5, ".if: there is no parameter q", RC + ".if (q)\n.endif\n"),
    (5, "level = 8, but only level 1 of npn", RC + ".model q npn level=8\nQ1 in out 0 q\n"),
    (5, "unknown type vdms", RC + ".model q vdms\nM1 in out 0 0 q\n"),
    (2, "there is none", "+ 1k\n" + RC),
    # topology
    (5, "no connection to ground", RC + "R2 a b 1k\nC2 a b 1n\n"),
    (2, "node 0 (or gnd) is missing", "R1 a b 1k\nC1 a b 1n\n"),
    (5, "loop of voltage sources: v2, v1", RC + "V2 in 0 2\n"),
    (5, "cut-set of capacitors and current sources: i1, c2", RC + "I1 0 a 1u\nC2 a 0 1n\n"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "said", "text"), CORPUS, ids=[f"{i}" for i in range(len(CORPUS))])
def test_each_is_refused_with_its_line(line, said, text):
    with pytest.raises(NetlistError) as caught:
        read("title\n" + text)
    assert said in str(caught.value), str(caught.value)
    assert caught.value.at is not None and caught.value.at.line == line, str(caught.value)
    assert str(caught.value).startswith(f"line {line}: ")


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (r"D1: there is no .model d1n4148: write .model d1n4148 d \(...\), or .* by .lib FILE or .include FILE; did "
         "you mean 1n4148?", RC + "D1 out 0 D1N4148\n.model 1N4148 D(is=1n)\n"),
        (r"Q1: there is no .model q2n: write .model q2n npn\|pnp\|lpnp \(...\), or .*FILE$", RC + "Q1 out in 0 q2n\n"),
        (r"X1: there is no .subckt amp: define it between .subckt amp NODE ... and .ends, or .* by .lib FILE or "
         ".include FILE; did you mean amp1?", RC + "X1 out 0 amp\n.subckt amp1 a b\nR1 a b 1\n.ends\n"),
        (".model near: there is no .model fat for AKO to begin with; did you mean fast?",
         RC + "D1 out 0 near\n.model fast D(is=1n)\n.model near ako:fat D(n=2)\n"),
    ],
)  # fmt: skip
def test_the_way_out_of_a_missing_model_is_named(said, text):
    """And a name close to a known one is suggested; the errors said that there is none."""
    with pytest.raises(NetlistError, match=rf"line \d+: (?i:{said})"):
        read("title\n" + text)


def test_there_are_at_least_fifty():
    assert len({text for _, _, text in CORPUS}) >= 50


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("no elements", "title\n* nothing\n"),
        ("no elements", "\n\n"),
        ("no DC operating point", "title\nG1 0 a a 0 1m\nR1 a 0 1k\nC1 a 0 1n\nI1 0 a 1m\n"),
        ("there is no file", "no_such_file.cir"),
        ("there is no file", "x" * 5000),
        ("there is no file", "zero\0byte"),
    ],
)
def test_what_is_wrong_with_the_whole(said, text):
    with pytest.raises(NetlistError, match=said):
        read(text)


def test_netlists_of_absurd_size_are_refused_before_they_fill_the_memory(monkeypatch):
    def doubling(levels):
        pairs = "".join(f".subckt s{i} a b\nX1 a m s{i + 1}\nX2 m b s{i + 1}\n.ends\n" for i in range(levels))
        return f"title\nX1 in 0 s0\n{pairs}.subckt s{levels} a b\nR1 a b 1\nC1 b 0 1p\n.ends\n"

    with pytest.raises(NetlistError, match="nested deeper than"):
        read(doubling(30))
    monkeypatch.setattr(netlist, "MOST_ELEMENTS", 1000)
    with pytest.raises(NetlistError, match="more than 1,000 elements"):
        read(doubling(12))
    monkeypatch.setattr(assembly, "MOST_UNKNOWNS", 100)
    with pytest.raises(NetlistError, match="unknowns"):
        read(doubling(8))
    with pytest.raises(NetlistError, match="at most 20,000,000"):
        read("title\n" + "*" * 20_000_001)
    with pytest.raises(TypeError, match="expected a path"):
        read(17)


def test_includes_stay_in_their_folder(tmp_path):
    """Whatever the name says: .., absolute, a link, a device, itself, or a file that is none."""
    folder = tmp_path / "design"
    folder.mkdir()
    secret = tmp_path / "secret.cir"
    secret.write_text("R1 in out 1k\n")
    (folder / "link.cir").symlink_to(secret)
    (folder / "parts").mkdir()
    (folder / "parts" / "load.cir").write_text("C1 out 0 1n\n* a comment\n.include ../more.cir\n")
    (folder / "more.cir").write_text("R9 out 0 1meg\n")
    (folder / "loop.cir").write_text(".include loop.cir\n")
    (folder / "binary.cir").write_bytes(b"\xff\xfe\x00R1")
    (folder / "bad.cir").write_text("* fine\nR7 out\n")
    main = folder / "main.cir"
    start = "title\nV1 in 0 1\nR1 in out 1k\n"
    main.write_text(start + ".include parts/load.cir\n")
    assert read(main).nodes == ("in", "out")
    for name, said in (
        ("../secret.cir", "outside"), (str(secret), "outside"), ("link.cir", "outside"), ("/dev/zero", "outside"),
        ("loop.cir", "includes itself"), ("main.cir", "includes itself"), ("gone.cir", "no such file"),
        ("parts", "no such"), ("binary.cir", "not text"), ("", "expected .include"),
    ):  # fmt: skip
        main.write_text(start + f'.include "{name}"\n')
        with pytest.raises(NetlistError, match=said) as caught:
            read(main)
        assert caught.value.at is not None
    main.write_text(start + ".include bad.cir\n")
    with pytest.raises(NetlistError, match=r"^bad.cir, line 2: r7"):
        read(main)


def test_sections_of_libraries(tmp_path):
    """.lib FILE SECTION takes the lines of one section, which may take others; other folders only where named."""
    folder, kit = tmp_path / "design", tmp_path / "kit"
    folder.mkdir(), kit.mkdir()
    (kit / "models.lib").write_text(
        ".param common=1\n.lib tt\n.param r=1k\n.lib models.lib more\n.endl tt\n.lib ff\n.param r=900\n.endl\n"
        ".lib MORE\n.param c=1n\n.endl\n.lib loop\n.lib models.lib loop\n.endl\n"
    )
    main, start = folder / "main.cir", "title\nV1 in 0 1\nR1 in out {r}\nC1 out 0 {c}\n"

    def made(lines, libraries=(kit,)):
        main.write_text(start + lines)
        return read(main, libraries=libraries)

    assert made(".lib models.lib tt\n").network.resistances == [1000.0]
    assert made(".lib 'models.lib' FF\n.param c=2n\n").network.resistances == [900.0]
    for lines, said in (
        (".lib models.lib\n.param r=1 c=2\nR2 out 0 {common}\n", ""),
        (".lib models.lib ss\n", "no such section; there are tt, ff, more, loop"),
        (".lib models.lib loop\n", "includes itself"), (".lib gone.lib tt\n", "no such file"),
        (".lib ../../x.lib tt\n", "outside"),
    ):  # fmt: skip
        if said:
            with pytest.raises(NetlistError, match=said):
                made(lines)
        else:
            made(lines)
    with pytest.raises(NetlistError, match="name its folder among the libraries"):
        made(".lib ../kit/models.lib tt\n", ())
    with pytest.raises(NetlistError, match="libraries: there is no folder"):
        made("", (tmp_path / "nowhere",))


def test_files_in_every_usual_encoding_are_read(tmp_path):
    """UTF-8 with and without its mark, UTF-16, and Latin-1, in which older programs write µ; and what is no text."""
    text = "title\nV1 in 0 1\nR1 in out 1k\nC1 out 0 3µ\n"
    file = tmp_path / "a.cir"
    for encoding, notes in (("utf-8", 0), ("utf-8-sig", 0), ("utf-16", 0), ("latin-1", 1)):
        file.write_bytes(text.replace("\n", "\r\n").encode(encoding))
        circuit = read(file)
        assert circuit.title == "title" and circuit.mass[1, 1] == pytest.approx(3e-6) and len(circuit.notes) == notes
    for raw in (text.encode("utf-16-le"), b"\x7fELF\x02\x01\x01\x00\xf0", b"\xff\xfe\x00"):
        file.write_bytes(raw)
        with pytest.raises(NetlistError, match=r"^a.cir: not text"):
            read(file)


DIVIDER = "title\nV1 in 0 1\nR1 in out {a0}\nC1 out 0 1n\n"


def test_a_chain_of_parameters_may_be_of_any_length():
    chain = "\n".join(f".param a{i}={{a{i + 1} + 1}}" for i in range(5000))
    assert read(f"{DIVIDER}{chain}\n.param a5000=1k\n") is not None
    with pytest.raises(NetlistError, match=r"defined by itself \(a0 -> a1 -> a2 -> a0\)"):
        read(f"{DIVIDER}.param a0={{a1}} a1={{a2}} a2={{a0}}\n")


@pytest.mark.parametrize(
    "line",
    ["R2 out 0 1k" + " " * 300_000 + "x", ".param a0 " + " " * 300_000 + "b", ".param " + "x" * 3_000_000,
     "R2 out 0 " + "x" * 3_000_000, "Q" * 3_000_000 + " 1 2 3", "R2 out 0 bad" + "x" * 1000],
    ids=["blanks", "blanks in .param", "word in .param", "value", "name", "long name"],
)  # fmt: skip
def test_long_lines_are_read_in_linear_time_and_not_printed(line):
    """In quadratic time each of these would take minutes."""
    with pytest.raises(NetlistError) as caught:
        read(f"{DIVIDER}{line}\n")
    assert len(str(caught.value)) < 4000


@pytest.mark.parametrize("value", ["1e-400", "1e400", "1e-320p"])
def test_numbers_that_no_float_comes_near_are_refused(value):
    with pytest.raises(NetlistError, match=f"{value} is too (small|large) for a number"):
        read(f"{DIVIDER}.param a0=1k\nR2 out 0 {value}\n")


def test_a_parameter_without_a_value_that_nothing_uses_is_noted():
    text = "t\n.param bad={1+} tol={gauss(1, 0.1)}\nV1 in 0 1\nR1 in out 1k\nC1 out 0 1n\n.tran 1n 1u\n"
    circuit = read(text)
    (note,) = circuit.notes
    assert note.startswith("left out a .param that nothing uses: line 2: .param bad: ")
    assert not circuit.random


def test_a_read_of_three_nodes_shows_the_forms_there_are():
    text = "t\nV1 in 0 1\nR1 in out 1k\nC1 out 0 1n\nB1 x 0 V=V(in)+V(out,in,0)\nR2 x 0 1k\n.tran 1n 1u\n"
    with pytest.raises(NetlistError, match=r"line 5: b1: v\(out,in,0\): expected V\(node\), V\(node, node\) or I"):
        read(text)
