"""What a statement is about, compared with another one: whether the newer may tell that the older is no longer so.

No single mark decides. A statement may have marks of a change, as people put it: replaced, corrected, ended or
reversed. Two statements give a vector of what speaks for and against it: shared words, a definite mention
of what the older introduced, relatives, marks of a change. ``recall/currency`` weighs it.
"""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from threadkeep.text.relatives import RELATIVES
from threadkeep.text.semantics import Gist, gist_of, straight, words
from threadkeep.text.tokenizing import EVERY_FUNCTION_WORD, FUNCTION_WORDS, STOP_WORDS, tokenise

Change: TypeAlias = Literal["correction", "change"]

MAX_CHARACTERS: Final = 400
"""A longer text tells of many things."""

_CORRECTION: Final = re.compile(
    r"""(?ix)
      ^\W*(?:(?:oh|ah|ugh|hm+|oops|whoops|ok|okay|well|wait|actually|hang\ on|hold\ on|scratch\ that|no,?\ wait|er+|ähm?|ach)[,.:;!…\ ]+)*(?:no|nope|nah|sorry|correction|apologies|pardon|my\ bad|my\ mistake|scratch\ that|not\ (?:the|a|an|my|our|that)\b|nein|doch|falsch|quatsch|non|pardon|désolée?|perdón|perdona|lo\ siento|desculpa|errata|scusa)\b[\ ,.:;!–—-]
    | \b(?:i|we|he|she|they)(?:'d|\ had|\ have|'ve|\ was|\ were|\ just|\ must\ have|\ may\ have)*\ (?:got\ (?:it|that|this|the\ \w+|him|her|them)\ wrong|wrong|mistaken|misread|misspoke|misspelled|misspelt|mistyped|mis-?remembered|misheard|mixed\ (?:\w+\ ){0,4}up|mixed\ up|muddled|confused\ (?:it|the|them|him|her)|swapped|left\ (?:out|off)|dropped\ a|forgot\ a|read\ (?:it|the\ wrong)|looked\ at\ (?:the\ )?(?:wrong|old)|told\ you\ (?:nonsense|rubbish|wrong|the\ wrong)|said\ (?:it\ wrong|the\ wrong)|typed|meant)\b
    | \bi\ (?:meant|mean)\b | \b(?:that|it|this|which)(?:'s|\ is|\ was)\ (?:not\ right|wrong|incorrect|a\ typo|a\ mistake|(?:my|the)\ (?:keyboard|phone|mistake|error|typo)|outdated|not\ true|nonsense|rubbish)\b | \btypo\b | \bautocorrect\b
    | \b(?:set|put|told)\ me\ (?:straight|right|off)\b | \bcorrect(?:ed|s|ing)\ (?:me|myself|that|it)\b | \bturns?\ out\b | \bturned\ out\b | \bstand\ corrected\b | \bin\ fact\b | \bto\ be\ (?:precise|exact)\b
    | \b(?:checked|looked\ (?:it\ )?up|looked\ again|double-?checked|found|measured|asked|rechecked|verified)\b[^.!?]{0,40}[:,;–—]\ | \bon\ (?:second|closer)\ (?:thought|look|inspection)\b
    | ,\ (?:not|and\ not|instead\ of|rather\ than)\ [\w'"] | \b(?:is|are|was|were)(?:n't|\ not)\ [^.!?,;]{1,40}\ but\b | \bnot\ [^.!?,;]{1,40}(?:\ but\b|[:;–—])
    | \b(?:ich\ meinte|verschrieben|vertippt|versehen|verwechselt|stimmt\ nicht|sondern|korrektur|richtig\ ist|geirrt|je\ voulais\ dire|je\ me\ suis\ trompé\w*|erreur|en\ fait|plutôt|quise\ decir|me\ equivoqué|en\ realidad|sino|quis\ dizer|me\ enganei|na\ verdade|errei|mi\ sono\ sbagliat[oa]|volevo\ dire|in\ realtà)\b
    """
)
_CHANGE: Final = re.compile(
    r"""(?ix)
      \b(?:now(?!\ and\ then)|nowadays|these\ days|from\ (?:now|here|today|then|this|next)(?:\ \w+)?\ on(?:wards?)?|as\ of|since(?!\ (?:childhood|forever|birth|always))|starting|effective|henceforth|lately|recently|just|finally|at\ (?:last|long\ last)|already|by\ now|meanwhile|in\ the\ meantime|once\ more|once\ again|again|back|anymore|any\ more|any\ longer|no\ longer|no\ more|not\ any|never\ again|instead|rather\ than|in\ (?:its|their|his|her)\ place|it\ is)\b
    | \b(?:today|yesterday|last\ (?:night|week|weekend|month|year|monday|tuesday|wednesday|thursday|friday|saturday|sunday)|this\ (?:morning|week|month|weekend|year)|overnight|tonight)\b
    | \b(?:switch|chang|mov|migrat|port|convert|transition|upgrad|downgrad|replac|swapp|trad|exchang|renam|shift|postpon|reschedul|delay|slid|slipp|push|pull|extend|shorten|rais|lower|increas|decreas|reduc|bump|promot|demot|transferr|reassign|relocat|retir|resign|quitt|dismiss|dissolv|disband|discontinu|decommission|deprecat|dropp|abandon|cancel|terminat|ditch|scrapp|dump|stopp|ceas|finish|complet|expir|laps|fold|clos|shut|remov|delet|uninstall|revert|roll|return|reinstat|restor|recover|heal|cur|adopt|launch|ship|releas|merg|split|separat|divorc|marri|engag|graduat|enroll|join|hir|fir|overrul|cav|banish|bann|empt|sold|outgrown|wean)(?:ed|es|ing|ped|ted|ied|s)?\b
    | \b(?:became|become|becomes|ended|ending|(?<!'ve\ )(?<!\bhave\ )(?<!'s\ )(?<!\bhas\ )got|gets|gone|went|left|leaving|quit|sold|bought|broke|broken|gave|given|giving|threw|thrown|put|took|taken|taking|handed|rang|rung|cut|let|lost|won|grew|grown|shaved|chopped|ripped|kicked|dead|died|passed|flew|ran|run\ out|swallowed|came|bitten|rid|riddance|over|done|history|past|former|formerly|previous|previously|ex|new|newly|latest|first\ (?:day|week|month|shift)|(?:the|my|our)\ last|instead|otherwise|different(?:ly)?|away|off|out)\b
    | \b(?:not|isn't|aren't|wasn't|don't|doesn't|didn't|can't|couldn't|won't|haven't|hasn't|hadn't|never|nobody|nothing|none|without)\b
    | \b(?:used\ to|ended\ up|decided\ (?:to|on|against|for)|(?:is|are)\ (?:mine|ours)|withdrew|withdrawn|(?:made|named|appointed|elected|chose|picked|hired)\ (?:me|us)|(?:the|an|my|our)\ end\ (?:of|to)|an\ end|paying\ off|too\ (?!much\ |many\ )\w+|(?:is|are|it's|'s|we're|i'm)\ all|believe\ it\ or\ not|can\ you\ believe|let's|welcome|after\ (?:an?|the|\w+)\ (?:day|week|month|year|quarter|sprint)s?\ (?:of|with|on|at|in)|(?:on|under)\ my\ nerves|(?:sick|tired|fed\ up|had\ enough|bored)\b|nightmare|had\ (?:my|the|our)\ \w+\ \w+ed|makes?\ (?:\w+\ ){1,2}of\ us)\b
    | \b(?:jetzt|nun|inzwischen|mittlerweile|seit|neuerdings|ab\ (?:jetzt|sofort|morgen|heute)|nicht\ mehr|kein\w*\ mehr|wieder|zurück|statt(?:dessen)?|umgestiegen|gewechselt|umgezogen|(?:nach|in)\ \w+\ gezogen|gekündigt|verkauft|neu\w*|ehemalig\w*|früher|gestern|heute|endlich|schluss|vorbei|aufgehört|angefangen|maintenant|désormais|depuis|(?:ne\ (?:\w+\ )?|n'\w+\ )plus|plus\ (?:de|du|d')|nouveau|nouvelle|à\ nouveau|arrêté|changé|déménagé|emménagé|quitté|vendu|remplacé|terminé|fini|hier|ahora|actualmente|ya\ no|desde|nuevo|nueva|de\ nuevo|otra\ vez|cambi\w+|mud\w+|trasferit[oaie]|traslocat[oaie]|dej\w+|vend\w+|termin\w+|acab\w+|ayer|por\ fin|agora|atualmente|já\ não|não\ (?:\w+\ )?mais|novo|nova|de\ novo|outra\ vez|troc\w+|deix\w+|parei|ontem|finalmente|adesso|ora|non\ (?:\w+\ )?più|nuovo|nuova|di\ nuovo|cambiato|lasciato|smesso|venduto|ieri)\b
    """
)
_ADDS: Final = re.compile(
    r"""(?ix)\b(?:also|(?<!gone\ )too(?=\W*$|[,;])|as\ well|another|additionally|besides|beside\ that|on\ top\ of|in\ addition|both|other|second\ (?:one|job|home)|and\ (?:a|an|my|our|the)\ \w+(?:,|\ called)|auch|außerdem|zusätzlich|noch\ ein\w*|zweite[nrs]?\ (?:job|stelle)|aussi|également|en\ plus|un\ autre|une\ autre|(?:second|deuxième)\ (?:emploi|travail|boulot)|también|además|otr[oa]|segundo\ (?:trabajo|empleo|emprego|trabalho)|também|além|outr[oa]|anche|inoltre|un\ altr[oa]|secondo\ lavoro)\b"""
)
_RETURNS: Final = re.compile(
    r"""(?ix)\b(?:again|back|once\ more|return(?:s|ed|ing)?|revert(?:s|ed)?|as\ before|reinstat\w+|restored|wieder|zurück|de\ nouveau|à\ nouveau|otra\ vez|de\ nuevo|vuelv\w+|volv\w+|vuelto|de\ novo|outra\ vez|de\ volta|volt(?:ei|ou|a|o|amos|aram)|di\ nuovo)\b"""
)
_ABOUT_NOTHING: Final = words(
    """
    said told ask asked day days week weeks weekend month months year years time times thing things way people
    lot bit really turn turns keep keeps pay paid pays sign signed rent kid kids room called name named number
    second third winter summer spring autumn half hundred thousand eleven twelve twenty thirty forty fifty sixty
    seventy eighty ninety end ends ended run runs hold holds set sets give gives gave put thank thanks please
    one two three four five six seven eight nine ten first last next new old good great nice go goes going went
    get gets got have has had make made take taken took come came see look like love want need use used using
    know think say today yesterday tomorrow tonight morning evening night monday tuesday wednesday thursday
    friday saturday sunday january february march april may june july august september october november december
    live lives work works start started back home much many since until every each always never still just now
    """
)


