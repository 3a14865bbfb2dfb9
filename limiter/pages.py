"""Reads the two pages of a slice directory (limiter/src/page.h); `writer.py` makes and writes them.

The stats page is the tenant's: every number in it is a claim. It is read with `pread` into a snapshot (a
truncated mapping would kill the reader), walked by the sizes in the file, and each number is bounded. The
control page is the agent's: it has one writer, and the sequence lock tells readers when to look again. Fields
that an older minor version does not have read as 0, which means "none" for all of them.

What it does not do: wait, follow symbolic links, or judge the numbers. `ledger.py` says what the dead hold.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import uuid as uuids
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import ClassVar, TypeVar

from limiter import layout, ledger
from weir.errors import WeirError

TORN_READ_TRIES = 16  # a write is one pwrite of a few KiB: more tries mean a writer that died half-way
_MAX_PAGE = 64 << 20
_MAX_COUNT = 2**63 - 1
OPEN_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

S = TypeVar("S", bound=ctypes.LittleEndianStructure)


class PageError(WeirError):
    """A page cannot be read; `state` is what a listing says about it."""

    state: ClassVar[str] = "corrupt"


class CorruptPageError(PageError):
    """The page is not one, is cut short, or contradicts itself."""


class VersionMismatchError(PageError):
    """The page is of another major version."""

    state = "version_mismatch"


class TornReadError(PageError):
    """Every try met a write under way."""


def in_force(deadline: int, now: int) -> bool:
    """Whether what a deadline guards applies: not when it has passed, or is too far off to be meant."""
    return now < deadline <= now + layout.DEADLINE_REACH


@dataclass(frozen=True, slots=True)
class ControlDevice:
    """What the agent tells the limiter about one card of the slice; see page.h for each field."""

    uuid: bytes
    memory_limit: int = layout.NO_LIMIT
    context_bytes: int = 0
    core_limit: int = layout.FULL_CORES
    core_guarantee: int = 0
    lease_deadline: int = 0
    lease_memory_limit: int = layout.NO_LIMIT
    lease_core_limit: int = layout.FULL_CORES
    gate: int = 0
    gate_deadline: int = 0
    slot_deadline: int = 0
    slot_frame: int = 0
    slot_offset: int = 0
    slot_length: int = 0
    unaccounted: int = 0
    unaccounted_deadline: int = 0
    loan_deadline: int = 0
    loan_core_limit: int = 0
    card_total: int = 0
    card_room: int = 0
    card_deadline: int = 0
    beside_deadline: int = 0

    def memory_limit_at(self, now: int) -> int:
        """The limit in force: a live lease can only lower it. `NO_LIMIT`: none."""
        return (
            min(self.memory_limit, self.lease_memory_limit)
            if in_force(self.lease_deadline, now)
            else self.memory_limit
        )

    def core_limit_at(self, now: int) -> int:
        """Basis points in force: a live loan can only raise them, and a live lease then only lower."""
        limit = (
            max(self.core_limit, self.loan_core_limit)
            if in_force(self.loan_deadline, now)
            else self.core_limit
        )
        return min(limit, self.lease_core_limit) if in_force(self.lease_deadline, now) else limit


@dataclass(frozen=True, slots=True)
class ControlPage:
    """The control page. `sequence` and the version come from the file; a writer ignores them."""

    generation: int
    devices: tuple[ControlDevice, ...]
    policy: int = layout.Policy.FIXED
    refuse_unknown: int = 0
    forgeries: int = 0
    sequence: int = 0
    version: tuple[int, int] = (layout.MAJOR, layout.MINOR)


@dataclass(frozen=True, slots=True)
class DeviceStats:
    """One card's claims. Bytes, nanoseconds and counts; times are CLOCK_MONOTONIC nanoseconds."""

    used: int  # what living processes hold: the page's sum less what the dead left in it
    peak_bytes: int
    balance: int
    gpu_time: int
    throttled_time: int
    periods: int
    throttled_periods: int
    launches: int
    last_launch: int
    waiting: int
    longest_kernel: int
    allocations: int
    frees: int
    denied_limit: int
    denied_device: int
    denied_policy: int
    denied_bytes: int
    uncovered: int
    hook_errors: int
    intent_waits: int
    launch_errors: int = 0


