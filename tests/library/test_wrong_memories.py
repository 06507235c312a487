"""What must not be believed, and what must not push out what is true: whole turns through ``tk.capture``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import threadkeep

ANA = "ana"


@pytest.fixture
def tk() -> Iterator[threadkeep.Threadkeep]:
    """Return a memory in RAM that compares by words."""
    with threadkeep.open("memory://", embedder="none") as opened:
        yield opened


def believed(tk: threadkeep.Threadkeep, *turns: str) -> list[str]:
    """Return what is held true after *turns* of one thread."""
    messages: list[dict[str, str]] = []
    for said in turns:
        messages += [{"role": "user", "content": said}, {"role": "assistant", "content": "I see."}]
        tk.sync.capture(messages, owner=ANA, thread_id="1", wait=True)
    known = tk.sync.memories.list(owner=ANA, kind="semantic")
    return sorted(memory.text for memory in known if memory.status == "active" and memory.valid_to is None)


class TestDisbelieve:
    """Not everything that reads like a fact about the user is one."""

    @pytest.mark.parametrize(
        "said",
        [
            "Do I live in Berlin?",
            "If I lived in Berlin, I would bike more.",
            "Imagine I live on Mars.",
            "Pretend I am a pirate. I live on a ship.",
            'He said "I live in Paris".',
            "Bob wrote: I live in Paris.",
            "> I live in Paris.\nWhat do you think?",
            "Translate to French: I live in Paris.",
            "Write an email from me: I live in Paris and I love cheese.",
            "I live in Atlantis, just kidding.",
            "I live in Atlantis. Just kidding!",
            "The following is a joke. I married my toaster.",
            "Everyone thinks I work at Google.",
            "Let's say I have a peanut allergy.",
            "According to my profile I live in Paris, but that is wrong.",
            "Do not remember this: I live in Paris.",
        ],
    )
    def test_nothing_is_believed(self, tk: threadkeep.Threadkeep, said: str) -> None:
        """Questions, hypotheses, jokes, parts that are played, and the words of others."""
        assert believed(tk, said) == []

    def test_earnest_is_believed(self, tk: threadkeep.Threadkeep) -> None:
        """Whoever says that it is no joke means it."""
        assert believed(tk, "I'm not kidding. I live in Lisbon.") == ["I live in Lisbon."]


class TestCorrect:
    """The last word on a subject counts, and only on that subject."""

    @pytest.mark.parametrize(
        "turns",
        [
            ("I live in Lisbon.", "Actually no, I live in Porto."),
            ("I live in Lisbon. No wait, that's wrong, I live in Porto.",),
            ("I live in Lisbon.", "Scratch that, I live in Porto."),
        ],
    )
    def test_a_correction_replaces(self, tk: threadkeep.Threadkeep, turns: tuple[str, ...]) -> None:
        """However it begins."""
        assert believed(tk, *turns) == ["I live in Porto."]

    def test_taking_back_replaces(self, tk: threadkeep.Threadkeep) -> None:
        """An allergy that was a mistake is none."""
        kept = believed(tk, "I'm allergic to nuts.", "I'm not allergic to nuts, I was wrong.")

        assert kept == ["I'm not allergic to nuts, I was wrong."]

    @pytest.mark.parametrize(
        "other",
        [
            "My sister lives in Berlin.",
            "I used to live in Berlin.",
            "I lived in Rome for two years.",
            "I want to live in Rome.",
            "I was born in Madrid.",
            "My parents moved to Porto.",
        ],
    )
    @pytest.mark.parametrize("first", [True, False])
    def test_another_subject_replaces_nothing(self, tk: threadkeep.Threadkeep, other: str, *, first: bool) -> None:
        """Whoever else lives wherever, and wherever one lived before."""
        home = "I live in Lisbon."

        assert home in believed(tk, *((home, other) if first else (other, home)))
