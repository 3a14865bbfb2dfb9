"""Faults for a simulated machine: `python -m simgpu.faults COMMAND …`, and the same as functions.

    fail FUNCTION RESULT [--calls N] [--pid PID]   its next N calls return RESULT ("*": any function's)
    lose DEVICE | restore DEVICE                   the card falls off the bus (with XID 79), and comes back
    xid DEVICE NUMBER                              an XID error, as an NVML event set sees it
    clear                                          no call fails any more, and every card is back

They hold for every process on the machine, at once. Which machine: SIMGPU_MACHINE and SIMGPU_STATE, as for
any program on it, or --machine. FUNCTION is spelt without its version (`cuMemAlloc`); RESULT is the number of
a CUresult or nvmlReturn_t. The simulated driver itself writes the shared state: its layout is not known here.
The functions load that driver, so whoever calls them has the simulated NVML in his process from then on.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

import click

from simgpu.machines import simulate
from weir.errors import UsageError, WeirError
from weir.options import Whole


class FaultError(WeirError):
    """The simulated driver refused a fault."""


@cache
def _library(path: str) -> ctypes.CDLL:
    return ctypes.CDLL(path)


def _call(function: str, *arguments: bytes | int) -> None:
    library = simulate(os.environ.get("SIMGPU_MACHINE", "h200")).nvml_library
    error = -getattr(_library(str(library)), function)(*arguments)
    if error:
        raise FaultError(f"{function}{arguments}: the simulated driver says: {os.strerror(error)}")


def fail_calls(function: str, result: int, calls: int = 1, pid: int = 0) -> None:
    """The next `calls` calls of `function` return `result`, in process `pid` (0: whichever calls)."""
    if calls < 1:
        raise UsageError("calls", calls, "a whole number from 1")
    if result == 0:
        raise UsageError("result", result, "the number of an error")
    _call("simgpu_fault", function.encode(), calls, result, pid)


def lose_device(device: int) -> None:
    """The card falls off the bus: every call on it fails, and XID 79 is raised."""
    _call("simgpu_lose", device, 1)


def restore_device(device: int) -> None:
    """The card is back."""
    _call("simgpu_lose", device, 0)


def raise_xid(device: int, xid: int) -> None:
    """An XID error on the card."""
    _call("simgpu_xid", device, xid)


def clear() -> None:
    """No call fails any more, and every card is back."""
    _call("simgpu_clear")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--machine", help="The simulated machine, as h200:2 (default: SIMGPU_MACHINE, or h200).")
def cli(machine: str | None) -> None:
    """Put faults into a running simulated machine."""
    if machine:
        os.environ["SIMGPU_MACHINE"] = machine


@cli.command("fail")
@click.argument("function")
@click.argument("result", type=Whole(0, 2**31 - 1))
@click.option("--calls", type=Whole(1, 2**31 - 1), default=1, show_default=True, help="How many calls fail.")
@click.option("--pid", type=Whole(0, 2**31 - 1), default=0, help="Only in this process.")
def _fail(function: str, result: int, calls: int, pid: int) -> None:
    """Let the next calls of FUNCTION return RESULT."""
    fail_calls(function, result, calls, pid)


@cli.command("lose")
@click.argument("device", type=Whole(0, 1023))
def _lose(device: int) -> None:
    """Let DEVICE fall off the bus."""
    lose_device(device)


@cli.command("restore")
@click.argument("device", type=Whole(0, 1023))
def _restore(device: int) -> None:
    """Bring DEVICE back."""
    restore_device(device)


@cli.command("xid")
@click.argument("device", type=Whole(0, 1023))
@click.argument("number", type=Whole(0, 2**31 - 1))
def _xid(device: int, number: int) -> None:
    """Raise XID NUMBER on DEVICE."""
    raise_xid(device, number)


@cli.command("clear")
def _clear() -> None:
    """Forget all faults."""
    clear()


def main() -> None:
    """Entry point of `python -m simgpu.faults`."""
    try:
        cli()
    except WeirError as error:
        click.echo(f"simgpu.faults: {error}", err=True)
        raise SystemExit(error.exit_code) from error


if __name__ == "__main__":
    main()
