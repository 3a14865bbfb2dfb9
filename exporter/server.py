"""The exporter's HTTP side: hands out what collection.py has ready, and does no work of its own.

    /metrics      the newest page, gzip where the client takes it; 503 before the first collection
    /v1/slices    the same snapshot as JSON, with its age, claims and audit
    /-/healthy    200 while the exporter's threads run, whatever its sources answer
    /-/ready      200 while the last collection worked and is recent, else 503 with the reason
    /             a page with links to these

No handler reads a slice, asks a card or waits for one that does, so a slow source or a slow client holds up
nobody else.
"""

from __future__ import annotations

import html

import orjson
from aiohttp import web

from exporter.collection import Collection
from exporter.render import CONTENT_TYPE
from exporter.report import report

_LANDING = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Weir exporter</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:3em auto;padding:0 1em}}
code{{background:#eee;padding:0 .3em}}</style>
<h1>Weir exporter</h1>
<p>Version {version}. {slices} on {gpus}; {state}.</p>
<ul><li><a href="/metrics">/metrics</a>: for Prometheus
<li><a href="/v1/slices">/v1/slices</a>: the same as JSON
<li><a href="/-/healthy">/-/healthy</a> and <a href="/-/ready">/-/ready</a>: for probes</ul>
"""

COLLECTION: web.AppKey[Collection] = web.AppKey("collection", Collection)
VERSION: web.AppKey[str] = web.AppKey("version", str)


def application(collection: Collection, version: str) -> web.Application:
    """The exporter's web application over a collection that somebody else starts and stops."""
    app = web.Application()
    app[COLLECTION] = collection
    app[VERSION] = version
    app.add_routes(
        [
            web.get("/", landing),
            web.get("/metrics", metrics),
            web.get("/v1/slices", slices),
            web.get("/-/healthy", healthy),
            web.get("/-/ready", ready),
        ]
    )
    return app


async def metrics(request: web.Request) -> web.Response:
    """The newest page."""
    page = request.app[COLLECTION].page
    if page is None:
        return web.Response(status=503, text="nothing collected yet\n")
    headers = {"Content-Type": CONTENT_TYPE, "Vary": "Accept-Encoding"}
    if not takes_gzip(request.headers.get("Accept-Encoding", "")):
        return web.Response(body=page.text, headers=headers)
    return web.Response(body=page.compressed, headers={**headers, "Content-Encoding": "gzip"})


def takes_gzip(accepted: str) -> bool:
    """What an Accept-Encoding header says about gzip."""
    for part in accepted.lower().split(","):
        coding, _, quality = part.partition(";")
        if coding.strip() in ("gzip", "*"):
            return quality.replace(" ", "").rstrip("0.") != "q="
    return False


async def slices(request: web.Request) -> web.Response:
    """The newest snapshot as JSON."""
    published = request.app[COLLECTION].published
    if published is None:
        return web.json_response({"error": "nothing collected yet"}, status=503)
    age, snapshot = published
    return web.Response(body=orjson.dumps(report(snapshot, age)), content_type="application/json")


async def healthy(request: web.Request) -> web.Response:
    """Whether the exporter itself works."""
    if request.app[COLLECTION].alive:
        return web.Response(text="ok\n")
    return web.Response(status=503, text="a collecting thread has ended\n")


async def ready(request: web.Request) -> web.Response:
    """Whether the last collection worked."""
    problem = request.app[COLLECTION].problem()
    return web.Response(status=503 if problem else 200, text=f"{problem or 'ok'}\n")


async def landing(request: web.Request) -> web.Response:
    """A page for people."""
    collection = request.app[COLLECTION]
    published = collection.published
    text = _LANDING.format(
        version=html.escape(request.app[VERSION]),
        slices=_count(len(published[1].slices) if published else 0, "slice"),
        gpus=_count(len(published[1].gpus.gpus) if published else 0, "GPU"),
        state=html.escape(collection.problem() or "the last collection worked"),
    )
    return web.Response(text=text, content_type="text/html")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