@dataclass(frozen=True, slots=True)
class StatsPage:
    """The stats page, and its living processes where they were asked for."""

    generation: int
    heartbeat: int
    reaped: int
    limiter_version: str  # empty until a process has loaded the limiter
    devices: tuple[DeviceStats, ...]
    processes: tuple[ledger.Process, ...] = ()
    dead: int = 0  # slots whose process died and that nobody has taken back yet
    uncovered_calls: tuple[int, ...] = (0,) * len(layout.Api)  # by layout.Api
    version: tuple[int, int] = (layout.MAJOR, layout.MINOR)

    def kind_bytes(self, device: int, kind: layout.Kind) -> int:
        """Bytes that living processes hold on a card for one purpose."""
        return sum(process.devices[device].kind_bytes[kind] for process in self.processes)


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of `GPU-9f8b…` or `MIG-9f8b…`. Raises ValueError."""
    return uuids.UUID(text.removeprefix("GPU-").removeprefix("MIG-")).bytes


def structure(kind: type[S], data: bytes, offset: int, size: int) -> S:
    """The structure at `offset`, of which the file has `size` bytes; the rest reads as 0."""
    length = min(size, ctypes.sizeof(kind))
    return kind.from_buffer_copy(data[offset : offset + length].ljust(ctypes.sizeof(kind), b"\0"))


@contextmanager
def opened(path: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    """A descriptor of a page; a link or a missing file is an error with a name."""
    try:
        descriptor = os.open(path, flags | OPEN_FLAGS)
    except OSError as error:
        raise CorruptPageError(f"{path}: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # a pipe or a device cannot be read at an offset
            raise CorruptPageError(f"{path}: not a file")
        yield descriptor
    finally:
        os.close(descriptor)


def header_of(path: Path, kind: type[S], data: bytes, magic: int, minimum: int) -> S:
    """The page's header, of which the file has at least `minimum` bytes. Raises unless it can be walked."""
    header = structure(kind, data, 0, len(data))
    if header.magic != magic:
        raise CorruptPageError(f"{path}: not a page: wrong magic number")
    if header.major != layout.MAJOR:
        raise VersionMismatchError(f"{path}: version {header.major}.{header.minor}; {layout.MAJOR}.x is read")
    if not (
        minimum <= header.header_size <= 65536
        and 1 <= header.device_count <= layout.MAX_DEVICES
        and layout.ControlDevice.lease_deadline.offset <= header.device_stride <= 65536
        and header.header_size % 8 == header.device_stride % 8 == 0
    ):
        raise CorruptPageError(f"{path}: its header contradicts itself")
    return structure(kind, data, 0, header.header_size)


def read_control(path: Path, *, whole: bool = True) -> ControlPage:
    """The control page as one write left it; or as it stands, if it need not be whole. Raises PageError."""
    with opened(path) as descriptor:
        for _ in range(TORN_READ_TRIES):
            data = os.pread(descriptor, _MAX_PAGE, 0)
            header = header_of(path, layout.ControlHeader, data, layout.CONTROL_MAGIC, 48)
            again = os.pread(descriptor, 4, layout.ControlHeader.sequence.offset)
            if header.sequence % 2 == 0 and again == struct.pack("<I", header.sequence):
                return _control_page(path, header, data)
    if not whole:
        return _control_page(path, header, data)
    raise TornReadError(f"{path}: a write is under way")


def _control_page(path: Path, header: layout.ControlHeader, data: bytes) -> ControlPage:
    if len(data) < header.header_size + header.device_count * header.device_stride:
        raise CorruptPageError(f"{path}: shorter than its header says")
    offsets = range(header.header_size, len(data), header.device_stride)[: header.device_count]
    raw = [structure(layout.ControlDevice, data, offset, header.device_stride) for offset in offsets]
    names = [field.name for field in fields(ControlDevice) if field.name != "uuid"]
    return ControlPage(
        generation=header.generation,
        devices=tuple(
            ControlDevice(bytes(one.uuid), **{name: getattr(one, name) for name in names}) for one in raw
        ),
        policy=header.policy,
        refuse_unknown=header.refuse_unknown,
        forgeries=header.forgeries,
        sequence=header.sequence,
        version=(header.major, header.minor),
    )


def read_stats(path: Path, *, processes: bool = True) -> StatsPage:
    """The stats page as it stands. Raises PageError.

    Without `processes` only the header and the cards are read (a few hundred bytes), and `used` then counts
    what dead processes left behind.
    """
    with opened(path) as descriptor:
        data = os.pread(descriptor, 65536, 0)
        header = header_of(path, layout.StatsHeader, data, layout.STATS_MAGIC, 72)
        slots_at = header.header_size + header.device_count * header.device_stride
        if len(data) < slots_at and len(data := os.pread(descriptor, slots_at, 0)) < slots_at:
            raise CorruptPageError(f"{path}: shorter than its header says")
        page = _stats_page(header, data)
        return _with_processes(path, descriptor, header, page) if processes else page


def read_layout(path: Path, descriptor: int) -> layout.StatsHeader:
    """The header of an open stats page, for reading a few fields alone. Raises CorruptPageError."""
    return header_of(path, layout.StatsHeader, os.pread(descriptor, 4096, 0), layout.STATS_MAGIC, 72)


def _stats_page(header: layout.StatsHeader, data: bytes) -> StatsPage:
    offsets = range(header.header_size, len(data), header.device_stride)[: header.device_count]
    raw = [structure(layout.StatsDevice, data, offset, header.device_stride) for offset in offsets]
    names = [field.name for field in fields(DeviceStats) if field.name != "used"]
    return StatsPage(
        generation=header.generation,
        heartbeat=min(header.heartbeat, _MAX_COUNT),
        reaped=min(header.reaped, _MAX_COUNT),
        limiter_version=header.limiter_version.decode("ascii", "replace"),
        uncovered_calls=tuple(min(header.uncovered_calls[api], _MAX_COUNT) for api in layout.Api),
        devices=tuple(
            DeviceStats(
                ledger.Word.of(one.used).total,
                **{name: min(getattr(one, name), _MAX_COUNT) for name in names},
            )
            for one in raw
        ),
        version=(header.major, header.minor),
    )


def _with_processes(path: Path, descriptor: int, header: layout.StatsHeader, page: StatsPage) -> StatsPage:
    try:
        books = ledger.read(descriptor, ledger.Shape.of(header))
    except ValueError as error:
        raise CorruptPageError(f"{path}: {error}") from error
    devices = (replace(one, used=used) for one, used in zip(page.devices, books.used, strict=True))
    return replace(page, devices=tuple(devices), processes=books.processes, dead=books.dead)
