"""`weir run` under an interactive shell on a terminal: job control as without it."""

import fcntl
import os
import subprocess
import termios

import pytest

from tests.deviceplugin.programs import PYTHON


def terminal(box, typed):
    """What an interactive shell on a terminal shows of it. `typed`: (what to wait for, what to type then)."""
    master, slave = os.openpty()
    shell = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        env={**box.environment, "PS1": "", "PYTHONUNBUFFERED": "1"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # it controls the session
    )
    os.close(slave)
    shown = ""
    for awaited, keys in typed:
        while awaited not in shown:
            shown += os.read(master, 4096).decode()
        shown = shown.partition(awaited)[2] if awaited else shown
        os.write(master, keys.encode())
    try:
        while part := os.read(master, 4096):
            shown += part.decode()
    except OSError:  # EIO: the shell has gone
        pass
    os.close(master)
    shell.wait(timeout=30)
    return shown


@pytest.fixture
def script(tmp_path):
    def write(code):
        path = tmp_path / "program.py"
        path.write_text(code)
        return path

    return write


def test_control_c_reaches_the_program_once(box, script):
    path = script(
        "import signal\nours = [signal.SIGINT]\nsignal.pthread_sigmask(signal.SIG_BLOCK, ours)\n"
        "print('rea' 'dy')\nsignal.sigwait(ours)\n"
        "print('more' if signal.sigtimedwait(ours, 0.2) else 'once')\n"
    )
    command = " ".join(box.command("--", PYTHON, path))
    shown = terminal(box, [("", f"{command}; echo code $?; exit\n"), ("ready", "\x03")])
    assert "once" in shown
    assert "code 0" in shown


def test_control_z_stops_the_job_and_fg_goes_on_reading_the_terminal(box, script):
    path = script("print('rea' 'dy')\nprint('got', input())\n")
    command = " ".join(box.command("--name", "job", "--", PYTHON, path))
    shown = terminal(
        box,
        [
            ("", f"{command}\n"),
            ("ready", "\x1a"),
            ("Stopped", "fg; echo code $?; exit\n"),
            ("--name job", "hello\n"),
        ],
    )
    assert "got hello" in shown
    assert "code 0" in shown
