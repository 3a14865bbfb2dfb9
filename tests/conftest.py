"""For all rooms: tests that a script runs in its background can interrupt what they start."""

import signal

# A shell without job control starts `make test &` with SIGINT ignored, and programs inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
