"""What nobody was promised goes to who lacks something, with time as an argument."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deviceplugin.balance import FRAMES, STRIDE, WINDOW, Balance, moved
from deviceplugin.frames import FULL, GUARD, MS
from deviceplugin.slots import Tenant, plan

EDGE = 175
FRAME = 20 * MS


class Pair:
    """60 + 30 %; each uses a given part of the card."""

    def __init__(self, limits=(6000, 3000), frame=FRAME):
        self.limits, self.frame, self.now, self.charged = limits, frame, 0, [0, 0]
        self.balance = Balance()

    def tenants(self):
        return [
            Tenant(index, limit, busy=True, gpu_time=self.charged[index])
            for index, limit in enumerate(self.limits)
        ]

    def run(self, *used):
        self.now += WINDOW
        for index, share in enumerate(used):
            self.charged[index] += int(WINDOW * share / 100)
        return dict(self.balance.shift("card", self.tenants(), self.frame, self.now))


def test_who_lacks_something_is_given_what_others_need_not_until_nothing_is_to_spare():
    pair = Pair()
    assert pair.run(60, 24) == {}  # the first look
    shifts = [pair.run(60, 24) for _ in range(8)]
    assert shifts[0] == {0: -STRIDE, 1: STRIDE}
    assert shifts[-1] == shifts[-2] == {0: -(6666 - 6000 - EDGE), 1: 6666 - 6000 - EDGE}
    turns = plan(pair.tenants(), shift=shifts[-1])
    assert turns[0].length == pytest.approx(FRAME * (0.6 + EDGE / FULL), abs=GUARD * 2)
    assert turns[1].offset == turns[0].length + GUARD
    assert turns[1].offset + turns[1].length + GUARD == pytest.approx(FRAME, abs=GUARD)


def test_what_was_given_comes_back_half_way_as_soon_as_the_giver_lacks_something():
    pair = Pair()
    for _ in range(4):
        pair.run(60, 24)
    assert pair.run(59, 24) == {0: -150, 1: 150}
    assert pair.run(59, 24) == {0: -75, 1: 75}


def test_nothing_moves_where_all_have_their_shares_or_all_lack_something_or_all_is_promised():
    for limits, used in (((6000, 3000), (60, 29.5)), ((6000, 3000), (58, 28)), ((5000, 5000), (50, 45))):
        pair = Pair(limits)
        assert not any(part for _ in range(4) for part in pair.run(*used).values())


def test_a_window_has_several_frames_and_others_on_the_card_begin_a_new_one():
    pair = Pair(frame=WINDOW // FRAMES * 2)
    assert [bool(any(pair.run(60, 24).values())) for _ in range(4)] == [False, False, True, True]
    pair.limits = (6000, 2500)
    assert pair.run(60, 20) == {}
    pair.balance.forget(set())
    assert pair.run(60, 20) == {}


@given(
    st.lists(st.tuples(st.integers(100, 5000), st.integers(-(2**40), 2**40)), min_size=2, max_size=8),
    st.integers(0, 500),
    st.integers(1, 9),
)
def test_whatever_is_claimed_no_slot_falls_below_its_promise_and_nothing_is_lost(slices, edge, rounds):
    promised = dict(enumerate(limit for limit, _ in slices))
    lack = dict(enumerate(one for _, one in slices))
    total, shift = sum(promised.values()), {}
    for _ in range(rounds):
        shift = moved(promised, lack, shift, edge)
        assert sum(shift.values()) == 0
        for key, part in shift.items():
            assert part >= 0 or FULL * promised[key] // total + part >= promised[key]
