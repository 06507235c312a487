"""What a statement is about, where there can be only one answer at a time.

A later statement in the same slot replaces an earlier one, so a slot is given only where the words
leave no doubt: ``My favourite colour is red`` has one, ``My sister is a nurse`` has none. A slot is
derived from the words alone, never stored: a memory's slot is found again from its text.
"""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from threadkeep.text.semantics import as_said, plain, straight, words

_MAX_CHARACTERS: Final = 300

# A statement about the past, a plan or a possibility says nothing of what is so now.
_NOT_NOW: Final = re.compile(
    r"""(?ix)\b(?:used\ to|no\ longer|not|never|n't|was|were|had|formerly|previously|back\ then|ex-|once
        |if|would|might|may(?=\ [a-z])|maybe|perhaps|probably|could|should|will|going\ to|soon|next|tomorrow|planning|plan|want|wish|hope|
        unless|until|temporarily|for\ now|sometimes|also|too|another|second|other|both|either|or|between|during|half|part-?time|
        weekdays|weekends?|summers?|winters?|years?\ ago|as\ a\ (?:kid|child|teenager|student)|when\ I|said|says|told)\b|n't\b|\?|[;"]"""
)
_COMPOUND: Final = re.compile(
    r"(?i)[,;]? \b(?:and|but|while|because|since|so|though|although|who|which|where)\b|,\s+(?:I|my|we|our)\b"
)

_FIRST_PERSON: Final = re.compile(r"(?i)(?:i|my|our|we|call|please|you|everyone|people|back)\b")
_LEAD: Final = re.compile(
    r"(?i)^(?:(?:hi|hey|hello|oh|ah|well|so|ok|okay|yes|yeah|no|actually|btw|by the way|fyi|also|and|but|now|currently|update"
    r"|correction|these days|nowadays|right now|as of (?:today|now)|just so you know|for the record)[,:!]?\s+(?:there,?\s+)?)+"
)
_TAIL: Final = re.compile(
    r"(?i)(?<![\s,])[\s,]++(?:now|nowadays|these days|currently|at the moment|right now|as of (?:today|now)|today|again|since \w+(?: \d{4})?|anymore"
    r"|any more|actually|already|instead|(?:i was|that was|i said it) wrong|my mistake|btw|by the way|:\)|:-\)|and always (?:has been|will be)|this (?:week|month|year)|last (?:week|month|year))$"
)

_PLACE: Final = (
    r"(?:the )?(?P<place>(?:[A-Z][\w'.-]*|St\.)(?:[ ,]+(?:[A-Z][\w'.-]*|de|la|del|do|da|the|upon|am|an|der|sur))*)"
)
_LOWER_PLACE: Final = r"(?!(?:a|an|the|my|our|his|her|their|your|this|that|fear|peace|harmony|hope|hell)\b)(?P<low>[\w'.-]+(?: [\w'.-]+)?)"
_NAME: Final = r"(?:(?:Dr|Mr|Mrs|Ms|Prof)\.? )?[A-Z][\w'’-]*(?: (?:[A-Z][\w'’.-]*|van|von|de|der|da|bin|al)){0,3}"
_WITH: Final = r"(?:\s+(?:with|near|close to)\s+.{1,60})?"
_THINGS_MOVED_TO: Final = words(
    """
    linux windows mac macos ubuntu debian arch fedora nixos android ios chrome firefox safari brave arc vim neovim
    emacs vscode vs intellij pycharm cursor zed python rust go golang java kotlin swift ruby typescript javascript
    node deno bun react vue svelte angular next nextjs django flask fastapi rails laravel spring kubernetes k8s
    docker podman nomad terraform pulumi ansible helm argocd argo flux jenkins gitlab github bitbucket circleci aws
    gcp azure google microsoft amazon cloudflare vercel netlify heroku hetzner postgres postgresql mysql mariadb
    mongodb redis sqlite oracle snowflake databricks bigquery kafka rabbitmq elasticsearch opensearch slack teams
    zoom discord notion obsidian confluence jira linear asana trello gmail outlook proton protonmail fastmail
    spotify netflix apple samsung openai anthropic claude chatgpt gemini llama langgraph langchain platform product
    marketing sales engineering design finance hr legal operations ops support security data research infrastructure
    infra devops sre qa management team monday tuesday wednesday thursday friday saturday sunday
    """
)
_AFTER_MOVE: Final = r"(?:\s+(?:from .{1,40}|with .{1,40}|for (?:work|a job|my job|school|university|love|good|my studies)|recently|yesterday))*"
_MONTHS: Final = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_NUMBER: Final = r"(?:\d{1,3}|no|one|two|three|four|five|six|seven|eight|nine|ten)"

