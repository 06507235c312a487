"""When two statements say the same, and when one ends the other.

They are compared by their words, in order, with nothing that changes the meaning left out.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, filterfalse, pairwise
from typing import Final, Literal, cast

import Stemmer


def words(text: str) -> frozenset[str]:
    """Return the words of *text*, for flat lists in source code."""
    return frozenset(text.split())


_PLAIN_TOKEN: Final = re.compile(r"\w+(?:[.,:]\d+)*|[^\w\s.,;:!?…'\"()\-–—]")
_QUOTES: Final = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "´": "'", "`": "'"})
_PLAIN_CONTRACTIONS: Final = (
    (re.compile(r"\bcan't\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"\bcannot\b"), "can not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"\bi'm\b"), "i am"),
    (re.compile(r"'re\b"), " are"),
    (re.compile(r"'ve\b"), " have"),
    (re.compile(r"'ll\b"), " will"),
    (re.compile(r"\b(i|you|he|she|it|we|they)'d\b"), r"\1 would"),
    (re.compile(r"\b(it|that|there|what|he|she|who)'s\b"), r"\1 is"),
)
# Without these a statement still says the same; pronouns, negations and prepositions are not among them.
_FILLERS: Final = words(
    """
    a an the really very just actually so please now currently btw well oh quite simply basically honestly also
    """
)


def same_words(text: str) -> str:
    """Return *text* as it is compared: case, width, white space and a final stop do not matter."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(".!")


def plain(text: str) -> str:
    """Return *text* with white space runs as single spaces, and without them at the ends."""
    return " ".join(text.split())


@lru_cache(maxsize=256)
def straight(text: str) -> str:
    """Return *text* in normal form, with typographic quotes as plain ones."""
    return unicodedata.normalize("NFKC", text).translate(_QUOTES)


@lru_cache(maxsize=1024)
def normalised(text: str) -> str:
    """Return *text* as it is compared for being the very same statement."""
    return " ".join(straight(text).casefold().split()).rstrip(".!")  # same_words, of a text in normal form


def content_words(text: str) -> tuple[str, ...]:
    """Return the words of *text* that carry its meaning, in order: what is left without fillers.

    Names, numbers, negations and pronouns stay, so ``moved to Berlin`` and ``moved to Bern``, or
    ``likes`` and ``doesn't like``, never have the same content words. Nor have ``Ana manages Bob``
    and ``Bob manages Ana``.
    """
    said = straight(text).casefold()
    if "'" in said or "cannot" in said:
        for pattern, replacement in _PLAIN_CONTRACTIONS:
            said = pattern.sub(replacement, said)
    tokens: list[str] = _PLAIN_TOKEN.findall(said)
    words = tuple(filterfalse(_FILLERS.__contains__, tokens))
    return words or tuple(tokens)


_MAX_CHARACTERS: Final = 2_000
_stem_word = cast("Callable[[str], str]", Stemmer.Stemmer("english", 0).stemWord)  # pyright: ignore[reportUnknownMemberType]
_stemming: Final = threading.Lock()
_TOKEN: Final = re.compile(r"[^\W_]+(?:[.,:/_@+-][^\W_]+)*[+#]*|[$€£%&]", re.UNICODE)
_CONTRACTIONS: Final = (
    (re.compile(r"(?i)\b(?:can't|cannot)\b"), "can not"),
    (re.compile(r"(?i)\bwon't\b"), "will not"),
    (re.compile(r"(?i)n't\b"), " not"),
    (re.compile(r"(?i)\b(i|we|you|they)'(?:m|re|ve)\b"), r"\1"),
    (re.compile(r"(?i)\b(i|we|you|he|she|they)'d rather\b"), r"\1 prefer"),
    (re.compile(r"(?i)\b(i|we|you|he|she|they)'d\b"), r"\1 would"),
    (re.compile(r"(?i)\b(i|we|you|he|she|it|they)'ll\b"), r"\1 will"),
    (re.compile(r"(?i)\b(\w+)'s\b"), r"\1"),
    (re.compile(r"(?i)(\w)'\B"), r"\1"),
)

