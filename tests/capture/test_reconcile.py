from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadkeep.capture.models import Candidate
from threadkeep.capture.reconcile import (
    MAX_SOURCES,
    Add,
    Contradiction,
    Decision,
    Duplicate,
    Propose,
    Reject,
    Rules,
    Update,
    memory_id_of,
    reconcile,
    writes,
)
from threadkeep.ids import MessageId, ThreadId, TurnId
from threadkeep.memories.codec import memory_of, value_of
from threadkeep.memories.models import Approval, Memory, Source, corrected
from threadkeep.storage.interface import Item, Partition, Ref
from threadkeep.text.semantics import content_words, signature

NOW: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)
PLACE: Final = ("memories", "ana")


def said(text: str, minute: int, *, kind: str = "semantic", speaker: str = "user") -> Candidate:
    at = NOW - timedelta(days=1) + timedelta(minutes=minute)
    source = Source(speaker, ThreadId("th"), MessageId(f"m{minute}"), TurnId(f"t{minute}"), at)  # pyright: ignore[reportArgumentType]
    return Candidate(text, kind, source)  # pyright: ignore[reportArgumentType]


def alike(one: str, other: str) -> float:
    """Stand in for an embedder that finds nearly everything alike."""
    return 0.99 if one != other else 1.0


def decide(candidates: Sequence[Candidate], known: Sequence[Memory] = ()) -> tuple[Decision, ...]:
    return reconcile(candidates, known, Rules(PLACE, NOW, alike))


def after(candidates: Sequence[Candidate], known: Sequence[Memory] = ()) -> list[Memory]:
    """Apply what is decided, as a storage would."""
    state = {memory.memory_id: memory for memory in known}
    for memory, _ in writes(decide(candidates, known), known):
        state[memory.memory_id] = replace(memory, revision=memory.revision + 1)
    return list(state.values())


def outcome(memories: Sequence[Memory]) -> set[object]:
    """Return what matters of *memories*: what is true now, what was, when, and who said it.

    Of two wordings of one statement, such as a model's and the user's, either may stand.
    """
    return {
        (
            signature(memory.text),
            frozenset((s.turn_id, s.at) for s in memory.sources),
            memory.valid_from,
            tuple(
                (signature(old.text), old.valid_from, old.valid_to, frozenset((s.turn_id, s.at) for s in old.sources))
                for old in memory.history
            ),
        )
        for memory in memories
    }


class TestAdd:
    def test_new_statement_is_added(self):
        """It is the user's own, active, learnt when it was said, and expected to be new."""
        decisions = decide([said("We deploy with ArgoCD", 1)])

        (memory, expect) = writes(decisions, ())[0]
        assert isinstance(decisions[0], Add)
        assert (memory.text, memory.namespace, memory.status, memory.trust) == (
            "We deploy with ArgoCD",
            PLACE,
            "active",
            "user",
        )
        assert memory.memory_id == memory_id_of(TurnId("t1"), "semantic", "we deploy with argocd.")
        assert expect == "absent"

    def test_what_no_user_said_waits(self):
        """A statement of the assistant's is a proposal, and no memory."""
        (decision,) = decide([said("The user is called Max", 1, speaker="assistant")])

        assert isinstance(decision, Propose)
        assert writes([decision], ()) == ()

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("We moved the office to Berlin", "We moved the office to Bern"),
            ("My sister likes tea", "My sister doesn't like tea"),
            ("My sister is Ana", "My sister is a nurse"),
            ("Ana manages Bob", "Bob manages Ana"),
            ("We have 20 servers", "We have 30 servers"),
        ],
    )
    def test_alike_is_not_the_same(self, one: str, other: str):
        """However close their vectors are, a name, a number or a negation tells them apart."""
        memories = after([said(one, 1), said(other, 2)])

        assert {memory.text for memory in memories} == {one, other}
        assert all(not memory.history for memory in memories)

    def test_fact_and_episode_are_not_the_same(self):
        """Kinds do not meet, whatever the words."""
        memories = after([said("We deploy with ArgoCD", 1), said("We deploy with ArgoCD", 1, kind="episodic")])

        assert {memory.kind for memory in memories} == {"semantic", "episodic"}


