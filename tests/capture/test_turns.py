from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import pytest

from threadkeep.capture.turns import (
    MAX_TEXT_CHARACTERS,
    GivenMemory,
    SpokenTurn,
    TurnRecall,
    done,
    every_trace,
    missing_turns,
    pending,
    put_of,
    recall_of,
    record_of,
    spell_recall,
    split,
)
from threadkeep.identity import Owner
from threadkeep.ids import MemoryId, MessageId, ThreadId
from threadkeep.memories.models import Memory, Source
from threadkeep.models.base import Message, Role
from threadkeep.recall.models import render_block
from threadkeep.storage.interface import Item, Ref

AT = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
TH = ThreadId("th")
ANA = Owner("ana")


def talk(*said: tuple[Role, str], ids: str | None = None) -> list[Message]:
    return [
        Message(role, text, MessageId(f"{ids}{place}") if ids is not None else None)
        for place, (role, text) in enumerate(said)
    ]


def long_talk(turns: int, *, ids: str | None = None) -> list[Message]:
    roles: tuple[Role, ...] = ("user", "assistant")
    said: list[tuple[Role, str]] = [(role, f"{role} {n}") for n in range(turns) for role in roles]
    return talk(*said, ids=ids)


def on_record(*turns: SpokenTurn) -> set[str]:
    return {key for turn in turns for key in (turn.turn_id, *every_trace(turn))}


class TestNewest:
    """Only as much of a thread is read as is asked for, and it is the same turns."""

    SAID: Final = (
        *talk(("assistant", "x"), ("user", "a"), ("user", "b"), ("system", "s"), ("user", "c"), ("assistant", "d")),
        *talk(("tool", "t"), ("assistant", "e"), ("user", "f"), ("tool", "u"), ("user", "g"), ("system", "z")),
        *talk(("assistant", "h"), ("user", "i"), ("assistant", "j"), ("user", "k"), ("user", "l")),
    )

    @pytest.mark.parametrize("newest", range(1, 7))
    def test_they_are_the_last_ones(self, newest: int):
        for end in range(len(self.SAID) + 1):
            messages = self.SAID[:end]

            assert split(messages, thread_id=TH, newest=newest) == split(messages, thread_id=TH)[-newest:]

    def test_what_is_older_is_not_read(self):
        read: list[Message] = []

        class Reading(list[Message]):
            def __reversed__(self) -> Iterator[Message]:
                for message in super().__reversed__():
                    read.append(message)
                    yield message

        found = split(Reading(long_talk(500)), thread_id=TH, newest=2)

        assert [turn.messages[0].text for turn in found] == ["user 498", "user 499"]
        assert [message.text for message in read][-1] == "assistant 496"


