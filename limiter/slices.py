"""Slice directories under one root: make, find, describe and remove them.

    <root>/slices/<name>/slice.json   who it is for and what was asked (Identity)
                         control      the agent's page
                         rw/stats     the limiter's page
                         supervisor   locked (flock) by the process that started the slice, while it lives

A directory appears under its name whole or not at all. `observe` never raises for what it finds: links, files
of other owners and junk become observations with a state, and are never followed. The states:

    live               the supervisor or a process of the slice lives
    orphan             a process lives, its supervisor does not
    stale              neither lives: the directory can be removed
    corrupt            the directory or a page is not what it should be
    version_mismatch   a page is of another major version
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from limiter import layout, writer
from limiter.identity import Identity, load_identity
from limiter.pages import (
    ControlDevice,
    ControlPage,
    CorruptPageError,
    PageError,
    StatsPage,
    TornReadError,
    read_control,
    read_stats,
    uuid_bytes,
)
from weir.errors import HostError

_UNFINISHED_SECONDS = 60.0  # making a directory takes milliseconds


@dataclass(frozen=True, slots=True)
class Observation:
    """One directory as it was found. What could not be read is None, and `problem` says why."""

    path: Path
    state: str
    supervised: bool = False
    supervisor: int = 0  # its process ID, as it wrote it down; 0 where it does not live
    identity: Identity | None = None
    control: ControlPage | None = None
    stats: StatsPage | None = None
    problem: str = ""
    torn: bool = False  # the control page was being written at every try


def slices_root(root: Path) -> Path:
    """Where the slice directories of a root are."""
    return root / "slices"


def create(root: Path, identity: Identity, control: ControlPage) -> tuple[Path, int]:
    """Make a slice directory, whole or not at all, with its supervisor's lock already held.

    Returns the directory and the descriptor that keeps the lock. Raises HostError, or FileExistsError where
    the name is taken.
    """
    path = slices_root(root) / identity.name
    partial = path.with_name(f".{identity.name}.{os.getpid()}")
    if os.path.lexists(path):
        raise FileExistsError(path)
    try:
        (partial / "rw").mkdir(parents=True)
        (partial / "slice.json").write_text(json.dumps(asdict(identity)) + "\n")
        (partial / "supervisor").touch()
        writer.create_control(partial / "control", control)
        writer.create_stats(partial / "rw" / "stats", identity.generation, len(identity.devices))
        lock = hold(partial)
        partial.rename(path)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise HostError(f"{path}: cannot make the slice directory: {error.strerror}") from error
    return path, lock


def first_control(identity: Identity, capacities: Sequence[int], context_bytes: Sequence[int]) -> ControlPage:
    """The control page that a slice starts with: its limits, no slot. One capacity for each of its cards."""
    return ControlPage(
        generation=identity.generation,
        devices=tuple(
            ControlDevice(
                uuid=uuid_bytes(share.uuid),
                memory_limit=capacity if share.promised_bytes is None else share.promised_bytes,
                context_bytes=context,
                core_limit=identity.paced_bp(share),
                core_guarantee=share.guarantee_bp,
            )
            for share, capacity, context in zip(identity.devices, capacities, context_bytes, strict=True)
        ),
        policy=layout.Policy[identity.policy.upper()],
        refuse_unknown=int(identity.unaccounted == "refuse"),
    )


def remove(path: Path) -> None:
    """Remove a slice directory; processes that still have its pages mapped keep them."""
    doomed = path.with_name(f".{path.name}.removed.{os.getpid()}")
    try:
        path.rename(doomed)  # first out of sight: nobody may see half of it
    except FileNotFoundError:
        return
    with contextlib.suppress(OSError):
        _clear(doomed)


def _clear(path: Path) -> None:
    """Remove what is there, a directory or not, and never what a link points to."""
    if stat.S_ISDIR(path.lstat().st_mode):
        shutil.rmtree(path)
    else:
        path.unlink()


def sweep(root: Path, now: float | None = None) -> list[Path]:
    """Remove the directories of slices in which nobody lives, and what unfinished makers left behind.

    A live slice whose stats page is damaged gets a new one. Gives what was removed.
    """
    found = observe(root)
    stale = [one.path for one in found if one.state == "stale"]
    for path in stale:
        remove(path)
    for one in found:
        if one.state == "corrupt" and one.supervised:
            mend(one.path)
    before = (time.time() if now is None else now) - _UNFINISHED_SECONDS
    for path in slices_root(root).glob(".*"):
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime < before:
                _clear(path)
    return stale


def mend(path: Path) -> bool:
    """Make the stats page anew if it is cut short or damaged; programs move to it with what they hold.

    Says whether it was. One of another major version stays, and one whose control page cannot be read.
    """
    try:
        control = read_control(path / "control")
    except PageError:
        return False
    try:
        read_stats(path / "rw" / "stats")
    except CorruptPageError:
        with contextlib.suppress(OSError):  # no room, or something else in its place
            writer.create_stats(path / "rw" / "stats", control.generation, len(control.devices))
            return True
    except PageError:
        return False
    return False


def hold(path: Path) -> int:
    """Take the supervisor's lock and keep it by the descriptor that is returned. Raises BlockingIOError."""
    descriptor = os.open(path / "supervisor", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    return descriptor


def supervisor_of(path: Path) -> int | None:
    """The process that started the slice, 0 if it did not say; None if it does not live.

    Asks by a shared lock, so that two who ask do not meet.
    """
    try:
        descriptor = os.open(path / "supervisor", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        said = os.pread(descriptor, 20, 0).strip()
        return int(said) if said.isdigit() else 0
    finally:
        os.close(descriptor)
    return None


def observe(root: Path, *, processes: bool = True) -> list[Observation]:
    """Every slice directory under the root, by name. Raises OSError only where the root cannot be listed."""
    try:
        names = sorted(entry.name for entry in os.scandir(slices_root(root)))
    except FileNotFoundError:
        return []
    found = (observe_one(slices_root(root) / name, processes=processes) for name in names if name[0] != ".")
    return [one for one in found if one is not None]


def observe_one(path: Path, *, processes: bool = True) -> Observation | None:
    """One slice directory as it is now; None if it is gone. Without `processes`, only supervisors count."""
    identity, control, stats = None, None, None
    try:
        _own_directory(path)
        identity = load_identity(path)
        stats = read_stats(path / "rw" / "stats", processes=processes)
        control = read_control(path / "control")
        if not len(identity.devices) == len(control.devices) == len(stats.devices):
            control, stats = None, None  # nobody could pair them
            raise CorruptPageError(f"{path}: its pages are for different numbers of cards")
    except TornReadError as error:
        return _observation(path, "live", identity, None, stats, str(error), torn=True)
    except PageError as error:
        if not os.path.lexists(path):
            return None  # removed while we looked
        return _observation(path, error.state, identity, control, stats, str(error))
    found = _observation(path, "live", identity, control, stats)
    return found if found.supervised else replace(found, state="orphan" if stats.processes else "stale")


def _observation(
    path: Path,
    state: str,
    identity: Identity | None,
    control: ControlPage | None,
    stats: StatsPage | None,
    problem: str = "",
    *,
    torn: bool = False,
) -> Observation:
    pid = supervisor_of(path)
    return Observation(path, state, pid is not None, pid or 0, identity, control, stats, problem, torn)


def _own_directory(path: Path) -> None:
    """Raise unless this is a directory, not a link, that belongs to the root's owner."""
    try:
        here, above = path.lstat(), path.parent.stat()
    except OSError as error:
        raise CorruptPageError(f"{path}: {error.strerror}") from error
    if not stat.S_ISDIR(here.st_mode):
        raise CorruptPageError(f"{path}: not a directory")
    if here.st_uid != above.st_uid:
        raise CorruptPageError(f"{path}: belongs to user {here.st_uid}, its root to {above.st_uid}")
