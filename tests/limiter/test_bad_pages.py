"""Something else in the place of a page: memory is refused in one line; nobody waits or crashes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from limiter.pages import ControlDevice

from .conftest import MIB, Machine, MakeSlice, Slice

SpoilPage = Callable[[Path], object]


@pytest.fixture
def slice_(machine: Machine, make_slice: MakeSlice) -> Slice:
    """2 GiB of the first card."""
    return make_slice(ControlDevice(uuid=machine.uuids()[0], memory_limit=2048 * MIB, context_bytes=MIB))


def _pipe(page: Path) -> None:
    page.unlink()
    os.mkfifo(page)


def _link(page: Path) -> None:
    page.rename(page.with_name("elsewhere"))
    page.symlink_to("elsewhere")


def _directory(page: Path) -> None:
    page.unlink()
    page.mkdir()


SPOIL: dict[str, SpoilPage] = {
    "noise": lambda page: page.write_bytes(b"\xff" * 4096),
    "a pipe": _pipe,
    "a link": _link,
    "a directory": _directory,
}


@pytest.mark.parametrize("page", ["control", "rw/stats"])
@pytest.mark.parametrize("spoil", SPOIL.values(), ids=list(SPOIL))
def test_a_page_that_cannot_be_used_refuses_memory_in_one_line(
    machine: Machine, slice_: Slice, spoil: SpoilPage, page: str
) -> None:
    spoil(slice_.path / page)
    process = machine.start(slice_, "init", "retainprimary", "alloc:1")
    try:
        output, errors = process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert (process.returncode, output.split()[-1]) == (0, "2")
    assert errors.startswith(f"weir: {slice_.path}/{page}")
    assert errors.count("\n") == 1
