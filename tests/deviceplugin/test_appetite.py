"""Who is busy, and who would take more: told from counters, with time as an argument."""

import pytest

from deviceplugin.appetite import (
    FIRST_PATIENCE,
    HELD,
    LONGEST_PATIENCE,
    LONGEST_QUIET,
    MS,
    QUIET,
    TRIAL,
    Activity,
    Appetite,
    Longest,
)


@pytest.mark.parametrize(
    ("longest", "after", "busy"),
    [
        (0, QUIET - 1, True),
        (0, QUIET, False),
        (400 * MS, 800 * MS - 1, True),
        (400 * MS, 800 * MS, False),
        (2**62, LONGEST_QUIET - 1, True),
        (2**62, LONGEST_QUIET, False),
    ],
)
def test_a_slice_is_busy_for_a_while_after_it_launched(longest, after, busy):
    activity = Activity()
    assert not activity.busy("a", (5, 0), longest, now=0)
    assert activity.busy("a", (6, 0), longest, now=MS)
    assert activity.busy("a", (6, 0), longest, now=MS + after) is busy


def test_only_a_look_that_finds_the_counters_moved_says_so():
    activity = Activity()
    for now, counters, moved in (
        (0, (5, 0), False),
        (1, (6, 0), True),
        (2, (6, 0), False),
        (3, (6, 9), True),
    ):
        activity.busy("a", counters, 0, now)
        assert activity.moved("a", now) is moved


def test_waiting_to_launch_is_busy_too():
    activity = Activity()
    activity.busy("a", (5, 100), 0, now=0)
    assert activity.busy("a", (5, 200), 0, now=QUIET * 2)


def test_a_slice_first_seen_is_not_busy_until_it_moves():
    activity = Activity()
    assert not activity.busy("a", (1_000_000, 0), 2**62, now=10**15)


def test_a_forgotten_slice_starts_anew():
    activity = Activity()
    activity.busy("a", (1, 0), 0, now=0)
    activity.forget(keep=set())
    assert not activity.busy("a", (2, 0), 0, now=MS)


class Slice:
    """Uses a part of its share, look after look, ten times a second."""

    def __init__(self, share=3000):
        self.appetite = Appetite()
        self.share = share
        self.now = 10**12
        self.used = 0
        self.given = False

    def run(self, seconds, part, slot=True, told=False):
        """The times at which it would have been given a slot, in seconds from the start of the run.

        `told`: what it uses without one counts too.
        """
        fills = []
        for step in range(round(seconds * 10)):
            beside = slot and not self.given
            share = self.share if (slot and self.given) or (beside and told) else 0
            self.given = self.appetite.fills("a", self.used, share, 0, self.now, beside=beside)
            fills += [step / 10] * self.given
            self.now += 100 * MS
            self.used += int(100 * MS * self.share / 10_000 * part)
        return fills


def test_a_slice_that_fills_its_slot_keeps_it():
    assert len(Slice().run(10, part=0.84)) == 100


def test_one_that_cannot_is_let_out_and_tried_again_more_and_more_seldom():
    host_bound = Slice()
    given = host_bound.run(120, part=0.5)
    assert given[:7] == [0, 0.1, 0.2, 0.3, 0.4, 0.5, (TRIAL + FIRST_PATIENCE) / 1e9 + 0.1]
    assert len([one for one in given if one > 60]) / 600 < 0.03  # of a minute in which it is let alone


def test_one_that_leaves_as_much_unused_without_slots_is_not_tried_again():
    host_bound = Slice()
    assert max(host_bound.run(120, part=0.5, told=True)) == TRIAL / 1e9
    assert min(host_bound.run(10, part=0.9, told=True)) < (FIRST_PATIENCE + TRIAL) / 1e9
    assert len(host_bound.run(10, part=0.9, told=True)) == 100


def test_one_that_fills_what_it_left_unused_without_slots_is_soon_tried_however_long_it_was_let_out():
    changed = Slice()
    changed.run(60, part=0.5)  # told nothing of what it uses without a slot
    while not changed.run(0.1, part=0.5):
        pass
    while changed.run(0.1, part=0.5):
        pass
    assert not changed.run(30, part=0.5)
    changed.run(2, part=0.5, told=True)
    assert min(changed.run(10, part=0.9, told=True)) <= (FIRST_PATIENCE + TRIAL) / 1e9


def test_one_that_is_let_out_and_then_fills_its_slot_is_trusted_again():
    changed = Slice()
    changed.run(5, part=0.5)
    assert len(changed.run(20, part=0.9)) > 100
    assert len(changed.run(10, part=0.9)) == 100


def test_without_a_slot_nothing_is_judged():
    assert len(Slice().run(10, part=0.1, slot=False)) == 100


def test_patience_has_an_end():
    host_bound = Slice()
    host_bound.run(400, part=0)
    assert host_bound.run(LONGEST_PATIENCE / 1e9 + 2, part=0)


def told(claims: list[int], every: int = 100 * MS) -> list[int]:
    longest = Longest[str]()
    return [longest.of("a", claimed, now=index * every) for index, claimed in enumerate(claims)]


def test_a_longer_kernel_is_believed_once_it_was_claimed_throughout():
    ticks = HELD // (100 * MS)
    assert told([1000] + [1400] * 2 * ticks)[-1] == 1400
    assert told([1000] + [1400] * (ticks - 1)) == [1000] * ticks


def test_one_that_only_neighbours_lengthened_never_is():
    spike = [1000] * 5 + [1900] * 21 + [1450] * 4  # it is claimed for ESTIMATE_HALF_LIFE after its last
    assert set(told(spike * 10)) == {1000}


@pytest.mark.parametrize(
    "claimed", [870, 2300, 20_000], ids=["shorter", "more than a neighbour does", "long"]
)
def test_another_one_is_told_at_once(claimed):
    assert told([1000, 1000, claimed]) == [1000, 1000, claimed]


def test_who_was_forgotten_is_told_anew():
    longest = Longest[str]()
    longest.of("a", 1000, now=0)
    longest.forget(set())
    assert longest.of("a", 1001, now=1) == 1001
