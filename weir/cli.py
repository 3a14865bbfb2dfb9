"""The `weir` command: finds the commands of all rooms by entry point and maps errors to exit codes.

A command is loaded only when it is called or when help lists it, so `weir run` starts without the exporter.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

import click

from weir import __version__
from weir.errors import WeirError


class RoomCommands(click.Group):
    """A click group whose commands are the entry points of the group `weir.commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(point.name for point in entry_points(group="weir.commands"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for point in entry_points(group="weir.commands", name=cmd_name):
            command: click.Command = point.load()
            return command
        return None


@click.group(cls=RoomCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="weir")
def cli() -> None:
    """Weir shares GPUs honestly: slices of memory and compute that are held and measured."""


def main() -> None:
    """Entry point of the `weir` script."""
    try:
        sys.exit(cli.main(standalone_mode=False) or 0)
    except WeirError as error:
        click.echo(f"weir: {' '.join(str(error).split())}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        click.echo(f"weir: {error.format_message()}", err=True)
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
