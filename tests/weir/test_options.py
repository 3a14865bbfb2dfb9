"""Every command about slices takes the machine and the root the same way."""

from importlib.metadata import entry_points
from pathlib import Path

import click
import pytest

from weir.cli import cli
from weir.errors import UsageError
from weir.options import Number, box_options

COMMANDS = ("run", "top", "doctor", "demo", "exporter")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_machine_and_the_root_are_given_alike(name):
    alike = {one.name: one.to_info_dict() for one in click.command()(box_options(lambda: None)).params}
    options = {one.name: one.to_info_dict() for one in cli.get_command(click.Context(cli), name).params}
    assert {key: options[key] for key in alike} == alike


@pytest.mark.parametrize("name", COMMANDS)
def test_the_machine_can_come_from_the_environment(name, monkeypatch):
    monkeypatch.setenv("WEIR_SIMULATE", "h200")
    command = cli.get_command(click.Context(cli), name)
    arguments = ["--", "true"] if name == "run" else []
    with command.make_context(name, arguments) as context:
        assert context.params["simulate"] == "h200"


def options_of_all():
    for point in entry_points(group="weir.commands"):
        for option in point.load().params:
            yield point.name, option.opts[0], option.type


NUMBERS = [(command, option) for command, option, kind in options_of_all() if isinstance(kind, Number)]


@pytest.mark.parametrize("value", ["", "nan", "inf", "-inf", "-1", "1e300", "9" * 30, "x", "0x10"])
@pytest.mark.parametrize(("command", "option"), NUMBERS)
def test_a_number_that_is_out_of_bounds_is_refused_with_the_bounds(command, option, value):
    with pytest.raises(UsageError, match=f"{option}: .*: not allowed; a .*number from [0-9.]+ to [0-9]+"):
        cli.get_command(click.Context(cli), command).make_context(command, [option, value])


def test_no_option_takes_numbers_in_another_way():
    kinds = (click.types.FloatParamType, click.types.IntParamType)
    assert not [(command, option) for command, option, kind in options_of_all() if isinstance(kind, kinds)]
    assert {("run", "--priority"), ("top", "--interval"), ("demo", "--seconds")} < set(NUMBERS)


@pytest.mark.parametrize("name", [*COMMANDS, "set"])
@pytest.mark.parametrize("below", ["", "deep/er"])
def test_a_root_that_is_a_file_or_below_one_is_refused_before_anything_begins(tmp_path, name, below):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--root: .*: not allowed; a directory; .*/file is none"):
        cli.get_command(click.Context(cli), name).make_context(
            name, ["--root", str(tmp_path / "file" / below)]
        )


@pytest.mark.parametrize("root", ["new/er", "."])
def test_a_root_that_is_not_there_yet_may_be_made(tmp_path, monkeypatch, root):
    monkeypatch.chdir(tmp_path)
    with cli.get_command(click.Context(cli), "top").make_context("top", ["--root", root]) as context:
        assert context.params["root"] == Path(root)


@pytest.mark.parametrize("name", COMMANDS)
def test_an_empty_root_is_not_the_current_directory(name):
    with pytest.raises(UsageError, match="--root: '': not allowed; a directory"):
        cli.get_command(click.Context(cli), name).make_context(name, ["--root", ""])
