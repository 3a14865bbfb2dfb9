"""The control page: written by one, read by many, and what its limits come to at a moment."""

import contextlib
import itertools
import struct
import threading
from dataclasses import replace

import pytest

from limiter import layout, pages, writer

MIB = 1 << 20
UUID = bytes(range(16))


def control_page(**changes):
    device = pages.ControlDevice(UUID, memory_limit=3000 * MIB, core_limit=3000, **changes)
    return pages.ControlPage(generation=7, devices=(device, device), policy=layout.Policy.BURST)


def test_a_control_page_reads_as_it_was_written(tmp_path):
    path = tmp_path / "control"
    writer.create_control(path, control_page())
    changed = control_page(slot_frame=20, slot_offset=5, slot_length=6, slot_deadline=2**63)
    writer.update_control(path, changed)
    assert replace(pages.read_control(path), sequence=0) == changed


def test_a_write_moves_the_sequence_on_by_two(tmp_path):
    path = tmp_path / "control"
    writer.create_control(path, control_page())
    for _ in range(3):
        writer.update_control(path, control_page())
    assert pages.read_control(path).sequence == 6


def test_a_write_that_died_half_way_is_torn_until_the_next_one(tmp_path):
    path = tmp_path / "control"
    writer.create_control(path, control_page())
    with path.open("r+b") as file:
        file.seek(layout.ControlHeader.sequence.offset)
        file.write(struct.pack("<I", 5))
    with pytest.raises(pages.TornReadError):
        pages.read_control(path)
    writer.update_control(path, control_page())
    assert pages.read_control(path).sequence == 6


def test_a_page_for_other_cards_is_not_written_over(tmp_path):
    path = tmp_path / "control"
    writer.create_control(path, control_page())
    with pytest.raises(pages.CorruptPageError):
        writer.update_control(path, replace(control_page(), devices=control_page().devices[:1]))


def test_a_page_is_not_written_through_a_link(tmp_path):
    writer.create_control(tmp_path / "elsewhere", control_page())
    (tmp_path / "control").symlink_to("elsewhere")
    with pytest.raises(pages.CorruptPageError):
        writer.update_control(tmp_path / "control", control_page())


def test_an_older_minor_version_reads_with_its_missing_fields_as_none(tmp_path):
    """A page made before leases were known: its device ends where they begin."""
    stride = layout.ControlDevice.lease_deadline.offset
    device = bytes(layout.ControlDevice(memory_limit=5, core_limit=4000))[:stride]
    header = layout.ControlHeader(
        magic=layout.CONTROL_MAGIC, major=1, header_size=48, device_count=1, device_stride=stride
    )
    path = tmp_path / "control"
    path.write_bytes(bytes(header)[:48].ljust(48, b"\0") + device)
    read = pages.read_control(path).devices[0]
    assert (read.memory_limit, read.core_limit, read.slot_deadline) == (5, 4000, 0)
    assert read.core_limit_at(1) == 4000


@pytest.mark.parametrize(
    ("fields", "memory", "cores"),
    [
        ({}, 100, 3000),
        ({"lease_deadline": 11, "lease_memory_limit": 40, "lease_core_limit": 1000}, 40, 1000),
        ({"lease_deadline": 10, "lease_memory_limit": 40, "lease_core_limit": 1000}, 100, 3000),
        ({"lease_deadline": 11, "lease_memory_limit": 400, "lease_core_limit": 9000}, 100, 3000),
        pytest.param(
            {"lease_deadline": 2**63, "lease_memory_limit": 40, "lease_core_limit": 1000},
            100,
            3000,
            id="noise",
        ),
        ({"loan_deadline": 11, "loan_core_limit": 8000}, 100, 8000),
        ({"loan_deadline": 10, "loan_core_limit": 8000}, 100, 3000),
        ({"loan_deadline": 11, "loan_core_limit": 2000}, 100, 3000),
        (
            {"loan_deadline": 11, "loan_core_limit": 8000, "lease_deadline": 11, "lease_core_limit": 500},
            100,
            500,
        ),
    ],
)
def test_the_limit_in_force(fields, memory, cores):
    device = pages.ControlDevice(UUID, memory_limit=100, core_limit=3000, **fields)
    assert (device.memory_limit_at(10), device.core_limit_at(10)) == (memory, cores)


def test_a_reader_never_sees_half_of_a_write(tmp_path):
    path = tmp_path / "control"
    wanted = [control_page(slot_offset=value, slot_length=value, unaccounted=value) for value in (1, 2**60)]
    writer.create_control(path, wanted[0])
    done = threading.Event()

    def write():
        for page in itertools.cycle(wanted):
            writer.update_control(path, page)
            if done.is_set():
                return

    thread = threading.Thread(target=write)
    thread.start()
    seen = []
    while len(seen) < 500:
        with contextlib.suppress(pages.TornReadError):
            seen.append(replace(pages.read_control(path), sequence=0))
    done.set()
    thread.join()
    assert all(page in wanted for page in seen)