class TestSplit:
    @pytest.mark.parametrize(
        ("said", "turns"),
        [
            ([], []),
            ([("system", "be kind"), ("assistant", "hello")], []),
            ([("user", "a")], [["a"]]),
            ([("user", "a"), ("assistant", "b")], [["a", "b"]]),
            ([("user", "a"), ("assistant", "b"), ("user", "c")], [["a", "b"], ["c"]]),
            ([("user", "a"), ("user", "b"), ("assistant", "c")], [["a", "b", "c"]]),
            ([("assistant", "x"), ("user", "a"), ("tool", "t"), ("assistant", "b")], [["a", "b"]]),
            ([("user", "a"), ("assistant", ""), ("tool", "t"), ("user", "b")], [["a", ""], ["b"]]),
            ([("user", "a"), ("system", "s"), ("user", "b")], [["a", "b"]]),
        ],
    )
    def test_turn_starts_with_the_users_word(self, said: list[tuple[Role, str]], turns: list[list[str]]):
        """Words in a row are one turn; tools and the system belong to none."""
        found = split(talk(*said), thread_id=TH)

        assert [[message.text for message in turn.messages] for turn in found] == turns

    def test_turn_with_ids_is_the_same_in_every_thread(self):
        """A fork shows the same turns."""
        messages = long_talk(3, ids="m")

        here, fork = split(messages, thread_id=TH), split(messages, thread_id=ThreadId("fork"))

        assert [turn.turn_id for turn in here] == [turn.turn_id for turn in fork]

    def test_turn_with_ids_does_not_depend_on_what_is_still_shown(self):
        """Where the beginning of a thread was cut off, the rest is known still."""
        messages = long_talk(3, ids="m")

        assert split(messages[2:], thread_id=TH)[0].turn_id == split(messages, thread_id=TH)[1].turn_id

    def test_turn_without_ids_belongs_to_its_thread_and_place(self):
        """The same words elsewhere, or after other words, are another turn."""
        once = split(talk(("user", "yes"), ("assistant", "ok")), thread_id=TH)
        twice = split(talk(("user", "yes"), ("assistant", "ok"), ("user", "yes"), ("assistant", "ok")), thread_id=TH)
        elsewhere = split(talk(("user", "yes"), ("assistant", "ok")), thread_id=ThreadId("other"))

        assert len({once[0].turn_id, twice[1].turn_id, elsewhere[0].turn_id}) == 3
        assert once[0].turn_id == twice[0].turn_id

    def test_user_message_without_id_beside_a_reply_with_one(self):
        """One id is enough to tell turns apart; some agents give their people's messages none."""
        first = split([Message("user", "yes"), Message("assistant", "ok", MessageId("1"))], thread_id=TH)
        second = split([Message("user", "yes"), Message("assistant", "ok", MessageId("2"))], thread_id=TH)

        assert first[0].turn_id != second[0].turn_id


class TestMissingTurns:
    def test_everything_is_missing_at_first(self):
        """Oldest first, so that they are learnt from in order."""
        turns = split(long_talk(3, ids="m"), thread_id=TH)

        assert missing_turns(turns, set()) == turns

    def test_only_what_is_newer_than_the_newest_known_turn_is_missing(self):
        """The whole thread is not recorded again at every turn."""
        turns = split(long_talk(5, ids="m"), thread_id=TH)

        assert missing_turns(turns, on_record(turns[2])) == turns[3:]
        assert missing_turns(turns, on_record(turns[4])) == ()

    def test_however_many_are_missing(self):
        """An outage may last for more turns than anybody thought of."""
        turns = split(long_talk(500, ids="m"), thread_id=TH)

        assert missing_turns(turns, on_record(turns[0])) == turns[1:]

    def test_new_ids_at_every_call_do_not_make_old_turns_new(self):
        """Some programs keep no ids: their old messages come with new ones every time."""
        before = split(long_talk(4, ids="first-"), thread_id=TH)
        again = split(long_talk(5, ids="second-"), thread_id=TH)

        assert missing_turns(again, on_record(*before)) == again[4:]

    @pytest.mark.parametrize("shown", [2, 3, 5])
    def test_cut_off_history_without_ids_does_not_make_old_turns_new(self, shown: int):
        """Where only the last turns are shown, the oldest of them has lost its neighbour, and is known still."""
        before = split(long_talk(7), thread_id=TH)
        again = split(long_talk(8)[-2 * shown :], thread_id=TH)

        assert missing_turns(again, on_record(*before)) == again[-1:]

    def test_same_words_said_again_are_a_new_turn(self):
        """The newest turn is known by its ids only: a person may come back to what they said."""
        before = split(talk(("user", "make it red"), ("assistant", "done"), ids="a"), thread_id=TH)
        again = split(talk(("user", "make it red"), ("assistant", "done"), ids="b"), thread_id=TH)

        assert missing_turns(again, on_record(*before)) == again


