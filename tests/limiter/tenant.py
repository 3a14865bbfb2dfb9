"""A stats page written by hand, as the limiter would write it, or a hostile program."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from limiter import layout, ledger, writer


class Tenant:
    """One slice's stats page. Sizes are bytes; a `word` names the operation that changed it last."""

    def __init__(self, path: Path, devices: int = 1, generation: int = 7) -> None:
        """Takes the page that is there, or makes one."""
        self.path = path
        if not path.exists():
            writer.create_stats(path, generation, devices)
        self.header = layout.StatsHeader.from_buffer_copy(path.read_bytes())
        self.shape = ledger.Shape.of(self.header)

    def poke(self, offset: int, content: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(offset)
            file.write(bytes(content))

    def device_at(self, device: int = 0) -> int:
        return self.shape.header + device * self.shape.device_stride

    def set(self, device: int = 0, **counters: int) -> None:
        """Set counters of a card, as `launches=3`."""
        for name, value in counters.items():
            field = getattr(layout.StatsDevice, name)
            self.poke(self.device_at(device) + field.offset, value.to_bytes(8, "little"))

    def sum(self, total: int, intent: int = 0, sequence: int = 0, device: int = 0) -> None:
        """Set what all processes hold on a card."""
        self.poke(self.device_at(device), word(total, intent, sequence))

    def attach(
        self,
        slot: int,
        used: int,
        pid: int = 100,
        intents: Sequence[layout.Intent] = (),
        own: tuple[int, int] = (0, 0),
        kind: layout.Kind = layout.Kind.BUFFER,
    ) -> None:
        """A process that holds `used` bytes on the first card. It lives only within `alive`."""
        header = layout.SlotHeader(state=layout.SlotState.ATTACHED, pid=pid)
        for index, intent in enumerate(intents):
            header.intents[index] = intent
        held = layout.SlotDevice(used=int.from_bytes(word(used, *own), "little"))
        held.kind_bytes[kind] = used
        self.poke(self.shape.slot(slot), bytes(header) + bytes(held))

    @contextmanager
    def alive(self, slot: int) -> Iterator[None]:
        """Hold the slot's lock, as the limiter does."""
        with self.path.open("r+b") as file:
            request = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, self.shape.slot(slot), 1, 0)
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, request)
            yield


def word(total: int, intent: int = 0, sequence: int = 0) -> bytes:
    """A tagged word."""
    value = total // layout.UNIT << layout.WORD_SUM_SHIFT | intent << layout.WORD_INTENT_SHIFT | sequence
    return value.to_bytes(8, "little")