_USER: Final = words("user users")
_NOMINATIVE: Final = words("i we")
_OBLIQUE: Final = words("me us")
_PERSON: Final = (
    _USER | _NOMINATIVE | _OBLIQUE | words("my mine myself our ours ourselves their theirs they them themselves")
)
_NOT: Final = words(
    "not never no none nobody nothing neither nor without nicht kein keine pas jamais nunca não non mai"
)
_PAST: Final = words("formerly previously once ex")
_MOOD: Final = words(
    """
    want wants wanted wish wishes hope hopes plan plans planning intend intends would might may could should maybe
    perhaps possibly probably if unless considering consider considers thinking will shall going aim aims try trying
    """
)
WEAK: Final = words("cluster team number old years run person thing time lot day company name group level")
"""Stems that may stand beside a statement without changing it; never in place of another."""
_COMPARES: Final = words("over than rather")
_EMPTY: Final = words(
    """
    a an the is are am was were be been being of to in on at for with as by from that this these those it its and or
    also just really very currently now nowadays recently lately presently still already actually so do does did have
    has had having got gotten get gets please always both own there here who which whose what when while about into
    any anymore more longer use uses used using utilize utilise utilizes utilises utilising via through re ve some
    sir well kind quite simply basically honestly btw ok oh yes rather than over instead
    """
)
_SAME: Final[dict[str, str]] = {
    member: group.split()[0]
    for group in (
        "live lives living lived reside resides residing based located dwell",
        "name named called names calls",
        "like likes liked liking love loves loved adore adores enjoy enjoys enjoyed fond",
        "hate hates hated dislike dislikes disliked detest detests loathe",
        "mother mom mum mothers",
        "father dad fathers",
        "child children kid kids",
        "favourite favorite favourites favorites fave",
        "colour color colours colors",
        "allergic allergy allergies",
        "earn earns earned earning salary salaries",
        "planned scheduled slated",
        "meet meets meeting meetings met",
        "job jobs occupation profession",
        "prefer prefers preferred preference",
        "car cars automobile",
        "email e-mail mail emails",
        "phone telephone",
        "fired dismissed sacked",
        "repository repo repos repositories",
        "kubernetes k8s",
        "postgres postgresql pg",
        "years year",
        "birthday born birthdate",
        "spouse",
    )
    for member in group.split()
}
_DENYING: Final = {"hate": "like"}
"""Words that say the opposite of another: they count as that word, denied."""
_COUNTED: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
_NUMBERS: Final = {word: str(number) for number, word in enumerate(_COUNTED.split())} | {
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "hundred": "100",
    "thousand": "1000",
    "noon": "12:00",
}
_CALENDAR: Final = words(
    """
    january february march april may june july august september october november december monday tuesday wednesday
    thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays sundays
    """
)
_JOINED: Final = re.compile(r"(?i)\b(?:and|or|as well as)\b|,|&|/")
_ENDS: Final = re.compile(r"(?i)\b(?:no longer|any ?more)\b")
_USED_TO: Final = re.compile(r"(?i)\bused to\b|\bwhen I was\b|\bas a (?:child|kid|teenager)\b|\byears ago\b")


_OF_USER: Final = re.compile(r"(?i)^\W*(?:the\s+)?(?:users?(?:['’]s?)?|i(?:['’]\w+)?|my|we(?:['’]\w+)?|our)\b")
_WORDED_OF_USER: Final = re.compile(r"(?i)^\W*(?:the\s+)?users?(?P<own>'s?)?\s+")
_THEIR: Final = re.compile(r"(?i)\btheir\b")
_SHORT_VERB: Final = 4
_FIRST_PERSON: Final = {
    "is": "am",
    "has": "have",
    "does": "do",
    "doesn't": "don't",
    "isn't": "am not",
    "hasn't": "have not",
    "was": "was",
}
_OF_SELF: Final = re.compile(
    r"(?i)\b(?:i|me|my|mine|myself|we|us|our|ours)\b|^\W*(?:please|always|never|call|answer)\b"
)