_ONE_RELATIVE: Final = r"(?:mother|mom|mum|father|dad|wife|husband|partner|girlfriend|boyfriend|fiancée?|spouse)"
_NAMED_ONE: Final = (
    r"(?:(?:team |line |direct |new )?(?:manager|boss|lead|supervisor)|employer|company|department|team|school|university"
    r"|home ?town|wife|husband|girlfriend|boyfriend|fiancée?|spouse|mentor|therapist|dentist)"
)
_SHORT_ONE: Final = (
    r"(?:job title|title|role|position|nationality|native language|mother tongue|first language|star sign|zodiac sign|blood type"
    r"|shirt size|shoe size|pronouns|nickname|username|user name|(?:first |last |full |middle |sur)?name|preferred language"
    r"|default language|marital status|height|weight|work email|personal email|e-?mail(?: address)?|phone number|number|address)"
)


def slot_of(text: str) -> str | None:
    """Return what *text* is about if it can be true of one thing only at a time; else ``None``.

    English only; equal for every spelling of the same subject: ``My favorite color is blue now.`` and
    ``my favourite colour is red`` both give ``favourite colour``.
    """
    return None if len(text) > _MAX_CHARACTERS else _slot_of_short(text)


@lru_cache(maxsize=4096)
def _slot_of_short(text: str) -> str | None:
    return _slot_in_words_of_user(straight(plain(as_said(text))).rstrip(".! "))


def _slot_in_words_of_user(said: str) -> str | None:
    """Do what :func:`slot_of` does, for a text that is worded by the user, in plain signs and without its full stop."""
    said = _LEAD.sub("", said)
    while (shorter := _TAIL.sub("", said)) != said:
        said = shorter
    if not _FIRST_PERSON.match(said) and "my" not in said:
        return None
    if found := _attitude(said):
        return found
    heard = set(_WORDS.findall(said.casefold()))
    for needed, rule in _RULES:
        if not (needed and needed.isdisjoint(heard)) and (slot := rule(said)):
            return None if _NOT_NOW.search(said) else slot
    return None


def _favourite(said: str) -> str | None:
    subject = r"(?P<what>(?!(?:part|thing|one|time|moment|bit|way)\b)[a-z][\w'-]*(?: (?!is\b|are\b)[\w'-]+){0,4}?)"
    found = re.fullmatch(
        rf"(?i)(?:my (?:new |current )?favou?rite {subject}(?: is|'s|:) .+|.+ is (?:now )?my (?:new )?favou?rite {subject.replace('what', 'that')})",
        said,
    )
    what = (found["what"] or found["that"]) if found else None
    return f"favourite {_british(what.casefold())}" if what else None


def _british(words: str) -> str:
    return words.replace("color", "colour").replace("flavor", "flavour").replace("theater", "theatre")


_LIVES: Final = r"I(?:'m| am)? (?:now |currently )?(?:live|living|based|reside|located) (?:now |currently )?in"
_MOVED: Final = r"I(?:'ve| have)? (?:just |recently |finally )?(?:moved|relocated)(?: back| out| down| up)? to"
_BACK: Final = r"(?:(?:I(?:'m| am) )?[Bb]ack (?:home )?in|I(?:'ve| have)? (?:come|came|moved) back (?:home )?to)"
_LIVES_AT: Final = re.compile(rf"{_LIVES} {_PLACE}{_WITH}")
_LIVES_LOWER: Final = re.compile(rf"(?i){_LIVES} {_LOWER_PLACE}")
_CAME_BACK: Final = re.compile(rf"{_BACK} {_PLACE}(?: for good)?")
_MOVED_TO: Final = re.compile(rf"{_MOVED} {_PLACE}{_AFTER_MOVE}")
_MOVED_LOWER: Final = re.compile(rf"(?i){_MOVED} {_LOWER_PLACE}")


def _home(said: str) -> str | None:
    if _LIVES_AT.fullmatch(said) or _LIVES_LOWER.fullmatch(said) or _CAME_BACK.fullmatch(said):
        return None if _COMPOUND.search(said) else "home"
    found = _MOVED_TO.fullmatch(said) or _MOVED_LOWER.fullmatch(said)
    if not found or _COMPOUND.search(said):
        return None
    place = next(text for text in found.groupdict().values() if text)
    words = set(re.findall(r"[\w]+", place.casefold()))
    return None if words & _THINGS_MOVED_TO else "home"


_RELATIVE: Final = re.compile(
    rf"[Mm]y (?P<who>{_ONE_RELATIVE}) (?:(?:now |currently )?(?P<does>lives|works) (?:in|at|for)|(?P<moved>has moved|moved) to) {_PLACE}"
)


