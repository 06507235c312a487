"""What a LangGraph store does, as checks to run on any: a report for people, tests for pytest.

LangGraph's own stores differ from each other in nearly every corner, and there is no suite that says
which way is right. This one has a check for each of those corners: an id, a sentence, and where the
rule comes from. ``python -m threadkeep_conformance`` runs it on Threadkeep's stores and on
LangGraph's; :class:`StoreConformance` is the same for the tests of a store of your own, and
:func:`run_store` for a program.

Words: a *check* is one behaviour; a *place* is somewhere empty, where a store can be opened any number
of times; a *report* is what came out of the checks of one store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from threadkeep_conformance.catalogue import CHECKS
from threadkeep_conformance.check import Check, CheckFailedError
from threadkeep_conformance.running import Report, Result, run_store
from threadkeep_conformance.world import OpenStore, Place, Sleep, UnsupportedError, World

if TYPE_CHECKING:
    from threadkeep_conformance.suite import StoreConformance

__all__ = [
    "CHECKS",
    "Check",
    "CheckFailedError",
    "OpenStore",
    "Place",
    "Report",
    "Result",
    "Sleep",
    "StoreConformance",
    "UnsupportedError",
    "World",
    "run_store",
]


def __getattr__(name: str) -> Any:
    if name == "StoreConformance":  # it needs pytest, which the report does not
        from threadkeep_conformance.suite import StoreConformance

        return StoreConformance
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