class TestTurnRecord:
    def test_it_holds_what_was_said_without_secrets(self):
        """User and assistant, redacted; blocks of recall are taken out again."""
        memory = Memory(
            MemoryId("m"),
            ("memories", "ana"),
            "I live in Rome",
            "semantic",
            "active",
            "user",
            (Source("user"),),
            1,
            AT,
            AT,
        )
        said = talk(
            ("user", f"{render_block([memory])}\n\nmy password is hunter2"),
            ("tool", "raw"),
            ("assistant", "fine"),
            ids="m",
        )
        (turn,) = split(said, thread_id=TH)

        record = pending(turn, thread_id=TH, at=AT, recalled=["my pin is 1234"])

        assert [(m.role, m.text, m.message_id) for m in record.turn.messages] == [
            ("user", "my password is [redacted: password]", "m0"),
            ("assistant", "fine", "m2"),
        ]
        assert record.turn.recalled == ("my pin is [redacted: code]",)

    def test_texts_are_bounded(self):
        """A megabyte is not kept, and what is cut is never the second half of a secret."""
        secret = "-----BEGIN PRIVATE KEY-----" + "A" * MAX_TEXT_CHARACTERS * 2
        (turn,) = split(talk(("user", "x " * 500_000), ("user", secret), ("assistant", "y" * 40_000)), thread_id=TH)

        record = pending(turn, thread_id=TH, at=AT, recalled=())

        said = {
            role: sum(len(m.text) for m in record.turn.messages if m.role == role) for role in ("user", "assistant")
        }
        assert said["user"] <= MAX_TEXT_CHARACTERS
        assert said["assistant"] <= MAX_TEXT_CHARACTERS
        assert "AAAA" not in "".join(m.text for m in record.turn.messages)

    def test_it_is_read_as_it_was_written(self):
        """A row gives the record back, and is found by when it is due."""
        (turn,) = split(talk(("user", "I live in Lisbon"), ("assistant", "ok"), ids="m"), thread_id=TH)
        record = pending(turn, thread_id=TH, at=AT, recalled=["I like tea"])

        put = put_of(record, ANA, due_at=AT, expect="absent")

        assert put.index == ()
        assert put.due is not None
        assert (put.due.kind, put.due.at) == ("capture", AT)
        item = Item(Ref(ANA.partition, put.namespace, put.key), dict(put.value), 1, AT, AT, due=put.due)
        assert record_of(item) == record

    def test_nothing_of_what_was_said_is_left_when_it_is_done(self):
        """What stays says which turn it was and what it taught."""
        (turn,) = split(talk(("user", "I live in Lisbon"), ids="m"), thread_id=TH)

        put = put_of(
            done(pending(turn, thread_id=TH, at=AT, recalled=["tea"]), [MemoryId("1")]), ANA, due_at=None, expect=3
        )

        assert put.value == {"state": "done", "thread_id": "th", "at": AT.isoformat(), "memory_ids": ["1"]}
        assert put.due is None

    @pytest.mark.parametrize(
        "value",
        [
            {},
            {"state": "pending"},
            {"state": "pending", "at": "yesterday"},
            {"state": "sleeping", "at": AT.isoformat()},
            {"state": 3, "at": AT.isoformat()},
        ],
    )
    def test_row_that_says_nothing_is_no_record(self, value: dict[str, object]):
        """A strange row is passed over."""
        assert record_of(Item(Ref(ANA.partition, (".turns", "ana"), "k"), value, 1, AT, AT)) is None

    def test_strange_fields_are_left_out(self):
        """One bad message does not hide the others."""
        value = {
            "state": "pending",
            "at": AT.isoformat(),
            "messages": [3, {"role": "king", "text": "x"}, {"role": "user", "text": "hi"}],
            "recalled": "no",
            "tries": "many",
        }

        record = record_of(Item(Ref(ANA.partition, (".turns", "ana"), "k"), value, 1, AT, AT))

        assert record is not None
        assert record.turn.messages == (Message("user", "hi"),)
        assert (record.turn.recalled, record.tries) == ((), 0)


def test_what_a_turn_was_given_is_read_as_it_was_written():
    """Also where it was written before there were two marks."""
    given = (
        GivenMemory(MemoryId("so"), 0.9),
        GivenMemory(MemoryId("not"), 0.5, earlier=True),
        GivenMemory(MemoryId("perhaps"), 0.4, earlier=True, may_hold=True),
    )

    written = spell_recall(TurnRecall(given))

    assert recall_of(written) == TurnRecall(given)
    assert written["memories"][:2] == [["so", 0.9], ["not", 0.5, True]]
