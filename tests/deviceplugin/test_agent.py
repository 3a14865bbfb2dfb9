"""One tick of the agent after another, in virtual time: slots, loans, promises, bad slices."""

import os
from contextlib import ExitStack
from dataclasses import replace

import pytest

from deviceplugin.agent import AUDIT_EVERY, GLANCE, SLOT_LIFE, TICK
from deviceplugin.auditor import MS
from limiter import layout, slices
from limiter.identity import Identity, Share, load_identity, rewrite
from tests.deviceplugin.agent_world import SECOND, START
from tests.deviceplugin.fakes import GIB, UUIDS


def in_slot(world, name):
    device = world.device(name)
    return device.slot_deadline > world.now and device.slot_length > 0


def test_a_busy_pair_gets_slots_of_its_shares(world):
    world.slice("a", 6000)
    world.slice("b", 3000)
    world.run(0.3, "a", "b")
    a, b = world.device("a"), world.device("b")
    assert (a.slot_length, b.slot_length) == (13_200_000, 6_600_000)
    assert a.slot_frame == b.slot_frame == 20 * MS
    assert a.slot_offset + a.slot_length < b.slot_offset


def test_a_frame_follows_its_kernels_but_not_at_every_look(world):
    world.slice("a", 5000)
    world.slice("b", 5000)
    frames = []
    for millionths in (5_000, 5_003, 5_060, 5_001, 5_100, *[5_100] * 8, 12_000):
        world.tenant("a").set(longest_kernel=millionths * 1000)
        world.run(0.5, "a", "b")
        frames.append(world.device("a").slot_frame / MS)
    assert frames[:5] == [pytest.approx(60, abs=1)] * 5
    assert frames[-2] > frames[0]  # claimed throughout
    assert frames[-1] > 70  # another kernel: at once


def test_who_cannot_fill_his_slot_gets_what_the_neighbour_s_is_longer_than_it_need_be(world):
    world.slice("a", 6000)
    world.slice("b", 3000)
    world.run(1, "a", "b")
    before = world.device("b").slot_length
    for _ in range(50):
        world.fill = 1.0
        world.launch("a")
        world.fill = 0.8
        world.run(0.1, "b")
    assert world.device("b").slot_length > 1.05 * before
    assert world.device("a").slot_length > 12 * MS


def test_what_the_driver_holds_takes_no_turns_and_gives_none(world):
    world.slice("a", 6000, backend="mps")
    world.slice("b", 3000)
    world.run(0.3, "a", "b")
    assert not in_slot(world, "a")
    assert not in_slot(world, "b")
    assert world.device("a").core_limit_at(world.now) == layout.FULL_CORES


def test_slots_go_when_the_neighbour_rests_and_come_back(world):
    world.slice("a", 6000)
    world.slice("b", 3000)
    world.run(0.3, "a", "b")
    world.run(0.5, "a")
    assert not in_slot(world, "a")
    world.run(0.2, "a", "b")
    assert in_slot(world, "a")


def test_a_slot_is_renewed_before_it_ends_and_ends_without_an_agent(world):
    world.slice("a", 6000)
    world.slice("b", 3000)
    for _ in range(30):
        world.run(0.1, "a", "b")
        assert world.now < world.device("a").slot_deadline <= world.now + SLOT_LIFE or world.now < START + 3e8
    world.now += SLOT_LIFE
    assert not in_slot(world, "a")


def test_pages_are_not_written_when_nothing_changes(world):
    world.slice("a", 6000)
    world.run(0.2, "a")
    sequence = world.control("a").sequence
    world.run(3, "a")
    assert world.control("a").sequence == sequence


def test_a_burst_slice_alone_is_lent_the_card_until_a_neighbour_comes(world):
    world.slice("a", 3000, policy="burst")
    world.slice("b", 6000)
    world.run(0.3, "a")
    assert world.device("a").core_limit_at(world.now) == layout.FULL_CORES
    assert world.device("a").core_limit == 3000
    world.run(0.2, "a", "b")
    device = world.device("a")
    assert in_slot(world, "a")
    assert device.core_limit_at(world.now) == 4000  # its own, and what nobody was promised
    assert device.core_limit_at(device.loan_deadline) == 3000


def glances(world, name):
    """The milliseconds of glances until a slice that rested, and launches now, has its time back."""
    world.launch(name)
    start = world.now
    while not in_slot(world, name) and world.now < start + SECOND:
        world.now += GLANCE
        assert world.agent.tick() <= TICK / 1e9
    return (world.now - start) // MS


@pytest.mark.parametrize(("limit", "policy"), [(3000, "burst"), (10_000, "fixed")])
def test_lent_time_is_taken_back_at_the_next_glance(world, limit, policy):
    world.slice("a", limit, policy)
    world.slice("b", 6000)
    world.run(0.5, "a", "b")
    world.run(1, "a")
    assert world.device("a").slot_length > 19 * MS
    assert not in_slot(world, "b")
    assert glances(world, "b") == GLANCE // MS
    assert world.device("a").slot_length < 9 * MS


def test_where_nothing_is_lent_nobody_glances(world):
    world.slice("a", 3000)
    world.slice("b", 6000)
    world.run(1, "a")
    world.now += TICK
    assert world.agent.tick() == TICK / 1e9


def test_a_resting_slice_that_spoils_its_page_takes_nothing_back_and_harms_nobody(world):
    world.slice("a", 3000, "burst")
    tenant = world.slice("b", 6000)
    world.run(1, "a")
    os.truncate(tenant.path, 10)
    for _ in range(10):
        world.now += GLANCE
        assert world.agent.tick() == GLANCE / 1e9


