"""What tests of applications and of new backends need; shipped, so that others can use it, too.

Names are loaded when they are first used: the models need LangChain, the suites need pytest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadkeep.testing.clock import FrozenClock
    from threadkeep.testing.models import HashingEmbedder, HashingEmbeddings, Held, ScriptedModel
    from threadkeep.testing.storage_contract import OpenStorage, SharedStorageContract, StorageContract
    from threadkeep.testing.texts import NASTY_TEXTS
    from threadkeep.testing.vectors_contract import OpenEngine, VectorsContract

__all__ = [
    "NASTY_TEXTS",
    "FrozenClock",
    "HashingEmbedder",
    "HashingEmbeddings",
    "Held",
    "OpenEngine",
    "OpenStorage",
    "ScriptedModel",
    "SharedStorageContract",
    "StorageContract",
    "VectorsContract",
]

_MODULES = {
    "NASTY_TEXTS": "texts",
    "FrozenClock": "clock",
    "HashingEmbedder": "models",
    "HashingEmbeddings": "models",
    "Held": "models",
    "OpenEngine": "vectors_contract",
    "OpenStorage": "storage_contract",
    "ScriptedModel": "models",
    "SharedStorageContract": "storage_contract",
    "StorageContract": "storage_contract",
    "VectorsContract": "vectors_contract",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
