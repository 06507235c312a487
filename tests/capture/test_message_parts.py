"""Messages whose text comes in several parts: of one sentence, of several, or of a file and a question."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

import threadkeep
from threadkeep.testing import FrozenClock, HashingEmbedder

IMAGE = {"type": "image", "source_type": "base64", "mime_type": "image/png", "data": "iVBORw0KGgo="}

ONE_SENTENCE = [
    (("I live in", "Lisbon with my sister."), "I live in Lisbon with my sister."),
    (("I live in ", "Lisbon with my sister."), "I live in Lisbon with my sister."),
    (("I work at Acme", " as a nurse."), "I work at Acme as a nurse."),
    (("I drink coffee", ", tea and cocoa."), "I drink coffee, tea and cocoa."),
    (("Ich wohne in", "Graz bei meiner Schwester."), "Ich wohne in Graz bei meiner Schwester."),
    (("Soy alérgica", "a los cacahuetes."), "Soy alérgica a los cacahuetes."),
    (("J'habite", "à Lyon avec ma sœur."), "J'habite à Lyon avec ma sœur."),
]
SEVERAL = [
    (("I live in Lisbon.", "I work at Acme."), {"I live in Lisbon.", "I work at Acme."}),
    (("I live in Lisbon", IMAGE, "and do you like boats?"), {"I live in Lisbon"}),
]
LETTER_AND_REQUEST = [
    ("I own a boat called Nina and I live in Bergen", "translate this into German"),
    ("I own a boat called Nina and I live in Bergen", "is the applicant serious"),
    ("shorten the letter of my aunt", "i own a boat called Nina and i live in Bergen"),
]


@pytest.fixture
async def tk() -> AsyncIterator[threadkeep.Threadkeep]:
    async with threadkeep.open("memory://", embedder=HashingEmbedder(), clock=FrozenClock(), owner="ana") as memory:
        yield memory


async def learnt(tk: threadkeep.Threadkeep, parts: Sequence[Any]) -> set[str]:
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    await tk.capture([{"role": "user", "content": content}], thread_id="t", wait=True)
    return {one.text for one in await tk.memories.list(kind="semantic")}


@pytest.mark.parametrize(("parts", "sentence"), ONE_SENTENCE)
async def test_a_sentence_in_two_parts_is_one(tk: threadkeep.Threadkeep, parts: Sequence[Any], sentence: str):
    assert await learnt(tk, parts) == {sentence}


@pytest.mark.parametrize(("parts", "sentences"), SEVERAL)
async def test_parts_that_are_sentences_stay_apart(
    tk: threadkeep.Threadkeep, parts: Sequence[Any], sentences: set[str]
):
    assert await learnt(tk, parts) == sentences


async def test_parts_as_openai_names_them_are_read(tk: threadkeep.Threadkeep):
    assert await learnt(tk, [{"type": "input_text", "text": "I live in Lisbon."}]) == {"I live in Lisbon."}


@pytest.mark.parametrize("parts", LETTER_AND_REQUEST)
async def test_a_text_and_what_is_asked_about_it_stay_apart(tk: threadkeep.Threadkeep, parts: Sequence[Any]):
    """The text may be a file that was sent with the request: nothing of it is a fact of the user."""
    assert await learnt(tk, parts) == set()
