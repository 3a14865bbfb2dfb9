"""What one bare CUDA context costs on a card, before anything is measured on it.

The limiter charges this much when a context is made, before the driver takes it. reconcile.py corrects the
figure by what NVML shows.
"""

from __future__ import annotations

from weir.units import MIB

# NVML's figure for a process with a bare context; the H200's was measured (driver 580, CUDA 13.0).
_MEASURED = {"H200": 518 * MIB}
# Not measured: contexts grow with the number of multiprocessors, and 512 MiB is at the upper end. Too much is
# corrected within seconds; too little would let a slice start over its limit.
DEFAULT = 512 * MIB


def context_bytes(model: str) -> int:
    """Bytes for the card whose NVML name is `model`, as `NVIDIA H200`."""
    return next((size for name, size in _MEASURED.items() if name in model), DEFAULT)
