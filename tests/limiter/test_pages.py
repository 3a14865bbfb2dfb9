"""The pages' layout against the C header, and their readers against what a tenant may write."""

import ctypes
import os
import subprocess
from pathlib import Path

import pytest

from limiter import layout, pages
from tests.limiter.tenant import Tenant

HEADER = Path(layout.__file__).parent / "src/page.h"
MIB = 1 << 20


def fields_of(structure):
    return [name for name, *_ in structure._fields_]


def layout_by_python():
    lines = {}
    for name, structure in layout.STRUCTURES.items():
        lines[f"{name}"] = ctypes.sizeof(structure)
        for field in fields_of(structure):
            lines[f"{name}.{field}"] = getattr(structure, field).offset
    return lines


def layout_by_compiler(directory):
    prints = [f'printf("{name} %zu\\n", sizeof(struct {name}));' for name in layout.STRUCTURES]
    for name, structure in layout.STRUCTURES.items():
        prints += [
            f'printf("{name}.{field} %zu\\n", offsetof(struct {name}, {field}));'
            for field in fields_of(structure)
        ]
    source = directory / "layout.c"
    body = " ".join(prints)
    source.write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#include "{HEADER}"\nint main(void) {{ {body} }}\n'
    )
    program = directory / "layout"
    subprocess.run(["cc", "-std=gnu17", "-o", program, source], check=True)
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return {name: int(number) for name, number in (line.split() for line in output.splitlines())}


def test_every_size_and_offset_is_the_header_s(tmp_path):
    assert layout_by_python() == layout_by_compiler(tmp_path)


