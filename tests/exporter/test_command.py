"""`weir exporter` as a process: it serves, ends gracefully, and refuses what it cannot use in one line."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection

import pytest
from prometheus_client.parser import text_string_to_metric_families

from exporter.command import address_of, parse_listen
from weir.errors import UsageError

WEIR = [sys.executable, "-m", "weir"]


@pytest.fixture
def exporter(tmp_path):
    """A running exporter over an empty root: (process, port)."""
    command = [*WEIR, "exporter", "--listen", "127.0.0.1:0", "--root", str(tmp_path), "--period", "0.1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    try:
        yield process, int(re.search(r"http://127\.0\.0\.1:(\d+)/metrics", line)[1])
    finally:
        process.kill()
        process.communicate()


def get(port, path):
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_gracefully(exporter, number):
    process, _ = exporter
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")


def test_it_serves_metrics_of_a_root_whatever_the_driver_says(exporter):
    _, port = exporter
    assert get(port, "/-/healthy") == (200, "ok\n")
    while (answer := get(port, "/metrics"))[0] == 503:
        assert "nothing collected yet" in answer[1]
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer[1])
        for sample in family.samples
    }
    assert samples["weir_scrape_collector_success", "slices"] == 1
    assert samples["weir_regions", "live"] == 0
    assert samples[("process_resident_memory_bytes",)] > 0
    assert samples[("weir_exporter_series",)] == len(samples)


def refusal(*options):
    done = subprocess.run(
        [*WEIR, "exporter", *options], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode != 0
    assert done.stdout == ""
    return done.stderr.strip()


def test_a_port_in_use_is_refused_in_one_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refusal("--listen", f"127.0.0.1:{port}")
    assert said.splitlines() == [said]
    assert said.startswith(f"weir: --listen: 127.0.0.1:{port}: Address already in use")


def test_an_ipv6_address_that_cannot_be_had_is_told_as_it_was_given():
    said = refusal("--listen", "[2001:db8::1]:9840")  # kept for documentation: no host has it
    assert said.splitlines() == [said]
    assert said.startswith("weir: --listen: [2001:db8::1]:9840: ")


@pytest.mark.parametrize(
    ("host", "said"),
    [
        (None, "http://localhost:9840/metrics, and on every other address of this host"),
        ("127.0.0.1", "http://127.0.0.1:9840/metrics"),
        ("::1", "http://[::1]:9840/metrics"),
    ],
)
def test_where_the_metrics_are_is_told_as_it_is_given_to_a_browser(host, said):
    assert address_of(host, 9840) == said


@pytest.mark.parametrize(
    "text", ["", "9840", "localhost", ":", ":x", ":65536", "a:b:1", "host:-1", "[::1]", "http://x:1"]
)
def test_an_address_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="--listen"):
        parse_listen(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":9840", (None, 9840)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
        ("host:1", ("host", 1)),
    ],
)
def test_an_address_is_a_host_and_a_port(text, address):
    assert parse_listen(text) == address


def test_an_unknown_machine_is_refused_in_one_line():
    said = refusal("--simulate", "h900", "--listen", "127.0.0.1:0")
    assert said.splitlines() == [said]
    assert said.startswith("weir: --simulate: h900: not allowed; ")


@pytest.mark.parametrize(("option", "value"), [("--period", "0"), ("--max-series", "1"), ("--max-age", "x")])
def test_a_setting_out_of_range_is_refused_by_name(option, value):
    assert option in refusal(option, value)


NO_HTTP = {
    "noise": b"\xff\xfe\x00\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    "another protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a path without end": b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
    "a header without end": b"GET / HTTP/1.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
    "a body that is none": b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}


def test_what_is_no_http_is_refused_and_told_to_nobody(exporter):
    process, port = exporter
    for junk in NO_HTTP.values():
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(junk)
            assert b" 400 " in client.recv(4096)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20)[1] == ""


def test_clients_that_hang_up_or_never_read_hold_up_nobody(exporter):
    process, port = exporter
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port)) as rude:
            rude.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    with socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
        assert get(port, "/-/healthy")[0] == 200
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20)[1] == ""
