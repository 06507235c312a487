"""How checkpoints are written and read: LangGraph's own format, and objects of listed classes only."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeAlias

import ormsgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from threadkeep.errors import StorageError

AllowedType: TypeAlias = type | tuple[str, str]


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serializer that makes objects of listed classes only, and never unpickles.

    An object of any other class comes back as plain data, a dict mostly: its module is not
    imported, and LangGraph logs which class was blocked. Messages, documents and LangGraph's own
    types are listed always, and the types of a graph's state once the graph is compiled.

    Args:
        allowed_types: Further classes, each as itself or as ``(module, name)``.
    """

    def __init__(self, allowed_types: Collection[AllowedType] = ()) -> None:
        super().__init__(pickle_fallback=False, allowed_msgpack_modules=tuple(allowed_types))

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the object that ``dumps_typed`` wrote as *data*.

        Raises:
            StorageError: It cannot be read.
        """
        try:
            return super().loads_typed(data)
        except ormsgpack.MsgpackDecodeError as error:
            msg = "A checkpoint cannot be read: it is damaged, or was written encrypted."
            raise StorageError(msg) from error
        except NotImplementedError as error:
            msg = f"A checkpoint is kept as {data[0][:40]!r}, which is never loaded; only LangGraph's own format is."
            raise StorageError(msg) from error


def let_graphs_list_their_types() -> None:
    """Have LangGraph tell a checkpointer which types a graph's state has, when the graph is compiled.

    It does so only if ``LANGGRAPH_STRICT_MSGPACK`` was set before the first import. Ours is strict
    always and needs the list: without it, a dataclass in the state would come back as a dict. A
    checkpointer that is not strict ignores it.

    Source:
        ``langgraph/graph/state.py`` (``compile``) and ``langgraph/pregel/main.py`` of LangGraph 1.2.
    """
    with suppress(ImportError):  # private: where it is gone, ``allowed_types`` still works
        vars(import_module("langgraph._internal._serde"))["STRICT_MSGPACK_ENABLED"] = True
