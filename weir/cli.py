"""The `weir` command: finds the commands of all rooms by entry point and maps errors to exit codes.

A command is loaded only when it is called or when help lists it, so `weir run` starts without the exporter.
"""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches
from importlib.metadata import entry_points

import click

from weir import __version__
from weir.errors import HostError, WeirError

_COMMANDS = "weir.commands"


class RoomCommands(click.Group):
    """A click group whose commands are the entry points of the group `weir.commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(entry_points(group=_COMMANDS).names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for point in entry_points(group=_COMMANDS, name=cmd_name):
            command: click.Command = point.load()
            return command
        return None


@click.group(cls=RoomCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="weir")
def cli() -> None:
    """Weir shares GPUs honestly: slices of memory and compute that are held and measured."""


def main() -> None:
    """Entry point of the `weir` script."""
    _fill_standard_descriptors()
    try:
        sys.exit(cli.main(standalone_mode=False) or 0)
    except WeirError as error:
        click.echo(f"weir: {' '.join(str(error).split())}", err=True)
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(error.exit_code)
    except click.NoSuchOption as error:
        click.echo(f"weir: {_unknown_option(error)}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        click.echo(f"weir: {error.format_message()}", err=True)
        sys.exit(error.exit_code)
    except OSError:
        if not (why := _output_failure()):
            raise
        click.echo(f"weir: standard output: {why}; give it a place that can be written to", err=True)
        sys.exit(HostError.exit_code)
    except click.Abort:
        sys.exit(130)


def _unknown_option(error: click.NoSuchOption) -> str:
    """Says which commands have the option, else which of this one's are like it by more than the dashes."""
    having = sorted(
        f"weir {point.name}"
        for point in entry_points(group=_COMMANDS)
        if any(error.option_name in option.opts for option in point.load().params)
    )
    if having:
        return f"{error.message.rstrip('.')}; that is an option of {', '.join(having)}"
    word = error.option_name.lstrip("-")
    alike = [one for one in error.possibilities or () if get_close_matches(word, [one.lstrip("-")])]
    return click.NoSuchOption(error.option_name, possibilities=alike).format_message()


def _fill_standard_descriptors() -> None:
    """Keep descriptors 0 to 2 from files of ours where they were closed: libraries write messages there.

    What we start finds them closed, as it would have without us.
    """
    while (spare := os.open(os.devnull, os.O_RDWR)) <= 2:  # not inheritable
        pass
    os.close(spare)


def _output_failure() -> str:
    """Why standard output takes no more, or nothing if it does; what is unwritten is then given up."""
    try:
        print(flush=True)  # noqa: T201  a buffer may be empty after it failed, so something is tried again
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error.strerror or str(error)
    return ""
