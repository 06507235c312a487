"""What cannot be kept on any backend is refused by all of them, before anything is written."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.storage.encoding import MAX_VALUE_DEPTH
from threadkeep.storage.interface import (
    MAX_BATCH_OPERATIONS,
    MAX_KEY_CHARACTERS,
    MAX_NAMESPACE_CHARACTERS,
    MAX_VALUE_BYTES,
    Batch,
    Delete,
    Due,
    Embedding,
    Put,
    Ref,
    Storage,
)
from threadkeep.testing.storage_contract.world import (
    ANA,
    NOTES,
    World,
    commit,
    delete,
    get,
    note,
    plain,
    require,
    touch,
)


def nested(depth: int) -> dict[str, Any]:
    """Return a value of *depth* objects and lists inside each other."""
    value: Any = []
    for _ in range(depth - 2):
        value = [value]
    return {"": value}


def itself() -> dict[str, Any]:
    """Return a value that holds itself."""
    value: dict[str, Any] = {}
    value["self"] = value
    return value


NAIVE = datetime(2025, 1, 1)  # noqa: DTZ001 - what must be refused

NOT_KEPT: dict[str, Any] = {
    "NaN": plain("1", {"n": math.nan}),
    "infinity": plain("1", {"n": [{"m": -math.inf}]}),
    "a set": plain("1", {"n": {1, 2}}),
    "bytes": plain("1", {"n": b"x"}),
    "a date": plain("1", {"n": NAIVE}),
    "a number for a key": plain("1", {"n": {1: "x"}}),
    "an endless number": plain("1", {"n": 10**5000}),
    "itself": plain("1", itself()),
    "too deep": plain("1", nested(MAX_VALUE_DEPTH + 2)),
    "a list": Put(NOTES, "1", [1]),  # type: ignore[arg-type]
    "a key that is no text": plain(1),  # type: ignore[arg-type]
    "a namespace that is a text": plain("1", namespace="memories"),  # type: ignore[arg-type]
    "a label that is no text": plain("1", namespace=("memories", 1)),  # type: ignore[arg-type]
    "a vector cut short": note("1", embedding=Embedding("m", 2, b"1234567")),
    "a vector of no dims": note("1", embedding=Embedding("m", 0, b"")),
    "an unknown expectation": note("1", expect="present"),
    "a bool for a revision": note("1", expect=True),
    "a naive moment": note("1", created_at=NAIVE),
    "a naive update": note("1", updated_at=NAIVE),
    "a naive end": note("1", ttl=timedelta(days=1), expires_at=NAIVE),
    "an end without a ttl": note("1", expires_at=datetime(2030, 1, 1, tzinfo=UTC)),
    "a naive due": note("1", due=Due("work", NAIVE)),
    "no operation": "put",
}

TOO_LARGE: dict[str, Any] = {
    "a value": plain("1", {"data": "x" * MAX_VALUE_BYTES}),
    "a value as JSON": plain("1", {"data": "\0" * (MAX_VALUE_BYTES // 6)}),
    "a key": plain("x" * (MAX_KEY_CHARACTERS + 1)),
    "a label": plain("1", namespace=("x" * (MAX_NAMESPACE_CHARACTERS + 1),)),
    "labels together": plain("1", namespace=("x" * MAX_NAMESPACE_CHARACTERS, "y")),
    "a key to delete": delete("x" * (MAX_KEY_CHARACTERS + 1)),
}


class Limiting(World):
    """Shapes and sizes."""

    @pytest.mark.parametrize("bad", NOT_KEPT.values(), ids=NOT_KEPT.keys())
    async def test_what_cannot_be_kept_is_refused(self, storage: Storage, bad: Any) -> None:
        """With one sentence, and nothing of its batch is written."""
        with pytest.raises(InvalidInputError) as refused:
            await commit(storage, note("good"), bad)

        assert str(refused.value).endswith(".")
        assert await get(storage, "good") is None
        assert (await storage.position(ANA)).sequence == 0

    @pytest.mark.parametrize("bad", TOO_LARGE.values(), ids=TOO_LARGE.keys())
    async def test_what_is_too_large_is_refused(self, storage: Storage, bad: Any) -> None:
        """With its size and the limit, and nothing of its batch is written."""
        with pytest.raises(TooLargeError, match=r"\d,\d{3}"):
            await commit(storage, note("good"), bad)

        assert await get(storage, "good") is None

    async def test_an_empty_batch_is_refused(self, storage: Storage) -> None:
        """A batch has one operation at least."""
        with pytest.raises(InvalidInputError):
            await commit(storage)

    @pytest.mark.parametrize("second", [note("1"), delete("1"), touch("1")])
    async def test_two_operations_on_one_item_are_refused(self, storage: Storage, second: Any) -> None:
        """Which of them is meant cannot be told."""
        with pytest.raises(InvalidInputError):
            await commit(storage, note("1"), note("2"), second)

        assert await get(storage, "2") is None

    async def test_what_just_fits_is_kept(self, storage: Storage) -> None:
        """At each limit, to the last byte."""
        key, namespace = "\ud800" * MAX_KEY_CHARACTERS, ("\0" * (MAX_NAMESPACE_CHARACTERS - 3), "", "abc")
        value = {"d": "x" * (MAX_VALUE_BYTES - len('{"d":""}'))}
        await commit(storage, plain(key, value, namespace), plain("deep", nested(MAX_VALUE_DEPTH)))

        item = await require(storage, key, namespace)

        assert item.value == value
        assert (await require(storage, "deep")).value == nested(MAX_VALUE_DEPTH)
        (found,) = (await storage.scan(ANA, prefix=namespace)).items
        assert found == item

    async def test_a_batch_of_ten_thousand_is_one_commit(self, storage: Storage) -> None:
        """As many operations as are allowed, put and deleted; one more is refused."""
        puts = [plain(f"{number}", {"n": number}) for number in range(MAX_BATCH_OPERATIONS)]

        assert (await storage.commit(Batch(ANA, puts))).sequence == 1
        found = await storage.get([Ref(ANA, NOTES, put.key) for put in puts])
        assert [item and item.value for item in found] == [put.value for put in puts]
        with pytest.raises(TooLargeError):
            await storage.commit(Batch(ANA, [*puts, plain("one more")]))

        await storage.commit(Batch(ANA, [Delete(NOTES, put.key) for put in puts]))
        assert (await storage.stats()).items == 0
