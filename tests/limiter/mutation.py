"""Pages as no agent and no limiter would write them: good ones, damaged at random.

The damage is what finds mistakes in readers of binary formats: numbers at the edges of their types in place
of others, bits flipped, bytes missing or too many, a file cut short. A seed gives the same pages again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from limiter import layout
from limiter.pages import ControlDevice, ControlPage
from limiter.writer import create_control

from .tenant import Tenant

EDGES = (0, 1, 2, 7, 8, 16, 17, 63, 64, 127, 511, 512, 513, 4096, 65535, 65536, 65537, 2**31 - 1, 2**31)
WIDE = (*EDGES, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1)
SLOTS = 4


@dataclass(frozen=True)
class Pages:
    """The bytes of the two pages."""

    control: bytes
    stats: bytes

    def write(self, directory: Path) -> Path:
        """Make it a slice directory."""
        (directory / "rw").mkdir(parents=True, exist_ok=True)
        (directory / "control").write_bytes(self.control)
        (directory / "rw/stats").write_bytes(self.stats)
        return directory


def good(directory: Path, devices: int) -> Pages:
    """Pages of so many cards, with a process and an operation that is under way in it."""
    cards = tuple(ControlDevice(bytes([number] * 16), memory_limit=1 << 30) for number in range(devices))
    control, stats = directory / f"control-{devices}", directory / f"stats-{devices}"
    create_control(control, ControlPage(generation=7, devices=cards))
    tenant = Tenant(stats, devices)
    under_way = layout.Intent(sequence=3, delta=5 << 20, device=0, applied=3, folded=1)
    tenant.attach(1, 64 << 20, intents=[under_way])
    tenant.sum(69 << 20, intent=layout.INTENTS, sequence=3)
    tenant.poke(layout.StatsHeader.slot_count.offset, SLOTS.to_bytes(4, "little"))
    return Pages(control.read_bytes(), stats.read_bytes()[: tenant.shape.slot(SLOTS)])


def _damage(chance: random.Random, page: bytes) -> bytes:
    data = bytearray(page)
    # The header decides most: half of the damage is there.
    at = chance.randrange(min(len(data), 128) if chance.random() < 0.5 else len(data)) if data else 0
    match chance.randrange(6):
        case 0:
            data[at & ~3 : (at & ~3) + 4] = chance.choice(WIDE).to_bytes(8, "little")[:4]
        case 1:
            data[at & ~7 : (at & ~7) + 8] = chance.choice(WIDE).to_bytes(8, "little")
        case 2:
            data[at & ~7 : (at & ~7) + 8] = chance.randbytes(8)
        case 3 if data:
            data[at] ^= 1 << chance.randrange(8)
        case 4:
            del data[at : at + chance.choice((1, 8, 64, len(data)))]
        case _:
            data[at:at] = bytes(chance.choice((1, 8, 64, 5000)))
    return bytes(data)


def damaged(chance: random.Random, pages: Pages) -> Pages:
    """One to four places of them, damaged."""
    control, stats = pages.control, pages.stats
    for _ in range(chance.randrange(1, 5)):
        if chance.random() < 0.5:
            control = _damage(chance, control)
        else:
            stats = _damage(chance, stats)
    return Pages(control, stats)
