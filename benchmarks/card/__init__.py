"""What Weir does on a card, measured from outside the limiter: the tables and pictures of docs/benchmarks.md.

    python -m benchmarks.card DIR [--parts alone,pairs,…] [--rows TEXT]… [--quick] [--budget 540] [--again]

Needs an installed `weir`; PyTorch loads are left out where it is not importable. `--simulate h200` runs the
same on a simulated card, and everything it writes says so. Each finished row is a line of DIR/rows.jsonl,
so a run that was cut off, or stopped by its budget, goes on where it stopped when the command is given
again. `--again` also measures rows of another commit, or of another length, and replaces them; `--help` says
how long parts take. At the end of every call DIR/benchmarks.md and DIR/images hold what is known so far;
`--docs` writes them into docs/.

    journal.py   rows on disk            curves.py    counters to shares and one-second windows
    bench.py     card, time, settings    loads.py     the programs that are measured
    program.py   one load in a slice     watch.py     NVML and the limiter's counter over a window
    daemon.py    an MPS daemon for part `mps`   phases.py   a limit that goes and comes in one process
    company.py   a pace beside others against the one alone, in one process
    verdict.py   what a row should have been    tables.py, …_table.py, picture.py   Markdown and SVG
    alone.py, pairs.py, …  the parts

It changes no setting of the card and takes no more managed memory than is free.
"""
