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
    from threadkeep.capture.models import Receipt
    from threadkeep.client import Threadkeep, open  # noqa: A004 - the verb of the public surface
    from threadkeep.errors import ThreadkeepError
    from threadkeep.identity import Owner
    from threadkeep.memories.kinds import MemoryKind
    from threadkeep.memories.models import Forgotten, Memory, NewMemory, RememberResult, Source, Version
    from threadkeep.owners.models import Erased, Holdings
    from threadkeep.proposals.models import Choice, DecisionResult, Proposal, Proposed, Tombstone
    from threadkeep.recall.models import Recall, Recalled
    from threadkeep.recall.profile.schema import Profile, ProfileSlot, SlotValue
    from threadkeep.services import Health
    from threadkeep.settings import Settings

__all__ = [
    "Choice",
    "DecisionResult",
    "Erased",
    "Forgotten",
    "Health",
    "Holdings",
    "Memory",
    "MemoryKind",
    "NewMemory",
    "Owner",
    "Profile",
    "ProfileSlot",
    "Proposal",
    "Proposed",
    "Recall",
    "Recalled",
    "Receipt",
    "RememberResult",
    "Settings",
    "SlotValue",
    "Source",
    "Threadkeep",
    "ThreadkeepError",
    "Tombstone",
    "Version",
    "__version__",
    "open",
]

__version__ = "0.1.0"

_MODULES = {
    "Choice": "proposals.models",
    "DecisionResult": "proposals.models",
    "Erased": "owners.models",
    "Forgotten": "memories.models",
    "Health": "services",
    "Holdings": "owners.models",
    "RememberResult": "memories.models",
    "Memory": "memories.models",
    "MemoryKind": "memories.kinds",
    "NewMemory": "memories.models",
    "Owner": "identity",
    "Profile": "recall.profile.schema",
    "ProfileSlot": "recall.profile.schema",
    "Proposal": "proposals.models",
    "Proposed": "proposals.models",
    "Recall": "recall.models",
    "Recalled": "recall.models",
    "Receipt": "capture.models",
    "Settings": "settings",
    "SlotValue": "recall.profile.schema",
    "Source": "memories.models",
    "Threadkeep": "client",
    "ThreadkeepError": "errors",
    "Tombstone": "proposals.models",
    "Version": "memories.models",
    "open": "client",
}


def __getattr__(name: str) -> Any:
    if module := _MODULES.get(name):
        return getattr(import_module(f"threadkeep.{module}"), name)
    msg = f"module 'threadkeep' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)
