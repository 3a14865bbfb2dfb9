"""How a card's time is cut: exactly, with time as an argument."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deviceplugin.slots import (
    FLOOR,
    FRAME,
    FULL,
    GUARD,
    LONE_GAP,
    MS,
    OVERHANG,
    Tenant,
    Turn,
    plan,
    shares,
)


def tenant(key, limit=FULL, busy=True, burst=False, longest=MS, **more):
    return Tenant(key, limit, busy, burst, longest, **more)


NO_SLOTS = {
    "nobody": [],
    "one busy": [tenant("a", 6000), tenant("b", 3000, busy=False)],
    "nobody busy": [tenant("a", 6000, busy=False), tenant("b", 3000, busy=False)],
    "only slices without a cap": [tenant("a"), tenant("b")],
    "one busy burst slice without a cap": [tenant("a", burst=True)],
}


@pytest.mark.parametrize("case", NO_SLOTS)
def test_no_slots_where_nobody_competes_for_a_promise(case):
    assert plan(NO_SLOTS[case]) == {}


def test_a_burst_slice_alone_has_the_whole_card_and_no_slot():
    assert plan([tenant("a", 3000, burst=True)]) == {"a": Turn(share=FULL)}


SHARES = {
    "as promised": ([tenant("a", 6000), tenant("b", 3000)], {"a": 6000, "b": 3000}),
    "what is left goes to those without a cap": (
        [tenant("a", 6000), tenant("b"), tenant("c")],
        {"a": 6000, "b": 2000, "c": 2000},
    ),
    "… less what idle slices were promised, if burst slices want it": (
        [tenant("a", 3000, burst=True), tenant("idle", 3000, busy=False), tenant("c")],
        {"a": 6000, "c": 4000},
    ),
    "… and with it where nobody else wants it": (
        [tenant("a", 3000), tenant("idle", 3000, busy=False), tenant("c")],
        {"a": 3000, "c": 7000},
    ),
    "burst slices divide the idle rest by their limits": (
        [tenant("a", 1000, burst=True), tenant("b", 2000, burst=True), tenant("idle", 6000, busy=False)],
        {"a": 3333, "b": 6666},
    ),
    "a fixed slice takes none of it": (
        [tenant("a", 2000, burst=True), tenant("b", 3000)],
        {"a": 7000, "b": 3000},
    ),
    "what is lent goes to priority 0 first": (
        [
            tenant("a", 1000, burst=True, priority=0),
            tenant("b", 2000, burst=True),
            tenant("idle", 6000, busy=False),
        ],
        {"a": 8000, "b": 2000},
    ),
    "… capped or not, and the others keep what they were promised": (
        [tenant("a", priority=0), tenant("b", 3000, burst=True), tenant("c")],
        {"a": 6900, "b": 3000, "c": 100},
    ),
    "… and to priority 1 where priority 0 could not use more": (
        [
            tenant("a", 1000, burst=True, priority=0, fills=False),
            tenant("b", 2000, burst=True),
            tenant("idle", 6000, busy=False),
        ],
        {"a": 3333, "b": 6666},
    ),
    "a promise of priority 1 is no loan to priority 0": (
        [tenant("a", 3000, burst=True, priority=0), tenant("b", 7000)],
        {"a": 3000, "b": 7000},
    ),
    "nothing left still ends": ([tenant("a", 6000), tenant("b", 4000), tenant("c")], None),
}


@pytest.mark.parametrize("case", SHARES)
def test_shares(case):
    tenants, expected = SHARES[case]
    given_shares = shares(tenants)
    if expected is None:
        assert 0 < given_shares["c"] <= FLOOR
        assert given_shares["a"] >= 6000 - FLOOR
    else:
        assert given_shares == expected


def test_a_pair_shares_the_whole_frame_in_proportion_to_its_limits():
    turns = plan([tenant("a", 6000), tenant("b", 3000)])
    assert turns == {"a": Turn(FRAME, 0, 13_200_000), "b": Turn(FRAME, 13_300_000, 6_600_000)}


def test_a_share_that_is_not_the_limit_is_named():
    turns = plan([tenant("a", 2000, burst=True), tenant("b", 3000), tenant("c")])
    assert {key: turn.share for key, turn in turns.items()} == {"a": 0, "b": 0, "c": 5000}


def test_what_nobody_was_promised_ends_a_kernel_before_a_promise_begins():
    turns = plan([tenant("a", 6000, longest=MS), tenant("b", longest=MS // 2), tenant("c", longest=2**62)])
    assert turns["a"].length == 12 * MS
    assert (turns["b"].length, turns["c"].length) == (4 * MS - MS // 2, 4 * MS - OVERHANG)


def test_a_full_card_gives_the_guard_from_all():
    turns = plan([tenant("a", 6000, frame=FRAME), tenant("b", 4000)])
    lost = {key: 1 - turns[key].length / (FRAME * limit / FULL) for key, limit in (("a", 6000), ("b", 4000))}
    assert lost["a"] == pytest.approx(2 * GUARD / FRAME, rel=0.01)
    assert lost["a"] == pytest.approx(lost["b"], rel=0.01)


@pytest.mark.parametrize("limit", [3000, FULL])
def test_alone_beside_a_promise_that_rests_a_borrower_has_all_of_the_frame_but_its_end(limit):
    """So what it has in flight ends within a frame of the neighbour's return."""
    turns = plan([tenant("a", limit, burst=True), tenant("b", 6000, busy=False)])
    assert turns == {"a": Turn(FRAME, 0, FRAME - LONE_GAP, FULL if limit < FULL else 0)}


