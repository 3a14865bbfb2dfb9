"""Fills of device memory are paced like launches, in every one of their variants."""

from __future__ import annotations

import subprocess
import sys
import time

import hatch_build
from limiter import headers
from limiter.pages import ControlDevice

from .conftest import SOURCES, Machine, MakeSlice, Slice

MS = 1_000_000
START = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
made, buffer = ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuInit(0); cuda.cuDevicePrimaryCtxRetain(ctypes.byref(made), 0); cuda.cuCtxSetCurrent(made)
assert cuda.cuMemAlloc_v2(ctypes.byref(buffer), ctypes.c_size_t(1 << 20)) == 0
word = ctypes.c_size_t
"""
FILLS = (
    START
    + """
for name in sys.argv[1:]:
    rows = [word(1024), 7, word(64), word(16)] if "2D" in name else [7, word(4096)]
    print(name, getattr(cuda, name)(buffer, *rows, *[None] * ("Async" in name)))
    cuda.cuCtxSynchronize()  # launches are counted when their batch is closed
"""
)


def run(machine: Machine, slice_: Slice, code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, env=machine.inside(slice_), capture_output=True, text=True, timeout=60, check=True
    ).stdout


def test_every_fill_counts_as_a_launch(machine: Machine, make_slice: MakeSlice) -> None:
    compiler = [*hatch_build.compiler(), *hatch_build.include_flags(), f"-I{SOURCES}"]
    fills = headers.lists(compiler, "hooks.h")["WEIR_FILL_HOOKS"]
    today = [name for name in fills if name.endswith(("_v2", "_v2_ptds", "Async", "Async_ptsz"))]
    slice_ = make_slice(ControlDevice(uuid=machine.uuids()[0], core_limit=5000))
    answers = dict(line.split() for line in run(machine, slice_, FILLS, *today).splitlines())
    assert answers == dict.fromkeys(today, "0")
    assert len(today) == slice_.stats.devices[0].launches == 24


GATED = START + "cuda.cuMemsetD8_v2(buffer, 7, word(4096)); cuda.cuCtxSynchronize()"


def test_a_fill_waits_as_a_launch_would(machine: Machine, make_slice: MakeSlice) -> None:
    opens = time.monotonic_ns() + 1000 * MS
    slice_ = make_slice(ControlDevice(uuid=machine.uuids()[0], core_limit=5000, gate=1, gate_deadline=opens))
    run(machine, slice_, GATED)
    assert time.monotonic_ns() >= opens
    assert slice_.stats.devices[0].throttled_periods >= 1