class TestDuplicate:
    @pytest.mark.parametrize(
        "again", ["We deploy with ArgoCD", "we deploy with  ArgoCD.", "We really deploy with ArgoCD"]
    )
    def test_known_statement_gets_another_source(self, again: str):
        """It stays one memory, which knows where it was said."""
        known = after([said("We deploy with ArgoCD", 1)])

        decisions = decide([said(again, 5)], known)

        assert isinstance(decisions[0], Duplicate)
        ((memory, expect),) = writes(decisions, known)
        assert [source.turn_id for source in memory.sources] == ["t1", "t5"]
        assert expect == known[0].revision

    def test_nearly_the_same_needs_a_close_vector(self):
        """Without one, other words are another statement."""
        known = after([said("We deploy with ArgoCD", 1)])

        (decision,) = reconcile([said("We just deploy with ArgoCD", 2)], known, Rules(PLACE, NOW))

        assert isinstance(decision, Add)

    def test_same_message_recorded_twice_is_one_source(self):
        """A turn that was recorded under two ids counts once."""
        first = said("We deploy with ArgoCD", 1)
        again = replace(first, source=replace(first.source, turn_id=TurnId("other")))

        known = after([first])

        assert writes(decide([again], known), known) == ()

    def test_sources_do_not_grow_without_end(self):
        """The first and the latest are kept."""
        memories = after([said("We deploy with ArgoCD", minute) for minute in range(200)])

        (memory,) = memories
        assert len(memory.sources) == MAX_SOURCES
        assert (memory.sources[0].turn_id, memory.sources[-1].turn_id) == ("t0", "t199")


class TestUpdate:
    def test_newer_answer_replaces_the_older(self):
        """The old one goes into history, true until the new one was said."""
        red, blue = said("My favourite colour is red", 1), said("My favourite colour is blue now", 2)
        known = after([red])

        decisions = decide([blue], known)

        assert isinstance(decisions[0], Update)
        ((memory, expect),) = writes(decisions, known)
        assert (memory.text, expect) == ("My favourite colour is blue now", known[0].revision)
        (old,) = memory.history
        assert (old.text, old.valid_from, old.valid_to, old.replaced_at) == (
            "My favourite colour is red",
            None,
            blue.source.at,
            NOW,
        )
        assert memory.memory_id == known[0].memory_id

    def test_older_answer_that_arrives_late_does_not_replace_the_newer(self):
        """It goes where it belongs: into history."""
        known = after([said("I moved to Berlin", 5)])

        (memory,) = after([said("I live in Lisbon", 1)], known)

        assert memory.text == "I moved to Berlin"
        assert [old.text for old in memory.history] == ["I live in Lisbon"]

    def test_return_to_an_older_answer_is_a_third_stretch(self):
        """Red, blue, red again is not the same as red all along."""
        (memory,) = after(
            [
                said("My favourite colour is red", 1),
                said("My favourite colour is blue", 2),
                said("My favourite colour is red", 3),
            ]
        )

        assert memory.text == "My favourite colour is red"
        assert [old.text for old in memory.history] == ["My favourite colour is red", "My favourite colour is blue"]

    def test_correction_by_hand_is_not_undone_by_an_older_word(self):
        """What a person corrected later is newer than what they said before."""
        known = after([said("I live in Lisbon", 1)])
        by_hand = Source("user", at=NOW)
        known = [corrected(known[0], "I live in Porto", source=by_hand, at=NOW, approval=None)]

        (memory,) = after([said("I live in Faro", 2)], known)

        assert memory.text == "I live in Porto"
        assert [old.text for old in memory.history] == ["I live in Lisbon", "I live in Faro"]

    def test_approver_is_named_with_the_statement(self):
        """An assistant's by the policy, the user's by nobody; as rows they are recalled, each with its own."""
        known = after([said("I live in Lisbon", 1)])
        rules = Rules(PLACE, NOW, alike, verdict=lambda _kind, _speaker: "auto")

        ((passed, _),) = writes(reconcile([said("I live in Porto", 2, speaker="assistant")], known, rules), known)
        ((again, _),) = writes(reconcile([said("I live in Faro", 3)], [passed], rules), [passed])

        read = memory_of(Item(Ref(Partition("root", ()), PLACE, "k"), value_of(again), 1, NOW, NOW))
        assert read is not None
        assert (passed.trust, passed.approval) == ("assistant", Approval("policy", NOW))
        assert (again.trust, again.approval, read.status) == ("user", None, "active")
        assert [old.approval for old in read.history] == [None, Approval("policy", NOW)]

    def test_statement_without_a_slot_replaces_nothing(self):
        """A sister may be Ana and a nurse."""
        memories = after([said("My sister is Ana", 1), said("My sister is a nurse", 2)])

        assert len(memories) == 2

    @pytest.mark.parametrize("change", [{"status": "proposed"}, {"valid_to": NOW}])
    def test_what_is_not_true_now_is_not_changed(self, change: dict[str, object]):
        """A proposal waits for its decision, and what has ended is over."""
        known = [replace(memory, **change) for memory in after([said("I live in Lisbon", 1)])]  # pyright: ignore[reportArgumentType]

        decisions = decide([said("I moved to Berlin", 2)], known)

        assert [type(decision) for decision in decisions] == [Add]


