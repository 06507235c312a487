"""Children of this process that do one thing and end, without a trace of pytest in them."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable


def forked(work: Callable[[], object]) -> int:
    """Run *work* in a child and return its process id; it ends with 0, or with 1 where *work* raised.

    A fork costs a millisecond where a new interpreter costs a quarter of a second. The warning about
    threads does not apply: the child uses nothing of the parent's but code.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, the child must not return into pytest
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(status)


def ended_well(child: int) -> bool:
    """Wait for *child* and return whether it ended with 0."""
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0
