"""Time that is lent and taken back, priorities, and an agent that is away, in virtual time (test_pacing.py).

The pages are those that the agent plans (planned.py); what is asked is what programs get by them.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from deviceplugin import slots
from deviceplugin.agent import GLANCE

from .planned import longest, pages, then
from .test_pacing_table import cut
from .world import H200, Settings, Worlds

SHORT: Settings = {"kernel_us": 44}
MILLISECOND: Settings = {"kernel_us": 1000}
WAITS: Settings = {"kernel_us": 1000, "queue": 0}
DEEP: Settings = {"kernel_us": 1000, "queue": 900}
READ = 0.001  # s, until the agent's write is there


def share(windows: list[float], first: float, count: float) -> float:
    """Of `count` milliseconds from the `first` on."""
    part = windows[round(first) : round(first + count)]
    return sum(part) / len(part)


class TestBurst:
    """One slice borrows what another does not use, until that one begins at some moment of the frame."""

    @pytest.mark.parametrize("at", [1, 1.0062, 1.0124, 1.0186])
    @pytest.mark.parametrize("lender", [SHORT, MILLISECOND, WAITS], ids=str)
    @pytest.mark.parametrize("borrower", [SHORT, MILLISECOND, DEEP], ids=str)
    @pytest.mark.parametrize(("limit", "promise"), [(3000, 6000), (1000, 9000), (10_000, 6000), (3000, 1000)])
    def test_what_was_lent_is_back_within_two_frames(
        self, worlds: Worlds, limit: int, promise: int, borrower: Settings, lender: Settings, at: float
    ) -> None:
        borrows = slots.Tenant("borrows", limit, busy=True, burst=True, longest=longest(borrower))
        rests = slots.Tenant("rests", promise, busy=False, longest=longest(lender))
        alone, beside = pages([borrows, rests]), pages([borrows, replace(rests, busy=True)])
        one, other = worlds(
            alone[0] | then(beside[0]) | borrower,
            alone[1] | then(beside[1]) | lender | {"start_at": at},
            changes_at=at + GLANCE / 1e9 + READ,
            seconds=2,
            window_ms=1,
            late_us=60,
        )
        two_frames = 2 * beside[0]["frame_us"] / 1000
        assert share(one["windows"], 500, 500) > 0.93
        assert share(other["windows"], two_frames, 5 * two_frames) > promise / 10_000 - 0.02

    @pytest.mark.parametrize("kernel_us", [1000, 2000, 5000])
    @pytest.mark.parametrize("limit", [3000, 10_000])
    def test_beyond_its_promise_it_takes_nothing_from_a_neighbour_s(
        self, worlds: Worlds, limit: int, kernel_us: int
    ) -> None:
        """Whole kernels do not fill a slot; who was promised no more does not run over for the rest."""
        load = {"kernel_us": kernel_us}
        borrows = slots.Tenant("borrows", limit, busy=True, burst=True, longest=longest(load))
        fixed = slots.Tenant("fixed", 6000, busy=True, longest=longest(MILLISECOND))
        one, other = pages([borrows, fixed])
        results = worlds(one | load, other | MILLISECOND, seconds=20, warmup=2, **H200)
        assert results[1]["smooth"] == pytest.approx(0.6, abs=0.01)
        assert 0.24 < results[0]["smooth"] < 0.41

    def test_a_promise_for_which_no_whole_kernels_fit_is_kept(self, worlds: Worlds) -> None:
        load = {"kernel_us": 50_000}
        borrows = slots.Tenant("borrows", 3000, busy=True, burst=True, longest=longest(load))
        page = pages([borrows, slots.Tenant("fixed", 6000, busy=True)])[0]
        assert page["length_us"] < 2 * load["kernel_us"]
        (result,) = worlds(page | load, seconds=20, warmup=2, **H200)
        assert result["share"] > 0.29


class TestPriority:
    def test_0_has_all_that_is_lent_before_1_and_neither_less_than_its_promise(self, worlds: Worlds) -> None:
        tenants = [
            slots.Tenant("first", 1000, busy=True, burst=True, priority=0, longest=longest(SHORT)),
            slots.Tenant("second", 2000, busy=True, burst=True, longest=longest(SHORT)),
            slots.Tenant("fixed", 3000, busy=True, longest=longest(SHORT)),
            slots.Tenant("rests", 3000, busy=False),
        ]
        three = [page | SHORT for page in pages(tenants)[:3]]
        first, second, fixed = (one["smooth"] for one in worlds(*three, seconds=20, warmup=2, **H200))
        assert first > 0.45
        assert second == pytest.approx(0.2, abs=0.01)
        assert fixed == pytest.approx(0.3, abs=0.01)


class TestAgentAway:
    """Killed, and a minute later there is another; what it wrote holds for a second."""

    @pytest.mark.parametrize("load", [SHORT, MILLISECOND, WAITS, {"kernel_us": 20_000}], ids=str)
    @pytest.mark.parametrize("shares", [(60, 30), (50, 50), (10, 90), (25, 25, 25, 25)], ids=str)
    def test_quotas_hold_meanwhile_and_each_has_its_share_again(
        self, worlds: Worlds, shares: tuple[int, ...], load: Settings
    ) -> None:
        """They are charged for their neighbours' turns then: nobody has more than his share, or nothing."""
        programs = [page | load for page in cut(shares, [load] * len(shares))]
        for percent, result in zip(
            shares, worlds(*programs, away_at=10, away_for=60, seconds=80, late_us=60), strict=True
        ):
            seconds, asked = result["windows"], percent / 100
            assert sum(seconds[2:11]) / 9 == pytest.approx(asked, abs=0.015)
            assert max(seconds[12:70]) < asked + 0.02
            assert min(seconds[12:70]) > 0.3 * asked
            assert sum(seconds[71:]) / 9 == pytest.approx(asked, abs=0.015)
            assert result["longest_call_ms"] < 1000

    def test_what_was_lent_ends_by_itself(self, worlds: Worlds) -> None:
        tenants = [slots.Tenant("a", 3000, busy=True, burst=True), slots.Tenant("b", 6000, busy=False)]
        page = pages(tenants)[0]
        (result,) = worlds(page | MILLISECOND, away_at=10, away_for=60, seconds=80, late_us=60)
        assert min(result["windows"][1:10]) > 0.93
        assert result["windows"][12:70] == [pytest.approx(0.3, abs=0.01)] * 58
        assert min(result["windows"][71:]) > 0.93
