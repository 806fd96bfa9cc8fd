"""A folder that keeps every finished block of a run, so that the run survives the end of its process.

    manifest.json         the identity of the run and the number of paths last asked for
    blocks/000/012-4096   the results of the statistics for block 12 with its 4096 paths
    result.record         the Dataset, once the run is complete
    run.toml              the file that described the run, where `stodyn run` made it

Every file is written under another name, flushed and renamed, and carries a checksum: a file is whole or absent, and
one that was altered is computed again. Two processes may work in one folder: they write the same bytes.

A ledger may be somebody else's: it holds no code, links in it are not followed, and records that were made up are
computed again or refused.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import errno
import json
import os
import re
import stat
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from stodyn import results
from stodyn.arguments import checks_arguments
from stodyn.engine.record import identity, plain
from stodyn.engine.record.job import Job
from stodyn.problems.contract import machine_memory

MANIFEST, RESULT, BLOCKS, RUN_FILE = "manifest.json", "result.record", "blocks", "run.toml"
BLOCKS_PER_FOLDER = 1000  # blocks in a folder
UNFINISHED = ".unfinished-"
WRITERS, WAITING = 4, 64  # threads that write, and blocks that may wait for them
BLOCK = re.compile(r"(\d+)/(\d+)-(\d+)")  # the names of a block's folder and file
LONGEST_NAME = 100  # characters of the names of a block's folder and file
SMALL = 100_000_000  # bytes of a file that are read without asking how much memory there is
NO_WRITING = (errno.EROFS, errno.EACCES, errno.EPERM)
ABANDONED = 3600.0  # seconds after which an unfinished file belongs to a process that has ended


class Manifest(NamedTuple):
    """The contents of a ledger's manifest."""

    identity: dict[str, Any]
    paths: int

    @property
    def width(self) -> int:
        return self.identity["block"]

    @property
    def is_possible(self) -> bool:
        """Whether it can be that of a run: anybody can compute a checksum."""
        numbers = (self.paths, self.identity.get("block") if isinstance(self.identity, dict) else None)
        return all(type(number) is int and number >= 1 for number in numbers)


@dataclasses.dataclass(frozen=True)
class DescribedLedger(os.PathLike[str]):
    """The folder of a ledger whose run a file describes; the ledger keeps a copy of it."""

    folder: Path
    run_file: str

    def __fspath__(self) -> str:
        return str(self.folder)


