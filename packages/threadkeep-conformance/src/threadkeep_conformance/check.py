"""What a check is, and the few words that checks are written in."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from threadkeep_conformance.world import PLAIN, Options

if TYPE_CHECKING:
    from threadkeep_conformance.world import World

Body: TypeAlias = "Callable[[World], Coroutine[Any, Any, None]]"

CALL_SECONDS: Final = 5.0
"""How long one call may hang where a check asks whether it comes back at all."""


class CheckFailedError(AssertionError):
    """A store does not do what a check says; tells what it did instead."""


@dataclass(frozen=True, slots=True)
class Check:
    """One behaviour of a store.

    Attributes:
        id: Topic and name, e.g. ``items.created-at``; it stays the same.
        sentence: What is true of a store that passes.
        source: Where the rule comes from.
        body: Raises where it is not so.
        options: How the store that it gets is configured.
        waits: It lets more than a second pass; such checks are run side by side.
        large: It takes many seconds on some stores, and is run where that is asked for.
    """

    id: str
    sentence: str
    source: str
    body: Body
    options: Options = PLAIN
    waits: bool = False
    large: bool = False


_SHOWN: Final = 160

ENTERED: Final[list[Check]] = []
"""Every check of the modules that were imported; :mod:`.catalogue` imports all and puts them in order."""


def check(
    name: str, *, source: str, options: Options = PLAIN, waits: bool = False, large: bool = False
) -> Callable[[Body], Body]:
    """Enter the decorated function as the check *name*; its docstring is the sentence."""

    def entered(body: Body) -> Body:
        sentence = " ".join((inspect.getdoc(body) or "").split())
        ENTERED.append(Check(name, sentence, source, body, options, waits or options.expires, large))
        return body

    return entered


def same(found: Any, wanted: Any, what: str) -> None:
    """Fail unless *found* equals *wanted*; *what* says what they are."""
    if found != wanted:
        msg = f"{what}: found {_short(found)}, wanted {_short(wanted)}"
        raise CheckFailedError(msg)


def true(fact: object, what: str) -> None:
    """Fail unless *fact* holds; *what* says what is wrong otherwise."""
    if not fact:
        raise CheckFailedError(what)


async def refused(call: Awaitable[Any], what: str, *, by: type[Exception] = Exception) -> None:
    """Fail unless *call* raises an error of the kind *by*."""
    try:
        answer = await call
    except by:
        return
    msg = f"{what} is not refused; the answer is {_short(answer)}"
    raise CheckFailedError(msg)


def keys(items: Iterable[Any]) -> list[str]:
    """Return the keys of *items*, in their order."""
    return [item.key for item in items]


def _short(value: object) -> str:
    shown = ascii(value)
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 20]}… ({len(shown):,} characters)"
