"""`weir exporter`: puts collectors, collection and server together, and runs until it is told to end.

Settings come from the command line and nowhere else. SIGTERM and SIGINT end it gracefully: answers under way
are finished, the exit code is 0. A field that cannot be used is refused in one line before anything starts.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import click
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from exporter.collection import Collection, Settings
from exporter.render import Renderer
from exporter.server import application
from exporter.sources import open_sources
from weir import __version__
from weir.errors import HostError, UsageError
from weir.options import Number, Whole, box_options

_LISTEN = re.compile(r"(?P<host>[^\[\]:\s]*|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")
_SHUTDOWN_SECONDS = 3.0


def parse_listen(text: str) -> tuple[str | None, int]:
    """Host (None: every address) and port of `HOST:PORT`. Raises UsageError."""
    match = _LISTEN.fullmatch(text)
    if not match or int(match["port"]) > 65535:
        raise UsageError(
            "--listen", text, "give HOST:PORT or :PORT, with a port from 0 (any free one) to 65535"
        )
    return match["host"].strip("[]") or None, int(match["port"])


def address_of(host: str | None, port: int) -> str:
    """Where the metrics are, for a person."""
    if host is None:
        return f"http://localhost:{port}/metrics, and on every other address of this host"
    return f"http://{_named(host)}:{port}/metrics"


def _named(host: str) -> str:
    """As it stands before a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def _why(error: Exception) -> str:
    """The system's own words: asyncio's say the address twice."""
    number = getattr(error, "errno", None) or 0
    return os.strerror(number) if number > 0 else getattr(error, "strerror", None) or str(error)


def process_metrics() -> Callable[[], str]:
    """The client library's metrics of this process: memory, processor time, descriptors."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return lambda: generate_latest(registry).decode()


def http_logger() -> logging.Logger:
    """For aiohttp: requests that are no HTTP are answered with a 400 and are nothing to tell of."""
    logger = logging.getLogger("weir.exporter.http")
    logger.addFilter(_is_ours)
    return logger


def _is_ours(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


async def serve(collection: Collection, host: str | None, port: int) -> None:
    """Collect and answer until SIGTERM or SIGINT. Raises HostError where the address cannot be had."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runner = web.AppRunner(
        application(collection, __version__),
        access_log=None,
        logger=http_logger(),
        shutdown_timeout=_SHUTDOWN_SECONDS,
    )
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except (OSError, UnicodeError) as error:
            address = f"{_named(host or '')}:{port}"
            raise HostError(
                f"--listen: {address}: {_why(error)}; give a free port of an address of this host"
            ) from error
        collection.start()
        bound = runner.addresses[0][1]
        click.echo(f"weir exporter: metrics on {address_of(host, bound)}")
        await stop.wait()
    finally:
        collection.stop()
        await runner.cleanup()


@click.command()
@click.option(
    "--listen",
    default=":9840",
    show_default=True,
    help="HOST:PORT; every address of this host where none is given; port 0 takes any free one.",
)
@box_options
@click.option(
    "--period",
    type=Number(0.05, 60),
    default=1.0,
    show_default=True,
    help="Seconds between collections.",
)
@click.option(
    "--max-age",
    type=Number(0.1, 3600),
    default=15.0,
    show_default=True,
    help="Seconds for which a source that fails keeps its last values.",
)
@click.option(
    "--max-series",
    type=Whole(100, 10_000_000),
    default=20_000,
    show_default=True,
    help="Most series on a page.",
)
@click.option(
    "--max-label-length",
    type=Whole(16, 65_536),
    default=128,
    show_default=True,
    help="Most bytes in a label's value.",
)
def exporter(
    listen: str,
    simulate: str | None,
    root: Path | None,
    period: float,
    max_age: float,
    max_series: int,
    max_label_length: int,
) -> None:
    """Publish slices and cards for Prometheus."""
    host, port = parse_listen(listen)
    slices, nvml = open_sources(simulate, root)
    renderer = Renderer(__version__, max_series, max_label_length, process_metrics())
    asyncio.run(serve(Collection(slices, nvml, renderer, Settings(period, max_age)), host, port))