def test_one_that_fills_its_promise_has_slots_cut_for_all():
    turns = plan([tenant("a", 6000, fills=False), tenant("b", 3000), tenant("c")])
    assert {turn.frame for turn in turns.values()} == {FRAME}
    assert set(turns) == {"a", "b", "c"}


def test_beside_each_other_quotas_are_raised_by_what_was_charged_twice():
    tenants = [tenant("a", 6000, fills=False), tenant("b", 3000, fills=False)]
    assert plan(tenants, overlap=1.0) == {"a": Turn(beside=True), "b": Turn(beside=True)}
    assert plan(tenants, overlap=1.4) == {
        "a": Turn(share=8400, beside=True),
        "b": Turn(share=4200, beside=True),
    }
    assert plan(tenants, overlap=2.0)["a"] == Turn(share=FULL, beside=True)


def test_beside_each_other_nobody_is_told_of_others_while_claims_are_not_believed():
    tenants = [tenant("a", 6000, fills=False), tenant("b", 3000, fills=False)]
    assert plan(tenants, believed=False) == {}
    assert plan(tenants, 1.4, believed=False) == {"a": Turn(share=8400), "b": Turn(share=4200)}


@pytest.mark.parametrize("fills", [True, False])
def test_beside_a_promise_that_is_not_filled_a_slice_without_a_cap_is_held_by_a_cap_alone(fills):
    turns = plan([tenant("a", 6000, fills=False), tenant("b", fills=fills)])
    assert turns == {"a": Turn(beside=True), "b": Turn(share=4000, beside=True)}


tenants_of_a_card = st.lists(
    st.tuples(
        st.integers(100, FULL),
        st.booleans(),
        st.booleans(),
        st.integers(0, 2**63),
        st.booleans(),
        st.integers(0, 1),
        st.sampled_from([0, 10 * MS, 50 * MS]),
    ),
    max_size=12,
)


@given(tenants_of_a_card)
def test_slots_never_overlap_and_nobody_busy_is_left_out(drawn):
    tenants = [Tenant(index, *fields) for index, fields in enumerate(drawn)]
    turns = plan(tenants)
    slots = sorted((turn.offset, turn.offset + turn.length) for turn in turns.values() if turn.frame)
    frame = max((turn.frame for turn in turns.values()), default=0)
    promised = sum(frame * one.limit // FULL for one in tenants if one.busy and one.capped)
    guard = min(GUARD, max(0, frame - promised) // 2 // max(1, len(slots)))  # where little is unpromised
    assert all(end + guard <= start for (_, end), (start, _) in itertools.pairwise(slots))
    assert all(
        0 < turn.length < turn.frame and turn.offset + turn.length <= turn.frame
        for turn in turns.values()
        if turn.frame
    )
    assert not slots or len(slots) == 1 or len(slots) == sum(one.busy for one in tenants)
