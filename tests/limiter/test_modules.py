"""The variables of modules and libraries are charged when these are loaded, by what their images say."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable

import pytest

from .conftest import CONTEXT, MIB, Compile, Machine, MakeSlice, Slice
from .kinds import assert_charged, assert_refused_past_the_limit, resting, small_slice
from .outside import in_use


@pytest.fixture
def slice_(machine: Machine, make_slice: MakeSlice) -> Slice:
    return small_slice(machine, make_slice)


WHAT_IS_CHARGED = {
    "whole pages": (("module:1048576", "module:8388608", "file:5000000"), 16),
    "small variables are the context's": (("module:1000",) * 20, 0),
    "a library": (("library:8388608",), 8),
    "unloaded": (("module:8388608", "library:8388608", "file:5000000", "free:0", "free:1", "free:2"), 0),
}


@pytest.mark.parametrize(("commands", "expected"), WHAT_IS_CHARGED.values(), ids=list(WHAT_IS_CHARGED))
def test_what_is_charged_is_what_the_card_gives(
    machine: Machine, slice_: Slice, commands: tuple[str, ...], expected: int
) -> None:
    assert_charged(machine, slice_, commands, expected * MIB)


@pytest.mark.parametrize("kind", ["module", "file", "library"])
def test_past_the_limit_every_kind_is_out_of_memory_and_works_again_after_a_free(
    machine: Machine, slice_: Slice, kind: str
) -> None:
    assert_refused_past_the_limit(machine, slice_, kind)


def test_a_module_goes_with_its_context(machine: Machine, slice_: Slice) -> None:
    slice_.update(memory_limit=2 * CONTEXT + 64 * MIB)
    idle = in_use(machine)
    with resting(machine, slice_, "context", "module:8388608", "destroycontext") as results:
        assert set(results) == {"0"}
        assert slice_.stats.devices[0].used == CONTEXT
        assert in_use(machine) - idle == CONTEXT


# ---- reading images ----

Reader = Callable[[bytes], int]


@pytest.fixture(scope="module")
def read(compile_program: Compile) -> Reader:
    """What image.c says of an image."""
    flags = ("-shared", "-fPIC")
    path = compile_program("image", output="libimage.so", sources=("image.c",), flags=flags, sanitized=False)
    library = ctypes.CDLL(str(path))
    library.weir_image_bytes.restype = ctypes.c_uint64
    return lambda image: int(library.weir_image_bytes(ctypes.create_string_buffer(image)))


def ptx(*declarations: str) -> bytes:
    return ("\n".join((".version 8.0", ".target sm_90", *declarations)) + "\n").encode()


def cubin(machine: int = 190, **sections: int) -> bytes:
    """An ELF file with these sections; none has bytes in it."""
    section, names, table = struct.Struct("<IIQQQQIIQQ"), b"\0", [bytes(64)]
    for name, size in sections.items():
        table.append(section.pack(len(names), 8, 3, 0, 0, size, 0, 0, 8, 0))
        names += name.replace("_", ".").encode() + b"\0"
    table.append(section.pack(0, 3, 0, 0, 64, len(names), 0, 0, 1, 0))
    counts = (64, 0, 0, 64, len(table), len(table) - 1)
    ident = b"\x7fELF\x02\x01\x01"
    header = struct.pack("<16sHHIQQQIHHHHHH", ident, 2, machine, 1, 0, 0, 64 + len(names), 0, *counts)
    return header + names + b"".join(table)


def fatbin(*payloads: bytes) -> bytes:
    entries = b"".join(struct.pack("<HHIII", 2, 257, 16, len(one), 0) + one for one in payloads)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


IMAGES = {
    "no variables": (ptx(".entry k() { ld.global.u32 %r1, [%rd1]; ret; }"), 0),
    "bytes": (ptx(".visible .global .align 8 .b8 a[1000];"), 1000),
    "words of two dimensions": (ptx(".global .u32 a[10][20];"), 800),
    "vectors, and several in one line": (ptx(".global .v4 .f32 a[2], b;"), 48),
    "with values": (ptx(".global .align 4 .u32 a[3] = {1, 2, 3};", ".global .f16x2 b;"), 16),
    "declared elsewhere": (ptx(".extern .global .align 8 .b8 a[];"), 0),
    "in a comment": (ptx("// .global .b8 a[1000];"), 0),
    "managed": (ptx(".global .attribute(.managed) .align 8 .b8 a[1000];"), 0),
    "a parameter": (ptx(".entry k(.param .u64 .ptr .global .align 8 p) { ret; }"), 0),
    "no PTX": (b".global .b8 a[1000];", 0),
    "a cubin": (cubin(_nv_global=5000, _nv_global_init=300, _text_k=70), 5300),
    "another machine's ELF": (cubin(62, _nv_global=5000), 0),
    "a cubin without sections": (cubin()[:40] + bytes(24), 0),
    "a fat binary": (fatbin(cubin(_nv_global=5000), ptx(".global .b8 a[6000];")), 6000),
    "a fat binary of what cannot be read": (fatbin(b"\x28\xb5\x2f\xfd" * 9), 0),
    "a fat binary that is cut": (fatbin(cubin(_nv_global=5000)[:70]), 0),
}


@pytest.mark.parametrize("case", IMAGES)
def test_an_image_says_how_much_its_variables_take(read: Reader, case: str) -> None:
    image, expected = IMAGES[case]
    assert read(image) == expected
