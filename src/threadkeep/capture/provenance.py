"""Who stands behind a statement: checked on the words of the turn, never asked of a model. Pure rules.

A statement is the user's only where a clause of the user's own bears it out: it holds every word that
carries the statement, says it of the same person, neither denies nor asks nor supposes it, and was not
pasted, quoted or said in jest. What a model made of it may be worded as it likes, but not say more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from threadkeep.memories.kinds import Kind
from threadkeep.memories.models import ASKED, SAID, Speaker
from threadkeep.models.base import INPUT_ROLES, Message, Role
from threadkeep.text.facts import asserts, clauses, meant, statements
from threadkeep.text.quoted import holds_text, is_pasted
from threadkeep.text.redaction import MARK, redact
from threadkeep.text.requests import kept_part, unwanted
from threadkeep.text.semantics import (
    WEAK,
    agrees,
    content_words,
    gist_of,
    is_about_user,
    normalised,
    speaks_of_self,
    straight,
    words,
)
from threadkeep.text.sentences import labelled_line, sentences

MAX_SENTENCES: Final = 400
"""Of a message; a longer one was pasted."""

NOT_OWN: Final = "not the user's words"
"""Why nothing of a message is kept that seems to be code, a log or another author's text."""

_PEOPLE: Final = words(
    """
    mother father parent sister brother sibl wife husband partner girlfriend boyfriend fianc spous son daughter
    child babi twin grandmoth grandfath grandma grandpa grandson granddaught aunt uncl cousin niec nephew friend
    roommat flatmat neighbour neighbor colleagu cowork boss manag teammat mentor doctor therapist dentist teacher
    coach landlord client custom dog cat pet ex
    """
)
"""Of whom something else may hold than of the user; stems."""
_REVERSING: Final = words(
    """
    refus avoid almost near pretend fail forget forgot stop quit leav left lose lost deni regret former instead except
    unlik against cancel reject declin abandon drop remov hardli bare dream joke lie fake suppos hypothet exampl test
    """
)
"""Stems that turn what follows into its opposite: a statement without them says something else."""
_TURNING: Final = (
    re.compile(r"(?i)\b(?:hardly|barely|scarcely|rarely|seldom)\b"),
    re.compile(
        r"(?i)\b(?:up to|at most|no more than|only (?:if|when|while|until)|as long as|provided|except|unless|until)\b"
    ),
)
"""What a statement must not leave out: without it, it says the opposite, or much more."""
_PARTS: Final = re.compile(r"(?i),?\s{0,3}\b(?:who|whom|whose|which)\b|(?<=[.!?])\s+")
"""Where another person may become the subject."""
_FRAME: Final = words("team person state mention report fact current role own includ describ respect")
_EPISODE_FRAME: Final = words(
    """
    ask said say want request inquir question discuss talk help need tell told explain answer repli respond provid
    assist share mention describ seek sought look wonder respons reply convers chat turn session summari user
    """
)
_USES: Final = re.compile(r"(?i)\b(?:uses?|using|used|utili[sz]e[sd]?|runs?|running)\b")
_USING: Final = re.compile(
    r"(?i)\b(?:us(?:e|es|ed|ing)|utili[sz]\w+|run(?:s|ning)?|ran|deploy\w*|host\w*|build\w*|built|ship\w*|rel(?:y|ies)|work\w*|"
    r"on|have|has|'ve|own|drive|write|wrote|develop\w*|maintain\w*|operat\w*|manag\w*)\b"
)
_IS_SOMETHING: Final = re.compile(r"(?i)\b(?:I'm|I am|we're|we are)\b")
_FROM: Final = re.compile(r"(?i)\bfrom\b")
_OTHERS: Final[dict[Role, Speaker]] = {
    "user": "document",
    "agent": "agent",
    "tool": "tool",
    "assistant": "assistant",
}
"""Who says what a message of such a role holds beside the user's own clauses: the user's own message, a document."""
_EPISODE_LEAD: Final = re.compile(f"^(?:{ASKED}|{SAID})")


@dataclass(frozen=True, slots=True)
class Backing:
    """Who stands behind a statement.

    Attributes:
        speaker: ``user`` only where the user's own words bear it out; ``document`` where only what they
            pasted or quoted does; else ``assistant``: a reply or a model says so.
        message: The message that says it; ``None`` where none does.
    """

    speaker: Speaker
    message: Message | None


def backing(text: str, kind: Kind, messages: Sequence[Message]) -> Backing:
    """Tell who of a turn stands behind *text*.

    Args:
        text: The statement, as anybody worded it.
        kind: An episode tells of the turn, so what was asked bears it out, too.
        messages: The turn's.
    """
    said = [message for message in messages if message.role == "user"]
    for message in said:
        if kind == "episodic" and is_supported_episode(text, message.text):
            return Backing("user", message)
        if kind != "episodic" and any(entails(clause, text) for clause in own_clauses(message.text)):
            return Backing("user", message)
    wanted = set(gist_of(_EPISODE_LEAD.sub("", text)).words)
    for message in messages:
        if message.role in _OTHERS and wanted and wanted <= set(gist_of(message.text).words):
            return Backing(_OTHERS[message.role], message)
    return Backing("assistant", None)


def own_clauses(text: str) -> Iterator[str]:
    """Yield what the user states in *text* in words of their own: statements, clauses, and neighbours together."""
    if unwanted(text) or not meant(text):
        return
    before: str | None = None
    for sentence in kept_sentences(text):
        if is_pasted(sentence, text):
            continue
        for statement in statements(sentence, beside_text=holds_text(text)):
            yield statement.text
        stated = [clause for clause in clauses(sentence) if asserts(clause)]
        yield from stated
        whole = sentence if asserts(sentence) else None
        if whole and before:
            yield f"{before} {whole}"
        before = whole


