"""One tick of the agent after another, in virtual time, on real slice directories."""

import os
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace

import pytest

from deviceplugin.agent import AUDIT_EVERY, GLANCE, SLOT_LIFE, TICK, Agent
from deviceplugin.auditor import CARD_LIFE, MS, UNACCOUNTED_LIFE
from limiter import layout, slices
from limiter.identity import Identity, Share, load_identity, rewrite
from limiter.pages import read_control
from tests.deviceplugin.fakes import GIB, UUIDS, FakeNvml
from tests.limiter.tenant import Tenant

MIB = 1 << 20
SECOND = 1_000 * MS
START = 1_000 * SECOND


class World:
    """A box with slices whose programs launch when the test says so, a clock and an agent."""

    def __init__(self, root):
        self.root = root
        self.nvml = FakeNvml()
        self.now = START
        self.launches = {}
        self.gpu_time = defaultdict(int)
        self.fill = 1.0  # how much of what they are given programs use
        self.locks = {}
        self.open = ExitStack()
        self.agent = self.new_agent()

    def new_agent(self):
        return Agent(self.root, self.nvml, lambda: self.now)

    def slice(self, name, cores=10_000, policy="fixed", backend="weir"):
        share = Share(UUIDS[0], 0, GIB, cores, cores % 10_000)
        identity = Identity(name, 7, 0.0, (share,), policy=policy, backend=backend)
        control = slices.first_control(identity, [100 * GIB], [512 * MIB])
        _, self.locks[name] = slices.create(self.root, identity, control)
        self.launches[name] = 0
        return self.tenant(name)

    def tenant(self, name):
        return Tenant(self.root / "slices" / name / "rw/stats")

    def control(self, name):
        return read_control(self.root / "slices" / name / "control")

    def device(self, name):
        return self.control(name).devices[0]

    def launch(self, *names):
        """A tick's worth of launches, which fill what the slice was given."""
        for name in names:
            self.launches[name] += 1
            share = self.device(name).core_limit_at(self.now) / layout.FULL_CORES
            self.gpu_time[name] += int(self.fill * 100 * MS * share)
            self.tenant(name).set(launches=self.launches[name], gpu_time=self.gpu_time[name])

    def run(self, seconds, *busy):
        """Tick ten times a second while some slices launch all the time."""
        for _ in range(round(seconds * 10)):
            self.launch(*busy)
            self.now += 100 * MS
            self.agent.tick()


@pytest.fixture
def world(tmp_path):
    here = World(tmp_path)
    with here.open:
        yield here
    for lock in here.locks.values():
        os.close(lock)


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


def test_a_slice_without_a_cap_is_held_to_its_slot_while_others_compete(world):
    world.slice("a", 6000)
    world.slice("free")
    world.run(0.3, "a", "free")
    device = world.device("free")
    assert device.slot_length == pytest.approx(8 * MS, rel=0.02)  # less its part of the guards
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
