"""Loads by limits in virtual time, at an H200's prices: what each gets, over 20 s and in every second.

A share is what the card's own utilisation would show (`smooth`: gaps of some us between kernels are busy)
where the program keeps the card busy, and its kernels' time (`share`) where it waits for each. Both are held
against the smaller of the limit and what the program uses without one.
"""

from __future__ import annotations

from typing import Any

import pytest

from .world import H200, Settings, World, Worlds

BUSY: dict[str, Settings] = {
    "44 us": {"kernel_us": 44},
    "1 ms": {"kernel_us": 1000},
    "20 ms": {"kernel_us": 20_000},
    "50 ms": {"kernel_us": 50_000},
    "graph of 1.6 ms": {"graph": 1, "kernel_us": 1600},
    "graph of 100 ms": {"graph": 1, "kernel_us": 100_000, "queue": 4},
    "two streams": {"streams": 2, "kernel_us": 300},
    "33 us, the host as slow": {"kernel_us": 33, "host_us": 34, "ahead": 64, "step": 2},
    "14 us": {"kernel_us": 14, "host_us": 13, "ahead": 64, "step": 2},
    "training": {
        "kernel_us": 20,
        "second_us": 300,
        "functions": 50,
        "vary": 0.3,
        "step": 300,
        "host_us": 6,
        "ahead": 2,
    },
    "inference": {"kernel_us": 15, "step": 40, "ahead": 0, "host_us": 6, "step_idle_us": 100},
    "seldom": {"kernel_us": 15, "step": 40, "ahead": 0, "host_us": 6, "step_idle_us": 3000},
}
WAITING: dict[str, Settings] = {
    "waits for each 44 us": {"kernel_us": 44, "queue": 0},
    "waits for each 1 ms": {"kernel_us": 1000, "queue": 0},
}


def unlimited(world: World, load: Settings, measure: str) -> float:
    return float(world(seconds=3, warmup=1, **load, **H200)[measure])


def check(result: dict[str, Any], measure: str, goal: float, kernel_us: float, within: float) -> None:
    assert result[measure] == pytest.approx(goal, abs=within)
    if measure == "share":
        window = max(0.05, 1.5 * kernel_us / 1e6)
        assert all(one == pytest.approx(goal, abs=window) for one in result["windows"])


class TestAlone:
    @pytest.mark.parametrize("limit", [1000, 3000, 5000, 7000, 9000])
    @pytest.mark.parametrize("load", BUSY)
    def test_who_keeps_the_card_busy_gets_a_share_of_its_time(
        self, world: World, load: str, limit: int
    ) -> None:
        goal = min(limit / 10_000, unlimited(world, BUSY[load], "smooth"))
        result = world(limit=limit, seconds=20, warmup=2, **BUSY[load], **H200)
        check(result, "smooth", goal, BUSY[load]["kernel_us"], within=0.005)

    @pytest.mark.parametrize("limit", [1000, 3000, 5000, 7000, 9000])
    @pytest.mark.parametrize("load", WAITING)
    def test_who_waits_for_each_kernel_gets_a_share_for_his_kernels(
        self, world: World, load: str, limit: int
    ) -> None:
        goal = min(limit / 10_000, unlimited(world, WAITING[load], "share"))
        result = world(limit=limit, seconds=20, warmup=2, **WAITING[load], **H200)
        check(result, "share", goal, WAITING[load]["kernel_us"], within=0.01)

    @pytest.mark.parametrize("limit", [1000, 3000, 5000, 7000, 9000])
    @pytest.mark.parametrize("load", ["1 ms", "20 ms", "50 ms", "graph of 100 ms"])
    def test_no_second_is_far_off(self, world: World, load: str, limit: int) -> None:
        result = world(limit=limit, seconds=20, warmup=2, **BUSY[load], **H200)
        check(result, "share", limit / 10_000, BUSY[load]["kernel_us"], within=0.005)


def slots(shares: list[int], frame_us: float, guard_us: float = 100) -> list[Settings]:
    """Slots of these shares in percent that fill the frame, as the agent cuts it."""
    room, offset, found = frame_us - guard_us * len(shares), 0.0, []
    for one in shares:
        length = room * one / sum(shares)
        found.append({"limit": one * 100, "frame_us": frame_us, "offset_us": offset, "length_us": length})
        offset += length + guard_us
    return found


class TestPairs:
    @pytest.mark.parametrize(
        ("first", "second", "frame_us"),
        [
            ("1 ms", "1 ms", 20_000),
            ("44 us", "44 us", 20_000),
            ("training", "training", 20_000),
            ("1 ms", "graph of 1.6 ms", 20_000),
            ("20 ms", "20 ms", 200_000),
            ("1 ms", "20 ms", 200_000),
        ],
    )
    def test_of_60_and_30_each_gets_its_own_and_the_card_is_busy(
        self, worlds: Worlds, first: str, second: str, frame_us: float
    ) -> None:
        one, other = slots([60, 30], frame_us)
        pair = ({**one, **BUSY[first]}, {**other, **BUSY[second]})
        given = [result["smooth"] for result in worlds(*pair, seconds=20, warmup=2, **H200)]
        assert given == [pytest.approx(0.6, abs=0.01), pytest.approx(0.3, abs=0.01)]
        assert sum(given) > 0.89
