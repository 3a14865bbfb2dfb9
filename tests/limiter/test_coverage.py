"""Every function of the driver is hooked, counted or harmless; docs/coverage.md says which."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

import hatch_build
from limiter import coverage, docs, layout
from limiter.coverage import Coverage, HookList
from limiter.harmless import FAMILIES, Family
from limiter.headers import comment_above, declared, driver_symbols, name_of
from limiter.pages import ControlDevice

from .conftest import ROOT, Machine, MakeSlice

PACKAGES = Path(sysconfig.get_path("purelib")) / "nvidia"
HEADERS = {"CUDA 13": "cu13", "CUDA 12": "cuda_runtime"}


@pytest.fixture(scope="module")
def found() -> Coverage:
    return coverage.read([*hatch_build.compiler(), *hatch_build.include_flags()])


def symbols_of(headers: str) -> frozenset[str]:
    flag = f"-isystem{PACKAGES / HEADERS[headers] / 'include'}"
    return frozenset(driver_symbols([*hatch_build.compiler(), flag]))


@pytest.mark.parametrize("headers", HEADERS)
def test_no_function_of_the_headers_is_unknown(found: Coverage, headers: str) -> None:
    symbols = symbols_of(headers)
    assert {"cuMemAlloc_v2", "cuLaunchKernel_ptsz", "cuLinkComplete", "cuEGLStreamConsumerConnect"} <= symbols
    assert Coverage(symbols, found.hooks).unknown() == set(), (
        "say what they do: hooks.h or limiter/harmless.py"
    )


def test_nothing_is_listed_that_no_header_has(found: Coverage) -> None:
    everything = frozenset.union(*(symbols_of(headers) for headers in HEADERS))
    assert Coverage(everything, found.hooks).stale() == set()
    assert everything == found.symbols  # CUDA 12's are among CUDA 13's, as the page says


def test_the_page_is_fresh(found: Coverage) -> None:
    written = (ROOT / "docs/coverage.md").read_text()
    assert written == docs.page(found), "run: python -m limiter.docs > docs/coverage.md"


def test_each_harmless_function_has_one_reason() -> None:
    counts = Counter(name for family in FAMILIES for name in family.functions)
    assert [name for name, times in counts.items() if times > 1] == []


def test_a_hooked_function_is_hooked_in_all_its_variants(found: Coverage) -> None:
    names = {name_of(symbol) for symbol in found.hooked}
    assert {symbol for symbol in found.symbols - found.hooked if name_of(symbol) in names} == set()


def test_a_function_that_is_new_or_gone_is_told() -> None:
    hooks = (HookList("L", "what", False, ("cuA", "cuA_v2", "cuGone")),)
    symbols = frozenset({"cuA", "cuA_v2", "cuA_v2_ptsz", "cuB_v3", "cuC"})
    one = Coverage(symbols, hooks, (Family("f", "r", ("cuB", "cuLost")),))
    assert one.unknown() == {"cuA_v2_ptsz", "cuC"}
    assert one.stale() == {"cuGone", "cuLost"}


DECLARATIONS = {
    "plain": ("CUresult cuInit(unsigned int f);", {"cuInit"}),
    "over lines, with attributes": (
        "__attribute__((cuX(1)))\nCUresult\n  cuLinkComplete\n(void);",
        {"cuLinkComplete"},
    ),
    "after an inline function": ("static int cube(int a) { return cuCall(a); } int cuB(void);", {"cuB"}),
    "another return type": ("const char *cuName(int, int (*cuBack)(void));", {"cuName"}),
    "a type of pointers": (
        "typedef CUresult (*PFN_cuGo_v12030_ptsz)(int); int cuA(int);",
        {"PFN_cuGo_v12030_ptsz", "cuA"},
    ),
    "types and values are none": (
        "typedef enum { cuRed = (1) } cuColour; struct s { int (*cuF)(int); };",
        set(),
    ),
    "other libraries": ("int curl_easy_init(void); int cublasCreate(void);", set()),
}


@pytest.mark.parametrize("case", DECLARATIONS)
def test_what_counts_as_a_declaration(case: str) -> None:
    text, expected = DECLARATIONS[case]
    assert set(declared(text)) == expected


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("cuInit", "cuInit"),
        ("cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD"),
        ("cuStreamGetCaptureInfo_v3", "cuStreamGetCaptureInfo"),
    ],
)
def test_a_symbol_s_function_is_what_programs_ask_for(symbol: str, name: str) -> None:
    assert name_of(symbol) == name


def test_a_comment_belongs_to_the_list_right_below_it() -> None:
    text = "/* One\n * of them. */\n#define A(X) X(a)\n#define B(X) X(b)\n"
    assert comment_above(text, "A").split() == ["One", "*", "of", "them."]
    assert comment_above(text, "B") == ""


CALLS = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
made = ctypes.c_void_p()
cuda.cuInit(0); cuda.cuDevicePrimaryCtxRetain(ctypes.byref(made), 0); cuda.cuCtxSetCurrent(made)
for name in sys.argv[1:]:
    print(name, *(getattr(cuda, name)(*[None] * 5) for _ in range(2)))
"""
REFUSALS = {"WEIR_UNCOVERED_SHARED": "801"}


