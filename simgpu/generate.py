"""Writes the lists of libcuda's and NVML's entry points that the simulated driver is built from.

The source is the CUDA headers themselves, so the list is as complete as they are: cuda.h declares every
exported symbol (cuMemAlloc, cuMemAlloc_v2, cuMemcpyHtoD_v2_ptds, …) and cudaTypedefs.h says which CUDA
version each came with. Both number a function's generations in the same order, so the two sorted lists are
zipped; a header where their lengths differ is refused.

The result is an X-macro list, one line a symbol. entry_points.c makes cuGetProcAddress's table of it and
unsimulated.c a function for each symbol that nobody wrote. nvml.h has versions in its names only, so NVML's
list is just its symbols, of all generations. What it does not do: know what is simulated; the
linker decides that. `python -m simgpu.generate CC [FLAG…]`, run by hatch_build.py, needs the flags that find
the headers, and nothing but the standard library.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

OUTPUT = Path(__file__).parent / "src/cuda/generated_entry_points.h"
NVML_OUTPUT = Path(__file__).parent / "src/nvml/generated_entry_points.h"

_HEADERS = "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n#include <cudaTypedefs.h>\n"
_NVML_HEADER = "#define NVML_NO_UNVERSIONED_FUNC_DEFS\n#include <nvml.h>\n"
_DECLARATION = re.compile(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(")
_TYPEDEF = re.compile(r"\(\s*\*\s*PFN_(cu[A-Z]\w*?)_v(\d+)(_ptsz|_ptds)?\s*\)")
_SYMBOL = re.compile(r"(?P<name>cu[A-Z]\w*?)(?:_v(?P<generation>\d+))?(?P<variant>_ptsz|_ptds)?")
_NVML_DECLARATION = re.compile(r"\bnvmlReturn_t\s+(nvml[A-Z]\w*)\s*\(")
_BANNER = """\
/*
 * Every entry point of libcuda: ENTRY(name, symbol, CUDA version it came with, per-thread default stream).
 * Sorted by name, then from the oldest to the newest. Written by simgpu/generate.py from cuda.h and
 * cudaTypedefs.h; not to be edited.
 */
"""
_NVML_BANNER = """\
/*
 * Every entry point of NVML that returns nvmlReturn_t, in each of its versions, sorted. Written by
 * simgpu/generate.py from nvml.h; not to be edited.
 */
"""


class HeaderError(Exception):
    """The CUDA headers do not fit together as this generator needs."""


@dataclass(frozen=True, order=True)
class EntryPoint:
    """One exported symbol, and what a program asks cuGetProcAddress for to get it."""

    name: str
    version: int
    per_thread: bool
    symbol: str


def preprocess(compiler: Sequence[str], source: str = _HEADERS) -> str:
    """Headers with every version of every function, as the C preprocessor leaves them."""
    command = [*compiler, "-E", "-P", "-x", "c", "-"]
    result = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if result.returncode:
        raise HeaderError(f"{source!r}: the preprocessor failed: {result.stderr.strip()}")
    return result.stdout


def entry_points(text: str) -> list[EntryPoint]:
    """Match symbols with versions, for each name and stream variant by their order."""
    symbols: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for symbol in dict.fromkeys(_DECLARATION.findall(text)):
        if match := _SYMBOL.fullmatch(symbol):
            key = match["name"], match["variant"] or ""
            symbols[key].append((int(match["generation"] or 1), symbol))
    versions: dict[tuple[str, str], set[int]] = defaultdict(set)
    for name, version, variant in _TYPEDEF.findall(text):
        versions[name, variant].add(int(version))
    found = []
    for key in symbols.keys() | versions.keys():
        if len(symbols[key]) != len(versions[key]):
            raise HeaderError(
                f"{''.join(key)}: cuda.h declares {sorted(symbols[key])}, cudaTypedefs.h {versions[key]}"
            )
        pairs = zip(sorted(symbols[key]), sorted(versions[key]), strict=True)
        found += [EntryPoint(key[0], version, bool(key[1]), symbol) for (_, symbol), version in pairs]
    return sorted(found)


def render(entries: Iterable[EntryPoint]) -> str:
    """The X-macro list."""
    lines = [f"ENTRY({one.name}, {one.symbol}, {one.version}, {int(one.per_thread)})" for one in entries]
    return _BANNER + "\n".join(lines) + "\n"


def nvml_list(text: str) -> str:
    """NVML's X-macro list."""
    symbols = sorted(set(_NVML_DECLARATION.findall(text)))
    if not symbols:
        raise HeaderError("nvml.h: it declares no function that this generator can find")
    return _NVML_BANNER + "".join(f"ENTRY({symbol})\n" for symbol in symbols)


def write(output: Path, text: str) -> None:
    """Bring a list up to date; an unchanged one keeps its time, so nothing is compiled again for it."""
    if not output.exists() or output.read_text() != text:
        partial = output.with_name(output.name + ".partial")
        partial.write_text(text)
        partial.replace(output)


def generate(compiler: Sequence[str]) -> None:
    """Bring both lists up to date."""
    write(OUTPUT, render(entry_points(preprocess(compiler))))
    write(NVML_OUTPUT, nvml_list(preprocess(compiler, _NVML_HEADER)))


if __name__ == "__main__":
    try:
        generate(sys.argv[1:])
    except HeaderError as error:
        sys.exit(f"weir: {error}")
