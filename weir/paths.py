"""Where Weir keeps its slice directories unless a command is given `--root`.

`weir run`, `weir exporter` and `weir top` must agree on it without talking to each other, so it is one pure
function of the user and the environment. Nothing is made or checked here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def default_root(environment: Mapping[str, str] | None = None, uid: int | None = None) -> Path:
    """`$WEIR_ROOT`; else `weir` in the user's runtime directory; else `/tmp/weir-UID`."""
    has = os.environ if environment is None else environment
    if chosen := has.get("WEIR_ROOT"):
        return Path(chosen)
    if runtime := has.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "weir"
    return Path(f"/tmp/weir-{os.getuid() if uid is None else uid}")  # noqa: S108  its owner is checked by users