def constant(name, directory):
    source = directory / "constant.c"
    source.write_text(
        f'#include <stdio.h>\n#include "{HEADER}"\n'
        f'int main(void) {{ printf("%llu\\n", (unsigned long long)({name})); }}\n'
    )
    subprocess.run(["cc", "-std=gnu17", "-o", directory / "constant", source], check=True)
    return int(subprocess.run([directory / "constant"], check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize(
    "name",
    [
        "CONTROL_MAGIC",
        "STATS_MAGIC",
        "NO_LIMIT",
        "FULL_CORES",
        "DEADLINE_REACH",
        "MAX_DEVICES",
        "SLOTS",
        "INTENTS",
        "UNIT",
        "KINDS",
        "SHARED_OFFSET",
        "SHARED_NUMBERS",
        "WORD_SUM_SHIFT",
        "WORD_INTENT_SHIFT",
        "WORD_INTENT_MASK",
        "WORD_SEQUENCE_MASK",
    ],
)
def test_constants_are_the_header_s(name, tmp_path):
    assert getattr(layout, name) == constant(f"WEIR_{name}", tmp_path)


@pytest.mark.parametrize("kind", layout.Kind)
def test_kinds_are_the_header_s(kind, tmp_path):
    assert kind == constant(f"WEIR_KIND_{kind.name}", tmp_path)


@pytest.fixture
def tenant(tmp_path):
    return Tenant(tmp_path / "stats")


def test_a_new_page_is_empty_and_everybody_may_write_it(tenant):
    page = pages.read_stats(tenant.path)
    assert (page.generation, page.processes, page.devices[0].used) == (7, (), 0)
    assert tenant.path.stat().st_mode & 0o777 == 0o666


def test_the_living_are_shown_and_the_dead_are_left_out(tenant):
    tenant.sum(10 * MIB)
    tenant.attach(0, 6 * MIB, pid=41)
    tenant.attach(3, 4 * MIB, pid=42)
    with tenant.alive(3):
        page = pages.read_stats(tenant.path)
    assert page.devices[0].used == 4 * MIB
    assert [(one.slot, one.pid, one.devices[0].used) for one in page.processes] == [(3, 42, 4 * MIB)]
    assert page.dead == 1
    assert page.kind_bytes(0, layout.Kind.BUFFER) == 4 * MIB


def intent(**changes):
    return layout.Intent(**{"sequence": 5, "delta": 2 * MIB} | changes)


DEAD_IN_MID_OPERATION = {
    "before it was applied": (intent(), (0, 0), (0, 0), 0),
    "applied, by the card's word": (intent(), (16, 5), (0, 0), 2 * MIB),
    "applied, by a helper's note": (intent(applied=5), (0, 0), (0, 0), 2 * MIB),
    "applied and folded, by both words": (intent(), (16, 5), (16, 5), 0),
    "applied and folded, by notes": (intent(applied=5, folded=5), (0, 0), (0, 0), 0),
    "an earlier round of the same intent": (intent(applied=3, folded=3), (0, 0), (0, 0), 0),
    "a free that was applied": (intent(delta=-2 * MIB, applied=5), (0, 0), (0, 0), -2 * MIB),
    "finished": (intent(sequence=6, applied=5), (0, 0), (0, 0), 0),
    "on another card": (intent(device=1, applied=5), (0, 0), (0, 0), 0),
}


@pytest.mark.parametrize("case", DEAD_IN_MID_OPERATION)
def test_what_a_process_held_that_died_in_mid_operation(tenant, case):
    operation, card, own, pending = DEAD_IN_MID_OPERATION[case]
    tenant.sum(100 * MIB, *card)
    tenant.attach(2, 10 * MIB, intents=[operation], own=own)
    assert pages.read_stats(tenant.path).devices[0].used == (100 - 10) * MIB - pending


def test_a_reaper_that_died_half_way_is_not_subtracted_twice(tenant):
    """The reaper had taken the dead slot's bytes off the card's sum and not yet off the slot's."""
    last = layout.INTENTS - 1
    reaping = intent(delta=-10 * MIB, applied=5)
    tenant.sum(90 * MIB)
    tenant.attach(2, 10 * MIB, intents=[layout.Intent()] * last + [reaping])
    assert pages.read_stats(tenant.path).devices[0].used == 90 * MIB


def test_dead_bytes_beyond_the_sum_leave_nothing_not_less(tenant):
    tenant.sum(1 * MIB)
    tenant.attach(0, 9 * MIB)
    assert pages.read_stats(tenant.path).devices[0].used == 0


def test_garbage_in_every_byte_after_the_header_is_bounded(tenant):
    size = tenant.path.stat().st_size
    tenant.poke(ctypes.sizeof(layout.StatsHeader), b"\xff" * (size - ctypes.sizeof(layout.StatsHeader)))
    page = pages.read_stats(tenant.path)
    largest = (1 << 34) * layout.UNIT
    assert 0 <= page.devices[0].used <= largest
    assert page.devices[0].launches < 2**63
    assert all(held.used <= largest for one in page.processes for held in one.devices)


def test_a_name_that_is_not_text_is_still_read(tenant):
    tenant.poke(layout.StatsHeader.limiter_version.offset, b'\xff"\n' + bytes(29))
    assert pages.read_stats(tenant.path).limiter_version == '�"\n'


HOSTILE_HEADERS = {
    "wrong magic": ({"magic": 1}, pages.CorruptPageError),
    "another major": ({"major": 2}, pages.VersionMismatchError),
    "no cards": ({"device_count": 0}, pages.CorruptPageError),
    "too many cards": ({"device_count": 17}, pages.CorruptPageError),
    "cards beyond the file": ({"device_count": 16, "device_stride": 65536}, pages.CorruptPageError),
    "no stride": ({"device_stride": 0}, pages.CorruptPageError),
    "a huge header": ({"header_size": 2**32 - 8}, pages.CorruptPageError),
    "an odd header": ({"header_size": 305}, pages.CorruptPageError),
    "no slots": ({"slot_count": 0}, pages.CorruptPageError),
    "too many slots": ({"slot_count": 2**31}, pages.CorruptPageError),
    "slots too small": ({"slot_stride": 8}, pages.CorruptPageError),
    "slots too large": ({"slot_stride": 2**32 - 8}, pages.CorruptPageError),
    "slots unaligned": ({"slot_stride": 643}, pages.CorruptPageError),
}


@pytest.mark.parametrize("case", HOSTILE_HEADERS)
def test_a_header_that_cannot_be_is_refused(tenant, case):
    changes, error = HOSTILE_HEADERS[case]
    for name, value in changes.items():
        setattr(tenant.header, name, value)
    tenant.poke(0, tenant.header)
    with pytest.raises(error):
        pages.read_stats(tenant.path)


@pytest.mark.parametrize("size", [0, 7, 100, 304, 1000, 300_000])
def test_a_page_cut_short_is_corrupt(tenant, size):
    os.truncate(tenant.path, size)
    with pytest.raises(pages.CorruptPageError):
        pages.read_stats(tenant.path)


def test_a_fifo_in_the_page_s_place_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "stats")
    with pytest.raises(pages.CorruptPageError):
        pages.read_stats(tmp_path / "stats")


def test_the_cards_alone_can_be_read(tenant):
    tenant.sum(3 * MIB)
    page = pages.read_stats(tenant.path, processes=False)
    assert (page.devices[0].used, page.processes) == (3 * MIB, ())
