"""The real sources of the exporter and of `weir top`: a root of slice directories, and a driver.

A root that is not there yet and a driver that does not answer yet are no reasons to refuse: the collectors
say so until they come. A simulated machine that nobody knows is refused at once.
"""

from __future__ import annotations

from pathlib import Path

from exporter.collectors import NvmlCollector
from exporter.slices import SlicesCollector
from weir.roots import box_root
from weir.simulation import open_nvml, simulated_machine


def open_sources(simulate: str | None, root: Path | None) -> tuple[SlicesCollector, NvmlCollector]:
    """The collectors for this root (None: the user's) and this machine (None: this host's driver)."""
    if simulate is not None:
        simulated_machine(simulate)
    return SlicesCollector(box_root(root, simulate)), NvmlCollector(lambda: open_nvml(simulate))
