"""Ledgers that somebody has made up, checksums and all: computed again or refused in words, and never followed."""

import errno
import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from stodyn import load, provenance, simulate, sweep
from stodyn import statistics as st
from stodyn.engine.record import ledger as ledger_module
from stodyn.engine.record import plain
from stodyn.engine.record.ledger import status
from stodyn.methods.explicit import EulerMaruyama
from stodyn.models.ornstein_uhlenbeck import ornstein_uhlenbeck

pytestmark = pytest.mark.usefixtures("quick_compiling_everywhere")
DEEP = "[" * 50_000 + "]" * 50_000
RUN = dict(t=(0, 1), dt=0.25, paths=16, seed=1, block=8, collect=[st.Moments(), st.Paths(3)])
BLOCK = "blocks/000/001-8"


def asked(folder, **changed):
    return simulate(ornstein_uhlenbeck(), EulerMaruyama, ledger=folder, threads=1, **(RUN | changed))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ledgers") / "original"
    return folder, asked(folder)


@pytest.fixture
def folder(original, tmp_path):
    return Path(shutil.copytree(original[0], tmp_path / "copy"))


def forge(file, changed):
    """Change the text of a record's header and compute its checksum anew."""
    data = file.read_bytes()[: -plain.DIGEST]
    begin = len(plain.MAGIC) + 8
    end = begin + int.from_bytes(data[len(plain.MAGIC) : begin], "little")
    text = changed(data[begin:end].decode()).encode()
    body = b"".join([plain.MAGIC, len(text).to_bytes(8, "little"), text, data[end:]])
    file.write_bytes(body + hashlib.sha256(body).digest())


def with_key(name, value):
    return lambda text: json.dumps({**json.loads(text), name: value})


def without(name):
    return lambda text: json.dumps({key: value for key, value in json.loads(text).items() if key != name})


