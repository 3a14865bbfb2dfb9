"""A PyTorch program that keeps a card busy and counts what it got done, in one of the ways of KINDS.

    python benchmarks/torch_load.py matmul --seconds 12 --start-at 1790000000
    python benchmarks/torch_load.py matmul --report-every 0.1

It warms up, waits for the wall-clock second `--start-at` (so that a pair measures the same window), works
for `--seconds` and prints one JSON line: steps done, their rate, wall seconds, and with `--profile` the
part of the time in which a kernel of this process ran, as CUPTI saw them (the union of their intervals:
overlapping streams count once). With `--report-every` it works until SIGTERM and writes a line each time,
`at` on CLOCK_MONOTONIC; a line `profile SECONDS` on its standard input asks for such a part. It knows
nothing of Weir: it runs unchanged inside and outside a slice."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
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


def training_on_host() -> Step:
    """A step of many tiny layers: the CPU needs longer to launch it than the card to do it."""
    layers = [torch.nn.Linear(64, 64, device="cuda") for _ in range(48)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
    batch = torch.randn(64, 64, device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(batch).square().mean().backward()
        optimizer.step()

    return step


def inference() -> Step:
    """A small transformer's forward pass, waited for each time."""
    layer = torch.nn.TransformerEncoderLayer(
        512, 8, 2048, batch_first=True, device="cuda", dtype=torch.bfloat16
    )
    model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).eval()
    batch = torch.randn(8, 128, 512, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        with torch.inference_mode():
            model(batch)
        torch.cuda.synchronize()

    return step


KINDS = {
    "matmul": matmul,
    "elementwise": elementwise,
    "training": training,
    "training-cpu": training_on_host,
    "inference": inference,
}


def stepping(step: Step, ahead: int) -> Iterator[int]:
    """Call `step` each time, at most `ahead` calls in front of the card; how often it was called by then."""
    marks = [torch.cuda.Event() for _ in range(ahead)]
    for steps in itertools.count():
        mark = marks[steps % ahead]
        if steps >= ahead:
            mark.synchronize()
        step()
        mark.record()
        yield steps + 1


def run(step: Step, seconds: float, ahead: int = 64) -> tuple[int, float]:
    """Call `step` for `seconds`, at most `ahead` calls in front of the card; steps done and seconds taken."""
    calls = stepping(step, ahead)
    started = time.monotonic()
    steps = 0
    while time.monotonic() - started < seconds:
        steps = next(calls)
    torch.cuda.synchronize()
    return steps, time.monotonic() - started


def profiled(step: Step, seconds: float) -> dict[str, float]:
    """The part of so many seconds in which a kernel of this process ran, by CUPTI, and the steps done."""
    torch.cuda.synchronize()  # kernels of steps before these would be counted with them
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        steps, wall = run(step, seconds)
    share = busy_seconds(profile) / wall
    return {"profiled_seconds": wall, "profiled_steps": steps, "kernel_share": share}


def work_on(step: Step, every: float, ahead: int = 8) -> None:
    """Work until SIGTERM, at most `ahead` steps in front of the card; report, and profile when asked."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    asked: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=lambda: [asked.put(line) for line in sys.stdin], daemon=True).start()
    calls, due = stepping(step, ahead), time.monotonic()
    while not stopped.is_set():
        steps = next(calls)
        if (now := time.monotonic()) >= due:
            due = now + every
            print(json.dumps({"phase": "running", "at": now, "steps": max(0, steps - ahead)}), flush=True)
            if not asked.empty():
                seconds = float(asked.get().split()[1])
                print(json.dumps({"phase": "profiled", **profiled(step, seconds)}), flush=True)
    torch.cuda.synchronize()


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


def seconds(text: str) -> float:
    """A time, 0 or more. Raises ArgumentTypeError."""
    with contextlib.suppress(ValueError):
        if 0 <= (value := float(text)) < float("inf"):
            return value
    raise argparse.ArgumentTypeError(f"{text or ascii(text)}: not allowed; seconds from 0 on")


def main() -> None:
    """Measure one program and print its line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--seconds", type=seconds, default=12)
    parser.add_argument("--start-at", type=seconds, default=0, help="wall-clock second at which to begin")
    parser.add_argument("--profile", type=seconds, default=0, help="then this many seconds under CUPTI")
    parser.add_argument(
        "--report-every", type=seconds, help="work until SIGTERM, a line every so many seconds"
    )
    options = parser.parse_args()
    step = KINDS[options.kind]()
    run(step, 1.0)
    if options.report_every:
        work_on(step, options.report_every)
        return
    time.sleep(max(0.0, options.start_at - time.time()))
    steps, wall = run(step, options.seconds)
    line: dict[str, float] = {"steps": steps, "seconds": wall, "per_second": steps / wall}
    if options.profile:
        line |= profiled(step, options.profile)
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
