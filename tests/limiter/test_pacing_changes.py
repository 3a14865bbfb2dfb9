"""What becomes of a running program when its control page changes: new limits, loans, leases, slots, a gate.

In the virtual world of test_pacing.py. A tenth of a second later it keeps to what is written.
"""

from __future__ import annotations

import pytest

from .world import Settings, World


def slot(frame_ms: float, offset_ms: float, length_ms: float) -> Settings:
    return {"frame_us": frame_ms * 1000, "offset_us": offset_ms * 1000, "length_us": length_ms * 1000}


def obeyed(world: World, before: Settings, after: Settings, at: float, **load: float) -> list[float]:
    """The shares of 400 milliseconds, from a tenth of a second after the change on."""
    changing = before | {f"then_{name}": value for name, value in after.items()}
    result = world(**changing, **load, changes_at=at, seconds=2, window_ms=1, late_us=60)
    milliseconds: list[float] = result["windows"][moments(at).start : moments(at).stop]
    return milliseconds


def moments(at: float) -> range:
    """When those are, in ms from the start."""
    first = round(1000 * at) + 100
    return range(first, first + 400)


LOADS: list[Settings] = [
    {"kernel_us": 44},
    {"kernel_us": 1000},
    {"kernel_us": 1000, "queue": 0},
    {"kernel_us": 5000, "queue": 4},
]
LIMITS: dict[str, tuple[Settings, Settings, float]] = {
    "a lower limit": ({"limit": 9000}, {"limit": 1000}, 0.1),
    "a higher one": ({"limit": 100}, {"limit": 9000}, 0.9),
    "a limit where there was none": ({"limit": 10_000}, {"limit": 3000}, 0.3),
    "no limit any more": ({"limit": 100}, {"limit": 10_000}, 1),
    "burst on": ({"limit": 300}, {"loan": 10_000}, 1),
    "burst off": ({"limit": 3000, "loan": 10_000}, {"loan": 0}, 0.3),
    "a lease": ({"limit": 9000}, {"lease": 1000}, 0.1),
    "a lease's end": ({"limit": 9000, "lease": 100}, {"lease": 0}, 0.9),
    "a lease of a loan": ({"limit": 3000, "loan": 10_000}, {"lease": 1000}, 0.1),
}
SLOTS: dict[str, tuple[Settings, Settings]] = {
    "a first slot": ({}, slot(20, 0, 10)),
    "another offset": (slot(20, 0, 10), slot(20, 10, 10)),
    "another length": (slot(20, 0, 2), slot(20, 0, 10)),
    "a longer frame": (slot(20, 0, 10), slot(50, 20, 25)),
    "a shorter frame": (slot(50, 20, 25), slot(20, 0, 10)),
    "another offset in the longest frame by default": (slot(200, 0, 40), slot(200, 120, 80)),
    "an end of the longest frame by default": (slot(200, 150, 40), slot(20, 0, 10)),
}


@pytest.mark.parametrize("load", LOADS, ids=str)
@pytest.mark.parametrize("at", [1, 1.0137, 1.051])
class TestObeyedWithinATenthOfASecond:
    @pytest.mark.parametrize("change", LIMITS)
    def test_limits(self, world: World, change: str, at: float, load: Settings) -> None:
        before, after, share = LIMITS[change]
        shares = obeyed(world, before, after, at, **load)
        assert sum(shares) / len(shares) == pytest.approx(share, abs=0.03)

    @pytest.mark.parametrize("change", SLOTS)
    def test_slots(self, world: World, change: str, at: float, load: Settings) -> None:
        """Nothing runs more than a millisecond beyond the new one's edges."""
        before, after = SLOTS[change]
        frame, offset, length = (int(value / 1000) for value in after.values())
        shares = obeyed(world, before, after, at, **load, limit=5000)
        positions = [(moment - offset) % frame for moment in moments(at)]
        each = list(zip(positions, shares, strict=True))
        assert sum(share for position, share in each if position < length) > 0.9 * 400 * length / frame
        assert sum(share for position, share in each if length < position < frame - 1) < 0.1


class TestChangesAtRunTime:
    def test_a_new_limit_holds_for_what_is_launched_later(self, world: World) -> None:
        before = world(limit=9000, seconds=2)["share"]
        both = world(limit=9000, changes_at=2, then_limit=3000, seconds=4)["share"]
        assert both == pytest.approx((before + 0.30) / 2, abs=0.015)

    @pytest.mark.parametrize(("before", "after"), [(1000, 9000), (9000, 1000)])
    @pytest.mark.parametrize("kernel_us", [1000, 50_000, 300_000])
    def test_debt_made_under_one_limit_is_repaid_by_the_other(
        self, world: World, kernel_us: int, before: int, after: int
    ) -> None:
        result = world(limit=before, changes_at=10, then_limit=after, kernel_us=kernel_us, seconds=20)
        second = result["windows"][11:]
        assert sum(second) / len(second) == pytest.approx(after / 10_000, abs=0.03)

    def test_a_closed_gate_holds_launches_until_its_deadline(self, world: World) -> None:
        result = world(gate_at=1, gate_for=0.5, seconds=4)
        assert 490 < result["longest_call_ms"] < 510
        assert result["share"] == pytest.approx(0.875, abs=0.02)