class TestReject:
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("  ", "empty"),
            ("word " * 300, "too long"),
            ("my password is hunter2", "secret"),
            ("the key is [redacted: API key]", "secret"),
            ("I live in lisbon.", "recalled"),
        ],
    )
    def test_it_is_refused_with_a_reason(self, text: str, reason: str):
        """What must not be kept is not kept, and it is said why."""
        (decision,) = reconcile([said(text, 1)], (), Rules(PLACE, NOW, recalled=["I live in Lisbon"]))

        assert isinstance(decision, Reject)
        assert decision.reason == reason
        assert writes([decision], ()) == ()

    def test_rejected_statement_does_not_come_back(self):
        """What a person rejected stands in the way of learning it again."""
        known = [replace(memory, status="rejected") for memory in after([said("I owe Bob money", 1)])]

        (decision,) = decide([said("I owe Bob money.", 9)], known)

        assert isinstance(decision, Reject)


TALK: Final = [
    "My favourite colour is red",
    "My favourite colour is blue",
    "my favorite color is green now",
    "I live in Lisbon",
    "I moved to Berlin",
    "I live in Berlin",
    "I like tea",
    "I don't like tea",
    "We deploy with ArgoCD",
    "we deploy with argocd.",
    "We deploy with Flux",
    "My sister is Ana",
    "I don't live in Lisbon any more",
    "I no longer live in Berlin",
    "The user lives in Lisbon",
    "I smoke",
    "I stopped smoking",
    "The user deploys with ArgoCD",
]


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[Candidate], list[list[Candidate]]]:
    """Draw what was said, and a delivery of it: in any order, in any portions, each one to three times."""
    texts = draw(st.lists(st.sampled_from(TALK), min_size=1, max_size=7))
    talk = [said(text, minute) for minute, text in enumerate(texts)]
    times = draw(st.lists(st.integers(1, 3), min_size=len(talk), max_size=len(talk)))
    deliveries = draw(st.permutations([one for one, n in zip(talk, times, strict=True) for _ in range(n)]))
    portions: list[list[Candidate]] = []
    rest = list(deliveries)
    while rest:
        size = draw(st.integers(1, len(rest)))
        portions.append(rest[:size])
        rest = rest[size:]
    return talk, portions