@dataclass(frozen=True, slots=True)
class Gist:
    """What a statement says.

    Attributes:
        words: The stems that carry it, in order, each once.
        names: Those of them that are names, as they follow each other; never a day or a month.
        denied: Whether it says that something is not so.
        past: Whether it says that something was so.
        mood: Whether it says what is wished, planned or possible rather than what is.
        role: ``I`` where the person does it, ``me`` where it is done to them; ``None`` where both or neither is said.
        lead: The name that it begins with.
        ordered: Whether the order of the words is part of what it says: ``tea over coffee``.
    """

    words: tuple[str, ...]
    names: tuple[str, ...] = ()
    denied: bool = False
    past: bool = False
    mood: bool = False
    role: Literal["I", "me"] | None = None
    lead: str | None = None
    ordered: bool = False


@lru_cache(maxsize=4096)
def gist_of(text: str) -> Gist:
    """Return what *text* says; the first 2,000 characters count."""
    said = straight(text)[:_MAX_CHARACTERS]
    past = bool(_USED_TO.search(said))
    for pattern, replacement in _CONTRACTIONS:
        said = pattern.sub(replacement, said)
    tokens = [token.strip(".,:/-") for token in _TOKEN.findall(said)]
    lowered = [token.casefold() for token in tokens]
    denials = sum(map(_NOT.__contains__, lowered)) + bool(_ENDS.search(said) and not _NOT.intersection(lowered))
    found: list[str] = []
    names: list[str] = []
    for place, (token, word) in enumerate(zip(tokens, lowered, strict=True)):
        past = past or word in _PAST
        stem = _stem(word)
        if stem is None:
            continue
        opposite = _DENYING.get(stem)
        if opposite is not None:
            denials += 1
            stem = opposite
        if stem not in found:
            found.append(stem)
        if place and token[:1].isupper() and word not in _CALENDAR and stem not in names:
            names.append(stem)
    lowered_set = set(lowered)
    leads, mentioned = not _USER.isdisjoint(lowered[:2]), not _USER.isdisjoint(lowered[2:])
    acts = bool(lowered_set & _NOMINATIVE) or leads
    suffers = bool(lowered_set & _OBLIQUE) or (mentioned and not leads)
    return Gist(
        words=tuple(found),
        names=() if _JOINED.search(said) else tuple(names),
        denied=denials % 2 == 1,
        past=past,
        mood=bool(lowered_set & _MOOD),
        role=None if acts == suffers else "I" if acts else "me",
        lead=found[0] if found and tokens[0][:1].isupper() and _stem(lowered[0]) == found[0] else None,
        ordered=bool(lowered_set & _COMPARES) or "prefer" in found,
    )


def same_meaning(one: Gist, other: Gist) -> bool:
    """Return whether both say the same: the same words, both so or both not so, of the same people."""
    mine, theirs = set(one.words), set(other.words)
    return _beside(mine - theirs, theirs - mine) and bool(mine & theirs) and agrees(one, other)


def agrees(one: Gist, other: Gist) -> bool:
    """Return whether nothing but the words themselves parts the two: neither denial, nor time, nor roles."""
    if (one.denied, one.past, one.mood) != (other.denied, other.past, other.mood):
        return False
    if {one.role, other.role} == {"I", "me"} or _swapped(one, other):
        return False
    return (
        _in_order(one.names, other.names)
        and _in_order(_numbers(one), _numbers(other))
        and (not (one.ordered or other.ordered) or _in_order(one.words, other.words))
    )


def is_about_user(text: str) -> bool:
    """Return whether *text* is worded of the user: ``I``, ``my``, ``the user`` or ``the user's`` leads it."""
    return _OF_USER.match(straight(text)) is not None


def speaks_of_self(text: str) -> bool:
    """Return whether the person who says *text* speaks of themselves or theirs."""
    return _OF_SELF.search(straight(text)) is not None