def test_refused_calls_have_their_list_s_error_and_one_line(
    found: Coverage, machine: Machine, make_slice: MakeSlice
) -> None:
    """They are refused before the driver sees them, so their arguments do not matter."""
    lists = {one.name: one.symbols for one in found.hooks}
    expected = {symbol: code for name, code in REFUSALS.items() for symbol in lists.get(name, ())}
    slice_ = make_slice(ControlDevice(uuid=machine.uuids()[0]), refuse_unknown=1)
    result = subprocess.run(
        [sys.executable, "-c", CALLS, *expected],
        env=machine.inside(slice_),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = {name: {*codes} for name, *codes in map(str.split, result.stdout.splitlines())}
    assert answers == {symbol: {code} for symbol, code in expected.items()}
    lines = result.stderr.splitlines()
    assert sorted(line.split()[1] for line in lines) == sorted(f"{symbol}:" for symbol in expected)
    assert slice_.stats.devices[0].denied_policy == 2 * len(expected)
    assert sum(slice_.stats.uncovered_calls) == 0


EXPORTS = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
made, pointer, fd = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int()
size = ctypes.c_size_t(2 << 20)
cuda.cuInit(0); cuda.cuDevicePrimaryCtxRetain(ctypes.byref(made), 0); cuda.cuCtxSetCurrent(made)
assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), size) == 0
print(cuda.cuMemGetHandleForAddressRange(ctypes.byref(fd), pointer, size, 1, ctypes.c_uint64(0)))
assert cuda.cuMemFree_v2(pointer) == 0
"""


@pytest.mark.parametrize("refuse", [0, 1])
def test_a_descriptor_for_dma_which_would_keep_freed_memory_is_counted_or_refused(
    machine: Machine, make_slice: MakeSlice, refuse: int
) -> None:
    slice_ = make_slice(ControlDevice(uuid=machine.uuids()[0]), refuse_unknown=refuse)
    command = [sys.executable, "-c", EXPORTS]
    result = subprocess.run(command, env=machine.inside(slice_), capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "801"  # also the simulated card's own answer: it has no DMA
    assert ("refused" in result.stderr, "not simulated" in result.stderr) == (bool(refuse), not refuse)
    assert slice_.stats.uncovered_calls[layout.Api.SHARED] == 1 - refuse
    assert slice_.stats.devices[0].denied_policy == refuse
    assert slice_.stats.devices[0].used == 0


RESTORES = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
for pairs in (0, 1):  # a CUcheckpointRestoreArgs: a pointer, how many cards to exchange, and zeros
    print(cuda.cuCheckpointProcessRestore(1, bytes(8) + bytes([pairs]) + bytes(55)))
"""


@pytest.mark.parametrize("refuse", [0, 1])
def test_a_restored_process_counts_only_where_it_changes_its_card(
    machine: Machine, make_slice: MakeSlice, refuse: int
) -> None:
    slice_ = make_slice(ControlDevice(uuid=machine.uuids()[0]), refuse_unknown=refuse)
    command = [sys.executable, "-c", RESTORES]
    subprocess.run(command, env=machine.inside(slice_), capture_output=True, check=True)
    assert slice_.stats.uncovered_calls[layout.Api.SHARED] == 1 - refuse
    assert slice_.stats.devices[0].denied_policy == refuse


LIMITS = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
made, size, table = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_void_p()
cuda.cuInit(0); cuda.cuDevicePrimaryCtxRetain(ctypes.byref(made), 0); cuda.cuCtxSetCurrent(made)
cuda.cuCtxGetLimit(ctypes.byref(size), 4)  # launches from the card that may be pending
now = size.value
print(*(cuda.cuCtxSetLimit(4, ctypes.c_size_t(value)) for value in (now, now * 2)))
cuda.cuGetExportTable(ctypes.byref(table), bytes(16))
"""


@pytest.mark.parametrize(("refuse", "answers"), [(0, "0 0"), (1, "0 215")])
def test_a_limit_of_unknown_cost_counts_only_where_it_is_raised(
    machine: Machine, make_slice: MakeSlice, refuse: int, answers: str
) -> None:
    slice_ = make_slice(ControlDevice(uuid=machine.uuids()[0]), refuse_unknown=refuse)
    result = subprocess.run(
        [sys.executable, "-c", LIMITS], env=machine.inside(slice_), capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == answers.split()
    calls = slice_.stats.uncovered_calls
    assert (calls[layout.Api.MEMORY], calls[layout.Api.TABLE]) == (1 - refuse, 1)
    assert [line for line in result.stderr.splitlines() if line.startswith("weir:")] == [
        "weir: cuCtxSetLimit: refused: the memory it takes cannot be accounted for"
    ][:refuse]
