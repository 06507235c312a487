"""Memory for LangGraph agents.

Recalls what matters before each turn, learns after it, and lets the person the memory is about see,
correct and erase it::

    tk = threadkeep.open()
    agent = create_agent(model, tools, middleware=[tk.middleware()], checkpointer=tk.checkpointer)
    agent.invoke(question, tk.config(user_id="ana@x.org", thread_id="1"))

Importing the package does nothing and is cheap: names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadkeep.capture.record import Receipt
    from threadkeep.errors import ThreadkeepError
    from threadkeep.library import Health, Threadkeep, open  # noqa: A004 - the verb of the public surface
    from threadkeep.memories.record import Forgotten, Kept, Memory, NewMemory, Source, Version
    from threadkeep.owners.owner import Owner
    from threadkeep.owners.record import Erased, Holdings
    from threadkeep.proposals.record import Choice, Chosen, Proposal, Proposed, Tombstone
    from threadkeep.recall.record import Recall, Recalled
    from threadkeep.settings import Settings

__all__ = [
    "Choice",
    "Chosen",
    "Erased",
    "Forgotten",
    "Health",
    "Holdings",
    "Kept",
    "Memory",
    "NewMemory",
    "Owner",
    "Proposal",
    "Proposed",
    "Recall",
    "Recalled",
    "Receipt",
    "Settings",
    "Source",
    "Threadkeep",
    "ThreadkeepError",
    "Tombstone",
    "Version",
    "__version__",
    "open",
]

__version__ = "0.1.0"

_HOMES = {
    "Choice": "proposals.record",
    "Chosen": "proposals.record",
    "Erased": "owners.record",
    "Forgotten": "memories.record",
    "Health": "library",
    "Holdings": "owners.record",
    "Kept": "memories.record",
    "Memory": "memories.record",
    "NewMemory": "memories.record",
    "Owner": "owners.owner",
    "Proposal": "proposals.record",
    "Proposed": "proposals.record",
    "Recall": "recall.record",
    "Recalled": "recall.record",
    "Receipt": "capture.record",
    "Settings": "settings",
    "Source": "memories.record",
    "Threadkeep": "library",
    "ThreadkeepError": "errors",
    "Tombstone": "proposals.record",
    "Version": "memories.record",
    "open": "library",
}


def __getattr__(name: str) -> Any:
    if home := _HOMES.get(name):
        return getattr(import_module(f"threadkeep.{home}"), name)
    msg = f"module 'threadkeep' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)