def as_said(text: str) -> str:
    """Return *text* as the user says it, where it is worded of them: ``I live …`` for ``The user lives …``.

    So that what a model makes of a statement is compared with what people say. Other texts stay as they are.
    """
    said = straight(text)
    found = _WORDED_OF_USER.match(said)
    if found is None:
        return text
    rest = said[found.end() :]
    if found["own"]:
        said = f"My {rest}"
    else:
        verb, _, more = rest.partition(" ")
        said = f"I {_FIRST_PERSON.get(verb.casefold()) or _to_first_person(verb)} {more}".rstrip()
    return _THEIR.sub("my", said)


def _to_first_person(verb: str) -> str:
    """Return the first person of a verb in the third."""
    if verb.endswith("ies") and len(verb) > _SHORT_VERB:
        return f"{verb[:-3]}y"
    if verb.endswith(("shes", "ches", "sses", "xes", "oes")):
        return verb[:-2]
    return verb[:-1] if verb.endswith("s") and not verb.endswith("ss") else verb


_MARKS: Final = ("(denied)", "(past)", "(mood)", "(to me)")


def signature(text: str) -> frozenset[str]:
    """Return *text* as a set of terms: two texts with the same set say the same. For keyed digests.

    The terms are the single words, and pairs of words where their order matters.
    """
    gist = gist_of(text)
    marks = compress(_MARKS, (gist.denied, gist.past, gist.mood, gist.role == "me"))
    order = gist.words if gist.ordered else (gist.lead, *gist.names) if gist.lead else gist.names
    strong = list(filterfalse(WEAK.__contains__, gist.words)) or gist.words
    return frozenset({*strong, *marks, *map(" before ".join, pairwise(order))})


def _swapped(one: Gist, other: Gist) -> bool:
    """Whether each begins with a name that the other has further on: ``Ana manages Bob``, ``Bob manages Ana``."""
    return one.lead != other.lead and one.lead in other.names and other.lead in one.names


def _beside(one: set[str], other: set[str]) -> bool:
    """Whether what only one of the two has, and the other has nothing in its place, says nothing."""
    return not (one and other) and (one | other) <= WEAK


def _numbers(gist: Gist) -> tuple[str, ...]:
    """Return the numbers of a statement, in order: ``2 rooms on floor 3`` is not ``3 rooms on floor 2``."""
    return tuple(word for word in gist.words if word[:1].isdigit())