class TestEnd:
    def test_what_is_no_longer_so_ends_the_memory(self):
        """The old answer is history from that moment on, and the memory says that it has ended."""
        known = after([said("I live in Lisbon", 1)])

        decisions = decide([said("I don't live in Lisbon any more.", 5)], known)

        assert isinstance(decisions[0], Update)
        ((memory, _),) = writes(decisions, known)
        assert memory.text == "I don't live in Lisbon any more."
        (old,) = memory.history
        assert (old.text, old.valid_to) == ("I live in Lisbon", said("", 5).source.at)

    @pytest.mark.parametrize(
        ("before", "ending"),
        [
            ("I moved to Lisbon", "I don't live in Lisbon any more"),
            ("I work at Acme", "I left my job at Acme last month"),
            ("I'm vegan", "I am no longer vegan"),
            ("We use Jenkins", "We don't use Jenkins any more"),
            ("I smoke", "I quit smoking"),
            ("My manager is Olga", "My manager is not Olga any more"),
            ("The user smokes", "I stopped smoking"),
            ("Our CI runs on Jenkins", "Our CI no longer runs on Jenkins"),
        ],
    )
    def test_however_it_is_said(self, before: str, ending: str):
        """One memory, whose present is the ending."""
        (memory,) = after([said(before, 1), said(ending, 2)])

        assert (memory.text, [old.text for old in memory.history]) == (ending, [before])

    def test_another_answer_is_not_ended(self):
        """Who moved to Berlin still lives there when they say that they no longer live in Lisbon."""
        (memory,) = after(
            [
                said("I live in Lisbon", 1),
                said("I moved to Berlin", 2),
                said("I don't live in Lisbon any more", 3),
            ]
        )

        assert memory.text == "I moved to Berlin"
        assert [old.text for old in memory.history] == ["I live in Lisbon", "I don't live in Lisbon any more"]
        assert memory.history[0].valid_to == said("", 2).source.at

    def test_what_was_ended_may_begin_anew(self):
        """Back in Lisbon."""
        (memory,) = after(
            [said("I live in Lisbon", 1), said("I don't live in Lisbon any more", 2), said("I moved to Lisbon", 3)]
        )

        assert memory.text == "I moved to Lisbon"
        assert [(old.text, old.valid_to) for old in memory.history] == [
            ("I live in Lisbon", said("", 2).source.at),
            ("I don't live in Lisbon any more", said("", 3).source.at),
        ]

    def test_ending_of_an_unknown_fact_is_a_statement(self):
        """It is kept as it was said."""
        (memory,) = after([said("I no longer work at Acme", 1)])

        assert (memory.text, memory.history) == ("I no longer work at Acme", ())


class TestContradict:
    @pytest.mark.parametrize(
        ("before", "now"),
        [
            ("I am allergic to peanuts", "I'm not allergic to peanuts"),
            ("I like tea", "I don't like tea"),
            ("My birthday is on 3 May", "My birthday is on 5 May"),
        ],
    )
    def test_newer_one_counts_and_both_are_visible(self, before: str, now: str):
        """They cannot both have been true."""
        known = after([said(before, 1)])

        decisions = decide([said(now, 2)], known)

        assert isinstance(decisions[0], Contradiction)
        ((memory, _),) = writes(decisions, known)
        assert (memory.text, [old.text for old in memory.history]) == (now, [before])

    def test_change_is_none(self):
        """People move."""
        decisions = decide([said("I moved to Berlin", 2)], after([said("I live in Lisbon", 1)]))

        assert [type(decision) for decision in decisions] == [Update]


class TestOrder:
    @settings(max_examples=settings().max_examples * 3 // 2)
    @given(conversations())
    def test_outcome_depends_on_what_was_said_and_when_only(self, drawn: tuple[list[Candidate], list[list[Candidate]]]):
        """Order, portions and repetition of delivery change nothing."""
        talk, portions = drawn
        expected = outcome(_exactly(talk, []))

        memories: list[Memory] = []
        for portion in portions:
            memories = _exactly(portion, memories)

        assert outcome(memories) == expected

    @given(conversations())
    def test_replay_writes_nothing(self, drawn: tuple[list[Candidate], list[list[Candidate]]]):
        """What is known already is not even touched."""
        talk, _ = drawn
        known = _exactly(talk, [])

        assert writes(_decide_exactly(talk, known), known) == ()


def _same_words(one: str, other: str) -> float:
    return float(content_words(one) == content_words(other))


def _decide_exactly(candidates: Sequence[Candidate], known: Sequence[Memory]) -> tuple[Decision, ...]:
    return reconcile(candidates, known, Rules(PLACE, NOW, _same_words))


def _exactly(candidates: Sequence[Candidate], known: Sequence[Memory]) -> list[Memory]:
    state = {memory.memory_id: memory for memory in known}
    for memory, expect in writes(_decide_exactly(candidates, known), known):
        assert expect == (state[memory.memory_id].revision if memory.memory_id in state else "absent")
        state[memory.memory_id] = replace(memory, revision=memory.revision + 1)
    return list(state.values())
