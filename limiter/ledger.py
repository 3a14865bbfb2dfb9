"""What each process of a slice holds, read from the slots of the stats page: the Python side of ledger.h.

A slot is alive while somebody holds the open-file-description lock on the byte at its own offset; the kernel
drops the lock however the process dies. What a dead process held is still in the card's sum until somebody
takes its slot back, so it is left out here: its slot's own sum, and each operation that had reached one sum
and not yet the other when it died. Nothing here is trusted and nothing is written.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from dataclasses import dataclass

from limiter import layout

_STABLE_READ_TRIES = (
    3  # a reaper at work moves sums while they are read; a claim need not be better than that
)
_MAX_BYTES = (1 << (64 - layout.WORD_SUM_SHIFT)) * layout.UNIT
_FLOCK = struct.Struct("hhqqi4x")


@dataclass(frozen=True, slots=True)
class Word:
    """A tagged word: a sum, and the operation that changed it last."""

    total: int
    intent: int
    sequence: int

    @classmethod
    def of(cls, word: int) -> Word:
        """The parts of `word`; every value has some."""
        return cls(
            (word >> layout.WORD_SUM_SHIFT) * layout.UNIT,
            word >> layout.WORD_INTENT_SHIFT & layout.WORD_INTENT_MASK,
            word & layout.WORD_SEQUENCE_MASK,
        )

    def names(self, intent: int, sequence: int) -> bool:
        """Whether this operation is the one that changed the word last."""
        return (self.intent, self.sequence) == (intent, sequence & layout.WORD_SEQUENCE_MASK)


@dataclass(frozen=True, slots=True)
class Held:
    """What one process holds on one card."""

    used: int
    kind_bytes: tuple[int, ...]
    lent: int = 0  # of `used`: what others of the slice may hold too


@dataclass(frozen=True, slots=True)
class Process:
    """A living process of the slice. `pid` is in its own PID namespace; `attached` is CLOCK_MONOTONIC ns."""

    slot: int
    pid: int
    attached: int
    devices: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Books:
    """The ledger at one moment: bytes that the living hold on each card, and who they are."""

    used: tuple[int, ...]
    processes: tuple[Process, ...]
    dead: int


@dataclass(frozen=True, slots=True)
class Shape:
    """Where things are in the file, as its header says."""

    header: int
    devices: int
    device_stride: int
    slots: int
    slot_stride: int

    @classmethod
    def of(cls, header: layout.StatsHeader) -> Shape:
        """The shape of the page with this header. Raises ValueError for one that cannot be."""
        shape = cls(
            header.header_size,
            header.device_count,
            header.device_stride,
            header.slot_count,
            header.slot_stride,
        )
        least = ctypes.sizeof(layout.SlotHeader) + shape.devices * ctypes.sizeof(layout.SlotDevice)
        if not (1 <= shape.slots <= layout.SLOTS and least <= shape.slot_stride <= 65536):
            raise ValueError("its slots contradict its header")
        if shape.slot_stride % 8:
            raise ValueError("its slots are not aligned")
        return shape

    def slot(self, index: int) -> int:
        """Offset of a slot, whose first byte carries its lock."""
        return self.header + self.devices * self.device_stride + index * self.slot_stride

    @staticmethod
    def shared(index: int) -> int:
        """Offset of the locks of those who hold what a slot's process pays for."""
        return layout.SHARED_OFFSET + index * layout.SHARED_NUMBERS

    @property
    def size(self) -> int:
        """Bytes of the whole page."""
        return self.slot(self.slots)

    def words(self, data: bytes) -> list[Word]:
        """The cards' sums."""
        return [
            Word.of(int.from_bytes(data[at : at + 8], "little"))
            for at in range(self.header, self.slot(0), self.device_stride)
        ]


def read(descriptor: int, shape: Shape) -> Books:
    """The books of an open stats page. Raises ValueError where the file is cut short."""
    for _ in range(_STABLE_READ_TRIES):
        data = os.pread(descriptor, shape.size, 0)
        if len(data) < shape.size:
            raise ValueError("shorter than its header says")
        books = _books(descriptor, shape, data)
        if not books.dead or shape.words(os.pread(descriptor, shape.slot(0), 0)) == shape.words(data):
            break
    return books


def alive(descriptor: int, offset: int, length: int = 1) -> bool:
    """Whether somebody holds a lock on the bytes at `offset`."""
    request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, offset, length, 0)
    answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, request)
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def _books(descriptor: int, shape: Shape, data: bytes) -> Books:
    words = shape.words(data)
    left_behind = [0] * shape.devices
    living: list[Process] = []
    dead = 0
    for index in _attached(shape, data):
        process = _process(shape, data, index, words)
        if alive(descriptor, shape.slot(index)):
            living.append(process)
            continue
        dead += 1
        guests = alive(descriptor, shape.shared(index), layout.SHARED_NUMBERS)
        for device, held in enumerate(process.devices):
            left_behind[device] += held.used - (held.lent if guests else 0)
    used = tuple(max(0, word.total - left) for word, left in zip(words, left_behind, strict=True))
    return Books(used, tuple(living), dead)


def _attached(shape: Shape, data: bytes) -> list[int]:
    states = memoryview(data)[shape.slot(0) :].cast("I")[:: shape.slot_stride // 4].tolist()
    return [index for index, state in enumerate(states) if state == layout.SlotState.ATTACHED]


def _process(shape: Shape, data: bytes, index: int, words: list[Word]) -> Process:
    at = shape.slot(index)
    slot = layout.SlotHeader.from_buffer_copy(data, at)
    at += ctypes.sizeof(layout.SlotHeader)
    raw = (layout.SlotDevice * shape.devices).from_buffer_copy(data, at)
    held = []
    for device, one in enumerate(raw):
        own = Word.of(one.used)
        pending = sum(
            _pending(intent, index * layout.INTENTS + number, words[device], own)
            for number, intent in enumerate(slot.intents)
            if intent.device == device
        )
        used = min(max(0, own.total + pending), _MAX_BYTES)
        kinds = tuple(size if size <= _MAX_BYTES else 0 for size in one.kind_bytes)
        held.append(Held(used, kinds, min(one.lent, used)))
    return Process(index, slot.pid, min(slot.attached, 2**63 - 1), tuple(held))


def _pending(intent: layout.Intent, name: int, word: Word, own: Word) -> int:
    """Bytes that an operation under way has put into the card's sum and not yet into the slot's."""
    if intent.sequence % 2 == 0:
        return 0
    applied = intent.applied == intent.sequence or word.names(name, intent.sequence)
    folded = intent.folded == intent.sequence or own.names(name, intent.sequence)
    return int(intent.delta) * (int(applied) - int(folded))
