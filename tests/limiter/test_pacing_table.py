"""Loads by limits in virtual time, at an H200's prices: what each gets, over 20 s and in every second.

A share is what the card's own utilisation would show (`smooth`: gaps of some us between kernels are busy)
where the program keeps the card busy, and its kernels' time (`share`) where it waits for each. Both are held
against the smaller of the limit and what the program uses without one.
"""

from __future__ import annotations

from typing import Any

import pytest

from deviceplugin import slots

from .planned import longest, pages
from .world import H200, Settings, World, Worlds

BUSY: dict[str, Settings] = {
    "44 us": {"kernel_us": 44},
    "1 ms": {"kernel_us": 1000},
    "20 ms": {"kernel_us": 20_000},
    "50 ms": {"kernel_us": 50_000},
    "graph of 1.6 ms": {"graph": 1, "kernel_us": 1600},
    "graph of 100 ms": {"graph": 1, "kernel_us": 100_000, "queue": 4},
    "cooperative": {"cooperative": 1, "kernel_us": 500},
    "default stream of a thread": {"own_stream": 1, "kernel_us": 200},
    "two streams": {"streams": 2, "kernel_us": 300},
    "33 us, the host as slow": {"kernel_us": 33, "host_us": 33.5, "ahead": 64, "step": 2},
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
LONG: dict[str, Settings] = {
    "2 ms": {"kernel_us": 2000},
    "5 ms": {"kernel_us": 5000},
    "10 ms": {"kernel_us": 10_000},
    "100 ms": {"kernel_us": 100_000},
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
    def test_kernels_of_a_second_average_out(self, world: World, limit: int) -> None:
        result = world(limit=limit, kernel_us=1_000_000, queue=1, seconds=200, warmup=20, **H200)
        assert result["share"] == pytest.approx(limit / 10_000, abs=0.005)

    @pytest.mark.parametrize("limit", [1000, 3000, 5000, 7000, 9000])
    @pytest.mark.parametrize("load", ["1 ms", "20 ms", "50 ms", "graph of 100 ms"])
    def test_no_second_is_far_off(self, world: World, load: str, limit: int) -> None:
        result = world(limit=limit, seconds=20, warmup=2, **BUSY[load], **H200)
        check(result, "share", limit / 10_000, BUSY[load]["kernel_us"], within=0.005)


def cut(shares: tuple[int, ...], loads: list[Settings]) -> list[Settings]:
    """The pages that the agent gives slices of these shares, in percent, with these loads."""
    tenants = [
        slots.Tenant(str(index), share * 100, busy=True, longest=longest(load))
        for index, (share, load) in enumerate(zip(shares, loads, strict=True))
    ]
    return pages(tenants)


class TestNeighbours:
    @pytest.mark.parametrize(
        ("shares", "loads", "within"),
        [
            ((60, 30), ("1 ms", "1 ms"), 0.005),
            ((60, 30), ("44 us", "44 us"), 0.005),
            ((60, 30), ("training", "training"), 0.01),
            ((60, 30), ("1 ms", "graph of 1.6 ms"), 0.005),
            ((60, 30), ("20 ms", "20 ms"), 0.005),
            ((60, 30), ("1 ms", "20 ms"), 0.005),
            ((60, 30), ("44 us", "20 ms"), 0.005),
            ((60, 30), ("20 ms", "44 us"), 0.005),
            ((50, 50), ("1 ms", "1 ms"), 0.005),
            ((50, 50), ("44 us", "44 us"), 0.005),
            ((60, 30), ("44 us", "50 ms"), 0.005),
            ((60, 30), ("50 ms", "44 us"), 0.01),
            ((50, 50), ("training", "training"), 0.0175),
            ((50, 50), ("two streams", "1 ms"), 0.0075),
            ((50, 50), ("1 ms", "44 us"), 0.005),
            ((50, 50), ("1 ms", "20 ms"), 0.0075),
            ((50, 50), ("20 ms", "44 us"), 0.0075),
            ((50, 50), ("2 ms", "2 ms"), 0.005),
            ((50, 50), ("5 ms", "5 ms"), 0.005),
            ((50, 50), ("5 ms", "1 ms"), 0.005),
            ((50, 50), ("10 ms", "10 ms"), 0.0075),
            ((50, 50), ("20 ms", "20 ms"), 0.0075),
            ((50, 50), ("50 ms", "50 ms"), 0.0075),
            ((10, 90), ("44 us", "44 us"), 0.005),
            ((10, 90), ("1 ms", "1 ms"), 0.01),
            ((10, 90), ("20 ms", "20 ms"), 0.005),
            ((10, 90), ("20 ms", "44 us"), 0.005),
            ((10, 90), ("1 ms", "20 ms"), 0.0075),
            ((10, 90), ("44 us", "50 ms"), 0.0075),
            ((10, 90), ("50 ms", "44 us"), 0.005),
            ((10, 90), ("100 ms", "44 us"), 0.005),
            ((25, 25, 25, 25), ("1 ms",) * 4, 0.005),
            ((25, 25, 25, 25), ("44 us",) * 4, 0.005),
            ((25, 25, 25, 25), ("5 ms",) * 4, 0.005),
            ((25, 25, 25, 25), ("20 ms",) * 4, 0.0075),
            ((25, 25, 25, 25), ("training",) * 4, 0.01),
            ((25, 25, 25, 25), ("1 ms", "44 us", "graph of 1.6 ms", "20 ms"), 0.0075),
        ],
    )
    def test_each_gets_its_own_and_the_card_is_busy(
        self, worlds: Worlds, shares: tuple[int, ...], loads: tuple[str, ...], within: float
    ) -> None:
        programs = [(BUSY | LONG)[load] for load in loads]
        tenants = [{**slot, **program} for slot, program in zip(cut(shares, programs), programs, strict=True)]
        given = [result["smooth"] for result in worlds(*tenants, seconds=20, warmup=2, **H200)]
        assert given == [pytest.approx(share / 100, abs=within) for share in shares]
        assert sum(given) > sum(shares) / 100 - within * len(shares)
        assert sum(shares) > 90 or sum(given) > 0.89
