"""What a user says that must not be kept, and what they ask to forget."""

from __future__ import annotations

import pytest

import threadkeep
from threadkeep.testing import HashingEmbedder
from threadkeep.text.requests import kept_part, topic_to_forget, unwanted

REFUSED = [
    "Please don't save that I live in Porto.",
    "Please do not store that I live in Porto.",
    "Don't note that I live in Porto.",
    "Please don't write down that I live in Porto.",
    "Don't keep in mind that I live in Porto.",
    "Please don\u2019t make a note that I live in Porto.",
    "Don't ever record the fact that I live in Porto.",
    "Please don't save: I live in Porto.",
    "Never store that I live in Porto.",
    "Can you please not remember that I live in Porto?",
    "Could you not keep that my sister Ines lives in Porto?",
    "I don't want you to remember that I live in Porto.",
    "I'd rather you didn't save that I live in Porto.",
    "I would appreciate it if you didn't note that I live in Porto.",
    "You shouldn't remember that I live in Porto.",
    "You must never write down that I live in Porto.",
    "Make sure you don't store that I live in Porto.",
    "There's no need to remember that I live in Porto.",
    "Stop saving that I live in Porto.",
    "I asked you not to remember that I live in Porto.",
    "Please don't save I live in Porto.",
    "Please don't save the fact I live in Porto.",
    "Please don't store my address: 5 Elm Street, Porto.",
    "I don't want you saving that I live in Porto.",
    "I don't want it saved that I live in Porto.",
    "Under no circumstances should you save that I live in Porto.",
    "It's important that you don't save that I live in Porto.",
    "Do me a favour and don't save that I live in Porto.",
    "Please try not to remember that I live in Porto.",
    "Please don't save or store that I live in Porto.",
    "Please don't save in your memory that I live in Porto.",
    "Please do not keep any record of my address.",
    "Keep to yourself that I live in Porto.",
    "Don't commit to memory that I live in Porto.",
    "Ok, please don't save that Ines lives in Porto.",
    "That I live in Porto must not be saved anywhere.",
    "I like maps, but please don't save that I live in Porto.",
    "I like maps and I don't want you to remember that I live in Porto.",
    "Please don't save that I live in Porto, "
    + "where the sea is near and the hills are high, " * 12
    + "with my cats.",
    "Bitte merk dir nicht, dass ich in Porto wohne.",
    "Merk dir bitte nicht, dass ich in Porto wohne.",
    "Speichere bitte nicht, dass ich in Porto wohne.",
    "Bitte nicht notieren, dass ich in Porto wohne.",
    "Schreib nicht auf, dass ich in Porto wohne.",
    "Ich möchte nicht, dass du dir merkst, dass ich in Porto wohne.",
    "Kannst du dir bitte nicht merken, dass ich in Porto wohne?",
    "No recuerdes que vivo en Porto.",
    "No guardes que vivo en Porto.",
    "Por favor, no anotes que vivo en Porto.",
    "No quiero que recuerdes que vivo en Porto.",
    "Ne retiens pas que j'habite à Porto.",
    "N'enregistre pas que j'habite à Porto.",
    "Ne note jamais que j'habite à Porto.",
    "Je ne veux pas que tu retiennes que j'habite à Porto.",
    "Merci de ne pas enregistrer que j'habite à Porto.",
    "Não guarde que eu moro no Porto.",
    "Por favor, não memorize que eu moro no Porto.",
    "Não quero que você guarde que eu moro no Porto.",
    "Non ricordare che vivo a Porto.",
    "Per favore, non salvare che vivo a Porto.",
    "Non voglio che tu ricordi che vivo a Porto.",
]
REFUSED_TURNS = [
    "Keep this to yourself, I live in Porto.",
    "This stays between us: I live in Porto.",
    "Just between us, I live in Porto.",
    "I live in Porto. Please don't write this down.",
    "I live in Porto. I don't want you to remember that.",
    "I live in Porto, but you shouldn't save this.",
    "Can you please not remember this? I live in Porto.",
    "I live in Porto. This should not be saved.",
    "Don't save the following. I live in Porto.",
    "Das bleibt unter uns: Ich wohne in Porto.",
    "Ich wohne in Porto. Speichere das bitte nicht.",
    "Ça reste entre nous : j'habite à Porto.",
    "Esto queda entre nosotros: vivo en Porto.",
    "Isso fica entre nós: eu moro no Porto.",
]
NOT_REFUSED = [
    "I can't remember that film's name.",
    "I don't remember that I said so.",
    "Don't forget that I'm allergic to nuts.",
    "Never forget that I'm allergic to nuts.",
    "I keep forgetting that I have a dentist on Monday.",
    "My boss told me not to save that file.",
    "My boss told me not to write down that I work late.",
    "Don't you remember that I'm from Brazil?",
    "Why don't you remember that I'm from Brazil?",
    "You don't remember that I'm from Brazil.",
    "You can't keep in mind that I'm from Brazil, can you?",
    "Please remember that I don't save money.",
    "Never store my passwords in plain text, I use a vault.",
    "I try not to save more than I need.",
    "I always try not to remember it.",
    "It is just between us girls that we meet on Mondays.",
    "My sister keeps it between us and the kids.",
    "Don't keep me waiting, I have a meeting at nine.",
    "I keep out of the sun that I love.",
    "We never note that the shop is closed on Mondays.",
    "I always panic and don't remember that I have a bank card.",
    "My sister never writes down that she owes me money.",
    "I would rather not store my bike outside.",
    "I don't want to remember that I failed the exam.",
    "I live in Porto, so don't forget that.",
    "You shouldn't keep it too warm, my orchid died of that.",
    "My grandparents never write it down, so I lost their recipe.",
    "Ich kann mir nicht merken, dass ich in Porto wohne.",
    "Vergiss nicht, dass ich in Porto wohne.",
    "No recuerdo que viva en Porto.",
    "No olvides que vivo en Porto.",
    "Je ne retiens pas que j'habite à Porto.",
    "N'oublie pas que j'habite à Porto.",
    "Não me lembro que moro no Porto.",
    "Non ricordo che vivo a Porto.",
    "Non dimenticare che vivo a Porto.",
]