def _relative_home(said: str) -> str | None:
    found = _RELATIVE.fullmatch(said)
    if not found or _COMPOUND.search(said):
        return None
    return f"{'employer' if found['does'] == 'works' else 'home'} of my {found['who']}"


def _work(said: str) -> str | None:
    if _COMPOUND.search(said):
        return None
    employer = rf"(?P<who>{_PLACE.replace('place', 'firm')})"
    if re.fullmatch(
        rf"(?i:I(?:'m| am)? (?:now |currently )?(?:work|working|employed)(?: as an? [\w -]{{2,40}})? (?:at|for|by)) {employer}(?: as .{{1,60}})?",
        said,
    ):
        return "employer"
    lately = r"I(?:'ve| have)? (?:just |recently |now |finally )*"
    began = rf"(?i:{lately}(?:started|begun|began) (?:(?:a|my) new (?:job|role|position) |work |working )?(?:at|for))"
    # Who only joined something may have become its member.
    if re.fullmatch(rf"(?:{began}|(?i:{lately}joined)) {employer} as .{{1,60}}", said) or re.fullmatch(
        rf"{began} {employer}", said
    ):
        return "employer"
    if re.fullmatch(
        r"(?i)(?:I (?:now |currently )?work as|my (?:job|occupation|profession) is(?: now)? being) an? [\w /-]{2,60}",
        said,
    ):
        return "job"
    return None


_CALLED: Final = re.compile(
    rf"(?:[Cc]all me|[Yy]ou can call me|[Pp]lease call me|[Ee]veryone calls me|[Pp]eople call me|I go by) {_NAME}(?:,? please)?"
    r"|(?i:(?:please )?call me [\w'-]+)"
)
_NAMED: Final = re.compile(rf"(?i:my (?P<what>{_NAMED_ONE}) (?:is|'s|is called|is now)(?: now)?) {_NAME}")
_SHORT: Final = re.compile(
    rf"(?i)my (?P<what>{_SHORT_ONE})(?: is|'s| are)(?: now)? (?!(?:an?|very|so|too|important|secret|private|wrong|spelled|pronounced|on|in)(?:\s|$))\S+(?: \S+){{0,5}}"
)


def _named(said: str) -> str | None:
    if _CALLED.fullmatch(said):
        return "called"
    found = _NAMED.fullmatch(said) or _SHORT.fullmatch(said)
    return f"my {found['what'].casefold()}" if found and not _COMPOUND.search(said) else None


_BIRTHDAY: Final = re.compile(rf"(?i)^my birthday(?: is|'s)(?: on)?(?: the)? .*(?:{_MONTHS}|\d{{1,2}}[./-]\d{{1,2}}).*")
_AGE: Final = re.compile(
    r"(?i)(?:I(?:'m| am) (?:now )?\d{1,3}(?: years? old| y/?o)?|I(?: just| have| recently)? turned \d{1,3}|my age is \d{1,3})"
)
_ZONE: Final = re.compile(
    r"(?i)my time ?zone(?: is|'s)(?: now)? \S+(?: \S+){0,3}|I(?:'m| am) (?:in|on) (?:the )?(?:[A-Z]{2,5}|UTC[+-]\d+|[A-Z]\w+ (?:standard |daylight )?time)(?: time ?zone)?"
)
_ZONE_NAME: Final = re.compile(r"(?i)time ?zone|UTC|GMT|[A-Z]{1,3}ST\b|[A-Z]{1,3}DT\b|CET|EET| time$")
_COUNT: Final = re.compile(
    rf"(?i)(?:I|we) (?:now )?have {_NUMBER} (?P<what>kids?|child(?:ren)?|siblings?|brothers?|sisters?|sons?|daughters?|dogs?|cats?)"
)


def _number(said: str) -> str | None:
    if _BIRTHDAY.fullmatch(said):
        return "birthday"
    if _AGE.fullmatch(said):
        return "age"
    if _ZONE.fullmatch(said) and _ZONE_NAME.search(said):
        return "timezone"
    if found := _COUNT.fullmatch(said):
        what = found["what"].casefold()
        return f"number of {'children' if what in ('kid', 'kids', 'child', 'children') else what.rstrip('s')}"
    return None