class Ledger:
    """The ledger of one run in `folder`, created if it does not exist; refuses the folder of another run."""

    def __init__(self, folder: str | os.PathLike[str], job: Job):
        if not isinstance(folder, (str, os.PathLike)) or not os.fspath(folder):
            raise TypeError(f"ledger: expected the name of a folder, such as 'runs/plasma', got {folder!r}")
        self.folder, self.job = Path(folder), job
        self._writers = concurrent.futures.ThreadPoolExecutor(WRITERS, thread_name_prefix="stodyn-ledger")
        self._room = threading.Semaphore(WAITING)
        self._failure: BaseException | None = None
        described = getattr(folder, "run_file", None)
        self.read_blocks = 0
        self._read: set[int] = set()
        _check_folder(self.folder)
        try:
            (self.folder / BLOCKS).mkdir(parents=True, exist_ok=True)
            known = _manifest(self.folder)
            ours = _packed(Manifest(job.identity, job.paths))
            if known is None:
                self._check_blocks()
                is_damaged = (self.folder / MANIFEST).exists() and _manifest(self.folder) is None
                self._replace(self.folder / MANIFEST, ours, only_new=not is_damaged)
                known = _manifest(self.folder)  # another process may have been first
            assert known is not None
            self._check(known)
            if known.paths != job.paths:
                self._replace(self.folder / MANIFEST, ours)
            if described is not None:
                self._replace(self.folder / RUN_FILE, described.encode())
            self._clear_up()
        except PermissionError as error:
            raise ValueError(f"ledger: no permission to read and write in {self.folder}") from error
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ValueError(f"ledger: cannot make the folder {self.folder} ({error.strerror})") from error
        except OSError as error:
            if error.errno == errno.EROFS:
                raise OSError(error.errno, self._no_writing(error)) from error
            raise

    def _check(self, known: Manifest) -> None:
        """Refuse a folder that holds another run."""
        try:
            differences = identity.differences(known.identity, self.job.identity)
        except RecursionError:
            differences = ["its manifest is not one that stodyn writes"]
        if not differences:
            return
        was, now = ("sweep" in one for one in (known.identity, self.job.identity))
        if was != now:
            raise ValueError(
                f"ledger: {self.folder} holds {'a sweep' if was else 'a single run'}, but this is "
                f"{'a sweep' if now else 'a single run'}. Give another folder."
            )
        if known.width != self.job.identity["block"]:
            raise ValueError(
                f"ledger: {self.folder} holds blocks of {known.width} paths, but {self.job.paths} paths would come in "
                f"blocks of {self.job.identity['block']}. Give block={known.width} to continue with them (the result "
                f"is that of a new run with block={known.width}), or another folder."
            )
        raise ValueError(
            f"ledger: {self.folder} holds another run: {'; '.join(differences)}. Give the same run to continue it, or "
            "another folder."
        )

    def _check_blocks(self) -> None:
        """Without a manifest the blocks say which run they belong to: a whole one of another run is refused."""
        for file in _block_files(self.folder):
            with contextlib.suppress(plain.Damaged, OSError):
                if plain.about(_contents(file)).get("run") != self.job.key:
                    raise ValueError(
                        f"ledger: {self.folder} has lost its manifest, and its blocks belong to another run. Give "
                        "that run to continue it, or another folder."
                    )
                return

    def _clear_up(self) -> None:
        for file in self.folder.rglob(f"{UNFINISHED}*"):
            with contextlib.suppress(OSError):
                if time.time() - file.stat().st_mtime > ABANDONED:
                    file.unlink()

    def file(self, block: int) -> Path:
        name = f"{block % BLOCKS_PER_FOLDER:03d}-{self.job.paths_in(block)}"
        return self.folder / BLOCKS / f"{block // BLOCKS_PER_FOLDER:03d}" / name

    def read(self, block: int) -> Any | None:
        """The result of a block, or None where it is not known: no file, a damaged one, or one of another run."""
        try:
            data = _contents(self.file(block))
            about = plain.about(data)
        except (FileNotFoundError, plain.Damaged):
            return None
        wanted = self.job.about(block)
        if about != wanted and {**about, "members": wanted["members"]} == wanted:
            raise ValueError(
                f"ledger: {self.folder} holds block {block} computed with other starts or params of its paths "
                f"({block * self.job.identity['block']}, ...). Give the same run to continue it, or another folder."
            )
        if about != wanted:
            return None
        try:
            part = self.job.unpack(data)
        except plain.Damaged:
            return None
        self.read_blocks += 1
        self._read.add(block)
        return part

    @contextlib.contextmanager
    def fitting(self, block: int) -> Iterator[None]:
        """Refuse a record that was read and that cannot be merged: it is not one that this run has written."""
        try:
            yield
        except plain.FAULTS as error:
            if block not in self._read:
                raise
            raise ValueError(
                f"ledger: the record of block {block} in {self.folder} was not written by this run "
                f"({type(error).__name__}: {error}). Remove {self.file(block)}, and it is computed again."
            ) from error

    def write(self, block: int, data: bytes) -> None:
        """Write a packed block in the background, so that the computation does not wait for the disk."""
        if self._failure is not None:
            raise self._failure
        self._room.acquire()
        self._writers.submit(self._write, block, data)

    def _write(self, block: int, data: bytes) -> None:
        try:
            file = self.file(block)
            file.parent.mkdir(exist_ok=True)
            _check_links([file.parent])
            self._replace(file, data)
        except BaseException as error:
            self._failure = self._failure or error
        finally:
            self._room.release()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        """Finish writing all blocks, also where the run was ended by an error."""
        self._writers.shutdown(wait=True)
        if kind is None and self._failure is not None:
            raise self._failure

    def finish(self, run: xr.Dataset) -> None:
        """Keep the complete result for `load`."""
        self._replace(self.folder / RESULT, plain.packed(_plain_dataset(run), {"run": self.job.key}))

    def _replace(self, file: Path, data: bytes, only_new: bool = False) -> None:
        """Write a file so that it is whole or absent whatever happens; `only_new` leaves an existing one alone."""
        unfinished = file.parent / f"{UNFINISHED}{uuid.uuid4().hex}"
        try:
            with unfinished.open("wb") as opened:
                opened.write(data)
                opened.flush()
                os.fsync(opened.fileno())
            if only_new:
                with contextlib.suppress(FileExistsError):
                    os.link(unfinished, file)
                unfinished.unlink()
            else:
                os.replace(unfinished, file)
        except BaseException as error:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise OSError(
                    error.errno,
                    f"ledger: no room for {len(data)} bytes in {self.folder} ({os.strerror(error.errno)}). The "
                    f"{len(list(_block_files(self.folder)))} blocks already written are kept: make room and give the "
                    "same run again",
                ) from error
            if isinstance(error, OSError) and error.errno in NO_WRITING:
                raise OSError(error.errno, self._no_writing(error)) from error
            raise

    def _no_writing(self, error: OSError) -> str:
        return (
            f"ledger: nothing can be written in {self.folder} ({error.strerror}). stodyn.load reads the result of a "
            "run that is complete; to continue one, copy the folder to where it can be written"
        )


