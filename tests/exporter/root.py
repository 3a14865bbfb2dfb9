"""A root with real slice directories, and one moment at which they are read."""

from __future__ import annotations

import ctypes
import os
import struct

from exporter.slices import Now, SlicesCollector
from limiter import layout, slices
from limiter.identity import Identity, Share
from limiter.pages import ControlDevice, ControlPage, uuid_bytes
from tests.exporter.builders import MIB, UUID

NOW = Now(monotonic=500_000_000_000, wall=1_700_000_500.0)


class Root:
    """A root with slices whose pages the tests write."""

    def __init__(self, path):
        self.path = path
        self.locks = []

    def slice(self, name, generation=7, cards=1, live=True, **changes):
        share = Share(uuid=UUID, index=0, memory_bytes=3000 * MIB, cores_bp=3000, guarantee_bp=3000)
        identity = Identity(name, generation, 1_700_000_000.0, (share,) * cards, **changes)
        held = ControlDevice(uuid_bytes(UUID), memory_limit=3000 * MIB, core_limit=3000, core_guarantee=3000)
        directory, lock = slices.create(self.path, identity, ControlPage(generation, (held,) * cards))
        if live:
            self.locks.append(lock)
        else:
            os.close(lock)
        return directory

    def stats(self, directory, device=0, **values):
        """Write counters of a card as the limiter would."""
        page = (directory / "rw/stats").open("r+b")
        with page:
            for name, value in values.items():
                field = getattr(layout.StatsDevice, name)
                start = ctypes.sizeof(layout.StatsHeader) + device * ctypes.sizeof(layout.StatsDevice)
                page.seek(start + field.offset)
                page.write(struct.pack("<Q", value))

    def collector(self):
        return SlicesCollector(self.path, now=lambda: NOW)

    def read(self):
        return self.collector().collect()

    def close(self):
        for lock in self.locks:
            os.close(lock)
