"""The limiter: a C library preloaded into GPU programs, its page formats, and their Python side.

layout.py   the pages' structures, field by field as page.h has them
pages.py    both pages as frozen values; writer.py makes them and writes the control page
ledger.py   who holds what in the stats page, and who of them is alive
slices.py   slice directories: make, find, describe, remove
"""

from __future__ import annotations

from pathlib import Path

from weir.errors import HostError


def library_path() -> Path:
    """libweir.so as it was built into this package. Raises HostError where it was not."""
    path = Path(__file__).parent / "libweir.so"
    if not path.exists():
        raise HostError(
            f"{path}: the limiter is not built; `make native` compiles it (a C compiler is needed)"
        )
    return path