def _event(said: str) -> str | None:
    """Give the hour, and the day if one is named, a slot: two days may have two hours."""
    found = re.fullmatch(
        r"(?i)(?P<what>(?:my|our) [\w'-]+(?: [\w'-]+){0,3}?) (?:is|are|starts|begins)(?: now)? (?:always |daily )?at (?:noon|midnight|\d{1,2}(?:[:.h]\d{2})?)"
        r" ?(?:a\.?m|p\.?m|o'clock|h)?\.?(?P<rest>(?: \S+){0,6})",
        said,
    )
    if not found:
        return None
    rest = found["rest"].casefold()
    if rest and not re.fullmatch(
        rf"(?: (?:on|every|each|in|the|{_DAY}|day|morning|afternoon|evening|utc|gmt|c?e?s?t|sharp))+", rest
    ):
        return None
    days = " ".join(sorted(set(re.findall(_DAY[:-2], rest))))
    return f"time of {found['what'].casefold()} {days}".rstrip()


_DAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"


_PREFERENCES: Final = (
    (
        "length of answers",
        r"(?:short|brief|concise|terse|shorter|long|longer|detailed|in-depth|verbose|thorough|lengthy)",
        r"(?:answers?|replies|repl(?:y|ies)|responses?|explanations?|summaries|messages?)",
    ),
    (
        "tone of answers",
        r"(?:formal|informal|casual|friendly)",
        r"(?:answers?|replies|responses?|tone|language|messages?|style)",
    ),
    ("theme", r"(?:dark|light)", r"(?:modes?|themes?)"),
    ("seat", r"(?:window|aisle)", r"seats?"),
    ("units", r"(?:metric|imperial)", r"(?:units?|system|measurements?)"),
    ("temperature", r"(?:celsius|fahrenheit)", r"(?:degrees)?"),
    ("indentation", r"(?:tabs|spaces)", r"(?:for indentation)?"),
)


def _preference(said: str) -> str | None:
    if "prefer" not in said.casefold():
        return None
    for what, values, noun in _PREFERENCES:
        if re.fullmatch(
            rf"(?i)I(?:'d)? (?:now |really |strongly |always |usually |generally )*prefer (?:the )?(?:more )?{values} ?{noun}(?: (?:over|to|rather than) .{{1,40}})?",
            said,
        ):
            return f"preferred {what}"
    found = re.fullmatch(
        r"(?i)I (?:now |really |much |strongly )*prefer (?P<a>[\w' -]{1,40}?) (?:over|to|rather than) (?P<b>[\w' -]{1,40})",
        said,
    )
    if found and not _COMPOUND.search(said):
        return "preferred of " + " / ".join(sorted((found["a"].casefold(), found["b"].casefold())))
    return None


def _status(said: str) -> str | None:
    if re.fullmatch(
        r"(?i)I(?:'m| am|(?:'ve| have)? (?:just |recently |finally )*got(?:ten)?) (?:now |happily |newly |recently |finally )*(?:single|married|engaged|divorced|widowed)(?: to [\w' -]{1,40})?",
        said,
    ):
        return "marital status"
    if re.fullmatch(
        r"(?i)I(?:'m| am|'ve become| have become| became) (?:now |a |strictly |mostly )*(?:vegan|vegetarian|pescatarian|omnivore|carnivore)",
        said,
    ):
        return "diet"
    return None


_LIKES: Final = re.compile(
    r"""(?ix)I\ (?:now\ |really\ |absolutely\ |still\ |also\ |just\ |truly\ |honestly\ )*
    (?:(?:do\ not|don't|no\ longer|never)\ (?:really\ |particularly\ )?(?:like|love|enjoy|eat|drink)|like|love|hate|enjoy|dislike|adore|can't\ stand|cannot\ stand|detest|eat|drink)
    \ (?P<what>(?!it\b|that\b|this\b|them\b|to\b|you\b|how\b|what\b|when\b|the\ way\b)[\w'-]+(?:\ [\w'-]+){0,4})"""
)
_ALLERGY: Final = re.compile(
    r"(?i)I(?:'m| am)(?: not| no longer)? (?:\w+ )?allergic to (?P<what>[\w'-]+(?: [\w'-]+){0,3})"
)
_DEGREE: Final = re.compile(r"(?i) (?:a lot|very much|so much|at all|anymore|any more|much|too|either|now)$")


def _attitude(said: str) -> str | None:
    """Give liking and not liking the very same thing one slot."""
    thing = _DEGREE.sub("", _DEGREE.sub("", said))
    for what, pattern in (("liking", _LIKES), ("allergy to", _ALLERGY)):
        found = pattern.fullmatch(thing)
        if found and not re.search(r"(?i)\b(?:and|or|but|because|when|if|with|than|as)\b", found["what"]):
            return f"{what} {found['what'].casefold()}"
    return None