@pytest.mark.parametrize("said", REFUSED)
def test_a_refused_sentence_is_left_out(said: str):
    assert kept_part(said) == ""


@pytest.mark.parametrize("said", REFUSED_TURNS)
def test_a_refusal_of_the_message_is_for_all_of_it(said: str):
    assert unwanted(said)


@pytest.mark.parametrize("said", NOT_REFUSED)
def test_talk_of_remembering_is_kept(said: str):
    assert kept_part(said) == said
    assert not unwanted(said)
    assert topic_to_forget(said) is None


@pytest.mark.parametrize("said", [*REFUSED, *REFUSED_TURNS])
async def test_nothing_refused_is_captured(said: str):
    """No fact, no episode, and no proposal; what another sentence says is kept beside a refused sentence."""
    async with threadkeep.open("memory://", owner="ana", embedder=HashingEmbedder()) as tk:
        await tk.capture([{"role": "user", "content": said, "id": "m1"}], thread_id="t", wait=True)
        assert await tk.memories.list() == []
        assert await tk.proposals.list() == []


async def test_the_sentence_beside_a_refused_one_is_captured():
    async with threadkeep.open("memory://", owner="ana", embedder=HashingEmbedder()) as tk:
        said = "I have two cats. Please don't save that I live in Porto."
        await tk.capture([{"role": "user", "content": said, "id": "m1"}], thread_id="t", wait=True)
        texts = [memory.text for memory in await tk.memories.list()]
    assert "I have two cats." in texts
    assert "Porto" not in " ".join(texts)


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        ("I like fennel tea.", "Please delete that I like fennel tea."),
        ("I like fennel tea.", "Erase the fact that I like fennel tea."),
        ("I like fennel tea.", "Remove from your memory that I like fennel tea."),
        ("I like fennel tea.", "You can forget that I like fennel tea."),
        ("I like fennel tea.", "Can you delete that I like fennel tea from your memory, please?"),
        ("My phone number is 555 1234.", "Please delete my phone number from your memory."),
        ("I like fennel tea.", "I don't want you to remember that I like fennel tea."),
        ("I like fennel tea.", "Forget that I like fennel tea, I actually drink it less now."),
        ("Ich mag Tango.", "Lösche bitte, dass ich Tango mag."),
        ("J'aime le tango.", "Efface que j'aime le tango."),
        ("Me gusta el tango.", "Borra que me gusta el tango."),
    ],
)
async def test_what_is_to_be_forgotten_is_proposed(known: str, asked: str):
    async with threadkeep.open("memory://", owner="ana", embedder=HashingEmbedder()) as tk:
        memory_id = (await tk.memories.remember(known)).memory_id
        await tk.capture([{"role": "user", "content": asked, "id": "m1"}], thread_id="t", wait=True)

        (proposal,) = await tk.proposals.list()
        assert (proposal.action, proposal.memory_id) == ("forget", memory_id)
        assert [one.text for one in await tk.memories.list(kind="semantic")] == [known]


@pytest.mark.parametrize(
    "said",
    [
        "Please delete that file.",
        "Remove that line from the function.",
        "Erase the board, please.",
        "Delete my account from the database table users with SQL.",
        "You can forget it.",
    ],
)
def test_other_deletions_are_no_request_to_forget(said: str):
    assert topic_to_forget(said) is None
    assert kept_part(said) == said


@pytest.mark.parametrize(
    ("said", "topic", "rest"),
    [
        ("Forget that I like jazz, I actually like it less now", "I like jazz", "I actually like it less now"),
        ("Forget that I like jazz; my favourite is blues now.", "I like jazz", "my favourite is blues now."),
        ("Forget that I like jazz, because I sold my records.", "I like jazz", "because I sold my records."),
        ("Forget that I like jazz, blues and tea.", "I like jazz, blues and tea", ""),
        ("Forget that I like jazz, please.", "I like jazz", ""),
        ("Vergiss, dass ich Jazz mag, ich höre jetzt Blues.", "ich Jazz mag", "ich höre jetzt Blues."),
    ],
)
def test_what_follows_a_request_to_forget_is_kept(said: str, topic: str, rest: str):
    assert topic_to_forget(said) == topic
    assert kept_part(said) == rest


async def test_what_follows_a_request_to_forget_is_captured():
    async with threadkeep.open("memory://", owner="ana", embedder=HashingEmbedder()) as tk:
        said = "Forget that I like jazz, I live in Porto now."
        await tk.capture([{"role": "user", "content": said, "id": "m1"}], thread_id="t", wait=True)
        texts = [memory.text for memory in await tk.memories.list()]
    assert "I live in Porto now." in texts
    assert "jazz" not in " ".join(texts)
