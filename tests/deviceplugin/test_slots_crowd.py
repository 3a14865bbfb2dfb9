"""Newcomers: a crowd without caps takes nothing from a promise; nobody waits for a frame of before he came.

Anyone may start as many slices as he likes, so this is what a crowd could be used for.
"""

import itertools
from dataclasses import replace

import pytest

from deviceplugin.slots import FLOOR, FULL, LONGEST_FRAME, MS, Tenant, plan, shares


def tenant(key, limit=FULL, longest=MS):
    return Tenant(key, limit, busy=True, longest=longest)


@pytest.mark.parametrize("crowd", [1, 20, 100, 500])
@pytest.mark.parametrize("promised", [6000, 10_000])
def test_each_of_a_crowd_has_a_slot_of_its_own(crowd, promised):
    slots = sorted(
        (turn.offset, turn.offset + turn.length)
        for turn in plan([tenant("a", promised - 100), tenant("b", 100), *map(tenant, range(crowd))]).values()
    )
    assert len(slots) == crowd + 2
    assert all(start < end for start, end in slots)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(slots))


@pytest.mark.parametrize("crowd", [1, 20, 100])
def test_however_many_come_without_a_cap_no_promise_loses_more_than_the_floor(crowd):
    given_shares = shares([tenant("a", 6000), tenant("b", 3500), *map(tenant, range(crowd))])
    assert given_shares["a"] >= 6000 - FLOOR
    assert given_shares["b"] >= 3500 - FLOOR
    assert min(given_shares.values()) > 0


@pytest.mark.parametrize("crowd", [1, 49, 200, 500])
@pytest.mark.parametrize("longest", [0, MS])
@pytest.mark.parametrize("promises", [(6000,), (6000, 3500), (9900,), (6000, 4000), (4000, 3000, 2000)])
def test_guards_between_a_crowd_are_cut_from_what_nobody_was_promised(crowd, longest, promises):
    promised = [tenant(f"promised {i}", limit, longest) for i, limit in enumerate(promises)]
    turns = plan([*promised, *(tenant(i, longest=longest) for i in range(crowd))])
    whole = min(1, (FULL - FLOOR) / sum(promises))
    for one in promised:
        assert turns[one.key].length >= turns[one.key].frame * (one.limit * whole - 1) / FULL


def test_a_frame_for_long_kernels_is_not_kept_when_somebody_would_wait_long_for_it():
    pair = [tenant("a", 7000, longest=MS // 4), tenant("b", 3000, longest=90 * MS)]
    long, joined = plan(pair)["a"].frame, [replace(pair[0], limit=6900), pair[1], tenant("c", 100)]
    assert plan(joined, frame=long)["c"].frame <= LONGEST_FRAME + 10 * MS < long


@pytest.mark.parametrize(
    ("first", "shared"),
    [
        (replace(tenant("a"), priority=0), {"a": 9900, "b": 100}),
        (tenant("a"), {}),
        (replace(tenant("a"), priority=0, fills=False), {}),
    ],
    ids=["goes before", "is like the other", "could not use more"],
)
def test_on_a_card_that_nobody_was_promised_a_part_of_who_goes_before_others_has_slots(first, shared):
    turns = plan([first, tenant("b")])
    assert {key: turn.share for key, turn in turns.items()} == shared
