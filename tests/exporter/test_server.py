"""The HTTP side, over a collection whose sources are fakes."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest
from aiohttp.test_utils import TestClient, TestServer

from exporter.collection import Collection
from exporter.render import Renderer
from exporter.server import application, takes_gzip
from tests.exporter.builders import FakeCollector, container, gpus, slices_reading


@pytest.fixture
def collection():
    slices = FakeCollector(slices_reading(container("alice", generation=2**63 + 1)))
    made = Collection(slices, FakeCollector(gpus()), Renderer("0.1.0"))
    made.slices = slices
    return made


def answers(collection, *requests):
    """(status, headers, body) of each (path, headers) request, over one server."""

    async def ask():
        async with TestClient(TestServer(application(collection, "0.1.0")), auto_decompress=False) as client:
            got = []
            for path, headers in requests:
                async with client.get(path, headers={"Accept-Encoding": "identity", **headers}) as answer:
                    got.append((answer.status, answer.headers, await answer.read()))
            return got

    return asyncio.run(ask())


def answer(collection, path, **headers):
    return answers(collection, (path, headers))[0]


def test_before_the_first_collection_there_is_no_page(collection):
    for path in ("/metrics", "/-/ready", "/v1/slices"):
        assert answer(collection, path)[0] == 503
    assert answer(collection, "/-/healthy")[0] == 200
    assert answer(collection, "/")[0] == 200


def test_every_scraper_gets_the_bytes_of_the_last_collection(collection):
    collection.collect_once()
    plain = ("/metrics", {})
    (first, second) = answers(collection, plain, plain)
    assert first[2] == second[2] == collection.page.text
    assert first[1]["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_a_scrape_asks_no_source(collection):
    collection.collect_once()
    calls = collection.slices.calls
    answers(collection, *[("/metrics", {})] * 5)
    assert collection.slices.calls == calls


def test_gzip_is_given_to_those_who_take_it(collection):
    collection.collect_once()
    status, headers, body = answer(
        collection, "/metrics", **{"Accept-Encoding": "gzip;q=1.0, identity;q=0.5"}
    )
    assert (status, headers["Content-Encoding"]) == (200, "gzip")
    assert gzip.decompress(body) == collection.page.text


@pytest.mark.parametrize(
    ("accepted", "takes"),
    [("gzip", True), ("deflate, GZIP", True), ("*", True), ("gzip;q=0", False), ("gzip; q=0.0", False),
     ("gzip;q=0.5", True), ("identity", False), ("", False), ("xgzip", False)],
)  # fmt: skip
def test_accept_encoding_is_read_as_http_says(accepted, takes):
    assert takes_gzip(accepted) is takes


def test_ready_says_which_collector_failed(collection):
    collection.collect_once()
    assert answer(collection, "/-/ready")[0] == 200
    collection.slices.next_error = PermissionError("no way in")
    collection.collect_once()
    status, _, body = answer(collection, "/-/ready")
    assert status == 503
    assert b"slices: PermissionError: no way in" in body
    assert answer(collection, "/-/healthy")[0] == 200


def test_slices_as_json_carry_claims_audit_and_age(collection):
    collection.collect_once()
    status, headers, body = answer(collection, "/v1/slices")

    data = json.loads(body)
    (one,) = data["slices"]
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert one["container"] == "alice"
    assert one["generation"] == str(2**63 + 1)
    assert one["claims"]["memory_used_bytes"] == 600 << 20
    assert one["claims"]["unaccounted_calls"]["code"] == 31
    assert data["age_seconds"] >= 0
    assert {each["collector"]: each["success"] for each in data["collectors"]} == {
        "slices": True,
        "nvml": True,
    }


def test_landing_page_links_what_there_is(collection):
    collection.collect_once()
    _, headers, body = answer(collection, "/")
    assert headers["Content-Type"].startswith("text/html")
    for path in (b"/metrics", b"/v1/slices", b"/-/healthy", b"/-/ready"):
        assert b'href="' + path + b'"' in body
    assert b"1 slice on 1 GPU" in body


def test_an_unknown_path_is_not_found(collection):
    assert answer(collection, "/nothing")[0] == 404
