"""Reads C headers as far as the coverage page needs: which functions they declare, and our own X-macro lists.

The C preprocessor does the including and the expanding; what is left is cut into tokens and walked with its
brackets counted, so neither line breaks, attributes nor inline functions matter. CUDA's headers for OpenGL,
EGL and VDPAU include those systems' own: where these are not installed empty ones do, for only names are
wanted.

What it does not do: types, parameters, or a compiler's job of telling whether a header is right.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

_TOKEN = re.compile(r'[A-Za-z_]\w*|\d\w*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\S')
_FUNCTION = re.compile(r"cu[A-Z]\w*")
_POINTER = re.compile(r"PFN_cu[A-Z]\w*")
_LIST = re.compile(r"#define (WEIR_\w+)\(X\) (.*)")
_SYSTEMS = ("GL/gl.h", "EGL/egl.h", "EGL/eglext.h", "vdpau/vdpau.h", "cudaProfiler.h")
_CUDA = ("cuda", "cudaGL", "cudaEGL", "cudaVDPAU", "cudaTypedefs", "cudaProfilerTypedefs")
# Every version of every function under its own name, as the driver exports it.
_ALL_VERSIONS = "#define __CUDA_API_VERSION_INTERNAL\n"


class HeaderError(Exception):
    """The preprocessor refused a header."""


def preprocess(compiler: Sequence[str], source: str, *options: str) -> str:
    """What the preprocessor makes of `source`; `compiler` holds the flags that find the headers."""
    with tempfile.TemporaryDirectory() as empty:
        for header in _SYSTEMS:
            path = Path(empty, header)
            path.parent.mkdir(exist_ok=True)
            path.touch()
        command = [*compiler, "-idirafter", empty, "-E", "-P", *options, "-x", "c", "-"]
        result = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if result.returncode:
        raise HeaderError(f"{source!r}: the preprocessor failed: {result.stderr.strip()}")
    return result.stdout


def declared(text: str) -> Iterator[str]:
    """The driver's functions that preprocessed text declares, and PFN_… for each that it has a type for."""
    depth, typedef = 0, False
    words = _TOKEN.findall(text)
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word in "({[":
            depth += 1
        elif word in ")}]":
            depth -= 1
        elif depth == 0 and word == ";":
            typedef = False
        elif word == "typedef":
            typedef = True
        elif (typedef and _POINTER.fullmatch(word)) or (
            following == "(" and not depth and not typedef and _FUNCTION.fullmatch(word)
        ):
            yield word


def driver_symbols(compiler: Sequence[str]) -> set[str]:
    """Every symbol of libcuda that CUDA's headers know, versions and stream variants included.

    A function that they have only a pointer type for is there by its name.
    """
    includes = "".join(f"#include <{name}.h>\n" for name in _CUDA)
    found = set(declared(preprocess(compiler, _ALL_VERSIONS + includes)))
    symbols = {symbol for symbol in found if not symbol.startswith("PFN_")}
    typed = {name_of(pointer.removeprefix("PFN_")) for pointer in found - symbols}
    return symbols | (typed - {name_of(symbol) for symbol in symbols})


def cuda_version(compiler: Sequence[str]) -> str:
    """Which CUDA the headers are of, as `13.0`."""
    number = int(preprocess(compiler, "#include <cuda.h>\nCUDA_VERSION\n").split()[-1])
    return f"{number // 1000}.{number % 1000 // 10}"


def name_of(symbol: str) -> str:
    """What a program asks for: the symbol without its version and stream variant."""
    return re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", symbol)


def lists(compiler: Sequence[str], header: str) -> dict[str, list[str]]:
    """The X-macro lists that a header of ours defines: what each names in turn, symbols or other lists."""
    found = {}
    for line in preprocess(compiler, f'#include "{header}"\n', "-dM").splitlines():
        if match := _LIST.fullmatch(line):
            found[match[1]] = list(_entries(match[2]))
    return found


def _entries(body: str) -> Iterator[str]:
    depth = 0
    words = _TOKEN.findall(body)
    for index, word in enumerate(words):
        if depth == 0 and word == "X":
            yield words[index + 2]
        elif depth == 0 and word.startswith("WEIR_"):
            yield word
        depth += (word in "({[") - (word in ")}]")


def leaves(found: dict[str, list[str]], name: str) -> Iterator[str]:
    """The lists of symbols that make up a list, in order; an empty one is none."""
    if any(entry in found for entry in found[name]):
        for entry in found[name]:
            yield from leaves(found, entry)
    elif found[name]:
        yield name


def comment_above(text: str, name: str) -> str:
    """The comment that stands right above a macro's definition, as one line; empty where there is none."""
    before = text[: text.index(f"#define {name}(")].rstrip()
    return " ".join(before[before.rindex("/*") + 2 : -2].split()) if before.endswith("*/") else ""
