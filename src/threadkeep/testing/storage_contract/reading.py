"""``get``: "the items at refs, in the order asked, None where there is none or it has expired"."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from threadkeep.errors import ClosedError
from threadkeep.storage.interface import Batch, Due, Embedding, ImmediateReads, Item, Partition, Put, Ref, Storage
from threadkeep.testing.clock import FrozenClock
from threadkeep.testing.storage_contract.world import (
    ANA,
    BOB,
    NOTES,
    VECTOR,
    OpenStorage,
    World,
    commit,
    get,
    note,
    plain,
    require,
)
from threadkeep.testing.texts import NASTY_TEXTS

VALUES: list[dict[str, Any]] = [
    {},
    {"": ""},
    {"text": list(NASTY_TEXTS), **{text: text for text in NASTY_TEXTS}},
    {"numbers": [0, -1, 1.5, -0.0, 1e300, 5e-324, 2**53 + 1, 10**40], "flags": [True, False, None]},
    {"deep": [[[[{"a": {"b": [{}]}}]]]], "tuple": ["x", 1]},
]


class Reading(World):
    """What is kept comes back as it was given."""

    async def test_items_come_in_the_order_asked(self, storage: Storage) -> None:
        """``get`` answers each ref at its own place, ``None`` for what is not there, repeated ones included."""
        await commit(storage, note("1"), note("2"))
        refs = [Ref(ANA, NOTES, key) for key in ("2", "none", "1", "2")]

        found = await storage.get(refs)

        assert [item and item.ref for item in found] == [refs[0], None, refs[2], refs[3]]

    async def test_refs_may_name_several_partitions(self, storage: Storage) -> None:
        """One ``get`` reads from every partition that its refs name."""
        await commit(storage, plain("1", {"of": "ana"}))
        await commit(storage, plain("1", {"of": "bob"}), partition=BOB)

        found = await storage.get([Ref(BOB, NOTES, "1"), Ref(ANA, NOTES, "1")])

        assert [item and item.value["of"] for item in found] == ["bob", "ana"]

    async def test_a_few_are_told_from_any_thread(self, storage: Storage, clock: FrozenClock) -> None:
        """ "What get would", while the loop is elsewhere: in the order asked, ``None`` for what is not there."""
        if not isinstance(storage, ImmediateReads):
            return
        await commit(storage, plain("1", {"of": "ana"}), plain("2", ttl=timedelta(minutes=1)))
        await commit(storage, plain("1", {"of": "bob"}), partition=BOB)
        refs = [Ref(BOB, NOTES, "1"), Ref(ANA, NOTES, "none"), Ref(ANA, NOTES, "2"), Ref(ANA, NOTES, "1")]

        told = await asyncio.to_thread(storage.try_get, refs)
        clock.advance(timedelta(minutes=1))
        later = storage.try_get(refs)

        assert told is not None
        assert later is not None
        assert [item and item.value for item in told] == [{"of": "bob"}, None, {"data": "likes tea"}, {"of": "ana"}]
        assert later == await storage.get(refs) == (told[0], None, None, told[3])
        assert storage.try_get([]) == ()

    async def test_no_refs_give_no_items(self, storage: Storage) -> None:
        """Asking for nothing is no error."""
        assert await storage.get([]) == ()

    async def test_every_field_comes_back(self, storage: Storage, clock: FrozenClock) -> None:
        """Everything that a put gives is in the item, moments to the microsecond and in UTC."""
        due = Due("capture", datetime(2025, 4, 1, 12, 0, 0, 1, tzinfo=timezone(timedelta(hours=2))))
        created_at = datetime(1969, 7, 20, 20, 17, 40, 999_999, tzinfo=UTC)
        ttl = timedelta(days=3, microseconds=7)
        position = await commit(
            storage,
            Put(NOTES, "1", {"data": "likes tea"}, ("data", "tags[*]"), VECTOR, ttl, due, created_at=created_at),
        )

        item = await require(storage, "1")

        assert item == Item(
            ref=Ref(ANA, NOTES, "1"),
            value={"data": "likes tea"},
            revision=position.sequence,
            created_at=created_at,
            updated_at=clock.now(),
            index=("data", "tags[*]"),
            embedding=VECTOR,
            ttl=ttl,
            expires_at=clock.now() + ttl,
            due=due,
        )
        assert all(moment.tzinfo is UTC for moment in (item.created_at, item.updated_at, item.expires_at) if moment)

    @pytest.mark.parametrize("value", VALUES)
    async def test_any_json_comes_back(self, storage: Storage, value: dict[str, Any]) -> None:
        """A value is kept exactly, whatever texts and numbers it holds."""
        await commit(storage, plain("1", value))

        item = await require(storage, "1")

        assert item.value == value
        assert repr(item.value) == repr(value)

    async def test_tuples_come_back_as_lists(self, storage: Storage) -> None:
        """JSON has one kind of sequence."""
        await commit(storage, plain("1", {"pair": (1, "x")}))

        assert (await require(storage, "1")).value == {"pair": [1, "x"]}

    async def test_any_text_is_a_key_of_its_own(self, storage: Storage) -> None:
        """No two texts are the same key, and each comes back as it was."""
        await commit(storage, *(plain(text, {"at": place}) for place, text in enumerate(NASTY_TEXTS)))

        found = await storage.get([Ref(ANA, NOTES, text) for text in NASTY_TEXTS])

        assert [item and (item.ref.key, item.value["at"]) for item in found] == [
            (text, place) for place, text in enumerate(NASTY_TEXTS)
        ]

    async def test_any_texts_are_a_namespace_of_their_own(self, storage: Storage) -> None:
        """Labels are any text, there may be none, and where one ends matters."""
        namespaces = [(), *((text,) for text in NASTY_TEXTS), ("a", "b"), ("ab",), ("a", "", "b"), ("x", *NASTY_TEXTS)]
        await commit(storage, *(plain("k", {"at": at}, namespace) for at, namespace in enumerate(namespaces)))

        found = await storage.get([Ref(ANA, namespace, "k") for namespace in namespaces])

        assert [item and (item.ref.namespace, item.value["at"]) for item in found] == [
            (namespace, at) for at, namespace in enumerate(namespaces)
        ]

    async def test_any_texts_are_a_partition_of_their_own(self, storage: Storage) -> None:
        """Partitions never meet, however alike they are spelled."""
        partitions = [Partition("owner", ("", text)) for text in NASTY_TEXTS]
        partitions += [Partition("owner", (text, "")) for text in NASTY_TEXTS if text]
        partitions += [Partition("root", ("",)), Partition("collection", ("", "")), Partition("root", ())]
        for at, partition in enumerate(partitions):
            await commit(storage, plain("1", {"at": at}), partition=partition)

        found = await storage.get([Ref(partition, NOTES, "1") for partition in partitions])

        assert [item and item.value["at"] for item in found] == list(range(len(partitions)))

    async def test_what_a_reader_does_to_a_value_changes_nothing(self, storage: Storage) -> None:
        """A returned value is the reader's own, however it was read."""
        await commit(storage, note("1", due=Due("work", datetime(2025, 1, 1, tzinfo=UTC))))
        read = [
            await require(storage, "1"),
            (await storage.scan(ANA)).items[0],
            (await storage.changes(ANA, None)).puts[0],
            (await storage.due("work", now=datetime(2025, 2, 1, tzinfo=UTC), limit=1))[0],
        ]

        for item in read:
            item.value["data"] = "changed"
            item.value["more"] = 1

        assert (await require(storage, "1")).value == {"data": "likes tea"}

    async def test_what_a_writer_does_to_a_value_afterwards_changes_nothing(self, storage: Storage) -> None:
        """A value is copied when it is committed, all the way down."""
        tags = ["a"]
        value: dict[str, Any] = {"tags": tags}
        operations = [plain("1", value)]
        await storage.commit(Batch(ANA, operations))

        tags.append("b")
        value["more"] = 1
        operations.clear()

        assert (await require(storage, "1")).value == {"tags": ["a"]}

    async def test_an_embedding_of_several_texts_comes_back(self, storage: Storage) -> None:
        """Vectors are opaque bytes of whole rows; the model may have any name."""
        embedding = Embedding("provider:name/\ud800\0", 3, bytes(range(24)))
        await commit(storage, note("1", index=("a", "b"), embedding=embedding))

        assert (await require(storage, "1")).embedding == embedding

    async def test_connecting_twice_does_nothing(self, storage: Storage) -> None:
        """ "The second call does nothing"."""
        await commit(storage, note("1"))

        await storage.connect()

        assert await get(storage, "1")

    async def test_closing_twice_does_nothing(self, open_storage: OpenStorage) -> None:
        """ "The second call does nothing", and one that was never connected closes, too."""
        storage = open_storage()
        await storage.connect()

        await storage.close()
        await storage.close()
        await open_storage().close()

    async def test_a_closed_storage_says_so(self, open_storage: OpenStorage) -> None:
        """Nothing is read or written after ``close``."""
        storage = open_storage()
        await storage.connect()
        await storage.close()

        with pytest.raises(ClosedError):
            await storage.get([])
        with pytest.raises(ClosedError):
            await commit(storage, note("1"))
        with pytest.raises(ClosedError):
            await storage.position(ANA)
        with pytest.raises(ClosedError):
            await storage.connect()
