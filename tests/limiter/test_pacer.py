"""The pacer's decisions, exactly: budget, credit and debt, burst and rest, slots, gate."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import pytest

from limiter.layout import FULL_CORES

from .pacer import MS, NOW, US, Rule, S, State, decide, quota, slot

CREDIT_CAP, DEBT_CAP = 100 * MS, 60 * S
LEAD, REST_CREDIT = 2 * MS, 2 * MS
TICKET, TICKET_LIFE = 1 * MS, 20 * MS
EDGE = 200 * US


class TestBudget:
    @pytest.mark.parametrize(
        ("balance", "used", "limit", "expected"),
        [
            (NOW, 3 * MS, 3000, NOW + 10 * MS),
            (NOW, 1 * MS, 10_000, NOW + 1 * MS),
            (NOW, 1 * MS, 1, NOW + 10 * S),
            (NOW, 1, 3000, NOW + 3),
            (NOW + 7 * MS, -3 * MS, 5000, NOW + 1 * MS),
            (NOW - 20 * MS, 1 * MS, 5000, NOW - 18 * MS),
            pytest.param(NOW - 1 * S, 0, 5000, NOW - CREDIT_CAP, id="credit is capped"),
            pytest.param(0, 1 * MS, 5000, NOW + 2 * MS, id="a new page starts even"),
            pytest.param(NOW, 3600 * S, 100, NOW + DEBT_CAP, id="debt is capped"),
            pytest.param(2**64 - 1, 0, 5000, NOW + DEBT_CAP, id="a bad word is bounded"),
            pytest.param(NOW, -(2**62), 1, NOW - DEBT_CAP, id="so is a refund"),
            pytest.param(NOW, 1 * MS, 0, NOW + 1 * MS, id="no limit divides by nothing"),
        ],
    )
    def test_used_time_moves_the_balance_by_time_over_share(
        self, pacer: Any, balance: int, used: int, limit: int, expected: int
    ) -> None:
        assert pacer.pacer_balance_after(balance, used, limit, NOW) == expected

    @pytest.mark.parametrize(
        ("balance", "before", "limit", "expected"),
        [
            pytest.param(NOW + 900 * MS, 1000, 9000, NOW + 100 * MS, id="raised: sooner repaid"),
            pytest.param(NOW + 100 * MS, 9000, 1000, NOW + 900 * MS, id="lowered: later"),
            pytest.param(NOW + 300 * MS, 3000, FULL_CORES, NOW + 90 * MS, id="taken away"),
            pytest.param(NOW - 20 * MS, 1000, 9000, NOW - 20 * MS, id="credit is wall time"),
            pytest.param(2**64 - 1, 9000, 1, NOW + DEBT_CAP, id="a bad word is bounded"),
        ],
    )
    def test_debt_is_gpu_time_when_the_limit_changes(
        self, pacer: Any, balance: int, before: int, limit: int, expected: int
    ) -> None:
        assert pacer.pacer_balance_at(balance, before, limit, NOW) == expected

    @pytest.mark.parametrize(
        ("drain", "work", "expected"),
        [
            (0, 5 * MS, NOW + 5 * MS),
            (NOW + 3 * MS, 5 * MS, NOW + 8 * MS),
            (NOW + 3 * MS, -2 * MS, NOW + 1 * MS),
            (2**64 - 1, 0, NOW + DEBT_CAP),
        ],
    )
    def test_launched_work_moves_the_moment_it_is_expected_to_be_complete(
        self, pacer: Any, drain: int, work: int, expected: int
    ) -> None:
        assert pacer.pacer_drain_after(drain, work, NOW) == expected

    def test_threads_that_charge_at_once_lose_nothing(self, pacer: Any) -> None:
        word = ctypes.c_uint64(NOW)

        def charge() -> None:
            for _ in range(2000):
                pacer.pacer_charge_balance(ctypes.byref(word), 10 * US, 5000, NOW)

        threads = [threading.Thread(target=charge) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert word.value == NOW + 4 * 2000 * 20 * US


class TestQuota:
    @pytest.mark.parametrize(
        ("ahead", "passes"),
        [(-10 * MS, True), (0, True), (LEAD, True), (LEAD + 1, False), (500 * MS, False)],
    )
    def test_runs_until_it_is_a_lead_ahead(self, pacer: Any, ahead: int, passes: bool) -> None:
        verdict = decide(pacer, State(balance=NOW + ahead), quota(3000))
        assert verdict.passes == passes
        if not passes:
            assert verdict.wait_until == NOW + ahead + REST_CREDIT

    def test_once_over_it_rests_until_a_small_credit_is_back(self, pacer: Any) -> None:
        resting = State(balance=NOW, rest_until=NOW + REST_CREDIT)
        assert not decide(pacer, resting, quota(3000)).passes
        assert not decide(pacer, resting, quota(3000), now=NOW + REST_CREDIT - 1).passes
        assert decide(pacer, resting, quota(3000), now=NOW + REST_CREDIT).passes

    def test_who_has_rested_passes_although_siblings_went_on_spending(self, pacer: Any) -> None:
        resting = State(balance=NOW + 10 * S, rest_until=NOW)
        assert decide(pacer, resting, quota(3000)).passes

    def test_a_rest_ends_early_when_less_was_used_than_charged(self, pacer: Any) -> None:
        resting = State(balance=NOW - REST_CREDIT, rest_until=NOW + 10 * S)
        assert decide(pacer, resting, quota(3000)).passes

    def test_no_cap_never_waits_whatever_the_balance_says(self, pacer: Any) -> None:
        assert decide(pacer, State(balance=2**64 - 1), quota(FULL_CORES)).passes

    def test_a_pass_is_a_ticket_for_bounded_work_in_bounded_time(self, pacer: Any) -> None:
        verdict = decide(pacer, State(), quota(3000))
        assert (verdict.grant, verdict.expires) == (TICKET, NOW + TICKET_LIFE)

    @pytest.mark.parametrize("kernel", [20 * US, 1 * MS, 20 * MS, 300 * MS])
    @pytest.mark.parametrize("limit", [100, 1000, 3000, 5000, 9000, 9900])
    def test_a_greedy_program_gets_its_share(self, pacer: Any, limit: int, kernel: int) -> None:
        now, balance, rest, used = NOW, NOW, 0, 0
        end = NOW + 60 * S
        while now < end:
            state = State(balance=balance, rest_until=rest)
            verdict = decide(pacer, state, quota(limit), now, kernel)
            if verdict.passes:
                rest = 0
                work = kernel * max(1, verdict.grant // kernel)
                balance = pacer.pacer_balance_after(balance, work, limit, now)
                used += work
                now += work // 10  # the host launches ahead of the GPU
            else:
                rest, now = rest or verdict.wait_until, verdict.wait_until
        assert used / (now - NOW) == pytest.approx(limit / FULL_CORES, abs=max(0.002, kernel / (60 * S)))


class TestSlot:
    @pytest.mark.parametrize(
        ("position", "passes", "wait"),
        [
            (0, True, None),
            (11 * MS, True, None),
            (12 * MS, False, 20 * MS),
            (19 * MS, False, 20 * MS),
        ],
    )
    def test_launches_begin_inside_it(
        self, pacer: Any, position: int, passes: bool, wait: int | None
    ) -> None:
        now = NOW + position
        verdict = decide(pacer, State(balance=NOW), slot(), now)
        assert verdict.passes == passes
        if wait is not None:
            assert verdict.wait_until == NOW + wait

    @pytest.mark.parametrize("offset", [0, 8 * MS, 15 * MS])
    def test_may_lie_anywhere_in_the_frame_and_across_its_end(self, pacer: Any, offset: int) -> None:
        rule = slot(offset=offset, length=10 * MS)
        inside = [decide(pacer, State(balance=NOW), rule, NOW + p * MS).passes for p in range(20)]
        assert inside == [(p - offset // MS) % 20 < 10 for p in range(20)]

    def test_a_ticket_ends_with_it(self, pacer: Any) -> None:
        verdict = decide(pacer, State(balance=NOW), slot(), NOW + 11_500 * US, 10 * US)
        assert (verdict.grant, verdict.expires) == (500 * US, NOW + 12 * MS)

    def test_work_in_flight_that_fills_it_makes_the_next_launch_wait_for_the_next_one(
        self, pacer: Any
    ) -> None:
        paid = NOW + 17 * MS  # 10 ms of work at 60 %
        fits = State(balance=paid, drain=NOW + 11 * MS + EDGE)
        assert decide(pacer, fits, slot(), NOW + 10 * MS, 1 * MS).passes
        full = State(balance=paid, drain=NOW + 11 * MS + EDGE + 1)
        assert decide(pacer, full, slot(), NOW + 11 * MS, 1 * MS).wait_until == NOW + 20 * MS

    @pytest.mark.parametrize(
        ("drain", "position", "again"),
        [
            pytest.param(11 * MS, 3 * MS, 7 * MS, id="what begins at its end is launched shortly before"),
            pytest.param(13 * MS, 3 * MS, 8 * MS, id="full as estimated: another look half-way"),
            pytest.param(13 * MS, 10 * MS, 20 * MS, id="… but not where it is about to end"),
        ],
    )
    def test_its_end_is_filled_by_how_the_work_in_flight_really_goes(
        self, pacer: Any, drain: int, position: int, again: int
    ) -> None:
        state = State(balance=NOW, drain=NOW + drain)
        assert decide(pacer, state, slot(), NOW + position, 1 * MS).wait_until == NOW + again

    def test_work_in_flight_may_turn_out_to_be_less_than_the_budget_that_it_was_charged(
        self, pacer: Any
    ) -> None:
        charged = State(balance=NOW + 25 * MS, drain=NOW + 8 * MS)
        assert decide(pacer, charged, slot(), NOW + 2 * MS, 1 * MS).wait_until == NOW + 5 * MS

    def test_opens_early_by_what_wake_ups_are_late_but_not_by_more_than_its_cap(self, pacer: Any) -> None:
        before = NOW - 100 * US
        assert not decide(pacer, State(balance=NOW - MS), slot(), before).passes
        assert decide(pacer, State(balance=NOW - MS, early=100 * US), slot(), before).passes
        late = decide(pacer, State(balance=NOW, early=5 * MS), slot(), NOW + 15 * MS)
        assert late.wait_until == NOW + 20 * MS - 200 * US

    def test_kernels_that_do_not_fit_run_over_only_as_often_as_the_share_needs(self, pacer: Any) -> None:
        """Five-millisecond kernels in 12 of 20 ms: two or three a frame, 2.4 on average."""
        balance, taken = NOW, []
        for frame in range(53):
            start, drain, count = NOW + frame * 20 * MS, 0, 0
            while decide(
                pacer, State(balance=balance, drain=drain), slot(), max(start, drain), 5 * MS
            ).passes:
                balance = pacer.pacer_balance_after(balance, 5 * MS, 6000, start)
                drain = pacer.pacer_drain_after(drain, 5 * MS, max(start, drain))
                count += 1
            taken.append(count)
        assert taken[:3] == [2, 2, 2]
        assert set(taken) == {2, 3}
        assert sum(taken[3:]) == 120

    @pytest.mark.parametrize(
        ("kernel", "position", "guarantee", "runs_over"),
        [
            pytest.param(1 * MS, 11_500 * US, 6000, True, id="its edges take of what it was promised"),
            pytest.param(5 * MS, 10 * MS, 6000, True, id="10 of 12 ms that it was promised"),
            pytest.param(5 * MS, 10 * MS, 5100, True, id="10 of 10.2, and more that nobody was"),
            pytest.param(5 * MS, 10 * MS, 5000, False, id="all of 10"),
            pytest.param(5 * MS, 10 * MS, 0, False, id="nothing was promised"),
            pytest.param(15 * MS, 0, 0, True, id="longer than the slot"),
        ],
    )
    def test_only_a_promise_is_made_up_for(
        self, pacer: Any, kernel: int, position: int, guarantee: int, runs_over: bool
    ) -> None:
        behind, rule = State(balance=NOW - CREDIT_CAP), slot()
        rule.guarantee = guarantee
        assert decide(pacer, behind, rule, NOW + position, kernel).passes is runs_over

    def test_the_last_kernel_that_fits_is_launched_only_once_the_gpu_is_close_to_it(self, pacer: Any) -> None:
        """What is before it may take longer than it should; then it would run in a neighbour's time."""
        ahead, close = State(balance=NOW, drain=NOW + 6 * MS), State(balance=NOW, drain=NOW + 2 * MS)
        assert decide(pacer, ahead, slot(), NOW, 5 * MS).wait_until == NOW + 3 * MS
        assert decide(pacer, close, slot(), NOW, 5 * MS).passes
        assert decide(pacer, ahead, slot(), NOW, 3 * MS).passes
        siblings = State(balance=NOW, drain=NOW + 6 * MS, shared=True)
        assert decide(pacer, siblings, slot(), NOW, 5 * MS).passes

    def test_a_kernel_longer_than_it_goes_first_and_alone(self, pacer: Any) -> None:
        at_start, busy = State(balance=NOW), State(balance=NOW, drain=NOW + 2 * MS)
        assert decide(pacer, at_start, slot(), NOW, 50 * MS).passes
        assert decide(pacer, busy, slot(), NOW, 50 * MS).wait_until == NOW + 2 * MS
        assert decide(pacer, at_start, slot(), NOW + 7 * MS, 50 * MS).wait_until == NOW + 20 * MS

    def test_its_debt_is_repaid_by_skipping_frames(self, pacer: Any) -> None:
        debt = State(balance=pacer.pacer_balance_after(NOW, 50 * MS, 6000, NOW))  # 83.3 ms ahead
        verdict = decide(pacer, debt, slot(), NOW + 20 * MS, 1 * MS)
        assert not verdict.passes
        assert verdict.wait_until == NOW + 80 * MS
        assert decide(pacer, debt, slot(), verdict.wait_until, 1 * MS).passes

    def test_holds_launches_of_a_slice_without_a_cap_too(self, pacer: Any) -> None:
        free = State(balance=2**64 - 1)
        assert decide(pacer, free, slot(limit=FULL_CORES), NOW).passes
        assert not decide(pacer, free, slot(limit=FULL_CORES), NOW + 13 * MS).passes


class TestGate:
    def test_holds_everything_until_it_opens_by_itself(self, pacer: Any) -> None:
        closed = Rule(limit=FULL_CORES, gate_until=NOW + 5 * S)
        assert decide(pacer, State(), closed).wait_until == NOW + 5 * S
        assert decide(pacer, State(), closed, now=NOW + 5 * S).passes
