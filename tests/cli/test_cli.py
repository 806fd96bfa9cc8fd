"""The commands find what the folders hold, and say it in words, tables and strict JSON."""

import json
import sys
import textwrap
import typing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import stodyn
from stodyn import listing, studies
from stodyn.cli import EXIT_CODES, application
from stodyn.cli._output import AsJson, duration, errors_as_messages, plain
from stodyn.cli.methods import in_words
from stodyn.engine.failure import PathsFailed
from stodyn.methods.catalogue import catalogue, find, with_base
from stodyn.methods.contract import Claim
from stodyn.studies.contract import Study
from stodyn.studies.report import printed


@pytest.fixture
def invoke(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(application(), list(map(str, arguments)))


def words(text):
    """Its words with single spaces between them."""
    return " ".join(text.split())


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A study in a folder of its own, joined to the package's."""
    folder = tmp_path / "more_studies"
    folder.mkdir()
    (folder / "toy_study.py").write_text(
        textwrap.dedent(
            """
            import math

            from matplotlib.figure import Figure

            from stodyn.studies.contract import Picture, Row, Study, StudyResult
            from stodyn.studies.papers import Paper

            PAPER = Paper("line", "A. Author, A line (1900)", "A. Author, A line, J. Lines 1 (1900)", "On lines.")


            def run(size, out, progress):
                progress("drawing a line")
                (out / "kept.txt").write_text(size.name)
                figure = Figure()
                figure.subplots().plot([0, 1])
                rows = [
                    Row("length [m]", 1.25, 1.2512345, 0.0012, "within one standard error", T=2.0, h=0.5, paths=8),
                    Row("[bold] energy", None, 2.0),
                    Row("growth", "diverges", math.nan, math.inf, "left the floats"),
                ]
                return StudyResult(rows, {"line": Picture(figure, "A line with a_slope | of 1.")})


            STUDY = Study("toy", PAPER, "[Fig. 1]", "It is straight.", run, lambda: 4000.0)
            """
        )
    )
    monkeypatch.setattr(studies, "__path__", [*studies.__path__, str(folder)])
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("stodyn.studies.toy_study", None)


def test_it_tells_its_version(invoke):
    assert invoke("--version").output == f"stodyn {stodyn.__version__}\n"


def test_every_file_of_the_folder_is_a_command(invoke):
    result = invoke("--help")
    assert result.exit_code == 0
    for name in ("methods", "reproduce", "cite"):
        assert name in result.output
    assert "output" not in result.output.split()  # what the commands share is not a command


def test_json_and_exit_codes_mean_the_same_everywhere(invoke):
    """Every command takes the flag --json, with the same words of help, and states its exit codes."""
    app = application()
    assert len(app.registered_commands) >= 13
    for command in app.registered_commands:
        hints = typing.get_type_hints(command.callback, include_extras=True)
        assert hints["as_json"] == AsJson, command.name
        assert command.epilog == EXIT_CODES
    assert "2 when an argument or a file it was given cannot be used" in words(invoke("--help").output.replace("│", ""))


@pytest.mark.parametrize(
    ("error", "code"),
    [(ValueError("dt: too long"), 2), (OSError("no such file"), 2), (PathsFailed("path 3 failed", [3], [0.5]), 1)],
)
def test_mistakes_and_failures_have_different_exit_codes(error, code):
    """Mistakes in what was given and failures of a run are told apart by the exit code."""
    with pytest.raises((typer.BadParameter, typer.Exit)) as raised, errors_as_messages():
        raise error
    assert raised.value.exit_code == code


def test_json_has_no_infinities():
    values = {"a": np.array([1.0, np.nan]), "b": (np.float64(np.inf), Path("x")), 3: np.int64(2), "c": None}
    assert plain(values) == {"a": [1.0, None], "b": [None, "x"], "3": 2, "c": None}


@pytest.mark.parametrize("arguments", [("models",), ("cite", "SRIW1"), ("reproduce", "--list"), ("methods",)])
def test_rows_fit_a_hundred_columns(invoke, arguments):
    lines = invoke(*arguments).output.splitlines()
    assert lines and max(map(len, lines)) <= 100
    assert json.loads(invoke(*arguments, "--json").stdout)


def test_methods_prints_the_catalogue(invoke):
    result = invoke("methods")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    for name, method in (catalogue() | {name: kind() for name, kind in with_base().items()}).items():
        (row,) = [line for line in lines if line.split()[:1] == [name]]
        assert row.endswith(method.summary)
    assert max(map(len, lines)) <= 100
    summaries = [method.summary for name, method in catalogue().items() if method.accepts.__name__ != "SDE"]
    assert len(set(summaries)) == len(summaries)  # classical steps of one order and number of stages share theirs
    (row,) = [line for line in lines if line.split()[:1] == ["SRIW1"]]
    assert row.split()[1:3] == ["1.5", "-"]


def test_methods_for_a_problem_a_noise_and_an_order(invoke):
    listed = {line.split()[0] for line in invoke("methods", "--for", "sde", "--order", 1.5).output.splitlines() if line}
    assert {"SRA1", "SRIW1", "DRI1"} <= listed and not {"Heun", "Midpoint"} & listed
    rows = invoke("methods", "--noise", "general", "--order", 2, "--json").output
    assert {"DRI1", "RS1"} <= {entry["name"] for entry in json.loads(rows)}
    assert not {"SRA1", "SRKw2"} & {entry["name"] for entry in json.loads(rows)}
    assert "No method fits" in invoke("methods", "--for", "SDAE", "--order", 3).output
    assert "unknown kind 'ode'; the kinds are" in words(invoke("methods", "--for", "ode").output)
    assert "unknown structure 'red'; the structures are" in words(invoke("methods", "--noise", "red").output)


def test_claims_in_words():
    assert find("ThetaEuler").summary == "Drift-implicit Euler"
    heun, milstein = find("Heun"), find("Milstein")
    both = Claim("strong", Fraction(3, 2), when=("additive", "scalar"))
    assert in_words(both, heun) == "strong 1.5 (additive, scalar)"
    assert in_words(Claim("A-stable"), heun) == "A-stable"
    assert in_words(Claim("strong", 1.0), milstein) == "strong 1 (commutative)"  # what it refuses it does not promise


def test_methods_in_json(invoke):
    listed = {entry["name"]: entry for entry in json.loads(invoke("methods", "--json").output)}
    assert set(listed) == set(catalogue()) | {"ExactNoise"}
    euler = listed["EulerMaruyama"]
    assert (euler["kind"], euler["takes"], euler["calculus"]) == ("step", "SDE", "ito")
    assert euler["summary"] == "Euler-Maruyama for Ito problems"
    assert {"kind": "weak", "order": 1.0, "when": [], "source": euler["claims"][2]["source"]} in euler["claims"]
    assert euler["citation"] == catalogue()["EulerMaruyama"].citation


def test_cite_prints_the_citation_and_the_sources_of_claims(invoke):
    result = invoke("cite", "Heun")
    assert result.exit_code == 0
    assert words(result.output).startswith(f"Heun: {catalogue()['Heun'].citation} ")
    assert "strong 1 (commutative): Rümelin (1982)" in result.output


def test_unknown_names_bring_those_near(invoke, toy):
    result = invoke("cite", "EulerMaruyam")
    assert result.exit_code == 2
    assert "EulerMaruyama" in result.output
    result = invoke("reproduce", "toi")
    assert result.exit_code == 2
    assert "study: there is no 'toi'. Near it: toy" in result.output


def test_reproduce_lists_studies(invoke, toy):
    result = invoke("reproduce", "--list")
    assert result.exit_code == 0
    assert "toy A. Author, A line (1900): [Fig. 1]" in map(words, result.output.splitlines())


def test_reproduce_prints_rows_and_writes_what_it_found(invoke, toy):
    result = invoke("reproduce", "toy")
    assert result.exit_code == 0, result.output
    assert words(result.stderr).endswith("s drawing a line")  # also where the output is not a terminal
    lines = result.stdout.splitlines()
    assert "A. Author, A line (1900): [Fig. 1]" in lines
    rows = [words(line) for line in lines]
    assert "length [m] 1.25 1.2512 0.0012 2, 0.5, 8 within one standard error" in rows
    assert "[bold] energy 2" in rows
    assert "growth diverges nan left the floats" in rows
    assert "takes about" not in result.output
    picture = toy / "reproduced" / "toy" / "line.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert (picture.parent / "kept.txt").read_text() == "SMALL"

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    no_run = {"T": None, "h": None, "paths": None}
    result = invoke("reproduce", "toy", "--json")
    assert "length [m] 1.25 1.2512 0.0012 2, 0.5, 8 within one standard error" in map(words, result.stderr.splitlines())
    assert json.loads(result.stdout, parse_constant=refuse) == {
        "study": "toy",
        "rows": [
            {
                "quantity": "length [m]",
                "paper": 1.25,
                "ours": 1.2512345,
                "stderr": 0.0012,
                "remark": "within one standard error",
                "T": 2.0,
                "h": 0.5,
                "paths": 8,
            },
            {"quantity": "[bold] energy", "paper": None, "ours": 2.0, "stderr": None, "remark": "", **no_run},
            {
                "quantity": "growth",
                "paper": "diverges",
                "ours": None,
                "stderr": None,
                "remark": "left the floats",
                **no_run,
            },
        ],
        "files": ["reproduced/toy/line.png", "reproduced/toy/result.json"],
    }


def test_reproduce_full_says_how_long_before_it_runs(invoke, toy):
    result = invoke("reproduce", "toy", "--full", "--out", toy / "elsewhere")
    assert result.exit_code == 0, result.output
    assert result.output.index("The full size takes about 67 min") < result.output.index("quantity")
    assert (toy / "elsewhere" / "kept.txt").read_text() == "FULL"
    assert (toy / "elsewhere" / "line.png").exists()


def test_reproduce_all_runs_every_study_and_says_which_failed(invoke, toy, monkeypatch):
    """The toy alone, then beside one that fails."""
    monkeypatch.setattr(studies, "__path__", [str(toy / "more_studies")])
    result = invoke("reproduce", "--all", "--tiny")
    assert result.exit_code == 0 and "1 of 1 studies ran" in result.output and "failed" not in result.output
    assert (toy / "reproduced" / "toy" / "kept.txt").read_text() == "TINY"
    broken = (toy / "more_studies" / "toy_study.py").read_text().replace("figure = Figure()", "1 / 0")
    (toy / "more_studies" / "a_broken_toy.py").write_text(broken.replace('"toy"', '"broken"'))
    result = invoke("reproduce", "all", "--tiny")
    sys.modules.pop("stodyn.studies.a_broken_toy", None)
    assert result.exit_code == 1 and "1 of 2 studies ran" in result.output
    assert "failed: broken (ZeroDivisionError: division by zero)" in result.output


def test_the_report_is_made_of_the_records_alone(invoke, toy, monkeypatch):
    """A page for the paper with its table and figure, as Markdown shows them; again from what is stored, the same."""
    monkeypatch.setattr(studies, "__path__", [str(toy / "more_studies")])
    assert invoke("reproduce", "all", "--out", "kept").exit_code == 0
    page, index = ((toy / "kept" / f"{name}.md").read_text() for name in ("line", "index"))
    assert page.startswith("# A. Author, A line (1900)\n\nA. Author, A line, J. Lines 1 (1900).\n\nOn lines.\n")
    assert "## &#91;Fig. 1&#93;\n\nIt is straight.\n\n`stodyn reproduce toy`: the small size; version" in page
    assert "![line](toy/line.png)\n\n*A line with a\\_slope \\| of 1.*" in page
    assert "| length &#91;m&#93; | 1.25 | 1.2512 | 0.0012 | 2 | 0.5 | 8 | within one standard error |" in page
    assert "- [&#91;Fig. 1&#93;](line.md#toy): `toy`" in index
    record = json.loads((toy / "kept" / "toy" / "result.json").read_text())
    assert record["command"] == "stodyn reproduce toy" and record["figures"] == {"line": "A line with a_slope | of 1."}
    (toy / "kept" / "line.md").unlink()
    assert invoke("reproduce", "--pages", "--out", "kept").exit_code == 0
    assert (toy / "kept" / "line.md").read_text() == page


def test_reproduce_refuses_before_it_runs(invoke, toy):
    for arguments, message in (
        ((), "give the NAME of a study, or all, or --list"),
        (("toy", "--tiny", "--full"), "--tiny and --full are two sizes; give one"),
        (("toy", "--all"), "--all runs every study; leave NAME out"),
        (("toy", "--pages"), "--pages writes the pages of all stored studies; leave NAME out"),
        (("all", "--pages"), "it holds no results of studies; run stodyn reproduce all --out reproduced first"),
        (("toy", "--out", toy / "more_studies" / "toy_study.py"), "is not a folder; name another"),
    ):
        result = invoke("reproduce", *arguments)
        assert result.exit_code == 2
        assert message in words(result.output.replace("│", " "))
    assert not (toy / "reproduced").exists()


@pytest.mark.parametrize(
    ("value", "stderr", "text"),
    [
        (1.2512345, 0.0012, "1.2512"),
        (1.25, 0.0012, "1.2500"),
        (123456.0, 1200.0, "1.235e+05"),
        (1234.5, 12.0, "1234"),
        (-0.00123456, 0.00001, "-0.001235"),
        (0.1, 3.0, "0.1"),
        (2.0, None, "2"),
        (150493284.0, None, "150493284"),
        (2.0 / 3.0, None, "0.66666667"),
        (0.0, 0.1, "0"),
        (float("inf"), 0.1, "inf"),
        (None, None, ""),
        ("diverges", None, "diverges"),
    ],
)
def test_values_are_printed_to_their_error(value, stderr, text):
    assert printed(value, stderr) == text


def test_durations_are_written_in_the_unit_that_fits():
    assert [duration(s) for s in (0.04, 61.0, 150.0, 7100.0, 7500.0)] == [
        "0.0 s",
        "61.0 s",
        "2 min",
        "118 min",
        "2 h 5 min",
    ]


def test_two_values_under_one_name_are_told_apart_by_their_modules(toy):
    source = (toy / "more_studies" / "toy_study.py").read_text()
    (toy / "more_studies" / "toy_twin.py").write_text(source)
    try:
        found = listing.values(studies, Study)
        assert {"toy_study.toy", "toy_twin.toy"} <= set(found)
        with pytest.raises(ValueError, match=r"several called 'toy': toy_study.toy, toy_twin.toy"):
            listing.find("toy", found, "study")
    finally:
        sys.modules.pop("stodyn.studies.toy_twin", None)


def test_names_are_found_whatever_their_capitals_and_hyphens():
    found = {"EulerMaruyama": 1, "double_well": 2}
    assert listing.find("eulermaruyama", found, "thing") == 1
    assert listing.find("Double-Well", found, "thing") == 2
    with pytest.raises(ValueError, match=r"thing: there is no 'xyz'\. There are: EulerMaruyama, double_well\."):
        listing.find("xyz", found, "thing")
    with pytest.raises(ValueError, match=r"thing: there is no 'xyz'\. There are none\."):
        listing.find("xyz", {}, "thing")
