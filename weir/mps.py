"""Whether an MPS daemon listens at a pipe directory, which the agent's rooms and the exporter ask alike.

Read off the control socket without connecting, for the daemon logs a visitor that is no client as a bad one.
"""

from __future__ import annotations

import errno
import socket
from pathlib import Path


def daemon_lives(pipes: Path) -> bool:
    """Whether somebody listens at the control socket, which a dead daemon leaves behind.

    A datagram socket cannot be connected to a listening one: the kernel refuses by the type, and without
    a listener by that. So the daemon is not disturbed, whichever it is.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(str(pipes / "control"))
        except OSError as error:
            return error.errno == errno.EPROTOTYPE
    return False  # a datagram socket: no daemon's