def _check_folder(folder: Path) -> None:
    """Refuse a folder that is neither a ledger nor empty."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"ledger: {folder} is a file; expected a folder, or the name of a new one")
    try:
        names = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
    except PermissionError as error:
        raise ValueError(f"ledger: no permission to read {folder}") from error
    if names and not names & {MANIFEST, BLOCKS, RUN_FILE}:
        raise ValueError(
            f"ledger: {folder} holds other files ({', '.join(sorted(names)[:3])}{', ...' if len(names) > 3 else ''}) "
            "but not a ledger. Give a folder of its own."
        )
    if (folder / BLOCKS).is_dir():
        _check_links([folder / BLOCKS, *(folder / BLOCKS).iterdir()])


def _check_links(folders: Iterable[Path]) -> None:
    """Refuse links in the place of folders: blocks would be read and written wherever they lead."""
    for folder in folders:
        if folder.is_symlink():
            raise ValueError(
                f"ledger: {folder} is a link, and the files of a ledger lie in its own folder. Copy them there"
            )


def _contents(file: Path) -> bytes:
    """The bytes of a file of a ledger, neither a link nor a pipe, if there is memory for them; raises Damaged."""
    about = file.lstat()
    if not stat.S_ISREG(about.st_mode):
        raise plain.Damaged(f"{file} is not a file")
    if about.st_size > SMALL and about.st_size > machine_memory():
        raise plain.Damaged(f"{file} has {about.st_size:,} bytes, more than there is memory for")
    return file.read_bytes()


def _packed(manifest: Manifest) -> bytes:
    content = manifest._asdict()
    return json.dumps({**content, "checksum": _checksum(content)}, indent=1).encode()


def _checksum(content: dict[str, Any]) -> str:
    return identity.digest(json.dumps(content, sort_keys=True))


def _manifest(folder: Path) -> Manifest | None:
    """The manifest, or None where there is none or it is damaged."""
    try:
        content = json.loads(_contents(folder / MANIFEST))
        checksum = content.pop("checksum")
        known = Manifest(**content)
        return known if known.is_possible and _checksum(content) == checksum else None
    except (FileNotFoundError, *plain.FAULTS):
        return None


def _block_files(folder: Path) -> Iterator[Path]:
    return (file for file in (folder / BLOCKS).glob("*/*") if not file.name.startswith(UNFINISHED))


def _plain_dataset(run: xr.Dataset) -> dict[str, Any]:
    def plainly(variable: xr.Variable) -> list[Any]:
        return [list(variable.dims), np.asarray(variable.values), dict(variable.attrs)]

    return {
        "variables": {str(name): plainly(variable.variable) for name, variable in run.data_vars.items()},
        "coords": {str(name): plainly(variable.variable) for name, variable in run.coords.items()},
        "attrs": dict(run.attrs),
    }


class Status(NamedTuple):
    """How far a run in a ledger is; `rate` in blocks per second over the last blocks, `idle` seconds since the last."""

    done: int
    blocks: int
    paths: int
    complete: bool
    rate: float | None
    idle: float | None

    @property
    def left(self) -> float | None:
        """Seconds until the end at this rate."""
        return None if not self.rate else (self.blocks - self.done) / self.rate


RECENT, PAUSE = 1024, 60.0  # blocks over which the rate is taken, and seconds without one that are a pause


@checks_arguments
def status(folder: str | os.PathLike[str]) -> Status:
    """Say how far a run in a ledger is, by the names and times of its files alone: nothing is read or computed.

    Parameters
    ----------
    folder : path
        The ledger's folder.

    Returns
    -------
    Status
        The blocks `done` and all `blocks`, the `paths` of the run, whether it is `complete`, the `rate` in blocks per
        second, the seconds `left` at that rate, and the seconds since the last block (`idle`).
    """
    folder = Path(folder)
    known = _known(folder)
    blocks = -(-known.paths // known.width)
    last = known.paths - (blocks - 1) * known.width
    times = []
    for file in _block_files(folder):
        name = BLOCK.fullmatch(f"{file.parent.name}/{file.name}")
        if name is not None and len(name[0]) < LONGEST_NAME:
            number, paths = BLOCKS_PER_FOLDER * int(name[1]) + int(name[2]), int(name[3])
            if number < blocks and paths == (last if number == blocks - 1 else known.width):
                times.append(file.lstat().st_mtime)
    recent = np.sort(times)[-RECENT:]
    apart = np.diff(recent)
    if len(apart) > 2:  # a pause, such as the time between a kill and a resume, is not part of the rate
        pauses = np.flatnonzero(apart > max(PAUSE, 20 * np.sort(apart)[:-1].mean()))
        recent = recent[pauses[-1] + 1 :] if pauses.size else recent
    took = float(np.ptp(recent)) if len(recent) > 1 else 0.0
    return Status(
        len(times),
        blocks,
        known.paths,
        len(times) == blocks and (folder / RESULT).exists(),
        (len(recent) - 1) / took if took > 0 else None,
        time.time() - max(times) if times else None,
    )


def _known(folder: Path) -> Manifest:
    """The manifest of a folder that must be a ledger."""
    if not folder.is_dir():
        raise ValueError(f"ledger: there is no folder {folder}")
    known = _manifest(folder)
    if known is None:
        is_damaged = (folder / MANIFEST).exists()
        what = "its manifest is damaged; give the same run again" if is_damaged else "it is not a ledger"
        raise ValueError(f"ledger: {folder} cannot be read: {what}")
    return known


@checks_arguments
def load(file: str | os.PathLike[str]) -> xr.Dataset:
    """Read the result of a run from a NetCDF file, or from the ledger of a complete run: nothing is computed.

    Parameters
    ----------
    file : path
        A file that stodyn.save wrote, or the folder of a ledger.

    Returns
    -------
    xarray.Dataset
        The result of simulate.

    Raises
    ------
    FileNotFoundError
        Where there is neither a file nor a folder.
    ValueError
        Where the run of a ledger is not complete, or its record is damaged.
    """
    folder = Path(file)
    if not folder.exists():
        raise FileNotFoundError(f"load: there is neither a file nor a folder {folder}")
    if not folder.is_dir():
        return results.load(folder)
    known = _known(folder)
    try:
        data = _contents(folder / RESULT)
        content = plain.unpacked(data).value
        result, paths = _dataset(content), json.loads(content["attrs"]["provenance"])["paths"]
    except FileNotFoundError:
        result, paths = None, None
    except Exception as error:  # xarray refuses what is not a Dataset in many ways
        raise ValueError(
            f"ledger: the result in {folder} is damaged. Give the same run again: its blocks are still there"
        ) from error
    if result is None or paths != known.paths:
        state = status(folder)
        raise ValueError(
            f"ledger: the run in {folder} is not complete: {state.done} of {state.blocks} blocks are done. Give the "
            "same run again (simulate with the same arguments, or `stodyn resume`): it continues where it stopped"
        )
    return result


def _dataset(content: dict[str, Any]) -> xr.Dataset:
    """The Dataset that `_plain_dataset` described."""
    variables, coords = ({name: tuple(v) for name, v in content[kind].items()} for kind in ("variables", "coords"))
    return results.answering(xr.Dataset(variables, coords, content["attrs"]))
