"""Control pages that somebody else wrote: put back, counted and said; who may write them is not accused."""

import ctypes
import os
import shutil
import struct
from dataclasses import fields, replace

import pytest

from deviceplugin.custody import aloud
from limiter import layout, slices, writer
from limiter.identity import Lease, load_identity, rewrite
from limiter.pages import ControlDevice, PageError, read_control
from tests.deviceplugin.agent_world import SECOND
from tests.deviceplugin.fakes import GIB

HEADER = layout.ControlHeader
DEVICE_AT = ctypes.sizeof(HEADER)


def page_of(world, name="a"):
    return world.root / "slices" / name / "control"


def poke(world, offset, content, name="a"):
    with page_of(world, name).open("r+b") as file:
        file.seek(offset)
        file.write(content)


def raise_limits(world, name="a"):
    """As the agent itself would write it, its sequence number and all."""
    page = read_control(page_of(world, name))
    raised = replace(page.devices[0], core_limit=layout.FULL_CORES, memory_limit=64 * GIB)
    writer.update_control(page_of(world, name), replace(page, devices=(raised,)))


def field(name):
    descriptor = getattr(layout.ControlDevice, name)
    return DEVICE_AT + descriptor.offset, descriptor.size


FORGERIES = {
    "the limits, by a whole write": raise_limits,
    "one limit, without the sequence": lambda world: poke(world, field("core_limit")[0], bytes(4)),
    "a write that never ends": lambda world: poke(world, HEADER.sequence.offset, struct.pack("<I", 7)),
    "unknown calls": lambda world: poke(world, HEADER.refuse_unknown.offset, struct.pack("<I", 1)),
    "the generation": lambda world: poke(world, HEADER.generation.offset, struct.pack("<Q", 8)),
    "its version": lambda world: poke(world, HEADER.major.offset, struct.pack("<H", 9)),
    "a card more": lambda world: poke(world, HEADER.device_count.offset, struct.pack("<I", 2)),
    "its card": lambda world: poke(world, DEVICE_AT, bytes(16)),
    "noise": lambda world: poke(world, 0, os.urandom(512)),
    "cut short": lambda world: os.truncate(page_of(world), 10),
    "unlinked": lambda world: page_of(world).unlink(),
    "a link elsewhere": lambda world: (page_of(world).unlink(), page_of(world).symlink_to("/dev/null")),
    "beside a slice.json of noise": lambda world: (
        (page_of(world).parent / "slice.json").write_text("{"),
        raise_limits(world),
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_the_agent_did_not_write_is_put_back_counted_and_said_at_its_next_look(world, forgery):
    world.slice("a", 1000)
    world.slice("b", 3000)
    world.run(0.2)
    before = world.control("a")
    FORGERIES[forgery](world)
    world.run(0.1)
    after = world.control("a")
    assert after.forgeries == 1
    assert replace(after, forgeries=0, sequence=0) == replace(before, sequence=0)
    assert [line for line in world.said if line.startswith("weir: slice a: ")] == world.said != []


@pytest.mark.parametrize("name", [one.name for one in fields(ControlDevice) if one.name != "uuid"])
def test_every_field_of_a_card_is_kept(world, name):
    world.slice("a", 1000)
    world.run(0.2)
    offset, size = field(name)
    poke(world, offset, (77).to_bytes(size, "little"))
    world.run(0.1)
    assert world.control("a").forgeries == 1
    assert getattr(world.device("a"), name) != 77
    assert f"card 0 {name} 77, not " in world.said[0]


def test_the_line_names_the_slice_the_fields_and_their_values_and_comes_once(world):
    world.slice("a", 1000)
    world.run(0.2)
    for _ in range(3):
        raise_limits(world)
        world.run(0.1)
    assert world.control("a").forgeries == 3
    assert world.said == [
        "weir: slice a: its control page was changed by a program of this user: card 0 memory_limit "
        f"{64 * GIB}, not {GIB}, card 0 core_limit 10000, not 1000; put back, and counted in "
        "weir_control_forgeries_total"
    ]


def test_the_count_itself_cannot_be_lowered(world):
    world.slice("a", 1000)
    world.run(0.2)
    raise_limits(world)
    world.run(0.1)
    poke(world, HEADER.forgeries.offset, bytes(4))
    world.run(0.1)
    assert world.control("a").forgeries == 2


def test_a_page_without_a_memory_limit_is_kept_as_well(world):
    world.slice("a", 1000)
    path = page_of(world).parent
    identity = load_identity(path)
    share = replace(identity.devices[0], memory_bytes=None)
    rewrite(path, replace(identity, devices=(share,)))
    world.run(0.2)
    raise_limits(world)
    world.run(0.1)
    assert world.device("a").memory_limit == GIB


def test_who_may_change_a_page_is_not_accused(world):
    """`weir set`, a lease and its end, turns among neighbours, and an agent after another."""
    world.slice("a", 2000)
    world.slice("b", 3000, policy="burst")
    world.run(2, "a", "b")
    path = page_of(world).parent
    identity = load_identity(path)
    rewrite(path, replace(identity, devices=(replace(identity.devices[0], cores_bp=5000),)))
    world.agent.hurry()
    world.run(1, "a", "b")
    assert world.device("a").core_limit == 5000
    lease = Lease(world.now + SECOND, GIB // 2, 100)
    rewrite(path, replace(load_identity(path), lease=lease))
    world.run(2, "b")
    first = world.agent
    world.agent = world.new_agent()
    world.run(1, "a", "b")
    rewrite(path, replace(load_identity(path), policy="burst"))
    world.run(1, "a")
    world.agent = first
    first.begin()
    world.run(1, "a", "b")
    assert [world.control(name).forgeries for name in "ab"] == [0, 0]
    assert world.said == []


def test_a_slice_that_comes_under_the_name_of_another_is_not_accused(world):
    world.slice("a", 1000)
    world.run(0.2)
    path = page_of(world).parent
    identity, control = load_identity(path), world.control("a")
    os.close(world.locks.pop("a"))
    slices.remove(path)
    another = replace(identity, generation=8)
    _, world.locks["a"] = slices.create(world.root, another, replace(control, generation=8, policy=1))
    world.run(0.3)
    assert (world.control("a").forgeries, world.said) == (0, [])
    raise_limits(world)
    world.run(0.1)
    assert (world.control("a").forgeries, len(world.said)) == (1, 1)


def test_a_new_agent_ends_a_write_that_another_left_half_done_and_accuses_nobody(world):
    world.slice("a", 1000)
    poke(world, HEADER.sequence.offset, struct.pack("<I", 7))
    with pytest.raises(PageError):
        world.control("a")
    world.run(0.2)
    assert (world.device("a").core_limit, world.control("a").forgeries, world.said) == (1000, 0, [])


def test_a_slice_that_is_gone_is_not_made_again(world):
    world.slice("a", 1000)
    world.run(0.2)
    shutil.rmtree(page_of(world).parent)
    world.run(0.3)
    assert not page_of(world).parent.exists()
    assert world.said == []


def test_a_standard_error_that_is_full_does_not_hold_the_agent_up(monkeypatch):
    read, write = os.pipe()
    os.set_blocking(write, False)
    with os.fdopen(read), os.fdopen(write, "w") as full:
        monkeypatch.setattr("sys.stderr", full)
        assert aloud("weir: there is room")
        while True:
            try:
                os.write(write, bytes(4096))
            except BlockingIOError:
                break
        os.set_blocking(write, True)  # as a terminal or a pipe is
        assert not aloud("weir: there is none")


def test_a_standard_error_that_was_closed_before_the_start_takes_no_line(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    assert not aloud("weir: nobody hears")
