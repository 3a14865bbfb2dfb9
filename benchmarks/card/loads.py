"""The programs that are measured: native ones, whose kernels have a known length, and PyTorch's.

Queues are 64 launches deep, and shorter where kernels are long, so that no queue outlasts the settling time
between two rows. All keep the card busy by themselves but those that wait, or that their host holds up.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.card.program import weir

TORCH = Path(__file__).resolve().parents[1] / "torch_load.py"
SMS = 132  # of an H200: one block on each


@dataclass(frozen=True)
class Load:
    """A program by its name in the tables."""

    name: str
    title: str
    arguments: tuple[str, ...]
    torch: bool = False
    fills: bool = True  # it keeps the card busy by itself, so NVML's utilisation is its GPU time
    overlaps: bool = False  # its kernels run side by side, so their lengths add up to more than GPU time

    @property
    def start(self) -> float:
        """Seconds that it may need until it works; counted for the budget."""
        return 12.0 if self.torch else 3.0

    @property
    def counts(self) -> str:
        """The key of what it counts as its work."""
        return "steps" if self.torch else "kernels"

    def command(self, every: float = 0.1) -> list[str]:
        """What to run; it works until SIGTERM and writes what it did every so many seconds."""
        program = [sys.executable, str(TORCH)] if self.torch else [weir(), "load"]
        return [*program, *self.arguments, "--report-every", f"{every:g}"]


def native(name: str, title: str, kernel_us: float, *more: str, overlaps: bool = False) -> Load:
    """A `weir load` of kernels of one length."""
    return Load(name, title, ("--kernel-us", f"{kernel_us:g}", *more), overlaps=overlaps)


def pytorch(name: str, title: str, fills: bool = True) -> Load:
    """A kind of torch_load.py."""
    return Load(name, title, (name,), torch=True, fills=fills)


ALL = (
    native("44us", "44 µs kernels, full queue", 44),
    native("1ms", "1 ms kernels, full queue", 1000, "--queue", "16"),
    native("20ms", "20 ms kernels, full queue", 20_000, "--queue", "8"),
    native("50ms", "50 ms kernels, full queue", 50_000, "--queue", "4"),
    native("persistent", "persistent kernels of 1 ms, a block on each SM", 1000, "--grid", str(SMS)),
    native("wait", "1 ms kernels, launch and wait", 1000, "--wait"),
    native("graph", "CUDA graphs of 1.6 ms", 100, "--graph", "16", "--queue", "16"),
    native("graph-100ms", "CUDA graphs of 100 ms", 1000, "--graph", "100", "--queue", "2"),
    native("cooperative", "cooperative launches of 1 ms", 1000, "--cooperative"),
    native("streams", "two streams, 1 ms kernels", 1000, "--streams", "2", overlaps=True),
    native("ptds", "per-thread default stream, 1 ms kernels", 1000, "--ptds"),
    pytorch("matmul", "PyTorch bf16 matmul"),
    pytorch("elementwise", "PyTorch elementwise", fills=False),
    pytorch("training", "PyTorch training step, AdamW"),
    pytorch("inference", "PyTorch inference that waits each step", fills=False),
    pytorch("training-cpu", "PyTorch training step, CPU-bound", fills=False),
)
THINKS = ("--think-us", "12")  # as PyTorch does between launches where the CPU sets the pace
LAUNCH_BOUND = (
    native("launch-bound/wait", "2 µs kernels, host 12 µs, a wait each 72", 2, *THINKS, "--wait-every", "72"),
    native("launch-bound/ahead", "2 µs kernels, host 12 µs, 1000 ahead", 2, *THINKS, "--queue", "2000"),
)
BY_NAME = {load.name: load for load in (*ALL, *LAUNCH_BOUND)}


def available(load: Load) -> bool:
    """Whether this interpreter can run it."""
    return not load.torch or importlib.util.find_spec("torch") is not None
