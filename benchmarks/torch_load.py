"""A PyTorch program that keeps a card busy and counts what it got done: matmul, elementwise or training.

    python benchmarks/torch_load.py matmul --seconds 12 --start-at 1790000000

It warms up, waits for the wall-clock second `--start-at` (so that a pair measures the same window), works for
`--seconds` and prints one JSON line: steps done, their rate, wall seconds, and with `--profile` the part of
the time in which a kernel of this process ran, as CUPTI saw them (the union of their intervals: overlapping
streams count once). It knows nothing of Weir: it runs unchanged inside and outside a slice.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import torch

Step = Callable[[], Any]


def matmul() -> Step:
    """bf16 products of 4096 by 4096: about 0.2 ms each on an H200."""
    a, b = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return lambda: a @ b


def elementwise() -> Step:
    """Many short kernels over 32 MiB."""
    x = torch.randn(8 << 20, device="cuda")
    return lambda: x.mul_(1.0001).add_(0.0001)


def training() -> Step:
    """A step of a small transformer, with its optimizer; GPU-bound."""
    layer = torch.nn.TransformerEncoderLayer(
        1024, 16, 4096, batch_first=True, device="cuda", dtype=torch.bfloat16
    )
    model = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batch = torch.randn(16, 512, 1024, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(batch).square().mean().backward()
        optimizer.step()

    return step


KINDS = {"matmul": matmul, "elementwise": elementwise, "training": training}


def run(step: Step, seconds: float, ahead: int = 64) -> tuple[int, float]:
    """Call `step` for `seconds`, at most `ahead` calls in front of the card; steps done and seconds taken."""
    marks = [torch.cuda.Event() for _ in range(ahead)]
    started = time.monotonic()
    steps = 0
    while time.monotonic() - started < seconds:
        mark = marks[steps % ahead]
        if steps >= ahead:
            mark.synchronize()
        step()
        mark.record()
        steps += 1
    torch.cuda.synchronize()
    return steps, time.monotonic() - started


def busy_seconds(profile: Any) -> float:
    """The union of all kernels' intervals in a finished torch.profiler run, in seconds."""
    device = torch.autograd.DeviceType.CUDA
    spans = sorted(
        (e.time_range.start, e.time_range.end) for e in profile.events() if e.device_type == device
    )
    total, until = 0.0, 0.0
    for start, end in spans:
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total / 1e6


def main() -> None:
    """Measure one program and print its line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--start-at", type=float, default=0, help="wall-clock second at which to begin")
    parser.add_argument("--profile", type=float, default=0, help="then this many seconds under CUPTI")
    options = parser.parse_args()
    step = KINDS[options.kind]()
    run(step, 1.0)
    time.sleep(max(0.0, options.start_at - time.time()))
    steps, wall = run(step, options.seconds)
    line: dict[str, float] = {"steps": steps, "seconds": wall, "per_second": steps / wall}
    if options.profile:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            steps, wall = run(step, options.profile)
        line |= {"profiled_seconds": wall, "kernel_share": busy_seconds(profile) / wall}
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
