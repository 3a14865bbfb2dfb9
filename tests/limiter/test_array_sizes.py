"""Arrays take what an H200 gave them: the simulated card and the limiter say so, each by its own formula.

The figures are measured ones: MiB of the card (docs/decisions/what-the-card-charges.md), and what the driver
said that deferred arrays need, in steps of 64 KiB (docs/benchmarks/h200-arrays.csv).
"""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from limiter.pages import ControlDevice

from .conftest import CONTEXT, MIB, ROOT, Compile, Machine, MakeSlice, Slice
from .outside import NVML

PROGRAM = "array_shapes"
BYTE, HALF, FLOAT = 0x01, 0x10, 0x20  # enum CUarray_format
LAYERED, CUBE, VIDEO = 0x001, 0x004, 0x100


class Array(NamedTuple):
    width: int
    height: int = 0
    depth: int = 0
    format: int = FLOAT
    channels: int = 1
    flags: int = 0
    levels: int = 0
    count: int = 1

    def __str__(self) -> str:
        return ",".join(map(str, self))


def square(side: int, count: int = 1, levels: int = 0) -> Array:
    """Of texels of four floats."""
    return Array(side, side, channels=4, count=count, levels=levels)


HIGH = Array(256, 320, channels=4)  # 1.5 MiB
MEASURED = {
    "small ones": (
        (square(16), 2),
        (square(16, 64), 0),
        (square(16, 512), 2),
        (square(64, 64), 4),
        (square(200, 16), 14),
        (square(64, 16, levels=7), 0),
    ),
    "of 1 MiB": ((square(256, 16), 16),),
    "of 300 x 300": ((square(300, 8), 16),),
    "of 1000 x 1000": ((square(1000), 16),),
    "of 1025 x 1025": ((square(1025), 20),),
    "of 2048 x 2048": ((square(2048), 64),),
    "rows that are no multiple of 64 bytes": ((Array(4097, 1000, format=BYTE), 6),),
    "one dimension": ((Array(100_000), 4), (Array(100_000, count=16), 64)),
    "a box of 100": ((Array(100, 100, 100), 6),),
    "a box of 200": ((Array(200, 200, 200), 34),),
    "a box of 17 planes": ((Array(256, 256, 17), 8),),
    "100 layers of 100 x 100": ((Array(100, 100, 100, flags=LAYERED), 6),),
    "a box of 129": ((Array(129, 129, 129), 12),),
    "129 layers of 129 x 129": ((Array(129, 129, 129, flags=LAYERED), 20),),
    "a cubemap": ((Array(128, 128, 6, channels=4, flags=CUBE), 2),),
    "a mipmapped array of 2048 x 2048": ((square(2048, levels=12), 86),),
    "a mipmapped array of 1000 x 1000": ((square(1000, levels=10), 22),),
    "a mipmapped cubemap": ((Array(128, 128, 6, channels=4, flags=CUBE, levels=8), 4),),
    "mipmapped arrays of 64 x 64": ((square(64, 23, levels=7), 2), (square(64, levels=7), 2)),
    "one of 1.5 MiB beside small ones": ((square(64), 2), (HIGH, 0), (square(64, 7), 0)),
    "texels of different sizes": (
        (square(64), 2),
        (Array(64, 64), 2),
        (square(64), 0),
        (Array(64, 64, 0, HALF, 2), 0),
        (Array(64, 64, 0, BYTE), 2),
        (Array(64, 64, 0, BYTE, 2), 2),
        (Array(64, 64, 0, FLOAT, 2), 2),
    ),
}
LARGE = {name: rows[0] for name, rows in MEASURED.items() if rows[0][1] > 2 and rows[0][0].count == 1}


@pytest.fixture
def slice_(machine: Machine, make_slice: MakeSlice) -> Slice:
    machine.compile_program(PROGRAM, flags=NVML)
    return make_slice(ControlDevice(uuid=machine.uuids()[0], memory_limit=8 << 30, context_bytes=CONTEXT))


SIMULATED = {BYTE, 0x02, 0x03, 0x08, 0x09, 0x0A, HALF, FLOAT}
STEP = 65536


def test_arrays_need_what_an_h200_named(machine: Machine, compile_program: Compile) -> None:
    with (ROOT / "docs/benchmarks/h200-arrays.csv").open() as file:
        rows = [tuple(map(int, row)) for row in list(csv.reader(file))[1:]]
    assert len(rows) > 1000
    result = subprocess.run(
        [compile_program("array_needs", sources=["array_size.c"])],
        input="".join(",".join(map(str, row[:-1])) + "\n" for row in rows),
        env=machine.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    answers = [tuple(map(int, line.split(","))) for line in result.stdout.splitlines()]
    for row, (card, least, most) in zip(rows, answers, strict=True):
        named = row[-1]
        assert (least, (most + STEP - 1) // STEP * STEP) == (most, named), row
        assert card == (named if row[3] in SIMULATED and not row[5] & VIDEO else 0), row


def run(machine: Machine, slice_: Slice, *arguments: object) -> list[tuple[int, ...]]:
    """The numbers of each line that it prints."""
    process = machine.start(slice_, *map(str, arguments), name=PROGRAM)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    return [tuple(map(int, line.split())) for line in output.splitlines()]


@pytest.mark.parametrize("rows", MEASURED.values(), ids=list(MEASURED))
def test_arrays_take_and_are_charged_what_an_h200_gave_them(
    machine: Machine, slice_: Slice, rows: Sequence[tuple[Array, int]]
) -> None:
    *taken, rest = run(machine, slice_, "do", *(array for array, _ in rows))
    assert taken == [(0, size * MIB, size * MIB) for _, size in rows]
    assert rest == (CONTEXT, CONTEXT)


@pytest.mark.parametrize(("array", "size"), LARGE.values(), ids=list(LARGE))
def test_an_array_is_refused_at_the_call_where_its_padding_does_not_fit(
    machine: Machine, slice_: Slice, array: Array, size: int
) -> None:
    slice_.update(memory_limit=CONTEXT + (size - 2) * MIB)
    assert run(machine, slice_, "do", array) == [(2, 0, 0), (CONTEXT, CONTEXT)]
    slice_.update(memory_limit=CONTEXT + size * MIB)
    assert run(machine, slice_, "do", array)[0] == (0, size * MIB, size * MIB)
    card = slice_.stats.devices[0]
    assert (card.denied_limit, card.denied_device, card.hook_errors) == (1, 0, 0)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_arrays_of_any_shape_are_charged_what_they_take(machine: Machine, slice_: Slice, seed: int) -> None:
    slice_.update(memory_limit=CONTEXT + 128 * MIB)
    [(refused,)] = run(machine, slice_, "random", seed, 400)
    assert refused > 0


def test_arrays_larger_than_half_a_page_are_charged_right_whatever_a_neighbour_makes_the_card_say(
    compile_program: Compile,
) -> None:
    readings = compile_program("pack_readings", sources=["packs.c"])
    for seed in range(8):
        subprocess.run([readings, str(seed), "20000"], check=True, timeout=60)
