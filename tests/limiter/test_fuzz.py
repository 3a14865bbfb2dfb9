"""Damaged pages: nobody crashes or waits, and what the limiter uses the agent can read.

What was found once is kept in `corpus/` and tried again each time, with a few new ones; `make soak` looks for
ten minutes, with sanitizers, and leaves what it finds in the directory that it names.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pytest

from limiter import layout
from limiter.pages import (
    ControlDevice,
    ControlPage,
    DeviceStats,
    PageError,
    TornReadError,
    read_control,
    read_stats,
)
from limiter.writer import update_control

from .conftest import Compile
from .mutation import Pages, damaged, good
from .test_ledger import LEDGER

CORPUS = Path(__file__).parent / "corpus"
BATCH = 200
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")


def corpus() -> list[Pages]:
    return [
        Pages(control.read_bytes(), control.with_suffix(".stats").read_bytes())
        for control in sorted(CORPUS.glob("*.control"))
    ]


@pytest.fixture(scope="module")
def opener(compile_program: Compile, soak: bool) -> Path:
    """The limiter's own way with pages."""
    flags = SANITIZED if soak else ()
    return compile_program("page_opener", sources=LEDGER, flags=flags)


def expect_bounded(directory: Path) -> tuple[bool, bool]:
    """Whether Python's readers take the two pages; all they give is in range. Raises what is no PageError."""
    taken = []
    for read, name in ((read_control, "control"), (read_stats, "rw/stats")):
        try:
            page = read(directory / name)
        except TornReadError:
            taken.append(True)
        except PageError:
            taken.append(False)
        else:
            taken.append(True)
            assert 1 <= len(page.devices) <= layout.MAX_DEVICES
            if read is read_stats:
                numbers = [getattr(one, field.name) for one in page.devices for field in fields(DeviceStats)]
                assert all(0 <= number < 2**63 for number in numbers)
    return taken[0], taken[1]


def expect_written(path: Path) -> None:
    """The writer refuses a damaged page, or what it wrote can be read."""
    page = ControlPage(generation=9, devices=(ControlDevice(bytes(16), memory_limit=5),))
    try:
        update_control(path, page)
    except PageError:
        return
    assert read_control(path).devices == page.devices


def try_out(opener: Path, cases: Sequence[Pages], directory: Path) -> None:
    """Each of them by the limiter and by Python, which must agree."""
    slices = [case.write(directory / str(number)) for number, case in enumerate(cases)]
    python = [expect_bounded(one) for one in slices]
    result = subprocess.run(
        [opener, *slices], capture_output=True, text=True, timeout=20 + BATCH, check=False
    )
    verdicts = result.stdout.splitlines()
    for one, verdict, (control, stats) in zip(slices, verdicts, python, strict=True):
        assert verdict in ("used", "refused"), f"{one}: {verdict}: {result.stderr}"
        assert verdict == "refused" or (control and stats), f"{one}: used, and Python cannot read it"
    for one in slices:
        expect_written(one / "control")


def test_damaged_pages_of_old_are_refused_or_used_by_all_alike(opener: Path, tmp_path: Path) -> None:
    cases = corpus()
    assert len(cases) > 10
    try_out(opener, cases, tmp_path)


def test_newly_damaged_pages_are_refused_or_used_by_all_alike(
    opener: Path, tmp_path: Path, soak: bool
) -> None:
    seed = time.time_ns() if soak else 1
    chance = random.Random(seed)
    seeds = [good(tmp_path, devices) for devices in (1, 2, layout.MAX_DEVICES)] + corpus()
    end = time.monotonic() + (600 if soak else 0)
    rounds = 0
    while rounds == 0 or time.monotonic() < end:
        cases = [damaged(chance, chance.choice(seeds)) for _ in range(BATCH)]
        try_out(opener, cases, tmp_path / "tried")
        rounds += 1
    print(f"{rounds * BATCH} pages, seed {seed}")
