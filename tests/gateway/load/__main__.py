"""Measure ``threadkeep serve`` beside the same agent with LangGraph's saver on a bare FastAPI application.

    python -m tests.gateway.load [PART …] [--quick] [--profile NAME] [--seconds N] [--plot FILE.svg]

Servers are processes of their own; the client reads bare sockets. A part prints its figures beside their limits, and
fails if one is missed; the last lines say which did. ``--quick`` shows that it runs, and judges errors only. At
Ctrl-C and SIGTERM all servers are stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any, Final

from rich.console import Console

from tests.gateway.load.figures import Figure
from tests.gateway.load.stalled import stalled
from tests.gateway.load.steady import steady
from tests.gateway.load.streaming import latency, overhead, streams
from tests.gateway.load.throughput import moving, scaling, throughput
from tests.gateway.load.warm import warm

PARTS: Final[dict[str, Callable[..., Coroutine[Any, Any, list[Figure]]]]] = {
    "throughput": throughput,
    "scaling": scaling,
    "moving": moving,
    "warm": warm,
    "stalled": stalled,
    "overhead": overhead,
    "latency": latency,
    "streams": streams,
    "steady": steady,
}


def main(words: Sequence[str] | None = None) -> int:
    """Run the parts that are named, or all; return 1 if a figure misses its limit."""
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.load", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these, of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--seconds", type=float, default=0.0, help="how long streams live, or users talk")
    parser.add_argument(
        "--profile", help="a file of tests/gateway/load/profiles, or a path, for throughput and scaling"
    )
    parser.add_argument("--plot", type=Path, help="draw the throughput into this file")
    given = parser.parse_args(words)
    if unknown := [name for name in given.parts if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    console, verdicts, failed = Console(width=160), list[str](), False
    options = {"quick": given.quick, "seconds": given.seconds}
    for name in given.parts or PARTS:
        console.print(f"== {name}")
        began = monotonic()
        if PARTS[name] in (throughput, scaling, moving):
            figures = asyncio.run(PARTS[name](**options, profile=given.profile, console=console, plot=given.plot))
        else:
            figures = asyncio.run(PARTS[name](**options))
        for figure in figures:
            console.print(str(figure), highlight=False)
        missed = [one.name for one in figures if not one.holds and (not given.quick or one.limit == 0)]
        failed |= bool(missed)
        verdict = f"MISSED {', '.join(missed)}" if missed else "passed"
        verdicts.append(f"load: {name:<10} {verdict} in {timedelta(seconds=round(monotonic() - began))}")
    console.print("\n".join(verdicts), highlight=False, soft_wrap=True)
    return int(failed)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    sys.exit(main())
