"""The control pages that the agent plans for slices of a card, as settings of the virtual world."""

from __future__ import annotations

from collections.abc import Sequence

from deviceplugin import slots
from deviceplugin.agent import with_turn
from limiter import layout
from limiter.pages import ControlDevice

from .world import Settings

EVENT = 4000  # ns that a kernel takes longer as it is measured


def longest(load: Settings) -> int:
    """Its longest kernel, in ns as the stats page tells it."""
    return int(max(load["kernel_us"], load.get("second_us", 0)) * 1000) + EVENT


def pages(tenants: Sequence[slots.Tenant[str]]) -> list[Settings]:
    """What each slice's page says while those of them that are busy compete."""
    turns = slots.plan(tenants)
    return [page(one.limit, turns.get(one.key, slots.Turn())) for one in tenants]


def page(limit: int, turn: slots.Turn) -> Settings:
    """A slice's page."""
    device = with_turn(ControlDevice(b"", core_limit=limit), turn, now=0)
    lease = device.lease_core_limit
    return {
        "limit": limit,
        "loan": device.loan_core_limit,
        "lease": lease if lease < layout.FULL_CORES else 0,
        "frame_us": device.slot_frame / 1000,
        "offset_us": device.slot_offset / 1000,
        "length_us": device.slot_length / 1000,
    }


def then(page: Settings) -> Settings:
    """The page as it becomes at `changes_at`."""
    return {f"then_{name}": value for name, value in page.items()}
