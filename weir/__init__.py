"""What two or more rooms of Weir need, and nothing else: errors, units, NVML, simulators, the command line.

This package imports no other room. Rooms add their commands to `weir` through entry points.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("weir")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0.0.0"
