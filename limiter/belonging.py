"""Whose is a process that has no slot: told from /proc, for the agent and for the exporter.

A program that never loads the limiter (static, `env -i`, LD_PRELOAD unset) takes no slot, but NVML shows it.
It belongs to the slice whose supervisor is among its ancestors, which who was started there cannot undo:
a supervisor adopts orphans (deviceplugin/child.py). Where no supervisor lives, to the slice that its
environment names. What was once seen of a process is kept while it lives.

Nothing a tenant writes into a page is used. Process IDs must be those that NVML gives; the caller sees to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

_MAX_ENVIRONMENT = 2 << 20
_MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a process comes from. `inner`: its ID in its own PID namespace, the one its slot would hold."""

    pid: int
    started: int = 0  # ticks after boot
    inner: int = 0
    ancestors: frozenset[int] = frozenset()
    slice_directory: str = ""  # WEIR_SLICE_DIR of its environment


@dataclass(frozen=True, slots=True)
class Household:
    """What a slice is known by: directory, supervisor (0: dead), and the processes that have slots."""

    path: str
    supervisor: int
    pids: frozenset[int]


class Origins:
    """Looks processes up, and remembers what it saw while they live."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._seen: dict[int, Origin] = {}

    def look(self, pids: Iterable[int]) -> dict[int, Origin]:
        """The origins of these processes; of one that is gone or hidden, only its ID."""
        found = {pid: self._origin(pid) for pid in pids}
        self._seen = found
        return found

    def _origin(self, pid: int) -> Origin:
        now, before = read_origin(pid, self._proc), self._seen.get(pid)
        if before is None or before.started != now.started:
            return now
        return replace(
            now,
            ancestors=now.ancestors | before.ancestors,
            slice_directory=before.slice_directory or now.slice_directory,
        )


def read_origin(pid: int, proc: Path = Path("/proc")) -> Origin:
    """What /proc says of a process now."""
    parent, started = _stat(proc, pid)
    ancestors: set[int] = set()
    while parent > 1 and parent not in ancestors and len(ancestors) < _MAX_DEPTH:
        ancestors.add(parent)
        parent, _ = _stat(proc, parent)
    return Origin(pid, started, _inner(proc, pid), frozenset(ancestors), _slice_directory(proc, pid))


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_ENVIRONMENT)
    except OSError:
        return b""  # gone, or another user's


def _stat(proc: Path, pid: int) -> tuple[int, int]:
    """Parent and start time; zeros where nobody can say. The name before them may hold anything."""
    fields = _read(proc / str(pid) / "stat").rpartition(b")")[2].split()
    return (int(fields[1]), int(fields[19])) if len(fields) > 19 else (0, 0)


def _inner(proc: Path, pid: int) -> int:
    for line in _read(proc / str(pid) / "status").splitlines():
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return pid


def _slice_directory(proc: Path, pid: int) -> str:
    for one in _read(proc / str(pid) / "environ").split(b"\0"):
        if one.startswith(b"WEIR_SLICE_DIR="):
            return one.partition(b"=")[2].decode(errors="replace")
    return ""


def household_of(origin: Origin, households: Iterable[Household]) -> Household | None:
    """The slice that a process belongs to; None: it is outside of all."""
    known = list(households)
    for one in known:
        if one.supervisor and one.supervisor in origin.ancestors:
            return one
    return next((one for one in known if origin.slice_directory == one.path), None)


@dataclass(frozen=True, slots=True)
class Belongs:
    """A process on a card: its slice (None: outside of all), and the slot ID it has there (0: none)."""

    household: Household | None
    slot: int = 0


def tell(origins: Mapping[int, Origin], households: Iterable[Household]) -> dict[int, Belongs]:
    """What every process is to the slices."""
    known = list(households)
    by_pid = {pid: one for one in known for pid in one.pids}
    told: dict[int, Belongs] = {}
    for pid, origin in origins.items():
        owner = household_of(origin, known)
        if pid in by_pid:
            told[pid] = Belongs(by_pid[pid], pid)
        else:
            told[pid] = Belongs(owner, origin.inner if owner and origin.inner in owner.pids else 0)
    return told