MALFORMED = {
    "nested": lambda text: text.replace('"arrays":', f'"more":{DEEP},"arrays":'),
    "nested structure": lambda text: text.replace('"structure":', '"structure":' + '{"list":[' * 9000 + "{}"
                                                  + "]}" * 9000 + ',"old":'),
    "not JSON": lambda text: text[:-1], "no object": lambda text: "3", "no arrays": without("arrays"),
    "no structure": without("structure"), "no description": without("about"), "empty": with_key("structure", {}),
    "objects": lambda text: text.replace('"<f8"', '"|O8"'),
    "a dtype of code": lambda text: text.replace('"<f8"', '"f8,O"'),
    "huge": with_key("arrays", [["<f8", [10**15]]]), "negative": with_key("arrays", [["<f8", [-1]]]),
    "no size": with_key("arrays", [["<U0", [10**15]]]), "a number": with_key("arrays", 3),
    "no such array": with_key("structure", {"array": 10**6}), "kind": with_key("structure", {"module": ["os"]}),
    "a word": with_key("structure", {"float": "x"}),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_record_is_computed_again_and_never_loaded(name, folder, original):
    for file in (BLOCK, "result.record"):
        forge(folder / file, MALFORMED[name])
    with pytest.raises(ValueError, match=r"ledger: the result in .* is damaged\. Give the same run again"):
        load(folder)
    assert status(folder).done == 2
    again = asked(folder)
    assert provenance(again)["blocks_read"] == 1 and again.drop_attrs().identical(original[1].drop_attrs())
    assert load(folder).drop_attrs().identical(original[1].drop_attrs())


def content(value):
    def changed(text):
        arrays = []
        header = json.loads(text) | {"structure": plain._described(value, arrays, "value")}
        return json.dumps(header | {"arrays": []})

    return changed


@pytest.mark.parametrize("value", [3, [], {"a": 1}, [[], 1, 2, 3, 4], ["a", "b", "c", "d", "e"], [None] * 5])
@pytest.mark.parametrize("block", ["000", "001"])
def test_a_record_of_another_form_is_refused_by_the_name_of_its_file(value, block, folder):
    forge(folder / f"blocks/000/{block}-8", content(value))
    with pytest.raises(
        ValueError, match=rf"record of block {int(block)} in .* was not written by .* Remove .*/{block}-8"
    ):
        asked(folder)


def test_a_record_that_is_the_only_one(tmp_path):
    asked(tmp_path / "one", paths=8)
    file = tmp_path / "one/blocks/000/000-8"
    forge(file, lambda text: text.replace("[5,1]", "[1,5]").replace("[3,5,1]", "[5,3,1]"))
    with pytest.raises(ValueError, match=r"record of block 0 in .* was not written by this run"):
        asked(tmp_path / "one", paths=8)


def test_forged_blocks_of_a_sweep_are_noticed(tmp_path):
    options = dict(over={"rate": [1.0, 2.0]}, ledger=tmp_path / "sweep", threads=1, **RUN)
    sweep(ornstein_uhlenbeck, EulerMaruyama, **options)
    forge(tmp_path / "sweep" / BLOCK, content([[], []]))
    with pytest.raises(ValueError, match=r"record of block 1 in .* was not written by this run"):
        sweep(ornstein_uhlenbeck, EulerMaruyama, **options)


def test_a_named_tuple_that_is_not_at_hand(folder):
    forge(folder / "result.record", with_key("structure", {"named": "os.stat_result", "entries": []}))
    with pytest.raises(ValueError, match="is damaged"):
        load(folder)


def sealed(**content):
    return json.dumps({**content, "checksum": ledger_module._checksum(content)})


MANIFESTS = {
    "nested": DEEP, "a list": "[]", "no identity": sealed(paths=3),
    "no number": sealed(identity={"block": 8}, paths="x"),
    "no block": sealed(identity={}, paths=3), "no width": sealed(identity={"block": 0}, paths=3),
    "truth": sealed(identity={"block": True}, paths=3), "a word": sealed(identity="x", paths=3),
    "digits": '{"paths": ' + "9" * 5000 + "}", "another": sealed(identity={"block": 8}, paths=3, more=1),
}  # fmt: skip


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_that_cannot_be(name, folder, original):
    (folder / "manifest.json").write_text(MANIFESTS[name])
    for read in (load, status):
        with pytest.raises(ValueError, match="its manifest is damaged; give the same run again"):
            read(folder)
    assert provenance(asked(folder))["blocks_read"] == 2


def test_more_blocks_than_can_be_counted_and_files_of_any_name(folder):
    (folder / "manifest.json").write_text(sealed(identity={"block": 1}, paths=10**30))
    for name in ("x/y", "000/1-x", "000/-", "１/２-３", "000/" + "9" * 200 + "-1"):
        (folder / "blocks" / name).parent.mkdir(exist_ok=True)
        (folder / "blocks" / name).touch()
    assert status(folder)[:3] == (0, 10**30, 10**30)


def test_links_and_pipes_are_not_followed(folder, tmp_path, original):
    """Not for reading, where a pipe would never end, and not for writing."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (folder / BLOCK).unlink()
    (folder / BLOCK).symlink_to(original[0] / BLOCK)
    (folder / "result.record").unlink()
    os.mkfifo(folder / "result.record")
    with pytest.raises(ValueError, match="is damaged"):
        load(folder)
    assert provenance(asked(folder))["blocks_read"] == 1 and not (folder / BLOCK).is_symlink()
    (folder / "manifest.json").unlink()
    os.mkfifo(folder / "manifest.json")
    with pytest.raises(ValueError, match="its manifest is damaged"):
        status(folder)
    shutil.rmtree(folder / "blocks")
    (folder / "blocks").symlink_to(outside)
    with pytest.raises(ValueError, match="blocks is a link, and the files of a ledger lie in its own folder"):
        asked(folder)
    assert not list(outside.iterdir())


def test_a_read_only_ledger(folder, monkeypatch):
    """A disk that takes nothing: the run asked again says what can be done, and load still reads."""

    def refused(self, *_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patched:
            patched.setattr(ledger_module.os, name, refused)
            with pytest.raises(OSError, match=r"nothing can be written in .*Read-only.*stodyn\.load reads") as error:
                asked(folder)
        assert error.value.errno == errno.EROFS
    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", refused)
        with pytest.raises(OSError, match="nothing can be written in"):
            asked(folder)
    assert load(folder).sizes["time"] == 5
