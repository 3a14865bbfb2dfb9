"""Every entry point of libcuda exists, and cuGetProcAddress gives each caller the ABI it was compiled for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hatch_build
from simgpu import generate

TRACE = Path(__file__).parent / "data/cudart13_getproc_trace.txt"
LEGACY, PER_THREAD = 1, 2
SUCCESS, NOT_FOUND, VERSION_NOT_SUFFICIENT = 0, 1, 2
OPENGL_AND_FRIENDS = re.compile(r"cu(GL|EGL|VDPAU|Profiler|Graphics(GL|EGL|VDPAU|ResourceGetMappedEgl))")

# Run on the machine: answers requests [name, version, flags] with [result, status, symbol] of the _v2 call
# and [result, symbol] of the first version's. The symbols are told apart by their addresses.
ASK = """
import ctypes, json, sys
names, requests = json.load(sys.stdin)
cuda = ctypes.CDLL("libcuda.so.1")
symbols = {ctypes.cast(getattr(cuda, name), ctypes.c_void_p).value: name for name in names}
assert len(symbols) == len(names), "two names share an address"
def ask(name, version, flags):
    pfn, old, status = ctypes.c_void_p(1), ctypes.c_void_p(1), ctypes.c_int(-1)
    name, flags = name.encode(), ctypes.c_uint64(flags)
    result = cuda.cuGetProcAddress_v2(name, ctypes.byref(pfn), version, flags, ctypes.byref(status))
    first = cuda.cuGetProcAddress(name, ctypes.byref(old), version, flags)
    return [result, status.value, symbols.get(pfn.value), first, symbols.get(old.value)]