@lru_cache(maxsize=4096)
def change_in(text: str) -> Change | None:
    """Return whether *text* corrects, or tells that something has changed; ``None``: neither."""
    if len(text) > MAX_CHARACTERS:
        return None
    said = straight(text)
    if _CORRECTION.search(said):
        return "correction"
    return "change" if _CHANGE.search(said) and not _ADDS.search(said) else None


def adds_to_it(text: str) -> bool:
    """Return whether *text* adds to what was said: ``also``, ``another``."""
    return len(text) <= MAX_CHARACTERS and _ADDS.search(straight(text)) is not None


@lru_cache(maxsize=4096)
def returns(text: str) -> bool:
    """Return whether *text* tells that something is again as it was: ``back``, ``once more``."""
    return len(text) <= MAX_CHARACTERS and _RETURNS.search(straight(text)) is not None


@lru_cache(maxsize=4096)
def subjects_of(text: str) -> frozenset[str]:
    """Return the stems of *text* that tell what it is about."""
    return frozenset(stem for stem in tokenise(straight(text)[:MAX_CHARACTERS]) if stem not in _STEMS)


_STEMS: Final = frozenset(tokenise(" ".join((*_ABOUT_NOTHING, *STOP_WORDS)))) | _ABOUT_NOTHING


_MOST_SHARED: Final = 3
_UNSPACED: Final = "\u0e00"
"""Scripts without spaces between words begin here."""
WORD: Final = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*|\d+(?:[.,:/]\d+)*")
SENTENCE: Final = re.compile(r"(?<=[.!?;:])\s+")
FUNCTION: Final = STOP_WORDS.union(
    *(FUNCTION_WORDS[language] for language in ("english", "french", "german", "italian", "portuguese", "spanish"))
)
_DETERMINERS: Final = words(
    """
    the that this my our his her their its der die das dem den mein meine meinen meinem unser unsere le la les mon ma
    mes notre nos ce cette l el los las mi mis nuestro nuestra ese esa o a os as meu minha nosso nossa il lo mio mia
    """
)
_SPEAKER: Final = words("i we i'm i've we're we've i'd i'll ich wir je nous j yo nosotros eu nós io noi")
_WITHOUT_SUBJECT: Final = re.compile(
    r"(?i)^\W*(?:(?:just|finally|actually|already|have|had|been|is|am|are)\ )*(?:[a-z]{2,}ed|went|gave|took|got|put|quit|left|made|bought|sold|broke|cut|threw|fell|ran|came|found|told|met|lost|won|set|let|up\ to|down\ to|back\ (?:on|to|at|in)|no\ more|not\ any\ ?more)\b"
)
"""A statement that begins with what was done continues one that named the subject: ``Went with Obsidian after all.``"""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a statement is about.

    Attributes:
        stems: The stems that tell it.
        words: All its words, in small letters.
        names: Words with a capital inside a sentence.
        definite: Stems after ``the``, ``my`` and the like.
        subjects: The stems of the subjects ``my …``, ``the …``; of each sentence that begins with one.
        of_speaker: Whether a sentence begins with ``I`` or ``we``.
        relatives: The relatives that it mentions.
        relative_names: The name that follows one.
        adds: Whether it adds to what was said: ``also``, ``another``.
        change: Whether it has a mark of a change.
        correction: Whether it has a mark of a correction.
        elliptical: Whether it begins without a subject.
    """

    stems: frozenset[str]
    words: frozenset[str]
    names: frozenset[str]
    definite: frozenset[str]
    subjects: tuple[frozenset[str], ...]
    of_speaker: bool
    relatives: frozenset[str]
    relative_names: Mapping[str, str]
    adds: bool
    change: bool
    correction: bool
    elliptical: bool


@lru_cache(maxsize=4096)
def parse_claim(text: str) -> Claim:
    """Return what *text* is about; the first 400 characters count."""
    said = straight(text)[:MAX_CHARACTERS]
    spelled = [WORD.findall(sentence) for sentence in SENTENCE.split(said)]
    tokens = [token for sentence in spelled for token in sentence]
    lowered = [token.casefold() for token in tokens]
    change = change_in(said)
    return Claim(
        stems=frozenset(stem for stem in subjects_of(said) if stem < _UNSPACED),  # a character is no word
        words=frozenset(lowered),
        names=frozenset(_names(spelled)),
        definite=frozenset(_definite(lowered)),
        subjects=tuple(_subjects(spelled)),
        of_speaker=any(sentence[0].casefold() in _SPEAKER for sentence in spelled if sentence),
        relatives=frozenset(RELATIVES[word] for word in lowered if word in RELATIVES),
        relative_names={
            RELATIVES[word]: name
            for word, name in zip(lowered, tokens[1:], strict=False)
            if word in RELATIVES and name[:1].isupper()
        },
        adds=adds_to_it(said),
        change=change == "change",
        correction=change == "correction",
        elliptical=_WITHOUT_SUBJECT.match(said) is not None,
    )


FEATURES: Final = (
    "shared words",
    "definite mention",
    "name",
    "other relatives",
    "relatives of one",
    "other names of a relative",
    "adds",
    "change",
    "correction",
    "other subjects",
    "same subject",
    "both of the speaker",
    "elliptical",
)
"""The names of the elements of :func:`compare`."""


def compare(newer: str, older: str) -> tuple[float, ...]:
    """Return what speaks for and against *newer* telling that *older* is no longer so, by :data:`FEATURES`."""
    new, old = parse_claim(newer), parse_claim(older)
    shared = new.stems & old.stems
    unshared_subjects = not any(one & new.stems for one in old.subjects) and not any(
        one & old.stems for one in new.subjects
    )
    return (
        min(len(shared), _MOST_SHARED) / 2,
        bool(shared & new.definite),
        any(name in new.words for name in old.names),
        bool(new.relatives and old.relatives) and new.relatives.isdisjoint(old.relatives),
        bool(new.relatives) != bool(old.relatives),
        any(new.relative_names.get(one, name) != name for one, name in old.relative_names.items()),
        new.adds,
        new.change,
        new.correction,
        bool(new.subjects and old.subjects) and unshared_subjects,
        any(one & other for one in new.subjects for other in old.subjects),
        new.of_speaker and old.of_speaker,
        new.elliptical,
    )


_CONSIDERED: Final = re.compile(
    r"""(?ix)\b(?:just|only|merely)\ an?\ (?:idea|thought|suggestion|proposal|rumou?r|option)\b
      | \b(?:said|says|told\ (?:me|us)|suggests?|suggested|thinks|thought|proposes?|proposed|mentioned|argued|hopes|wishes)\b[^.!?;]{0,40}?\b(?:should|could|might|ought\ to|wants?\ to|wanted\ to|would\ (?:like|love|prefer))\b
      | ^(?:maybe|perhaps|possibly)\b[^.!?;]{0,20}?\b(?:should|could|might|will|would|we'll|i'll)\b
      | \b(?:i|we)(?:'m|'re|\ am|\ are|\ was|\ were|'ve\ been|\ have\ been)?\ (?:just\ |only\ |still\ |also\ )*(?:thinking\ (?:about|of)|considering|consider|toying\ with|tempted\ to|wondering\ (?:about|whether|if)|debating|discussing|dreaming\ of)\b
      | \b(?:i|we)\ (?:might|could|should)\ (?!have\b) | \b(?:i|we)(?:'d|\ would)\ (?:love|like)\ to\b"""
)
_DECIDED: Final = re.compile(
    r"(?i)\b(?:decid\w+|ended up|settled|went (?:with|for)|chose|instead|after all|in the end|agreed|so (?:we|i)(?:'m|'re|'ve|'ll)?|now)\b"
)
_ONLY_ONE: Final = words("mother father grandmother grandfather wife husband partner boss parents")
"""Of these a user speaks of one at a time, and of a new one under another name."""
_POSSESSIVES: Final = words(
    "my our mein meine unser unsere mon ma notre mi mis nuestro nuestra meu minha nosso nossa mio mia"
)
_OF_SPEAKER: Final = _SPEAKER | words("me us myself ourselves mich mir uns moi nous mim")
_OF_ANOTHER: Final = words("he she him her they them er sie ihn ihm ihr ihnen il elle lui leur ele ela él ella lei")
_OBJECT_BEFORE_VERB: Final = re.compile(
    r"(?ix)^(?:je|on|nous)\ (?:ne\ )?(?:la\b|les?\b|l')|\b(?:de|à|pas|vais|va|dois|doit|veux|peux|dû|fait)\ (?:la\ |les?\ |l')\w+(?:er|ir|re)\b"
)
"""A French pronoun: ``je la mesure``, ``je viens de la mesurer``."""
_HEAD: Final = 4
_ABOUT_A_THING: Final = re.compile(
    r"(?i)^(?:(?:the|my|our)\ )?(?P<subject>[^,.;:!?]{2,40}?)\ (?P<verb>is|are|runs?|lives?|sits?|uses?|has|costs?|starts?|begins?|ends?|leaves?|opens?|closes?|works?)\ (?P<value>.+)$"
)
_NUMBERED: Final = re.compile(
    r"^(?P<noun>(?:[^\W\d_]+ ){0,3}?(?P<last>[^\W\d_]+))[ -](?P<label>\d+|[A-HJ-Z]) (?P<verb>is|are|was|were|has|needs|runs|uses|costs|starts|ends|leaves|opens|closes|belongs|ist|hat|heißt|kostet|est|coûte|es|cuesta|é|custa|è|costa) (?P<value>.+)$"
)
"""A thing with its number or letter, and what is said of it: ``Meeting room 12 is called Mars.``"""
_OF_A_NAME: Final = re.compile(
    r"^(?P<name>[A-ZÀ-Þ][\w'-]+) (?P<verb>lives|works|likes|loves|enjoys|prefers|speaks|plays|drives|is allergic|has(?= (?:an?|no|one|two|three|four|five|six|\d+)\b(?! (?:new )?job)))\b(?P<value>.+)$"
)
"""What a person does, who is named: ``Mira plays the cello.``"""
_HOLD_BESIDE: Final = frozenset({"has", "likes", "loves", "enjoys", "prefers", "speaks", "plays", "is allergic"})
"""Verbs of which a person may have several values at once."""
_OF_ONE_KIND: Final = re.compile(
    r"^(?P<subject>(?:[\w'-]+ ){2,4}?)(?P<verb>is|are|was|were|has|needs|runs|uses|costs|starts|begins|ends|opens|closes|launches|ist|hat|braucht|läuft|nutzt|kostet|startet|beginnt|endet|est|coûte|commence|finit|es|tiene|cuesta|empieza|termina|é|tem|custa|começa|è|ha|costa|inizia|finisce) (?P<value>(?:(?![.!?;:] ).)+)$"
)
"""A thing with its kind and its name, and what is said of it: ``Project Apollo is due on 3 March.``"""
_ONE_OF_A_KIND: Final = words(
    """
    dr doctor mr mrs ms miss prof professor coach trainer landlord landlady boss dentist herr frau monsieur madame docteur señor
    señora doctor doctora senhor senhora doutor doutora signor signora dottor dottoressa flat apartment house room rent job wohnung zimmer
    miete stelle appartement loyer piso alquiler apartamento renda appartamento affitto
    monday tuesday wednesday thursday friday saturday sunday montag dienstag mittwoch donnerstag freitag samstag sonntag
    """
)
"""People and things of which a user has one at a time, and days, from which things are moved."""
_EVENT: Final = re.compile(
    r"(?i)\b(?:adopted|planted|baked|visited|watched|attended|adoptiert|gepflanzt|gebacken|besucht|adopté|planté|visité|adoptado|adoptamos|plantado|visitado|visitamos|adotei|adotámos|adotamos|visitei|adottato|piantato|visitato)\b"
)
"""Something that was done, and that no other time of doing it undoes."""
_ONE_THING: Final = re.compile(r"(?i)\b(?:an?|eine?[nrms]?|une?|una|uma?|uno) (?P<thing>[\w'-]+)")
_NO_THING: Final = words("i we he she it they you this that these those there here who which what")


@lru_cache(maxsize=4096)
def only_considers(text: str) -> bool:
    """Return whether *text* only considers or wishes something, such as ``Someone said we should move it``."""
    said = straight(text)[:MAX_CHARACTERS]
    return _DECIDED.search(said) is None and all(map(_CONSIDERED.search, SENTENCE.split(said)))


def both_hold(newer: str, older: str) -> bool:
    """Return whether *newer* leaves *older* true, however near they are.

    It only considers something, or the two are about different people, or say different values of different things.
    """
    if only_considers(newer):
        return True
    new, old = parse_claim(newer), parse_claim(older)
    is_change = new.change or new.correction
    people = _person_in(new, newer), _person_in(old, older)
    is_named = any(name.casefold() in new.words for name in old.relative_names.values())
    is_mentioned = is_named or (is_change and new.stems & old.stems & new.definite)
    if None not in people and people[0] != people[1] and not is_mentioned:
        return True
    for relative, name in old.relative_names.items():
        other = new.relative_names.get(relative, name)
        if other != name and relative not in _ONLY_ONE and name.casefold() not in new.words:
            return True
    if _tell_two_events(newer, older):
        return True
    apart = _are_different_things, _are_numbered_apart, _are_named_apart, _tell_two_things_of_one
    return not is_change and any(are_apart(newer, older) for are_apart in apart)


_BEFORE_A_NAME: Final = words(
    "and is are called named und heißt heißen namens et s'appelle s'appellent y se llama llaman e chama chamam si chiama chiamano"
)


@lru_cache(maxsize=32_768)
def elaborates(newer: str, older: str) -> bool:
    """Return whether *newer* elaborates on what *older* names, or on all but the verb of what the speaker says.

    It has no other name or number, and no mark of a change: ``My Skoda makes a strange noise.``, ``I drive a Skoda.``
    What was denied, and is so, has changed, and what the speaker denies: ``I hate camping.``, ``The tent was great.``
    """
    gist, before = gist_of(newer), gist_of(older)
    is_reversed = gist.denied != before.denied and (before.denied or gist.role == "I")
    if change_in(newer) or is_reversed or _names_another(gist, before):
        return False
    value = before.names or (before.words[1:] or before.words if before.role == "I" else ())
    return bool(value) and frozenset(value).issubset(gist.words)


@lru_cache(maxsize=32_768)
def asks_about(question: str, statement: str, *, before: bool = False) -> bool:
    """Return whether *question* has a word of *statement*, and no name or number beside it.

    ``Which strings do I need for my cello?`` asks about ``I play the cello.`` One that was asked *before* it has no
    word beside it at all: ``What is my cat called?``, ``My cat is called Tom.``
    """
    gist, told = gist_of(question), gist_of(statement)
    if before:
        return _meaning(gist).issubset(told.words)
    return not _names_another(gist, told) and not _meaning(gist).isdisjoint(told.words)


def _meaning(gist: Gist) -> frozenset[str]:
    return frozenset(gist.words).difference(EVERY_FUNCTION_WORD).union(gist.names)


def _names_another(gist: Gist, before: Gist) -> bool:
    """Return whether a text has a name or a number that the one *before* has not."""
    added = frozenset(gist.words).difference(before.words)
    return not added.isdisjoint(gist.names) or any(map(str.isdigit, "".join(added)))


@lru_cache(maxsize=4096)
def people_in(text: str) -> frozenset[str]:
    """Return the names, in small letters, of the relatives, companions and pets in *text*: ``My sons, Max and Leo``."""
    names: set[str] = set()
    for sentence in SENTENCE.split(straight(text)[:MAX_CHARACTERS]):
        follows = False
        for word in WORD.findall(sentence):
            lowered = word.casefold()
            if follows and word[:1].isupper() and lowered not in FUNCTION:
                names.add(lowered.removesuffix("'s"))
            elif lowered not in _BEFORE_A_NAME and not word.isdigit():
                follows = lowered in RELATIVES or lowered.removesuffix("s") in RELATIVES
    return frozenset(names)


def _person_in(claim: Claim, text: str) -> str | None:
    """Return of whom alone *text* tells: a relative, or, as an empty text, the speaker; ``None``: not certain."""
    spoken = [word.casefold() for word in WORD.findall(straight(text)[:MAX_CHARACTERS])]
    if not spoken:
        return None
    if spoken[0] in _SPEAKER:
        tells_of_another = claim.relatives or not _OF_ANOTHER.isdisjoint(spoken) or _OBJECT_BEFORE_VERB.search(text)
        return None if tells_of_another else ""
    if spoken[0] not in _POSSESSIVES or not _OF_SPEAKER.isdisjoint(spoken):
        return None
    relative = next((RELATIVES[word] for word in spoken[1:_HEAD] if word in RELATIVES), None)
    return None if relative == "boss" else relative


def _are_different_things(newer: str, older: str) -> bool:
    """Return whether two statements of one form name different things and different values of them."""
    new, old = _ABOUT_A_THING.match(straight(newer)), _ABOUT_A_THING.match(straight(older))
    if not new or not old or new["verb"].casefold().rstrip("s") != old["verb"].casefold().rstrip("s"):
        return False
    subject, other = (_content(found["subject"]) for found in (new, old))
    value, other_value = (_content(found["value"]) for found in (new, old))
    if not subject or not other or subject & (other | other_value) or other & value:
        return False
    return are_other_values(value, other_value)


def _are_numbered_apart(newer: str, older: str) -> bool:
    """Return whether two statements say different values of things that differ in their number or letter."""
    new, old = _NUMBERED.match(straight(newer)), _NUMBERED.match(straight(older))
    if not new or not old or new["label"] == old["label"] or new["last"].casefold() in FUNCTION:
        return False
    if any(new[part].casefold() != old[part].casefold() for part in ("noun", "verb")):
        return False
    if new["noun"].split(" ")[0].casefold() in _SPEAKER:
        return False
    value, other_value = (frozenset(map(str.casefold, WORD.findall(found["value"]))) for found in (new, old))
    return are_other_values(value, other_value)


def _are_named_apart(newer: str, older: str) -> bool:
    """Return whether two statements say different values of things of one kind that differ in their name."""
    new, old = _OF_ONE_KIND.match(straight(newer)), _OF_ONE_KIND.match(straight(older))
    if not new or not old or new["verb"] != old["verb"]:
        return False
    named, other = new["subject"].split(), old["subject"].split()
    differing = [place for place, (one, two) in enumerate(zip(named, other, strict=False)) if one != two]
    if len(named) != len(other) or len(differing) != 1 or not differing[0]:
        return False
    name, other_name = named[differing[0]], other[differing[0]]
    spoken = {word.casefold() for word in (*named, *other)}
    of_one = _ONE_OF_A_KIND | _POSSESSIVES | _SPEAKER | RELATIVES.keys()
    if not (name[0].isupper() and other_name[0].isupper()) or not spoken.isdisjoint(of_one):
        return False
    kind = spoken - {name.casefold(), other_name.casefold()} - FUNCTION
    value, other_value = _content(new["value"]), _content(old["value"])
    return bool(kind) and are_other_values(value, other_value)


def _tell_two_events(newer: str, older: str) -> bool:
    """Return whether the same was done to two different things, and *newer* tells no other change."""
    done, before = _EVENT.search(straight(newer)), _EVENT.search(straight(older))
    if not done or not before or done[0].casefold() != before[0].casefold():
        return False
    rest, other = straight(newer).replace(done[0], ";"), straight(older).replace(before[0], ";")
    things = [found["thing"].casefold() if (found := _ONE_THING.search(text)) else None for text in (rest, other)]
    return None not in things and things[0] != things[1] and change_in(rest) is None


def _tell_two_things_of_one(newer: str, older: str) -> bool:
    """Return whether two statements tell different things of one named person: where she lives, and what she plays."""
    new, old = _OF_A_NAME.match(straight(newer)), _OF_A_NAME.match(straight(older))
    if not new or not old or new["name"] != old["name"] or new["name"].casefold() in _NO_THING:
        return False
    if new["verb"] == old["verb"] and new["verb"] not in _HOLD_BESIDE:
        return False
    return _content(new["value"]).isdisjoint(_content(old["value"]))


def are_other_values(value: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether each of two values has a word that the other one lacks: neither only adds to the other."""
    return bool(value - other and other - value)


def _content(text: str) -> frozenset[str]:
    spoken = {word.casefold() for word in WORD.findall(text)}
    return frozenset() if spoken & _NO_THING else frozenset(spoken - FUNCTION).union(*map(tokenise, spoken - FUNCTION))


def _names(sentences: list[list[str]]) -> Iterator[str]:
    """Yield the names, in small letters."""
    for sentence in sentences:
        for word in sentence[1:]:
            lowered = word.casefold()
            if word[:1].isupper() and len(word) > 1 and lowered not in FUNCTION and not lowered.startswith("i'"):
                yield lowered


def _definite(lowered: list[str]) -> Iterator[str]:
    """Yield the stems of the two words after a determiner."""
    for place, word in enumerate(lowered):
        if word in _DETERMINERS and lowered[place + 1 : place + 2]:
            if lowered[place + 1] not in FUNCTION:
                yield from tokenise(lowered[place + 1])
            for following in lowered[place + 2 : place + 3]:
                yield from tokenise(following)


def _subjects(sentences: list[list[str]]) -> Iterator[frozenset[str]]:
    for sentence in sentences:
        if sentence and sentence[0].casefold() in _DETERMINERS and sentence[0].casefold() not in _SPEAKER:
            heads: list[str] = []
            for word in sentence[1:4]:
                if word.casefold() in FUNCTION:
                    break
                heads += tokenise(word)
            yield frozenset(heads)
