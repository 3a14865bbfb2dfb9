"""The `weir` command: finds the rooms' commands, and maps errors to exit codes."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from weir import errors
from weir.cli import cli, main

COMMANDS = {"run", "top", "doctor", "demo", "exporter", "load"}


def weir(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "weir", *arguments], capture_output=True, text=True, check=False
    )


def test_every_command_that_the_readme_shows_is_one():
    root = Path(__file__).resolve().parents[2]
    points = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"]["weir.commands"]
    shown = set(re.findall(r"^weir ([a-z-]+)", (root / "README.md").read_text(), re.MULTILINE))
    assert "run" in shown
    assert shown <= set(points)


def test_help_lists_every_command_with_what_it_does():
    shown = weir("--help").stdout
    listed = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.startswith("  ")}
    assert set(listed) >= COMMANDS
    assert all(listed[name] for name in COMMANDS)


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], ["run", "--nonsense"], ["doctor", "x"]])
def test_what_nobody_knows_is_one_line_and_code_2(arguments):
    result = weir(*arguments)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith("weir: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--lease", "30s"], "'--lease'; that is an option of weir set\n"),
        (["set", "alice", "--backend", "mps"], "'--backend'; that is an option of weir run\n"),
        (["--gpu", "0", "run"], "'--gpu'; that is an option of weir demo, weir run\n"),
        (["run", "--memry", "1GiB"], "Did you mean '--memory'?\n"),
        (["run", "--leese", "30s"], "'--leese'.\n"),
        (["set", "alice", "--nam", "bob"], "'--nam'.\n"),
    ],
)
def test_an_option_that_is_not_there_gets_only_advice_that_helps(arguments, said):
    assert weir(*arguments).stderr.endswith(said)


def test_alone_it_shows_its_help():
    result = weir()
    assert result.returncode == 2
    assert result.stderr == weir("--help").stdout


@pytest.mark.parametrize(
    "arguments", [["--help"], ["top", "--json"], ["doctor", "--simulate", "h200"], ["load", "--help"]]
)
def test_output_that_cannot_be_written_is_one_line(arguments, tmp_path):
    with open("/dev/full", "wb") as full:  # noqa: PTH123  no path is opened, a device is
        result = subprocess.run(
            [sys.executable, "-m", "weir", *arguments], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert result.returncode == 5
    assert result.stderr.count("\n") == 1
    assert re.match("weir(-load)?: standard output: No space left on device; give it a place", result.stderr)


KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_in_the_tree_with_its_exit_code(kind):
    tree = {
        line.strip("│├└─ ").split()[0]: int(line.split("exit ")[1].split()[0])
        for line in errors.__doc__.splitlines()
        if "exit " in line and "Error" in line
    }
    assert tree[kind.__name__] == kind.exit_code


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (errors.HostError("no directory"), 5, "weir: no directory\n"),
        (errors.UsageError("--memory", "x", "give bytes"), 2, "weir: --memory: x: not allowed; give bytes\n"),
    ],
)
def test_an_error_of_ours_is_its_line_and_its_code(monkeypatch, capsys, raised, code, said):
    def fail(**_):
        raise raised

    monkeypatch.setattr(cli, "main", fail)
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (code, said)


def test_no_room_is_imported_before_it_is_needed():
    code = (
        "import sys, weir.cli; print({name.split('.')[0] for name in sys.modules} & {'exporter', 'simgpu'})"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "set()\n"