def entails(clause: str, text: str) -> bool:
    """Return whether *clause*, which the user states, says at least what *text* says."""
    if normalised(text) == normalised(clause):
        return True
    if any(rule.search(clause) and not rule.search(text) for rule in _TURNING) or _is_of_another(clause, text):
        return False
    return _is_part(text, clause) or _holds(clause, text)


def _holds(clause: str, text: str) -> bool:
    """Whether every word that carries *text* is in *clause*, said of the same person and not turned round."""
    said, wanted = gist_of(clause), gist_of(text)
    if not wanted.words or not agrees(said, wanted):
        return False
    have = set(said.words)
    dropped = have - set(wanted.words)
    if dropped & _REVERSING or (is_about_user(text) and (dropped & _PEOPLE or not speaks_of_self(clause))):
        return False
    if _USES.search(text) and not _USING.search(clause):
        return False
    return set(wanted.words) - have <= _implied(clause, have) and bool(set(wanted.words) & have)


def is_supported_episode(text: str, message: str) -> bool:
    """Return whether an episode tells nothing but what the user's own sentences of *message* hold."""
    if unwanted(message):
        return False
    if (line := unattributed_line(message)) and text == f"{ASKED}{line}":
        return True
    episode = _EPISODE_LEAD.sub("", text).removesuffix("…")
    own = " ".join(kept_sentences(message))
    if _contains_words(episode, own):
        return True
    wanted = set(gist_of(episode).words) - _EPISODE_FRAME
    return bool(wanted) and wanted <= set(gist_of(own).words)


@lru_cache(maxsize=4)
def own_sentences(text: str) -> tuple[str, ...]:
    """Return the user's own sentences of a message without a secret, at most 400; the last four messages are cached."""
    return tuple(sentence for sentence in sentences(redact(text))[:MAX_SENTENCES] if MARK not in sentence)


@lru_cache(maxsize=4)
def kept_sentences(text: str) -> tuple[str, ...]:
    """Return the user's own sentences of a message without what they ask to forget or not to keep."""
    return tuple(filter(None, map(kept_part, own_sentences(text))))


def unattributed_line(text: str) -> str:
    """Return the message *text* if it is one line that may be another author's, so that it has no own sentence."""
    line = "" if own_sentences(text) else labelled_line(text)
    return line if line and redact(line) == line and kept_part(line) == line else ""


def why_nothing(messages: Sequence[Message]) -> str | None:
    """Return why a message of the user's has no own sentence; ``None``: each of *messages* has one, or says nothing."""
    lost = (one.text for one in messages if one.role == "user" and not own_sentences(one.text))
    text = next((text for text in lost if any(map(str.isalnum, text))), None)
    return None if text is None else "secret" if MARK in redact(text) else NOT_OWN


def without_refused(messages: Sequence[Message]) -> tuple[Message, ...] | None:
    """Return *messages* of a turn without what the user asks to forget or not to keep; ``None``: that is nothing.

    Replies and results are left out, too: they may repeat it.
    """
    for one in messages:
        if one.role in INPUT_ROLES and _refuses(one.text):
            break
    else:
        return None
    said = [replace(one, text=_without_refused(one.text)) for one in messages if one.role in INPUT_ROLES]
    return tuple(one for one in said if one.text.strip())


def asks_to_leave_out(messages: Sequence[Message]) -> bool:
    """Return whether the user asks in one of *messages* not to keep, or to forget, something of them."""
    return without_refused(messages) is not None or any(unwanted(one.text) for one in messages if one.role == "user")


def _refuses(text: str) -> bool:
    own = own_sentences(text)
    return own != kept_sentences(text) or (len(own) == MAX_SENTENCES and kept_part(text) != text)


def _without_refused(text: str) -> str:
    """Return *text* without what is asked to be forgotten or not to be kept; ``""`` where it cannot be cut out."""
    if not _refuses(text):
        return text
    left = text
    for sentence in own_sentences(text):
        if (part := kept_part(sentence)) != sentence:
            written = re.compile(r"\s+".join(map(re.escape, sentence.split())))
            left, found = written.subn(part.replace("\\", r"\\"), left)
            if not found:
                return ""
    return "" if _refuses(left) else left


def _is_of_another(clause: str, text: str) -> bool:
    """Return whether *text* is about the user, but its part of *clause* about another person."""
    if not is_about_user(text):
        return False
    wanted, parts = set(gist_of(text).words), [part for part in _PARTS.split(clause) if part.strip()]
    return len(parts) > 1 and any(
        wanted and not speaks_of_self(part) and wanted <= set(gist_of(part).words) for part in parts
    )


def _is_part(text: str, clause: str) -> bool:
    """Whether *text* stands in *clause* as it is, fillers apart, and nothing around it turns it round."""
    if not _contains_words(text, clause):
        return False
    said, wanted = gist_of(clause), gist_of(text)
    return agrees(said, wanted) and not (set(said.words) - set(wanted.words)) & _REVERSING


def _contains_words(text: str, clause: str) -> bool:
    inner, outer = content_words(text), content_words(clause)
    places = range(len(outer) - len(inner) + 1)
    return bool(inner) and any(outer[place : place + len(inner)] == inner for place in places)


def _implied(clause: str, have: set[str]) -> frozenset[str]:
    """Return stems that may stand in a statement without standing in the clause."""
    implied = _FRAME | WEAK
    if _IS_SOMETHING.search(straight(clause)):
        implied |= {"work", "job"}
    if "move" in have and not _FROM.search(clause):
        implied |= {"live"}
    if "work" in have or "employ" in have:
        implied |= {"work", "job", "employ"}
    return implied