print(json.dumps([ask(*request) for request in requests]))
"""

Answer = tuple[int, int, str | None, int, str | None]
Ask = Callable[[list[tuple[str, int, int]]], list[Answer]]


@pytest.fixture(scope="module")
def entries() -> list[generate.EntryPoint]:
    compiler = [*hatch_build.compiler(), *hatch_build.include_flags()]
    return generate.entry_points(generate.preprocess(compiler))


@pytest.fixture
def ask(h200: Any, entries: list[generate.EntryPoint]) -> Ask:
    def answers(requests: list[tuple[str, int, int]]) -> list[Answer]:
        result = subprocess.run(
            [sys.executable, "-c", ASK],
            input=json.dumps([[entry.symbol for entry in entries], requests]),
            env=h200.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return [tuple(answer) for answer in json.loads(result.stdout)]

    return answers


def typedef(name: str, version: int, per_thread: bool, symbol: str) -> str:
    suffix = re.search(r"_pt[sd][sz]?$", symbol)
    return f"PFN_{name}_v{version}{suffix[0] if per_thread and suffix else ''}"


def check_types(pairs: set[tuple[str, str]], tmp_path: Path) -> None:
    """Let the compiler compare types: symbols as cuda.h declares them, pointers as cudaTypedefs.h does."""
    source = tmp_path / "types.c"
    lines = ["#define __CUDA_API_VERSION_INTERNAL", "#define CUDA_API_PER_THREAD_DEFAULT_STREAM"]
    lines += ["#include <cuda.h>", "#include <cudaTypedefs.h>"]
    lines += [
        f'_Static_assert(__builtin_types_compatible_p({pointer}, __typeof__(&{symbol})), "{symbol}");'
        for pointer, symbol in sorted(pairs)
    ]
    source.write_text("\n".join(lines) + "\n")
    command = [*hatch_build.compiler(), *hatch_build.include_flags(), "-fsyntax-only", str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def trace() -> list[tuple[str, int, int]]:
    line = re.compile(r"(\w*) ?ver=(\d+) flags=(\d+)")
    found = [line.match(text) for text in TRACE.read_text().splitlines() if not text.startswith("#")]
    return [(match[1], int(match[2]), int(match[3])) for match in found if match]


def test_every_symbol_of_the_header_is_exported(ask: Ask, entries: list[generate.EntryPoint]) -> None:
    assert len(entries) > 600
    assert ask([]) == []  # the program has looked each of them up


def test_versions_belong_to_symbols_of_the_same_type(
    entries: list[generate.EntryPoint], tmp_path: Path
) -> None:
    types = {typedef(one.name, one.version, one.per_thread, one.symbol): one.symbol for one in entries}
    assert len(types) == len(entries)
    check_types(set(types.items()), tmp_path)


def test_the_cuda_runtime_gets_what_it_asks_for(
    ask: Ask, entries: list[generate.EntryPoint], tmp_path: Path
) -> None:
    requests = trace()
    assert len(requests) == 440
    assert sum(flags == PER_THREAD for _, _, flags in requests) == 74
    pairs = set()
    has_variant = {one.name for one in entries if one.per_thread}
    for (name, version, flags), answer in zip(requests, ask(requests), strict=True):
        result, status, symbol, _, first = answer
        assert result == 0
        if not name or OPENGL_AND_FRIENDS.match(name):
            assert (status, symbol) == (NOT_FOUND, None), name
            continue
        assert status == SUCCESS, name
        assert symbol is not None
        assert first == symbol
        per_thread = flags == PER_THREAD and name in has_variant
        assert symbol.endswith(("_ptsz", "_ptds")) == per_thread, name
        assert re.fullmatch(rf"{name}(_v\d+)?(_ptsz|_ptds)?", symbol)
        pairs.add((typedef(name, version, per_thread, symbol), symbol))
    check_types(pairs, tmp_path)


@pytest.mark.parametrize(
    ("name", "version", "flags", "status", "symbol"),
    [
        ("cuMemAlloc", 2000, 0, SUCCESS, "cuMemAlloc"),
        ("cuMemAlloc", 3010, 0, SUCCESS, "cuMemAlloc"),
        ("cuMemAlloc", 3020, 0, SUCCESS, "cuMemAlloc_v2"),
        ("cuMemAlloc", 13000, PER_THREAD, SUCCESS, "cuMemAlloc_v2"),
        ("cuMemcpyHtoD", 6050, PER_THREAD, VERSION_NOT_SUFFICIENT, None),  # as an H200's driver, 580.159.04
        ("cuLaunchKernel", 6050, PER_THREAD, VERSION_NOT_SUFFICIENT, None),
        ("cuLaunchKernel", 4000, LEGACY, SUCCESS, "cuLaunchKernel"),
        ("cuMemAlloc", 3010, PER_THREAD, SUCCESS, "cuMemAlloc"),
        ("cuMemcpyHtoD", 7000, PER_THREAD, SUCCESS, "cuMemcpyHtoD_v2_ptds"),
        ("cuMemcpyHtoD", 7000, LEGACY, SUCCESS, "cuMemcpyHtoD_v2"),
        ("cuStreamGetCaptureInfo", 10010, 0, SUCCESS, "cuStreamGetCaptureInfo"),
        ("cuStreamGetCaptureInfo", 12020, PER_THREAD, SUCCESS, "cuStreamGetCaptureInfo_v2_ptsz"),
        ("cuStreamGetCaptureInfo", 13000, 0, SUCCESS, "cuStreamGetCaptureInfo_v3"),
        ("cuCtxCreate", 11030, 0, SUCCESS, "cuCtxCreate_v2"),
        ("cuCtxCreate", 11040, 0, SUCCESS, "cuCtxCreate_v3"),
        ("cuCtxCreate", 13000, 0, SUCCESS, "cuCtxCreate_v4"),
        ("cuCtxDestroy", 3020, 0, SUCCESS, "cuCtxDestroy"),
        ("cuCtxDestroy", 4000, 0, SUCCESS, "cuCtxDestroy_v2"),
        ("cuDevicePrimaryCtxRelease", 11000, 0, SUCCESS, "cuDevicePrimaryCtxRelease_v2"),
        ("cuEventElapsedTime", 12070, 0, SUCCESS, "cuEventElapsedTime"),
        ("cuEventElapsedTime", 12080, 0, SUCCESS, "cuEventElapsedTime_v2"),
        ("cuGetProcAddress", 11030, 0, SUCCESS, "cuGetProcAddress"),
        ("cuGetProcAddress", 12000, 0, SUCCESS, "cuGetProcAddress_v2"),
        ("cuMemAllocAsync", 11010, 0, VERSION_NOT_SUFFICIENT, None),
        ("cuMemAllocAsync", 0, 0, VERSION_NOT_SUFFICIENT, None),
        ("cuMemAlloc_v2", 13000, 0, NOT_FOUND, None),
        ("cuMemAllo", 13000, 0, NOT_FOUND, None),
        ("curl_easy_init", 13000, 0, NOT_FOUND, None),
        ("", 0, 0, NOT_FOUND, None),
    ],
)
def test_a_program_gets_the_newest_version_it_knows(
    ask: Ask, name: str, version: int, flags: int, status: int, symbol: str | None
) -> None:
    (answer,) = ask([(name, version, flags)])
    assert answer[:3] == (0, status, symbol)
    assert answer[3:] == ((0, symbol) if symbol else (500, None))  # CUDA_ERROR_NOT_FOUND before CUDA 12


@pytest.mark.parametrize(("version", "flags"), [(13010, 0), (-1, 0), (13000, 3), (13000, 4)])
def test_a_version_to_come_or_unknown_flags_are_invalid(ask: Ask, version: int, flags: int) -> None:
    (answer,) = ask([("cuInit", version, flags)])
    assert (answer[0], answer[3]) == (1, 1)


def test_what_is_not_simulated_says_so_once(h200: Any) -> None:
    calls = (
        "import ctypes; c = ctypes.CDLL('libcuda.so.1'); print([c.cuTexRefSetArray(0, 0, 0) for _ in 'ab'])"
    )
    result = h200.run(sys.executable, "-c", calls)
    assert result.stdout == "[801, 801]\n"  # CUDA_ERROR_NOT_SUPPORTED
    assert result.stderr == "simgpu: cuTexRefSetArray is not simulated\n"


def test_a_preloaded_library_is_not_what_the_driver_answers_with(h200: Any, tmp_path: Path) -> None:
    source, library = tmp_path / "preload.c", tmp_path / "preload.so"
    source.write_text("int cuMemAlloc_v2(void) { return 77; }\n")
    command = [*hatch_build.compiler(), "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    code = """
