"""Side by side in virtual time: siblings of one slice share a budget, neighbours keep to their slots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from .world import H200, Settings, Worlds

# By how much each begins later than the one before, in s, and how much faster the card's clock is
STARTS = [(0, 0), (0.0003, 4.4), (0.001, -20), (0.0071, 20), (0.013, 4.4)]


def check_one_budget(worlds: Worlds, processes: int, limit: int, within: float, **load: float) -> None:
    """Together they get the limit, and each a fair part of it, whenever they start."""
    share = limit / 10_000
    for each in started_apart(worlds, processes, limit, **load):
        assert total(each) == pytest.approx(share, abs=within)
        assert min(one["smooth"] for one in each) > 0.65 * share / processes


def started_apart(
    worlds: Worlds, processes: int, limit: int, **load: float
) -> Iterator[list[dict[str, Any]]]:
    """What processes of one slice are given that start at several distances."""
    for after, drift in STARTS:
        alike: list[Settings] = [{"slice": 0, "start_at": after * i} for i in range(processes)]
        yield worlds(*alike, limit=limit, drift_ppm=drift, **load, warmup=2, seconds=10, **H200)


def total(results: list[dict[str, Any]], what: str = "smooth") -> float:
    return float(sum(one[what] for one in results))


class TestSiblings:
    """Processes of one slice. `smooth` is a share as the card itself gives it: without gaps of some us."""

    @pytest.mark.parametrize("limit", [1000, 3000, 9000])
    @pytest.mark.parametrize("kernel_us", [44, 1000, 20_000])
    @pytest.mark.parametrize("processes", [2, 3])
    def test_share_one_budget_evenly_whenever_they_start(
        self, worlds: Worlds, processes: int, kernel_us: int, limit: int
    ) -> None:
        check_one_budget(worlds, processes, limit, 0.01, kernel_us=kernel_us)

    @pytest.mark.parametrize("limit", [1000, 3000, 5000, 9000])
    @pytest.mark.parametrize("processes", [1, 2, 3])
    def test_whose_hosts_are_as_slow_as_the_card_share_one_budget_evenly(
        self, worlds: Worlds, processes: int, limit: int
    ) -> None:
        """What begins a turn is stamped late, when the sibling's is over: as if it were no work."""
        check_one_budget(worlds, processes, limit, 0.0125, kernel_us=33, host_us=33.5, queue=1000)

    @pytest.mark.parametrize(("limit", "least"), [(1000, 0.095), (3000, 0.29), (5000, 0.45), (9000, 0.68)])
    @pytest.mark.parametrize("host", [{"host_us": 17}, {"host_us": 8, "think_us": 9}], ids=str)
    @pytest.mark.parametrize("processes", [1, 2, 3])
    def test_whose_hosts_set_the_pace_share_one_budget(
        self, worlds: Worlds, processes: int, host: Settings, limit: int, least: float
    ) -> None:
        """Kernels of 14 us: one process alone keeps the card busy for 82 % of the time."""
        for each in started_apart(worlds, processes, limit, kernel_us=14, queue=1000, **host):
            assert least < total(each, "share") < limit / 10_000 + 0.0125

    def test_share_one_budget_with_two_streams_each(self, worlds: Worlds) -> None:
        alike: list[Settings] = [{"slice": 0, "start_at": 0.0003 * i} for i in range(3)]
        each = worlds(*alike, limit=9000, streams=2, kernel_us=300, warmup=2, seconds=10, **H200)
        assert total(each) == pytest.approx(0.9, abs=0.02)
        assert min(one["smooth"] for one in each) > 0.7 * 0.3

    @pytest.mark.parametrize("kernel_us", [44, 1000, 5000])
    @pytest.mark.parametrize("processes", [2, 3])
    def test_share_one_slot_beside_a_neighbour(self, worlds: Worlds, processes: int, kernel_us: int) -> None:
        common: Settings = {"limit": 5000, "frame_us": 50_000, "length_us": 24_900}
        neighbour: Settings = {"slice": 1, "offset_us": 25_000}
        for after, drift in STARTS:
            shape: Settings = {"slice": 0, "kernel_us": kernel_us}
            siblings = [shape | {"start_at": after * i} for i in range(processes)]
            each = worlds(*siblings, neighbour, **common, drift_ppm=drift, warmup=2, seconds=10, **H200)
            assert 0.47 < total(each[:-1]) < 0.51, (after, drift)
            assert 0.46 < each[-1]["smooth"] < 0.51, (after, drift)
            assert min(one["smooth"] for one in each[:-1]) > 0.7 * 0.5 / processes, (after, drift)

    def test_one_that_waits_for_each_step_gets_through_beside_a_greedy_one(self, worlds: Worlds) -> None:
        greedy: Settings = {"slice": 0}
        waits: Settings = {"slice": 0, "kernel_us": 15, "step": 20, "ahead": 0, "step_idle_us": 2000}
        both = worlds(greedy, waits, limit=5000, warmup=2, seconds=10, **H200)
        assert total(both) == pytest.approx(0.5, abs=0.02)
        assert both[1]["launches"] > 10_000


