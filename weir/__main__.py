"""`python -m weir` is `weir`: what Weir starts of itself, it starts this way, whatever PATH says."""

from weir.cli import main

main()
