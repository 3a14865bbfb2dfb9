"""The kernel's own limits on device memory (cgroup v2, `dmem`, Linux 6.14): for which cards are there any?

The kernel can hold only what a driver registers with it as a region; NVIDIA's registers none yet, so Weir
looks and says what it found, and uses nothing. Reads one file, writes none.
"""

from __future__ import annotations

import re
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
_REGION = re.compile(r"(?P<name>\S+) (?P<bytes>\d+)")


def regions(root: Path = CGROUPS) -> dict[str, int] | None:
    """The bytes of each region, as `drm/0000:03:00.0/vram0`; None where the kernel has no such controller."""
    try:
        text = (root / "dmem.capacity").read_text()
    except OSError:
        return None
    found = map(_REGION.fullmatch, text.splitlines())
    return {one["name"]: int(one["bytes"]) for one in found if one}


def of_card(found: dict[str, int], pci_bus_id: str) -> list[str]:
    """The regions of the card at this address, which NVML writes with a domain of eight digits."""
    domain, _, rest = pci_bus_id.lower().partition(":")
    return [name for name in found if f"{domain[-4:]}:{rest}" in name.lower().split("/")]
