"""For all rooms: tests that a script runs in its background can interrupt what they start; `--soak`."""

import signal

import pytest

# A shell without job control starts `make test &` with SIGINT ignored, and programs inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="storms and fuzzing at full length (make soak)")


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether to run at full length."""
    return bool(request.config.getoption("--soak"))
