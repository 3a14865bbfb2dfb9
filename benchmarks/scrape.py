"""What a scrape of many slices costs, end to end, beside prometheus_client on the same series.

Makes synthetic slice directories, then measures each step by itself: reading the pages, accounting and
rendering (both in the background, once a period), and the scrape (HTTP on the loopback, plain and gzip). The
baseline builds the same series with prometheus_client and renders them with its generate_latest.

    python benchmarks/scrape.py [SLICES]        exits with 1 if a scrape takes more than 5 ms (median)
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from aiohttp import ClientSession, web
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from benchmarks.arguments import Parser, whole
from exporter.accounting import Accounting
from exporter.collection import Collection
from exporter.render import Renderer
from exporter.server import application
from exporter.slices import SlicesCollector
from exporter.snapshot import GpusReading, GpuState, Snapshot
from limiter import slices
from limiter.identity import Identity, Share
from limiter.pages import ControlDevice, ControlPage, uuid_bytes
from weir.nvml import Gpu, GpuReading

UUID = "GPU-00112233-4455-6677-8899-aabbccddeeff"
ROUNDS = 50
TARGET_MS = 5.0


class OneCard:
    """Stands in for NVML."""

    def collect(self) -> GpusReading:
        gpu = Gpu(0, UUID, "NVIDIA H200", "00000000:17:00.0", 150_000_000_000)
        return GpusReading("580.0", "13.0", (GpuState(gpu, GpuReading(10**9, 0.5, 1.0, 0)),))


class Fixed:
    """A prometheus_client collector that has its families ready."""

    def __init__(self, text: str) -> None:
        self.families = list(text_string_to_metric_families(text))

    def collect(self):
        return self.families


def make_slices(root: Path, count: int) -> list[int]:
    locks = []
    for number in range(count):
        share = Share(UUID, 0, 1 << 30, 100, 100)
        identity = Identity(
            f"slice-{number}",
            number + 1,
            time.time(),
            (share,),
            "team",
            f"pod-{number}",
            "main",
            f"uid-{number}",
        )
        held = ControlDevice(uuid_bytes(UUID), memory_limit=1 << 30, core_limit=100)
        locks.append(slices.create(root, identity, ControlPage(number + 1, (held,)))[1])
    return locks


def milliseconds(action: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1000


async def scrape_times(collection: Collection, encoding: str) -> float:
    runner = web.AppRunner(application(collection, "benchmark"), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    times = []
    async with ClientSession(auto_decompress=False) as session:
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            async with session.get(url, headers={"Accept-Encoding": encoding}) as answer:
                await answer.read()
            times.append(time.perf_counter() - begin)
    await runner.cleanup()
    return statistics.median(times) * 1000


def baseline(text: str) -> float:
    registry = CollectorRegistry()
    registry.register(Fixed(text))
    return milliseconds(lambda: generate_latest(registry))


def measure(root: Path, count: int) -> int:
    locks = make_slices(root, count)
    collector, accounting = SlicesCollector(root), Accounting()
    collection = Collection(collector, OneCard(), Renderer("benchmark"))
    collection.collect_once()
    snapshot: Snapshot = collection.collect_once()
    page = collection.page
    render = milliseconds(lambda: Renderer("benchmark").render(snapshot))
    client = baseline(page.text.decode())
    plain = asyncio.run(scrape_times(collection, "identity"))
    rows = [
        ("series on the page", f"{page.series}"),
        ("page, plain / gzip", f"{len(page.text) / 1024:.0f} / {len(page.compressed) / 1024:.0f} KiB"),
        ("read the pages", f"{milliseconds(collector.collect):.2f} ms"),
        (
            "accounting",
            f"{milliseconds(lambda: accounting.advance(snapshot.containers, time.monotonic())):.2f} ms",
        ),
        ("render", f"{render:.2f} ms"),
        ("render with prometheus_client", f"{client:.2f} ms: {client / render:.1f} times as long"),
        ("scrape over HTTP, plain", f"{plain:.2f} ms"),
        ("scrape over HTTP, gzip", f"{asyncio.run(scrape_times(collection, 'gzip')):.2f} ms"),
    ]
    print(f"{count} slices, medians of {ROUNDS}")
    for name, value in rows:
        print(f"  {name:32} {value}")
    for lock in locks:
        os.close(lock)
    return int(plain > TARGET_MS)


if __name__ == "__main__":
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("slices", type=whole(1, 10_000), nargs="?", default=100, metavar="SLICES")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        sys.exit(measure(Path(directory), options.slices))