class TestBesideEachOther:
    """Programs bound by their hosts, let out of their slots by the agent after 0.7 s."""

    TRAINING: ClassVar[Settings] = {
        "kernel_us": 1.2,
        "functions": 20,
        "step": 1400,
        "ahead": 8,
        "think_us": 5.2,
    }
    MIXED: ClassVar[Settings] = {
        "kernel_us": 2,
        "second_us": 6,
        "functions": 10,
        "step": 700,
        "ahead": 8,
        "think_us": 9,
    }
    INFERENCE: ClassVar[Settings] = {
        "kernel_us": 5,
        "functions": 12,
        "step": 59,
        "ahead": 0,
        "think_us": 9,
        "step_idle_us": 60,
    }

    @staticmethod
    def pair(*limits: int) -> list[Settings]:
        length = 19_800 // len(limits)
        slot: Settings = {"frame_us": 20_000, "length_us": length, "beside_at": 0.7}
        return [slot | {"limit": one, "offset_us": i * (length + 100)} for i, one in enumerate(limits)]

    @pytest.mark.parametrize(
        ("load", "limits"),
        [(TRAINING, (5000, 5000)), (TRAINING, (6000, 3000)), (MIXED, (6000, 3000)), (INFERENCE, (5000,) * 2)],
    )
    def test_keep_the_pace_that_each_has_alone_at_its_limit(
        self, worlds: Worlds, load: Settings, limits: tuple[int, ...]
    ) -> None:
        """Or without a limiter: the driver's own turns take an eighth of an inference's pace."""
        common = {**load, **H200, "drift_ppm": 4.4, "warmup": 3, "seconds": 2}
        alone = [worlds(limit=limit, **common)[0]["launches"] for limit in limits]
        free = worlds({}, {}, **common)[0]["launches"]
        together = [one["launches"] for one in worlds(*self.pair(*limits), **common)]
        for beside, by_itself in zip(together, alone, strict=True):
            assert beside > 0.97 * min(by_itself, free)

    @pytest.mark.parametrize("kernel_us", [44, 1000])
    def test_are_charged_for_their_own_work_once_they_keep_the_card_busy(
        self, worlds: Worlds, kernel_us: int
    ) -> None:
        both = worlds(*self.pair(6000, 3000), kernel_us=kernel_us, warmup=2, seconds=10, **H200)
        assert [one["smooth"] for one in both] == pytest.approx([0.6, 0.3], abs=0.015)

    @pytest.mark.parametrize(("told", "most"), [(True, 0.4), (False, 0.1)])
    def test_whose_function_takes_10_us_and_2_ms_in_turn_are_held_once_not_told_of_others(
        self, worlds: Worlds, told: bool, most: float
    ) -> None:
        """Nothing tells such launches from a neighbour's turns, but what the card does (accounts.py)."""
        hides: Settings = {"kernel_us": 10, "longer_at": 0.1, "longer": 200, "longer_each": 2, "queue": 0}
        pair = self.pair(1000, 5000) if told else [{"limit": 1000}, {"limit": 5000}]
        result = worlds(pair[0] | hides, pair[1] | self.TRAINING, warmup=2, seconds=5, **H200)[0]
        assert result["share"] < most

    @pytest.mark.parametrize("load", [TRAINING, INFERENCE], ids=["training", "inference"])
    def test_whose_short_kernels_become_longer_than_their_launch_are_charged_for_them_soon(
        self, worlds: Worlds, load: Settings
    ) -> None:
        """The host still sets a pace by what is known of them, so batches teach nothing."""
        longer: Settings = {"longer_at": 1.5, "longer": 10}
        pair = self.pair(6000, 3000)
        result = worlds(pair[0] | load | longer, pair[1] | self.TRAINING, warmup=2, seconds=5, **H200)[0]
        assert result["share"] > 0.5
        assert result["claimed"] > 0.75 * result["share"]

    @pytest.mark.parametrize("longer", [4, 40])
    def test_whose_kernels_become_longer_are_charged_for_half_of_it_at_least(
        self, worlds: Worlds, longer: float
    ) -> None:
        """So that who has begun to fill his share shows, and is given a slot."""
        changed: Settings = {"longer_at": 1.5, "longer": longer}
        pair = [one | settings for one, settings in zip(self.pair(3000, 6000), (changed, {}), strict=True)]
        host: Settings = {"kernel_us": 200, "queue": 0, "think_us": 600}
        result = worlds(*pair, **host, warmup=2, seconds=10, **H200)[0]
        assert 0.45 * result["share"] < result["claimed"] < 1.2 * result["share"]
        assert result["share"] < 0.6
