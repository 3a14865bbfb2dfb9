"""How long a card's frame is: what its slices ask for, what their longest kernels and slots' edges need."""

from dataclasses import replace

import pytest

from deviceplugin.slots import FRAME, FULL, LONGEST_FRAME, MS, Tenant, plan


def tenant(key, limit=FULL, longest=MS, frame=0):
    return Tenant(key, limit, busy=True, longest=longest, frame=frame)


@pytest.mark.parametrize(
    ("longest", "frame"),
    [
        (0, FRAME),
        (MS, FRAME),
        (2 * MS, FRAME),
        (6 * MS, 60 * MS),
        (10 * MS, 100 * MS),
        (30 * MS, LONGEST_FRAME),
        (2**62, LONGEST_FRAME),
    ],
)
def test_the_frame_holds_three_of_the_longest_kernel_in_the_smallest_slot(longest, frame):
    turns = plan([tenant("a", 6000), tenant("b", 3000, longest=longest)])
    assert {turn.frame for turn in turns.values()} == {frame}


@pytest.mark.parametrize(
    ("asked", "longest", "frame"),
    [
        ((0, 0), MS, FRAME),
        ((10, 0), MS, 10 * MS),
        ((50, 10), MS, 10 * MS),
        ((50, 0), MS, 50 * MS),
        ((10, 0), 2 * MS, 20 * MS),
        ((10, 0), 14 * MS, 140 * MS),
    ],
)
def test_the_frame_is_the_shortest_asked_for_that_holds_three_of_the_longest_kernel(asked, longest, frame):
    turns = plan(
        [tenant("a", 6000, frame=asked[0] * MS), tenant("b", 3000, frame=asked[1] * MS, longest=longest)]
    )
    assert {turn.frame for turn in turns.values()} == {frame}


@pytest.mark.parametrize(
    ("limits", "frame"),
    [
        ((60, 30), FRAME),
        ((60, 38), 30 * MS),
        ((50, 50), 50 * MS),
        ((10, 90), 60 * MS),
        ((25, 25, 25, 25), 50 * MS),
        ((60, 100), FRAME),
    ],
)
def test_where_little_is_left_unpromised_the_frame_is_longer_so_that_edges_cost_each_a_point(limits, frame):
    tenants = [tenant(index, limit * 100, longest=MS // 4) for index, limit in enumerate(limits)]
    assert {turn.frame for turn in plan(tenants).values()} == {frame}
    asked = [replace(one, frame=10 * MS) for one in tenants]
    assert {turn.frame for turn in plan(asked).values()} == {10 * MS}


WHOLE = {
    "a pair of long kernels": ((50, 50), (5, 5)),
    "… of a second kind": ((50, 50), (1, 20)),
    "a small share beside a long kernel": ((10, 90), (0.044, 20)),
    "a long kernel in a small share": ((10, 90), (20, 0.044)),
    "four of a kind": ((25, 25, 25, 25), (20, 20, 20, 20)),
    "four kinds": ((25, 25, 25, 25), (1, 0.044, 1.6, 20)),
    "one that takes a whole slot": ((50, 50), (50, 1)),
}


@pytest.mark.parametrize("case", WHOLE)
def test_where_little_is_left_unpromised_slots_are_cut_to_whole_kernels(case):
    """… so that each has his promise less a point, in kernels that end within his slot."""
    limits, kernels = WHOLE[case]
    tenants = [
        tenant(index, limit * 100, longest=int(kernel * MS))
        for index, (limit, kernel) in enumerate(zip(limits, kernels, strict=True))
    ]
    turns = plan(tenants)
    for one in tenants:
        turn = turns[one.key]
        whole = turn.length // one.longest * one.longest
        assert whole > (one.limit - 100) * turn.frame // FULL
        assert turn.frame <= LONGEST_FRAME + 10 * MS


@pytest.mark.parametrize(
    ("limits", "kernels", "frame"),
    [
        ((10, 90), (50, 0.044), 508),  # the neighbour waits for 51 ms
        ((10, 90), (100, 0.044), 1016),
        ((10, 90), (130, 0.044), 200),  # … for 132: no
        ((10, 10, 80), (50, 0.044, 0.044), 200),  # the second one would wait for 458 ms
        ((10, 90), (2**40, 0.044), 200),  # nothing would be gained
    ],
)
def test_a_frame_grows_further_for_a_kernel_only_if_it_fits_then_and_nobody_waits_long(
    limits, kernels, frame
):
    tenants = [
        tenant(index, limit * 100, longest=int(kernel * MS))
        for index, (limit, kernel) in enumerate(zip(limits, kernels, strict=True))
    ]
    assert {turn.frame // MS for turn in plan(tenants).values()} == {frame}


def test_a_frame_is_kept_while_it_is_good_enough():
    def frame_for(kernel, before):
        pair = [tenant("a", 5000, longest=kernel), tenant("b", 5000, longest=kernel)]
        return plan(pair, frame=before)["a"].frame

    first = frame_for(5 * MS, 0)
    assert frame_for(5 * MS - 10_000, first) == first
    assert frame_for(5 * MS + 100_000, first) != first
    assert frame_for(MS // 4, 4 * first) == 50 * MS
