"""``/lg/store``: the items of the user. The label ``me`` stands for the caller, in requests and in answers."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Response
from pydantic import AfterValidator, Field

from threadkeep.errors import OwnerMismatchError
from threadkeep.gateway.bodies import RequestBody, as_object, refuse_nul
from threadkeep.gateway.inputs import GatewayUser, Reader, Writer
from threadkeep.gateway.langgraph_api.states import Page, PageBody, answer
from threadkeep.gateway.owner_items import is_internal
from threadkeep.identity import replace_label

router = APIRouter(prefix="/store")

ME: Final = "me"
MEMORIES: Final = "memories"
"""The root of the memories: what an agent uses."""


class ItemBody(RequestBody):
    """An item."""

    namespace: tuple[str, ...] = ()
    key: str


class PutBody(ItemBody):
    """An item to write; a key with a NUL is refused, as no address of an item can name it."""

    key: Annotated[str, AfterValidator(refuse_nul)]
    value: dict[str, Any]
    index: Literal[False] | list[str] | None = None
    ttl: float | None = None


class ItemsBody(PageBody):
    """Which items to list."""

    namespace_prefix: tuple[str, ...] = ()
    filter: dict[str, Any] | None = None
    query: str | None = None
    refresh_ttl: bool | None = None


class NamespacesBody(PageBody):
    """Which namespaces to list."""

    prefix: tuple[str, ...] | None = None
    suffix: tuple[str, ...] | None = None
    max_depth: int | None = Field(default=None, ge=0)
    limit: Page = 100


@router.put("/items", status_code=204)
async def put(body: PutBody, user: Writer) -> None:
    """Write an item; a memory that is approved is so by the user of the request, who must be allowed to."""
    options = {} if body.ttl is None else {"ttl": body.ttl}
    namespace = _own(body.namespace, user)
    value, given = body.value, body.value.get("approval") if namespace[:1] == (MEMORIES,) else None
    by, approval = user.approver(approved=given is not None), as_object(given)
    if isinstance(given, dict):
        value = {**value, "approval": {**approval, "by": by}}
    await user.tk.store.aput(namespace, body.key, value, body.index, **options)


@router.get("/items")
async def get(user: Reader, key: str, namespace: str = "", *, refresh_ttl: bool | None = None) -> Response:
    """Return an item; ``null``: there is none."""
    labels = _own(tuple(namespace.split(".")), user)
    item = await user.tk.store.aget(labels, key, refresh_ttl=refresh_ttl)
    return answer(None if item is None else _item(item, user))


@router.delete("/items", status_code=204)
async def delete(body: ItemBody, user: Writer) -> None:
    """Delete an item, if there is one."""
    await user.tk.store.adelete(_own(body.namespace, user), body.key)


@router.post("/items/search")
async def search(body: ItemsBody, user: Reader) -> Response:
    """List items, the nearest to a query first."""
    prefix = _own(body.namespace_prefix, user)
    options = body.model_dump(exclude={"namespace_prefix"})
    items = await user.tk.store.asearch(prefix, **options)
    shown = [{**_item(item, user), "score": item.score} for item in items if not is_internal(item.namespace)]
    return answer({"items": shown})


@router.post("/namespaces")
async def namespaces(body: NamespacesBody, user: Reader) -> Response:
    """List the namespaces of the user."""
    prefix = replace_label(body.prefix, ME, user.owner.label) if body.prefix else None
    options = body.model_dump(exclude={"prefix"})
    listed = await user.tk.store.alist_namespaces(prefix=prefix, **options)
    shown = [replace_label(labels, user.owner.label, ME) for labels in listed if not is_internal(labels)]
    return answer({"namespaces": shown})


def _own(labels: tuple[str, ...], user: GatewayUser) -> tuple[str, ...]:
    """Return a namespace of the user; those of the gateway are refused here, and those of others by the store."""
    named = replace_label(labels, ME, user.owner.label)
    if is_internal(named):
        raise OwnerMismatchError("This namespace is the gateway's own.")
    return named


def _item(item: Any, user: GatewayUser) -> dict[str, Any]:
    return {**item.dict(), "namespace": replace_label(item.namespace, user.owner.label, ME)}
