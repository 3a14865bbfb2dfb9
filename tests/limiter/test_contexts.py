"""Contexts that are made or let go of in ways that few programs use are charged like others."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from limiter.pages import ControlDevice
from simgpu.machines import LIBRARIES

from . import variant
from .conftest import CONTEXT, LIBRARY, MIB, Compile, Machine, MakeSlice, Run

CREATE = """
import ctypes, os, sys
cuda = ctypes.CDLL("libcuda.so.1")
made, held = ctypes.c_void_p(), ctypes.create_string_buffer(8)
answer = getattr(cuda, sys.argv[1])(ctypes.byref(made), 0, 0, 0, held)
print(answer, flush=True)
sys.stdin.readline()
print(cuda.cuCtxDestroy_v2(made), flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("function", ["cuGLCtxCreate_v2", "cuVDPAUCtxCreate_v2"])
@pytest.mark.parametrize(("limit", "answer"), [(1024 * MIB, "0"), (100 * MIB, "2")])
def test_a_context_for_graphics_is_charged(
    compile_program: Compile, make_slice: MakeSlice, function: str, limit: int, answer: str
) -> None:
    flags = ("-shared", "-fPIC", "-Wl,-soname,libcuda.so.1")
    driver = compile_program("graphics_driver", output="graphics/libcuda.so.1", flags=flags)
    slice_ = make_slice(ControlDevice(uuid=bytes(16), memory_limit=limit, context_bytes=CONTEXT))
    environment = {"LD_PRELOAD": variant.preload(LIBRARY), "WEIR_SLICE_DIR": str(slice_.path)}
    program = subprocess.Popen(
        [sys.executable, "-c", CREATE, function],
        env={**os.environ, **environment, "LD_LIBRARY_PATH": str(driver.parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # it says which functions this driver lacks
        text=True,
    )
    assert program.stdin
    assert program.stdout
    assert program.stdout.readline().strip() == answer
    assert slice_.stats.devices[0].used == (CONTEXT if answer == "0" else 0)
    program.stdin.write("\n")
    program.stdin.flush()
    program.stdout.readline()
    assert slice_.stats.devices[0].used == 0
    program.communicate("\n", timeout=30)


DETACH = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
made = ctypes.c_void_p()
cuda.cuInit(0)
for _ in range(3):  # more than would fit at once
    assert cuda.cuCtxCreate_v2(ctypes.byref(made), 0, 0) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(100 << 20)) == 0
    assert cuda.cuCtxDetach(made) == 0
"""


USERS = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
made, again, primary = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
cuda.cuInit(0)
steps = {
    "create": lambda: cuda.cuCtxCreate_v2(ctypes.byref(made), 0, 0),
    "attach": lambda: cuda.cuCtxAttach(ctypes.byref(again), 0) or again.value != made.value,
    "refused attach": lambda: cuda.cuCtxAttach(ctypes.byref(again), 1),
    "pop": lambda: cuda.cuCtxPopCurrent_v2(None),
    "push": lambda: cuda.cuCtxPushCurrent_v2(made),
    "detach": lambda: cuda.cuCtxDetach(made),
    "destroy": lambda: cuda.cuCtxDestroy_v2(made),
}
for step in sys.stdin:
    print(int(steps[step.strip()]()), flush=True)
"""
ATTACHED = ["create 0", "attach 0", "attach 0"]


@pytest.mark.parametrize(
    "steps",
    [
        [*ATTACHED, "detach 0", "detach 0", "detach 0"],
        [*ATTACHED, "refused attach 1", "detach 0", "detach 0", "detach 0"],
        [*ATTACHED, "destroy 0"],
        ["create 0", "push 0", "detach 0"],
        ["create 0", "pop 0", "detach 201", "push 0", "detach 0"],
        ["create 0", "attach 0", "pop 0", "detach 201", "push 0", "detach 0", "detach 0"],
    ],
    ids=[
        "the last user",
        "one who was refused",
        "destroyed",
        "on the stack twice",
        "refused",
        "one of two refused",
    ],
)
def test_a_context_is_charged_once_and_given_back_with_its_last_user(
    machine: Machine, make_slice: MakeSlice, steps: list[str]
) -> None:
    slice_ = make_slice(ControlDevice(machine.uuids()[0], memory_limit=1024 * MIB, context_bytes=CONTEXT))
    pipe = subprocess.PIPE
    program = subprocess.Popen(
        [sys.executable, "-c", USERS], env=machine.inside(slice_), stdin=pipe, stdout=pipe, text=True
    )
    assert program.stdin
    assert program.stdout
    for left, step in zip(reversed(range(len(steps))), steps, strict=True):
        name, _, answer = step.rpartition(" ")
        print(name, file=program.stdin, flush=True)
        assert (name, program.stdout.readline().strip()) == (name, answer)
        assert slice_.stats.devices[0].used == (CONTEXT if left else 0)
    program.communicate("", timeout=30)


def test_a_context_that_is_detached_is_given_back(machine: Machine, make_slice: MakeSlice) -> None:
    slice_ = make_slice(ControlDevice(machine.uuids()[0], memory_limit=1024 * MIB, context_bytes=CONTEXT))
    subprocess.run([sys.executable, "-c", DETACH], env=machine.inside(slice_), check=True, timeout=60)
    assert slice_.stats.devices[0].denied_limit == 0


GREEN = """
import ctypes, sys
from ctypes import byref, c_size_t, c_uint, c_uint64, c_void_p, create_string_buffer
cuda = ctypes.CDLL("libcuda.so.1")
card, parts, count = create_string_buffer(256), create_string_buffer(1024), c_uint(2)
description, greens, context = c_void_p(), [c_void_p(), c_void_p()], c_void_p()
cuda.cuInit(0)
assert cuda.cuDeviceGetDevResource(0, card, 1) == 0
assert cuda.cuDevSmResourceSplitByCount(parts, byref(count), card, None, 0, 16) == 0
assert cuda.cuDevResourceGenerateDesc(byref(description), parts, 1) == 0
for step in sys.stdin:
    kind, which = step.split()
    green = greens[int(which)]
    if kind == "create":
        print(cuda.cuGreenCtxCreate(byref(green), description, 0, 1), flush=True)
    elif kind == "alloc":
        assert cuda.cuCtxFromGreenCtx(byref(context), green) == cuda.cuCtxSetCurrent(context) == 0
        print(cuda.cuMemAlloc_v2(byref(c_uint64()), c_size_t(100 << 20)), flush=True)
    else:
        print(cuda.cuGreenCtxDestroy(green), flush=True)
"""


@pytest.mark.parametrize(("limit", "answer"), [(1024 * MIB, "0"), (100 * MIB, "2")])
def test_green_contexts_share_the_primary_one_and_the_last_takes_it_along(
    machine: Machine, make_slice: MakeSlice, limit: int, answer: str
) -> None:
    slice_ = make_slice(ControlDevice(machine.uuids()[0], memory_limit=limit, context_bytes=CONTEXT))
    pipe = subprocess.PIPE
    program = subprocess.Popen(
        [sys.executable, "-c", GREEN], env=machine.inside(slice_), stdin=pipe, stdout=pipe, text=True
    )
    assert program.stdin
    assert program.stdout
    steps = {"create 0": CONTEXT, "create 1": CONTEXT, "alloc 0": CONTEXT + 100 * MIB}
    steps |= {"destroy 0": CONTEXT + 100 * MIB, "destroy 1": 0}
    if answer != "0":
        steps = {"create 0": 0}
    for step, held in steps.items():
        print(step, file=program.stdin, flush=True)
        assert program.stdout.readline().strip() == answer
        assert slice_.stats.devices[0].used == held
    program.communicate("", timeout=30)


def test_a_context_that_ends_takes_nothing_of_one_that_has_got_its_handle(
    compile_program: Compile, run: Run
) -> None:
    told = run(compile_program("context_lives", sources=("objects.c",))).stdout.splitlines()
    assert told[:2] == ["at 0x1000 0", "at 0x1000 1"]  # set apart, and put back
    assert sorted(told[2:4]) == ["gone 1 0x1000 1", "gone 1 0x2000 2"]
    assert told[4:] == ["at 0x1000 3", "at 0x2000 0"]


def test_threads_that_retain_the_primary_context_at_once_are_charged_for_one(
    machine: Machine, make_slice: MakeSlice, compile_program: Compile, run: Run
) -> None:
    room = ControlDevice(machine.uuids()[0], memory_limit=CONTEXT, context_bytes=CONTEXT)
    program = compile_program("first_calls", flags=(f"-L{LIBRARIES}", "-l:libcuda.so.1"))
    for attempt in range(5):
        slice_ = make_slice(room, name=f"slice{attempt}")
        assert run(program, environment=machine.inside(slice_)).stdout.split() == ["0"] * 8
        card = slice_.stats.devices[0]
        assert (card.peak_bytes, card.denied_limit) == (CONTEXT, 0)


MANY = r"""
import ctypes
from ctypes import byref, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
code = b".version 7.0\n.target sm_70\n.address_size 64\n"
code += b".visible .entry weir_spin(.param .u64 ns)\n{\nret;\n}\n"
ns = c_uint64(5_000_000)
parameters = (c_void_p * 1)(ctypes.addressof(ns))
cuda.cuInit(0)
for _ in range(12):
    context, module, function = c_void_p(), c_void_p(), c_void_p()
    assert cuda.cuCtxCreate_v2(byref(context), 0, 0) == 0
    assert cuda.cuModuleLoadData(byref(module), code) == 0
    assert cuda.cuModuleGetFunction(byref(function), module, b"weir_spin") == 0
    for _ in range(4):
        assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, parameters, None) == 0
    assert cuda.cuCtxSynchronize() == 0
"""


def test_a_program_is_charged_for_its_kernels_in_however_many_contexts(
    machine: Machine, make_slice: MakeSlice
) -> None:
    slice_ = make_slice(ControlDevice(machine.uuids()[0], core_limit=9000, context_bytes=CONTEXT))
    subprocess.run([sys.executable, "-c", MANY], env=machine.inside(slice_), check=True, timeout=60)
    card = slice_.stats.devices[0]
    assert (card.launches, card.hook_errors) == (48, 0)
    assert card.gpu_time > 48 * 5_000_000 * 3 // 4  # a context's first launch may count as loading code
