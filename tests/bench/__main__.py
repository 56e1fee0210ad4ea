"""`python -m tests.bench`: ours against others in one run, A B A B, as ratios.

Exits 0 when it measured, whatever it measured; ``build/bench.json`` says what held.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from tests.bench import compare, docs, layer, models, report, sizing


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--home", type=Path, default=Path("build/bench"), help="models and logs")
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="the four main loads alone, no soak")
    parser.add_argument("--soak", type=int, default=50_000, help="requests of the memory test")
    parser.add_argument("--layer", action="store_true", help="only what the API layer costs")
    parser.add_argument("--sizing", action="store_true", help="only ours, by number of cores")
    parser.add_argument("--write-docs", action="store_true", help="the page in docs/ as well")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers end with it
    home = options.home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    models.prepare(home)
    if options.sizing:
        sizing.size(home, options.rounds, write_docs=options.write_docs)
        return 0
    if options.layer:
        found = layer.measure(home, models.BGE, options.rounds)
    else:
        found = compare.compare(home, options.rounds, quick=options.quick, requests=options.soak)
    written = report.write(options.out, found)
    if options.write_docs:
        docs.write(Path("docs"), written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
