"""`weir top`: what every slice asked for and gets, now. Needs no exporter: it reads the same sources itself.

On a terminal a table that renews itself until Ctrl-C, or until that terminal is gone; elsewhere the table
once, as plain text; with --json one snapshot for programs. A share is measured between two readings, so one
interval passes before the first.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import click
import orjson
from rich.console import Console
from rich.live import Live

from exporter.collection import Collection, Settings
from exporter.render import Renderer
from exporter.report import report
from exporter.snapshot import Snapshot
from exporter.sources import open_sources
from exporter.top_view import view
from weir import __version__
from weir.options import Number, box_options

_PLAIN_WIDTH = 120  # of a pipe or a file, where there is no width to ask for
_FIRST_SECONDS = 1.0  # long enough for a share to mean something, short enough to wait for


@click.command(short_help="Show slices and cards: asked, given, memory, refusals.")
@click.option("--json", "as_json", is_flag=True, help="One snapshot as JSON.")
@click.option("--once", is_flag=True, help="The table once, also on a terminal.")
@box_options
@click.option(
    "--interval",
    type=Number(0.1, 60),
    default=1.0,
    show_default=True,
    help="Seconds between readings.",
)
def top(as_json: bool, once: bool, simulate: str | None, root: Path | None, interval: float) -> None:
    """Show slices and cards: asked, given, memory, refusals.

    ASKED and GIVEN are shares of the card's time. HELD BACK is the part of the time in which launches waited
    for their turn: 100 % of a program that always wants more than its share. LIMIT is the one in force,
    REFUSED counts allocations, PROCS processes. A priority of 0, a frame that was asked for, and what a lease
    lowers stand below. "no agent": quotas alone hold, and nothing is lent (weir doctor says what to do).
    """
    slices, nvml = open_sources(simulate, root)
    collection = Collection(slices, nvml, Renderer(__version__), Settings(period=interval))
    console = Console(highlight=False)
    if as_json:
        click.echo(orjson.dumps(report(_measured(collection, interval), 0.0), option=orjson.OPT_INDENT_2))
    elif once or not console.is_terminal:
        console.width = console.width if console.is_terminal else _PLAIN_WIDTH
        console.print(view(_measured(collection, interval), simulate, console.width))
    else:
        _watch(collection, console, interval, simulate)


def _measured(collection: Collection, interval: float) -> Snapshot:
    collection.collect_once()
    time.sleep(min(interval, _FIRST_SECONDS))
    return collection.collect_once()


def _watch(collection: Collection, console: Console, interval: float, simulate: str | None) -> None:
    collection.start()
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while console.is_terminal:  # one that was closed under us says no from then on
                live.update(view(collection.snapshot(), simulate, console.width), refresh=True)
                time.sleep(interval)
    except KeyboardInterrupt:
        return
    except OSError:  # it was closed while we wrote
        if console.is_terminal:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered has no place to go
    finally:
        collection.stop()