_WORDS: Final = re.compile(r"[a-z]+")
_RULES: Final[tuple[tuple[frozenset[str], Callable[[str], str | None]], ...]] = (
    (words("favourite favorite"), _favourite),
    (words("live living based reside located moved relocated back"), _home),
    (words("lives works moved"), _relative_home),
    (words("work working employed started begun began joined job occupation profession"), _work),
    (words(""), _named),
    (words(""), _number),
    (words("at"), _event),
    (words("prefer"), _preference),
    (
        words("single married engaged divorced widowed vegan vegetarian pescatarian omnivore carnivore"),
        _status,
    ),
)
"""The rules in their order. All that a rule finds a slot in has one of its words: so few rules are tried on a text."""


_MAX_QUESTION_CHARACTERS: Final = 400
"""A longer text is a story rather than a question."""

_ASKING: Final = re.compile(
    r"(?i)^(?:(?:and|so|but|ok|okay|hey|hi|hello|please|sorry|well|now)[,:]? +)*"
    r"(?:(?:do|can|could|would|will) you (?:please )?(?:still |also )?(?:remember|know|recall|tell me|remind me|say)(?: of)?|(?:please )?(?:remind|tell) me(?: again)?(?: of)?)? *"
)
_IN_PASSING: Final = re.compile(
    r"(?i),? \b(?:now|currently|nowadays|again|still|these days|at the moment|right now|at present|today|actually|exactly|by the way)\b(?= |$)"
)
_OURS: Final = r"((?:my|our) [\w' -]{2,60}?)"
_KIND: Final = r"(?:(?!(?:did|was|were|had|do|am|should|could|would|can|will|might|may|must|if)\b)[\w'-]+ ){1,3}?"
_PLACED: Final = r"(I (?:live|reside|work)(?: in| at| for)?)"

_ANSWERS: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = tuple(
    (re.compile(f"(?i){question}"), answers)
    for question, answers in (
        (
            rf"(?:(?:what|who|which(?: one)?)(?:'s| is| are) )?{_OURS}|(?:what|who|which) {_OURS} (?:is|are)",
            ("{} is Ada", "{} is 1 May", "{} is CET", "{} is 30"),
        ),
        (
            rf"(?:when|(?:at )?what time)(?:'s| is| does| do| are) {_OURS}(?: start| begin)?|when {_OURS} (?:is|starts?|begins?)",
            ("{} is 1 May", "{} is at 9"),
        ),
        (rf"(?:what|which) {_KIND}(?:do )?(I (?!am\b)[\w' ]{{3,40}})", ("{} Ada",)),
        (rf"(?:what|which) {_KIND}(?:am I|I am) ([\w' ]{{3,40}})", ("I am {} Ada",)),
        (r"where (?:am I|I am) ([\w' ]{3,40})", ("I am {} Ada", "I am {} in Ada", "I am {} at Ada")),
        (rf"(?:where|whom?)(?: do)? {_PLACED}", ("{} Ada", "{} in Ada", "{} at Ada")),
        (r"where does (my [\w-]+) live|where (my [\w-]+) lives", ("{} lives in Ada",)),
        (r"where does (my [\w-]+) work|where (my [\w-]+) works", ("{} works at Ada",)),
        (r"how old (?:am I|I am)", ("I am 30",)),
        (r"how many (\w+) (?:do )?(?:I|we) have", ("I have 2 {}",)),
        (r"what (?:(?:do (?:people|you)|should (?:people|you)|can you) call me|should I be called)", ("call me Ada",)),
        (r"am I (.{3,80})", ("I am {}",)),
        (r"do (I .{3,80})", ("{}",)),
    )
)
"""How a question is put, and what would answer it: the words in a statement's order, with any value."""


def slots_asked(text: str) -> frozenset[str]:
    """Return the slots that the questions in *text* ask for.

    ``Which company do I work at?`` asks for the slot of ``I joined Acme.``; see :func:`threadkeep.text.slots.slot_of`.
    A text of more than 400 characters asks for none.
    """
    if len(text) > _MAX_QUESTION_CHARACTERS:
        return frozenset()
    sentences = re.split(r"(?<=[.!?;:])\s+", straight(plain(as_said(text))))
    return frozenset(filter(None, [_slot_asked(one.strip(" .!?;:")) for one in sentences]))


@lru_cache(maxsize=1024)
def _slot_asked(question: str) -> str | None:
    asked = _IN_PASSING.sub("", _ASKING.sub("", question, count=1)).strip(" ,")
    for pattern, answers in _ANSWERS:
        if found := pattern.fullmatch(asked):
            said = next(filter(None, found.groups()), "")
            return next(filter(None, map(_slot_in_words_of_user, [answer.format(said) for answer in answers])), None)
    return None
