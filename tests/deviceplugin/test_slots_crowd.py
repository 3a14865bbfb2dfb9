"""Many slices without a cap beside promises: their number takes nothing from a promise, and each has a slot.

Anyone may start as many as he likes, so this is what a crowd could be used for.
"""

import itertools

import pytest

from deviceplugin.slots import FLOOR, FULL, Tenant, plan, shares


def tenant(key, limit=FULL):
    return Tenant(key, limit, busy=True)


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
