"""What the agent makes of NVML once a second, in virtual time: bytes unaccounted for, contexts, room."""

import pytest

from deviceplugin.auditor import CARD_LIFE, UNACCOUNTED_LIFE
from limiter import layout
from tests.deviceplugin.agent_world import MIB
from tests.deviceplugin.fakes import GIB, UUIDS


def live_process(world, name, used, kind=layout.Kind.BUFFER):
    tenant = world.slice(name)
    tenant.sum(used)
    tenant.attach(0, used, pid=4242, kind=kind)
    world.open.enter_context(tenant.alive(0))
    return tenant


def test_bytes_that_only_nvml_shows_are_published_and_end_with_their_cause(world):
    live_process(world, "a", 600 * MIB)
    world.nvml.on_card = {UUIDS[0]: {4242: 850 * MIB}}
    world.run(2.5)
    device = world.device("a")
    assert device.unaccounted == 250 * MIB
    assert world.now < device.unaccounted_deadline <= world.now + UNACCOUNTED_LIFE
    world.nvml.on_card = {UUIDS[0]: {4242: 600 * MIB}}
    world.run(1.2)
    assert (world.device("a").unaccounted, world.device("a").unaccounted_deadline) == (0, 0)


def test_a_new_agent_lets_stand_what_the_last_one_found(world):
    live_process(world, "a", 600 * MIB)
    world.nvml.on_card = {UUIDS[0]: {4242: 850 * MIB}}
    world.run(2.5)
    world.agent = world.new_agent()
    world.run(3)
    assert world.device("a").unaccounted == 250 * MIB
    assert world.device("a").unaccounted_deadline > world.now


def test_the_cost_of_a_context_is_corrected_once_seen_twice(world):
    live_process(world, "a", 512 * MIB, kind=layout.Kind.CONTEXT)
    world.nvml.on_card = {UUIDS[0]: {4242: 430 * MIB}}
    world.run(0.1)
    assert world.device("a").context_bytes == 512 * MIB
    world.run(2)
    assert world.device("a").context_bytes == 430 * MIB


def test_what_a_slice_could_hold_of_the_card_is_published_and_its_own_use_changes_nothing(world):
    tenant = live_process(world, "a", 600 * MIB)
    world.nvml.used = {UUIDS[0]: 40 * GIB}
    world.run(1)
    device = world.device("a")
    assert (device.card_total, device.card_room) == (100 * GIB, 60 * GIB + 600 * MIB)
    assert world.now < device.card_deadline <= world.now + CARD_LIFE
    tenant.sum(100 * MIB)
    tenant.attach(0, 100 * MIB, pid=4242)
    world.nvml.used = {UUIDS[0]: 40 * GIB - 500 * MIB}
    world.run(1.1)
    assert world.device("a").card_room == device.card_room


def test_a_neighbour_s_bytes_make_the_room_on_the_card_smaller(world):
    world.slice("a")
    world.run(1)
    world.nvml.used = {UUIDS[0]: 99 * GIB}
    world.run(1.1)
    assert world.device("a").card_room == GIB


@pytest.mark.parametrize("shown", [1 * MIB, 900 * MIB])
def test_a_cost_that_no_bare_context_has_is_not_learnt(world, shown):
    live_process(world, "a", 512 * MIB, kind=layout.Kind.CONTEXT)
    world.nvml.on_card = {UUIDS[0]: {4242: shown}}
    world.run(3)
    assert world.device("a").context_bytes == 512 * MIB
