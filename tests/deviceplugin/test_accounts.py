"""Claims held against what NVML says, with time as an argument. NVML tells of the card 0.3 s late."""

import pytest

from deviceplugin.accounts import FIRST_DOUBT, LATE, LONGEST_DOUBT, LONGEST_LOOK, MS, Accounts, Claim
from limiter.layout import FULL_CORES

LOOK = 100 * MS
BEHIND = 3  # looks
START = 10**12


class Card:
    """A card with slices that do and claim as the test says, looked at ten times a second."""

    def __init__(self, several=(), **shares):
        self.several = several
        self.accounts = Accounts()
        self.shares = shares or {"a": FULL_CORES}
        self.gpu_time = dict.fromkeys(self.shares, 0)
        self.launches = dict.fromkeys(self.shares, 0)
        self.shown = [0.0] * BEHIND
        self.now = START
        self.looks = []  # whether all were believed
        self.look(0.0)

    def look(self, busy, **claimed):
        """What they claim since the last look, and how busy the card was, as parts of the time."""
        for key, part in claimed.items():
            self.gpu_time[key] += int(part * LOOK)
        self.shown.append(busy)
        claims = [
            Claim(key, self.gpu_time[key], self.launches.get(key, 0), share, key in self.several)
            for key, share in self.shares.items()
        ]
        self.looks.append(self.accounts.balanced("card", claims, self.shown[-1 - BEHIND], self.now))
        self.now += LOOK
        return self.looks[-1]

    def run(self, seconds, busy, **claimed):
        """The part of the time in which they were believed."""
        looks = [self.look(busy, **claimed) for _ in range(round(seconds * 10))]
        return sum(looks) / len(looks)


@pytest.mark.parametrize(("busy", "claimed"), [(0.4, 0.37), (0.4, 0.4), (0.4, 0.8), (1.0, 1.0)])
@pytest.mark.parametrize("period", [0.2, 0.6, 1, 2, 6])
def test_who_claims_what_he_does_is_believed_however_it_comes_and_goes(busy, claimed, period):
    card = Card()
    for _ in range(round(60 / period)):
        assert card.run(period / 2, busy, a=claimed) == 1
        assert card.run(period / 2, 0.0, a=0.0) == 1


@pytest.mark.parametrize(("busy", "claimed", "within"), [(0.9, 0.1, 0.8), (0.6, 0.2, 1.4), (0.5, 0.3, 3.5)])
def test_what_nobody_accounts_for_shows_the_sooner_the_more_it_is(busy, claimed, within):
    card = Card()
    assert card.run(within, busy, a=claimed) < 1
    assert not card.looks[-1]


def test_what_is_used_in_bursts_shortly_before_a_rest_shows_as_well():
    card = Card()
    for _ in range(5):
        card.run(0.3, 0.9, a=0.1)
        card.run(0.7, 0.1, a=0.1)
    assert not all(card.looks)


@pytest.mark.parametrize(
    ("kernel", "launches", "busy", "believed"),
    [
        (1_200, 114_000, 0.29, True),  # 13.7 % of kernels, 28.5 with the changes to them
        (5_000, 60_000, 0.38, True),
        (44_000, 10_000, 0.7, False),
        (100, 500_000, 0.7, False),  # no kernel is so short
    ],
)
def test_the_changes_to_kernels_that_nvml_counts_are_accounted_for(kernel, launches, busy, believed):
    card = Card()
    for _ in range(100):
        card.launches["a"] += launches // 10
        card.look(busy, a=kernel * launches / 1e9)
    assert all(card.looks) is believed


@pytest.mark.parametrize(
    ("launches", "busy", "claimed", "believed"),
    [
        ((52_000, 54_000), 0.91, 0.255, True),  # two CPU-bound trainings on an H200, which NVML showed so
        ((54_000, 23_700), 0.57, 0.19, True),
        ((50_500, 34_400), 0.66, 0.204, True),
        ((105_000, 1_000), 0.91, 0.255, False),  # one alone is not exchanged so often
        ((988, 988), 0.268, 0.004, True),  # kernels of 2 µs of programs that seldom launch, on an H200
        ((61_277, 988), 0.496, 0.125, True),
        ((4_862, 4_855), 0.89, 0.019, True),
        ((988, 988), 0.46, 0.198, True),  # … of 100 µs
        ((600, 400), 0.4, 0.2, False),
    ],
)
def test_the_changes_from_one_slice_to_another_that_nvml_counts_are_accounted_for(
    launches, busy, claimed, believed
):
    card = Card(a=6000, b=3000)
    for _ in range(100):
        for key, number in zip("ab", launches, strict=True):
            card.launches[key] += number // 10
        card.look(
            busy,
            **{key: claimed * number / sum(launches) for key, number in zip("ab", launches, strict=True)},
        )
    assert all(card.looks) is believed


@pytest.mark.parametrize(("several", "believed"), [("", False), ("a", True), ("b", False)])
def test_so_are_those_between_the_processes_of_one_slice(several, believed):
    card = Card(several, a=6000, b=3000)
    for _ in range(100):
        card.launches["a"] += 10_000
        card.look(0.85, a=0.25, b=0.0)
    assert all(card.looks) is believed


def test_a_claim_beyond_what_its_slice_may_use_does_not_hide_what_others_use():
    card = Card(small=1000, large=3000)
    assert card.run(10, 0.9, small=0.07, large=5.0) < 0.5


def test_a_slice_that_came_or_whose_counter_fell_back_claims_nothing_by_that():
    card = Card(a=FULL_CORES)
    card.run(1, 0.5, a=0.5)
    card.shares["new"], card.gpu_time["new"], card.gpu_time["a"] = FULL_CORES, 10**18, 0
    assert card.run(2, 0.9, a=0.1, new=0.0) < 1


def test_who_uses_more_than_he_claims_whenever_he_is_believed_gains_less_than_two_points_in_ten_minutes():
    card = Card()
    for _ in range(6000):
        believed = card.looks[-1]
        card.look(0.9, a=0.1 if believed else 0.9)
    assert (0.9 - 0.1) * sum(card.looks) / len(card.looks) < 0.02


def test_claims_are_doubted_longer_each_time_and_that_is_forgotten_after_a_minute_without():
    card = Card()
    doubts = []
    for _ in range(8):
        while card.look(0.9, a=0.1):
            pass
        began = card.now
        while not card.look(0.9, a=0.9):
            pass
        doubts.append((card.now - began) // (1000 * MS))
    assert doubts == [2, 4, 8, 16, 32, 60, 60, 60]
    assert card.run(LONGEST_DOUBT / 1e9 + 1, 0.9, a=0.9) == 1
    while card.look(0.9, a=0.1):
        pass
    assert card.run(FIRST_DOUBT / 1e9 + 0.5, 0.9, a=0.9) > 0


def test_where_nvml_does_not_say_how_busy_the_card_is_nobody_is_believed():
    card = Card()
    card.shown = [None] * 20
    assert not card.look(None, a=0.5)


def test_what_happened_while_nobody_looked_is_not_held_against_anybody():
    card = Card()
    card.run(1, 0.9, a=0.9)
    card.now += LONGEST_LOOK + 5 * LATE
    assert card.run(1, 0.9, a=0.9) == 1


def test_a_card_that_is_gone_is_forgotten():
    card = Card()
    card.run(3, 0.9, a=0.1)
    card.accounts.forget(set())
    assert card.look(0.9, a=0.1)
