"""`weir top` on a terminal: it renews itself until it is interrupted, or until that terminal is gone."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys

import pytest


@pytest.fixture
def on_a_terminal(tmp_path):
    """A `weir top` that has drawn three times: (process, our end of its terminal, what it said)."""
    command = [sys.executable, "-m", "weir", "top", "--root", str(tmp_path), "--interval", "0.1"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    said = b""
    try:
        while said.count(b"No slices") < 3:
            said += os.read(ours, 65536)
        yield process, ours, said
    finally:
        process.kill()
        process.wait()
        with contextlib.suppress(OSError):  # the test has closed it
            os.close(ours)


def test_on_a_terminal_it_renews_itself_until_it_is_interrupted(on_a_terminal):
    process, ours, said = on_a_terminal
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(OSError):  # the other end is closed
        while more := os.read(ours, 65536):
            said += more
    assert process.wait(timeout=20) == 0
    assert said.endswith(b"\x1b[?1049l"), "the screen was not given back"


def test_it_ends_when_its_terminal_is_gone(on_a_terminal):
    process, ours, _ = on_a_terminal
    os.close(ours)
    assert process.wait(timeout=20) == 0