def test_a_changed_promise_is_written_at_the_next_tick_and_at_once_when_the_bell_rings(world):
    world.slice("a", 3000)
    world.run(0.2, "a")
    path = world.root / "slices/a"
    identity = load_identity(path)
    rewrite(
        path, replace(identity, devices=(replace(identity.devices[0], cores_bp=5000, guarantee_bp=5000),))
    )
    world.agent.tick()
    assert world.device("a").core_limit == 3000
    world.agent.hurry()
    world.agent.tick()
    assert (world.device("a").core_limit, world.device("a").core_guarantee) == (5000, 5000)


def test_programs_bound_by_their_hosts_are_let_out_of_their_slots(world):
    world.slice("a", 6000)
    world.slice("b", 3000)
    world.fill = 0.5
    world.run(0.3, "a", "b")
    assert in_slot(world, "a")
    world.run(1, "a", "b")
    assert not in_slot(world, "a")
    assert not in_slot(world, "b")


@pytest.mark.parametrize(
    ("busy", "launches", "believed"),
    [(0.45, 1, True), (0.9, 1, False), (0.9, 20_000, True), (None, 1, False)],
)
def test_they_are_told_of_each_other_and_not_tried_again_while_their_claims_account_for_the_card(
    world, busy, launches, believed
):
    world.slice("a", 6000)
    world.slice("b", 3000)
    world.fill, world.nvml.utilization = 0.5, 0.45
    world.run(1, "a", "b")
    assert world.device("a").beside_deadline > world.now
    world.nvml.utilization, world.each_launches = busy, launches
    slotted = False
    for look in range(50):
        world.run(0.1, "a", "b")
        slotted |= in_slot(world, "a")
        if look >= 10 and not believed:
            assert world.device("a").beside_deadline == 0
    assert slotted is not believed
    assert (world.device("a").beside_deadline > world.now) is believed


@pytest.mark.parametrize(("processes", "believed"), [(1, False), (2, True)])
def test_the_card_turns_between_the_processes_of_a_slice_as_well(world, processes, believed):
    """`b` does little beside `a`, which with the changes to its kernels accounts for 43 %."""
    tenant = world.slice("a", 6000)
    world.slice("b", 3000)
    world.fill, world.nvml.utilization, world.each_launches = 0.5, 0.9, 10_000
    with ExitStack() as alive:
        for slot in range(processes):
            tenant.attach(slot, 0, pid=1000 + slot)
            alive.enter_context(tenant.alive(slot))
        for look in range(50):
            world.tenant("b").set(launches=look)
            world.run(0.1, "a")
    assert (world.device("a").beside_deadline > world.now) is believed


def test_one_that_fills_its_promise_again_has_its_slot_soon_however_often_it_was_let_out(world):
    world.slice("a", 6000)
    world.slice("b", 3000)
    world.fill = 0.5
    world.nvml.utilization = 0.9  # so they are tried again, and let out for longer each time
    world.run(60, "a", "b")
    world.nvml.utilization = 0.45
    world.run(120, "a", "b")
    assert not in_slot(world, "a")
    world.fill = 0.9
    world.run(3, "a", "b")
    assert in_slot(world, "a")


def test_others_are_beside_a_slice_no_longer_once_there_are_slots_or_it_is_alone(world):
    world.slice("a", 6000)
    world.slice("b", 3000)
    world.fill = 0.5
    world.run(1, "a", "b")
    world.run(0.5, "a")
    assert world.device("a").beside_deadline == 0


def test_a_slice_without_a_cap_is_held_to_its_slot_while_others_compete(world):
    world.slice("a", 6000)
    world.slice("free")
    world.run(0.3, "a", "free")
    device = world.device("free")
    assert device.slot_length == 7_800_000  # 8 ms less the guards: the promise pays for none
    assert device.core_limit_at(world.now) == 4000
    assert device.core_limit_at(world.now + SLOT_LIFE) == layout.FULL_CORES


def test_slices_of_different_cards_do_not_compete(world):
    world.slice("a", 6000)
    share = Share(UUIDS[1], 1, GIB, 3000, 3000)
    identity = Identity("b", 7, 0.0, (share,))
    _, world.locks["b"] = slices.create(world.root, identity, slices.first_control(identity, [GIB], [0]))
    world.launches["b"] = 0
    world.run(0.3, "a", "b")
    assert not in_slot(world, "a")


def test_stale_directories_are_removed_and_the_living_stay(world):
    world.slice("dead")
    world.slice("living")
    os.close(world.locks.pop("dead"))
    world.run(AUDIT_EVERY / SECOND)
    assert [one.path.name for one in slices.observe(world.root)] == ["living"]


def test_a_driver_that_fails_once_is_asked_again(world):
    world.slice("a", 6000)
    world.slice("b", 3000)
    world.nvml.next_error = RuntimeError("the driver hiccups")
    with pytest.raises(RuntimeError):
        world.agent.tick()
    world.run(0.3, "a", "b")
    assert in_slot(world, "a")


def test_a_spoiled_slice_takes_no_slot_from_the_others(world):
    world.slice("a", 6000)
    world.slice("b", 3000)
    os.truncate(world.slice("spoiled", 1000).path, 10)
    world.run(0.3, "a", "b")
    assert in_slot(world, "a")
