"""The kernel's own limits on device memory (cgroup v2, `dmem`, Linux 6.14): for which cards, and what holds.

The kernel can hold only what a driver registers with it as a region. NVIDIA's registers its cards since the
releases for CUDA 13.4 and none before (docs/decisions/backends.md); to set a limit there is root's, by
`nvidia-smi memory-limits`. So Weir looks, says what it found, and uses nothing. Reads files, writes none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True)
class Region:
    """Memory of a card as this process's cgroup may take it; `limit` is None where there is none."""

    name: str
    capacity: int
    limit: int | None = None
    used: int = 0


def regions(root: Path = CGROUPS, membership: Path = MEMBERSHIP) -> list[Region] | None:
    """Every region, as `drm/0000:03:00.0/vram0`; None where the kernel has no such controller."""
    capacities = _values(root / "dmem.capacity")
    if capacities is None:
        return None
    return [_region(name, capacity, root, membership) for name, capacity in capacities.items()]


def of_card(found: list[Region], pci_bus_id: str) -> list[Region]:
    """The regions of the card at this address, which NVML writes with a domain of eight digits."""
    domain, _, rest = pci_bus_id.lower().partition(":")
    return [one for one in found if f"{domain[-4:]}:{rest}" in one.name.lower()]


def _region(name: str, capacity: int, root: Path, membership: Path) -> Region:
    """With the lowest limit on the way up, and what the nearest cgroup that is counted holds."""
    limit: int | None = None
    used: int | None = None
    for directory in _cgroups(root, membership):
        held = (_values(directory / "dmem.max") or {}).get(name)
        limit = held if limit is None else min(limit, limit if held is None else held)
        used = (_values(directory / "dmem.current") or {}).get(name) if used is None else used
    return Region(name, capacity, limit, used or 0)


def _cgroups(root: Path, membership: Path) -> Iterator[Path]:
    """This process's cgroup and those above it."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    inside = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), None)
    if inside is not None:
        own = root / inside
        yield from (own, *(one for one in own.parents if one.is_relative_to(root)))


def _values(file: Path) -> dict[str, int] | None:
    """Lines of a name and a number; `max` is none. None where there is no such file."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return None
    pairs = (line.split(" ") for line in lines)
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}
