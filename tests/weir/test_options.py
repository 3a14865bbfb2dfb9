"""Every command about slices takes the machine and the root the same way."""

import click
import pytest

from weir.cli import cli
from weir.options import box_options

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
