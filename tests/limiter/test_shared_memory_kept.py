"""Memory whose maker has let go of it, or died, is paid for while anybody or anything keeps it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading

import pytest

from .conftest import CONTEXT, LIMIT, MIB, ROOT, Machine, Slice
from .sharer import BIG, OUT_OF_MEMORY, Start, start, used

__all__ = ["start"]  # a fixture


def test_a_sparse_array_keeps_what_is_mapped_into_it(start: Start, slice_: Slice) -> None:
    sharer = start(slice_)
    sharer.do("sparse", f"create:{BIG}", "tile:0", "tile:0", "release:0")
    assert used(slice_) == 64
    assert sharer.ask(f"alloc:{LIMIT - CONTEXT}") == OUT_OF_MEMORY
    sharer.do("bare")
    assert used(slice_) == 64  # until it is destroyed, though the card has it back
    sharer.do("raze", f"alloc:{LIMIT - CONTEXT}")


def test_a_tile_that_cannot_be_mapped_is_kept_by_nobody(start: Start, slice_: Slice) -> None:
    sharer = start(slice_)
    sharer.do(f"create:{BIG}")
    assert sharer.ask("tile:0") != 0  # there is no array
    sharer.do("release:0")
    assert used(slice_) == 0


@pytest.mark.parametrize("seed", range(10))
def test_whoever_is_killed_what_the_other_holds_stays_paid_for_and_is_given_back(
    start: Start, slice_: Slice, seed: int
) -> None:
    chance = random.Random(seed)
    payer, guest = start(slice_), start(slice_)
    payer.do(f"create:{BIG}", "export:0", "send:1", f"alloc:{BIG}", "give:2", f"alloc:{BIG}")
    guest.do("recv")
    victim, survivor = (payer, guest) if seed % 2 else (guest, payer)
    threading.Timer(chance.random() * 0.002, victim.process.kill).start()
    imported = guest.attempt("import:0") and guest.attempt("shut:0")
    opened = guest.attempt("take")
    released = payer.attempt("shut:1") and payer.attempt("release:0")
    freed = payer.attempt("free:2")
    victim.end()
    held = (imported + opened if survivor is guest else 3 - released - freed) * BIG
    paid = (
        2 * BIG if survivor is guest and held else held
    )  # for all that the dead had lent, while any is held
    rest = LIMIT - CONTEXT - paid
    assert survivor.ask(f"alloc:{rest + 2 * MIB}") == OUT_OF_MEMORY
    assert slice_.stats.devices[0].used == CONTEXT + paid
    survivor.do(f"alloc:{rest}")
    survivor.end()
    last = start(slice_)
    last.do(f"alloc:{LIMIT - CONTEXT}")


@pytest.mark.parametrize("way", ["descriptors", "imported", "opened", "pool-opened"])
def test_a_program_that_collects_what_others_let_go_of_is_held(
    machine: Machine, slice_: Slice, way: str
) -> None:
    """The ways that are measured on a card."""
    slice_.update(memory_limit=2 * CONTEXT + 200 * MIB)
    result = subprocess.run(
        [sys.executable, ROOT / "benchmarks/shared_ways.py", way],
        env=machine.inside(slice_),
        input="",
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(result.stdout)
    room = (0 if "opened" in way else 2 * CONTEXT) + 200 * MIB  # without contexts, theirs is room too
    each = 2 * BIG if way == "pool-opened" else BIG  # in both processes
    assert (told["refused"], told["taken"]) == ("CUDA_ERROR_OUT_OF_MEMORY", room // each * BIG)