def _in_order(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether what both have follows each other in the same way."""
    shared = set(one) & set(other)
    return [word for word in one if word in shared] == [word for word in other if word in shared]


def _stem(word: str) -> str | None:
    """Return the stem of *word*, or ``None`` where it says nothing by itself."""
    if word in _PERSON or word in _EMPTY or word in _NOT or word in _MOOD or word in _PAST or word in _COMPARES:
        return None
    if word in _NUMBERS:
        return _NUMBERS[word]
    if word[:1].isdigit():
        return word.replace(",", "").rstrip(".")
    return _SAME.get(word) or _SAME.get(_stemmed(word)) or _stemmed(word)


@lru_cache(maxsize=16_384)
def _stemmed(word: str) -> str:
    if not (word.isascii() and word.isalpha()):
        return word
    with _stemming:  # the stemmer keeps state
        return _stem_word(word)


_LONGEST_ENDING: Final = 300
_SUBJECT: Final = r"(?P<who>I|we|my [\w'-]+(?: [A-Z][\w'-]+)?|our [\w' -]{2,40}?)"
_LEAD: Final = re.compile(
    r"(?i)^(?:(?:hi|hey|oh|ah|well|so|ok|okay|yes|yeah|no|actually|btw|by the way|fyi|also|and|but|update)[,:!]?\s+)+"
)
_ANY_MORE: Final = r"(?:any ?more|any longer)"
_DO_NOT: Final = re.compile(rf"(?i)^{_SUBJECT} (?:don't|do not) (?P<rest>.+?),? {_ANY_MORE}$")
_DOES_NOT: Final = re.compile(rf"(?i)^{_SUBJECT} (?:doesn't|does not) (?P<verb>\w++)(?P<rest>.*?),? {_ANY_MORE}$")
_IS_NOT: Final = re.compile(
    rf"(?i)^{_SUBJECT}(?P<be>'m| am| are|'re| is) not (?P<rest>.+?),? {_ANY_MORE}$|^(?P<who2>{_SUBJECT[8:-1]}) "
    rf"(?P<be2>is|are)n't (?P<rest2>.+?),? {_ANY_MORE}$"
)
_NO_LONGER: Final = re.compile(rf"(?i)^{_SUBJECT}(?P<be>'m| am| are|'re| is| have| has)? no longer (?P<rest>.+)$")
_STOPPED: Final = re.compile(
    rf"(?i)^{_SUBJECT}(?:'ve| have| has)? (?:just |recently |finally )?(?:stopped|quit|given up|gave up) "
    r"(?P<rest>\w+ing\b.*)$"
)
_FIRM: Final = r"(?P<firm>[A-Z][\w&.-]*(?: [A-Z][\w&.-]*){0,3})"
_AFTERWARDS: Final = (
    r"(?:,? (?:last|this|in|on|for|today|yesterday|recently|to|after|two|three|a) .*"
    r"| for good| today| yesterday| recently)?"
)
# A name alone is taken for an employer's: who left a town says more often where they moved to.
_LEFT: Final = re.compile(
    r"(?i:I)(?i:'ve| have|'m| am| was| got| have been)? (?:just |recently |finally |now )?(?i:"
    r"(?:left|quit)(?: (?:my|the) (?:job|position|role|post) (?:at|with))?|resigned from|retired from"
    r"|(?:was |got |been )?(?:laid off|let go|fired|made redundant|dismissed) (?:from|by|at)"
    rf") {_FIRM}{_AFTERWARDS}$"
)
_NO_LONGER_DOES: Final = re.compile(rf"(?i)^{_SUBJECT} used to (?!be )(?P<rest>.+)$")
_PASSING_RETRACTION: Final = re.compile(
    r"(?i)\b(?:know|understand|remember|see|care|think|want|need|have (?:time|questions?))\b"
)


@lru_cache(maxsize=4096)
def ended_by(text: str) -> str | None:
    """Return the statement that *text* says is no longer so: ``I live in Lisbon`` for ``I don't live there any more``.

    ``None`` where it ends nothing.
    """
    if len(text) > _LONGEST_ENDING:
        return None
    said = _LEAD.sub("", straight(plain(as_said(text))).rstrip(".! "))
    if "?" in said or re.search(r"(?i)\b(?:if|when|unless|because|since|maybe|perhaps)\b", said):
        return None
    found = _positive(said)
    return (
        None if found is None or _PASSING_RETRACTION.search(found.split(maxsplit=1)[-1].split(maxsplit=1)[0]) else found
    )


def _positive(said: str) -> str | None:
    for pattern, make in _ENDINGS:
        if found := pattern.match(said):
            return make(found)
    return None


def _is_not(found: re.Match[str]) -> str:
    who, be, rest = (found[name] or found[f"{name}2"] for name in ("who", "be", "rest"))
    return f"{who} {be.strip()} {rest}".replace(" '", "'")


_ENDINGS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (_DO_NOT, lambda found: f"{found['who']} {found['rest']}"),
    (_DOES_NOT, lambda found: f"{found['who']} {found['verb']}s{found['rest']}"),
    (_IS_NOT, _is_not),
    (_NO_LONGER, lambda found: f"{found['who']}{found['be'] or ''} {found['rest']}"),
    (_STOPPED, lambda found: f"{found['who']} {found['rest']}"),
    (_LEFT, lambda found: f"I work at {found['firm']}"),
    (_NO_LONGER_DOES, lambda found: f"{found['who']} {found['rest']}"),
)


def denies(ending: str, answer: str) -> bool:
    """Return whether *ending* says that *answer* is no longer so.

    Of two answers on one subject it is enough that they have the same names: who no longer lives in
    Lisbon does not live where they moved to when they ``moved to Lisbon``.
    """
    positive = ended_by(ending)
    if positive is None:
        return False
    wanted, said = gist_of(positive), gist_of(answer)
    if same_meaning(wanted, said):
        return True
    return bool(wanted.names) and set(wanted.names) <= set(said.words) and not said.denied