import ctypes
cuda, pfn = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
cuda.cuGetProcAddress_v2(b"cuMemAlloc", ctypes.byref(pfn), 12000, ctypes.c_uint64(0), None)
print(ctypes.CFUNCTYPE(ctypes.c_int)(pfn.value)())
"""
    result = h200.run(sys.executable, "-c", code, LD_PRELOAD=str(library))
    assert result.stdout == "3\n", result.stderr  # CUDA_ERROR_NOT_INITIALIZED, from the driver itself


# ---- the generator ----

ONE = "CUresult cuInit(unsigned int Flags);\n"


@pytest.mark.parametrize(
    "text",
    [ONE, ONE + "typedef CUresult (*PFN_cuInit_v2000)(int);\ntypedef CUresult (*PFN_cuInit_v3000)(int);\n"],
)
def test_headers_that_do_not_match_are_refused_by_name(text: str) -> None:
    with pytest.raises(generate.HeaderError, match="cuInit"):
        generate.entry_points(text)


def test_generations_are_matched_in_order_for_each_stream_variant() -> None:
    text = """
CUresult cuFoo_v2_ptsz(int); CUresult cuFoo_v10(int); CUresult cuFoo(int); CUresult cuFoo_v2(int);
typedef CUresult (*PFN_cuFoo_v12000)(int);
typedef CUresult ( *PFN_cuFoo_v9020)(int); typedef CUresult (*PFN_cuFoo_v7000_ptsz)(int);
typedef CUresult (*PFN_cuFoo_v2000)(int);
"""
    assert generate.render(generate.entry_points(text)).splitlines()[-4:] == [
        "ENTRY(cuFoo, cuFoo, 2000, 0)",
        "ENTRY(cuFoo, cuFoo_v2_ptsz, 7000, 1)",
        "ENTRY(cuFoo, cuFoo_v2, 9020, 0)",
        "ENTRY(cuFoo, cuFoo_v10, 12000, 0)",
    ]


def test_an_unchanged_list_is_not_written_again(tmp_path: Path) -> None:
    output = tmp_path / "list.h"
    generate.write(output, "one")
    first = output.stat()
    generate.write(output, "one")
    assert output.stat().st_mtime_ns == first.st_mtime_ns
    generate.write(output, "two")
    assert output.read_text() == "two"
    assert list(tmp_path.iterdir()) == [output]


def test_a_missing_header_is_named() -> None:
    with pytest.raises(generate.HeaderError, match=r"cuda\.h"):
        generate.preprocess([*hatch_build.compiler(), "-nostdinc"])
