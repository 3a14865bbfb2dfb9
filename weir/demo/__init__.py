"""`weir demo`: three slices on one GPU, held and measured before your eyes.

    command.py    the order of things, and the exit code
    programs.py   the processes it starts, and their end
    readings.py   what the exporter's own /metrics say, and what the load programs counted themselves
    verdict.py    whether the numbers are right; pure
    view.py       how it looks, on a terminal and elsewhere; pure

Everything is started as the commands that a user would type; no other room is imported. Each number shown
was measured in this run.
"""

from weir.demo.command import demo

__all__ = ["demo"]
