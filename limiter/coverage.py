"""Every function of the driver, with what is done about it: hooked, counted or refused, harmless; or unknown.

The hooks come from the limiter's own lists (src/hooks.h and what it includes), the functions from CUDA's
headers (headers.py), the harmless ones from the table in harmless.py. A symbol is one version and stream
variant of a function; all symbols of a function are looked at, for a program may ask for any of them. A hook
counts, whatever else is said of its function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from limiter import headers
from limiter.harmless import FAMILIES, Family

SOURCES = Path(__file__).parent / "src"
_HOOKS, _UNCOVERED = "WEIR_CUDA_HOOKS", "WEIR_UNCOVERED_HOOKS"


@dataclass(frozen=True)
class HookList:
    """One X-macro list of hooks. `what`: the comment above it; `counted`: not charged, counted or refused."""

    name: str
    what: str
    counted: bool
    symbols: tuple[str, ...]


@dataclass(frozen=True)
class Coverage:
    """The driver's symbols, and the two ways in which each is accounted for."""

    symbols: frozenset[str]
    hooks: tuple[HookList, ...]
    families: tuple[Family, ...] = FAMILIES
    cuda: str = ""  # the version of the headers

    @property
    def hooked(self) -> frozenset[str]:
        """Symbols in any hook list."""
        return frozenset(symbol for one in self.hooks for symbol in one.symbols)

    @property
    def harmless(self) -> frozenset[str]:
        """Functions in the table, by name."""
        return frozenset(name for family in self.families for name in family.functions)

    def unknown(self) -> set[str]:
        """Symbols about which nobody has said anything."""
        unhooked = self.symbols - self.hooked
        return {symbol for symbol in unhooked if headers.name_of(symbol) not in self.harmless}

    def stale(self) -> frozenset[str]:
        """What the lists name and no header has."""
        names = frozenset(headers.name_of(symbol) for symbol in self.symbols)
        return (self.hooked - self.symbols) | (self.harmless - names)

    def passing(self, family: Family) -> list[str]:
        """The functions of a family that have a symbol without a hook."""
        free = {headers.name_of(symbol) for symbol in self.symbols - self.hooked}
        return [name for name in family.functions if name in free]


def read(compiler: Sequence[str]) -> Coverage:
    """The coverage as the sources have it; `compiler` holds the flags that find CUDA's headers."""
    found = headers.lists([*compiler, f"-I{SOURCES}"], "hooks.h")
    text = "".join(path.read_text() for path in sorted(SOURCES.glob("*.h")))
    uncovered = set(headers.leaves(found, _UNCOVERED))
    hooks = (
        HookList(name, headers.comment_above(text, name), name in uncovered, tuple(found[name]))
        for name in headers.leaves(found, _HOOKS)
    )
    symbols = frozenset(headers.driver_symbols(compiler))
    return Coverage(symbols, tuple(hooks), cuda=headers.cuda_version(compiler))
