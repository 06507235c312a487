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
from typing import Final, Literal, NamedTuple, TypeAlias

from threadkeep.text.semantics import straight, words
from threadkeep.text.tokenizing import FUNCTION_WORDS, STOP_WORDS, tokenise

Change: TypeAlias = Literal["correction", "change"]

_MAX_CHARACTERS: Final = 400
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
    | \b(?:used\ to|ended\ up|(?:is|are)\ (?:mine|ours)|withdrew|withdrawn|(?:made|named|appointed|elected|chose|picked|hired)\ (?:me|us)|(?:the|an|my|our)\ end\ (?:of|to)|an\ end|paying\ off|too\ (?!much\ |many\ )\w+|(?:is|are|it's|'s|we're|i'm)\ all|believe\ it\ or\ not|can\ you\ believe|let's|welcome|after\ (?:an?|the|\w+)\ (?:day|week|month|year|quarter|sprint)s?\ (?:of|with|on|at|in)|(?:on|under)\ my\ nerves|(?:sick|tired|fed\ up|had\ enough|bored)\b|nightmare|had\ (?:my|the|our)\ \w+\ \w+ed|makes?\ (?:\w+\ ){1,2}of\ us)\b
    | \b(?:jetzt|nun|inzwischen|mittlerweile|seit|neuerdings|ab\ (?:jetzt|sofort|morgen|heute)|nicht\ mehr|kein\w*\ mehr|wieder|zurück|statt(?:dessen)?|umgestiegen|gewechselt|umgezogen|gekündigt|verkauft|neu\w*|ehemalig\w*|früher|gestern|heute|endlich|schluss|vorbei|aufgehört|angefangen|maintenant|désormais|depuis|(?:ne\ (?:\w+\ )?|n'\w+\ )plus|plus\ (?:de|du|d')|nouveau|nouvelle|à\ nouveau|arrêté|changé|déménagé|quitté|vendu|remplacé|terminé|fini|hier|ahora|actualmente|ya\ no|desde|nuevo|nueva|de\ nuevo|otra\ vez|cambi\w+|mud\w+|dej\w+|vend\w+|termin\w+|acab\w+|ayer|por\ fin|agora|atualmente|já\ não|não\ (?:\w+\ )?mais|novo|nova|de\ novo|outra\ vez|troc\w+|deix\w+|parei|ontem|finalmente|adesso|ora|non\ (?:\w+\ )?più|nuovo|nuova|di\ nuovo|cambiato|lasciato|smesso|venduto|ieri)\b
    """
)
_ADDS: Final = re.compile(
    r"""(?ix)\b(?:also|(?<!gone\ )too(?=\W*$|[,;])|as\ well|another|additionally|besides|beside\ that|on\ top\ of|in\ addition|both|other|second\ (?:one|job|home)|and\ (?:a|an|my|our|the)\ \w+(?:,|\ called)|auch|außerdem|zusätzlich|noch\ ein\w*|aussi|également|en\ plus|un\ autre|une\ autre|también|además|otr[oa]|também|além|outr[oa]|anche|inoltre|un\ altr[oa])\b"""
)
_RETURNS: Final = re.compile(
    r"""(?ix)\b(?:again|back|once\ more|return(?:s|ed|ing)?|revert(?:s|ed)?|as\ before|reinstat\w+|restored|wieder|zurück|de\ nouveau|à\ nouveau|otra\ vez|de\ nuevo|vuelv\w+|volv\w+|vuelto|de\ novo|outra\ vez|de\ volta|volt(?:ei|ou|a|o|amos|aram)|di\ nuovo)\b"""
)
_ABOUT_NOTHING: Final = frozenset(
    [
        "said",
        "told",
        "ask",
        "asked",
        "day",
        "days",
        "week",
        "weeks",
        "weekend",
        "month",
        "months",
        "year",
        "years",
        "time",
        "times",
        "thing",
        "things",
        "way",
        "people",
        "lot",
        "bit",
        "really",
        "turn",
        "turns",
        "keep",
        "keeps",
        "pay",
        "paid",
        "pays",
        "sign",
        "signed",
        "rent",
        "kid",
        "kids",
        "room",
        "called",
        "name",
        "named",
        "number",
        "second",
        "third",
        "winter",
        "summer",
        "spring",
        "autumn",
        "half",
        "hundred",
        "thousand",
        "eleven",
        "twelve",
        "twenty",
        "thirty",
        "forty",
        "fifty",
        "sixty",
        "seventy",
        "eighty",
        "ninety",
        "end",
        "ends",
        "ended",
        "run",
        "runs",
        "hold",
        "holds",
        "set",
        "sets",
        "give",
        "gives",
        "gave",
        "put",
        "really",
        "thank",
        "thanks",
        "please",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "first",
        "last",
        "next",
        "new",
        "old",
        "good",
        "great",
        "nice",
        "go",
        "goes",
        "going",
        "went",
        "get",
        "gets",
        "got",
        "have",
        "has",
        "had",
        "make",
        "made",
        "take",
        "taken",
        "took",
        "come",
        "came",
        "put",
        "see",
        "look",
        "like",
        "love",
        "want",
        "need",
        "use",
        "used",
        "using",
        "know",
        "think",
        "say",
        "today",
        "yesterday",
        "tomorrow",
        "tonight",
        "morning",
        "evening",
        "night",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
        "live",
        "lives",
        "work",
        "works",
        "start",
        "started",
        "back",
        "home",
        "much",
        "many",
        "since",
        "until",
        "every",
        "each",
        "always",
        "never",
        "still",
        "just",
        "now",
    ]
)


@lru_cache(maxsize=4096)
def change_in(text: str) -> Change | None:
    """Return whether *text* corrects, or tells that something has changed; ``None``: neither."""
    if len(text) > _MAX_CHARACTERS:
        return None
    said = straight(text)
    if _CORRECTION.search(said):
        return "correction"
    return "change" if _CHANGE.search(said) and not _ADDS.search(said) else None


def adds_to_it(text: str) -> bool:
    """Return whether *text* adds to what was said: ``also``, ``another``."""
    return len(text) <= _MAX_CHARACTERS and _ADDS.search(straight(text)) is not None


@lru_cache(maxsize=4096)
def returns(text: str) -> bool:
    """Return whether *text* tells that something is again as it was: ``back``, ``once more``."""
    return len(text) <= _MAX_CHARACTERS and _RETURNS.search(straight(text)) is not None


@lru_cache(maxsize=4096)
def subjects_of(text: str) -> frozenset[str]:
    """Return the stems of *text* that tell what it is about."""
    return frozenset(stem for stem in tokenise(straight(text)[:_MAX_CHARACTERS]) if stem not in _STEMS)


_STEMS: Final = frozenset(tokenise(" ".join((*_ABOUT_NOTHING, *STOP_WORDS)))) | _ABOUT_NOTHING


_MOST_SHARED: Final = 3
_UNSPACED: Final = "\u0e00"
"""Scripts without spaces between words begin here."""
_WORD: Final = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*|\d+(?:[.,:/]\d+)*")
_SENTENCE: Final = re.compile(r"(?<=[.!?;:])\s+")
_FUNCTION: Final = STOP_WORDS.union(
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
_RELATIVES: Final[Mapping[str, str]] = {
    member: group.split()[0]
    for group in (
        "sister soeur sœur schwester hermana irmã sorella",
        "brother frère bruder hermano irmão fratello",
        "mother mum mom mama mutter mère maman madre mamá mãe",
        "father dad papa vater père papá padre pai",
        "wife frau femme esposa mujer mulher moglie",
        "husband mann mari marido esposo marito",
        "partner girlfriend boyfriend freundin freund copain copine novia novio namorada namorado",
        "son sohn fils hijo filho figlio",
        "daughter tochter fille hija filha figlia",
        "child kid kids children kinder kind enfants enfant hijos niños filhos figli",
        "grandmother gran grandma oma grand-mère abuela avó nonna",
        "grandfather grandad opa grand-père abuelo avô nonno",
        "cousin cousine primo prima cugino cugina",
        "uncle onkel oncle tío tio zio",
        "aunt tante tía tia zia",
        "nephew neffe neveu sobrino sobrinho",
        "niece nichte nièce sobrina sobrinha",
        "parents eltern pais genitori",
        "boss manager chef chefin jefe jefa capo",
        "colleague kollege kollegin collègue colega compañero collega",
        "friend ami amie amigo amiga amico",
        "neighbour neighbor nachbar nachbarin voisin voisine vecino vecina vizinho vicino",
        "dog hund chien perro cão cachorro cane",
        "cat kitten katze chat gato gatto",
        "baby bébé bebé bebê eldest youngest",
        "flatmate roommate mitbewohner colocataire",
    )
    for member in group.split()
}
"""Relatives, companions and pets in six languages: people and animals of whom a user has one or several."""


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
    said = straight(text)[:_MAX_CHARACTERS]
    spelled = [_WORD.findall(sentence) for sentence in _SENTENCE.split(said)]
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
        relatives=frozenset(_RELATIVES[word] for word in lowered if word in _RELATIVES),
        relative_names={
            _RELATIVES[word]: name
            for word, name in zip(lowered, tokens[1:], strict=False)
            if word in _RELATIVES and name[:1].isupper()
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


def _names(sentences: list[list[str]]) -> Iterator[str]:
    """Yield the names, in small letters."""
    for sentence in sentences:
        for word in sentence[1:]:
            lowered = word.casefold()
            if word[:1].isupper() and len(word) > 1 and lowered not in _FUNCTION and not lowered.startswith("i'"):
                yield lowered


def _definite(lowered: list[str]) -> Iterator[str]:
    """Yield the stems of the two words after a determiner."""
    for place, word in enumerate(lowered):
        if word in _DETERMINERS and lowered[place + 1 : place + 2]:
            if lowered[place + 1] not in _FUNCTION:
                yield from tokenise(lowered[place + 1])
            for following in lowered[place + 2 : place + 3]:
                yield from tokenise(following)


def _subjects(sentences: list[list[str]]) -> Iterator[frozenset[str]]:
    for sentence in sentences:
        if sentence and sentence[0].casefold() in _DETERMINERS and sentence[0].casefold() not in _SPEAKER:
            heads: list[str] = []
            for word in sentence[1:4]:
                if word.casefold() in _FUNCTION:
                    break
                heads += tokenise(word)
            yield frozenset(heads)


class Ending(NamedTuple):
    """What a statement says to be over without saying how it was.

    Attributes:
        what: A relationship, a job, or what the user had: an animal or a relative.
        kin: Which animal or relative; empty where only the name is said.
        names: The names that are said, in small letters.
    """

    what: Literal["partner", "job", "one"]
    kin: str = ""
    names: frozenset[str] = frozenset()


_PETS: Final[Mapping[str, str]] = {
    member: group.split()[0]
    for group in (
        "dog puppy hund hündin welpe chien chienne chiot perro perra perrito cão cachorro cachorra cadela cane cagna",
        "cat kitten kater katze chat chatte gato gata gatto gatta",
        "rabbit bunny kaninchen hase lapin conejo coneja coelho coelha coniglio",
        "horse pony pferd cheval jument caballo yegua cavalo égua cavallo",
        "parrot budgie papagei wellensittich perroquet perruche loro papagaio pappagallo",
        "hamster hámster criceto",
        "tortoise schildkröte tortue tortuga tartaruga",
        "grandmother gran grandma oma großmutter mamie grand-mère abuela avó nonna",
        "grandfather grandad grandpa opa großvater papi grand-père abuelo avô nonno",
        "mother mum mom mutter mère madre mãe",
        "father dad vater père padre pai",
        "sister schwester sœur soeur hermana irmã sorella",
        "brother bruder frère hermano irmão fratello",
        "uncle onkel oncle tío tio zio",
        "aunt tante tía tia zia",
        "husband mann mari marido esposo marito",
        "wife frau femme mujer esposa mulher moglie",
    )
    for member in group.split()
}
"""Animals, and relatives, whom a user may have lost."""
_PARTNER: Final = r"(?:girlfriend|boyfriend|partner|fiancée?|wife|husband|spouse|freundin|freund|frau|mann|partnerin|verlobter?|copine|copain|petite?\ amie?|compagne|compagnon|femme|mari|conjointe?|novi[oa]|pareja|mujer|marido|espos[oa]|prometid[oa]|namorad[oa]|mulher|noiv[oa]|companheir[oa]|ragazz[oa]|fidanzat[oa]|compagn[oa]|moglie|marito)"
_MINE: Final = r"(?:my|our|the|mein(?:e[nmr]?)?|unser(?:e[nmr]?)?|der|die|das|den|mon|ma|notre|le|la|mi|nuestr[oa]|el|al|(?:[oa]\ )?(?:meu|minha|noss[oa])|o|a|(?:il\ |la\ )?(?:mi[oa]|nostr[oa])|il)"
_CALLED: Final = r"(?-i:[A-ZÀ-Ý][\w'-]+)"


_NO_NAME: Final = r"(?:i|we|he|she|it|they|this|that|everyone|nobody|someone|er|sie|es|das|il|elle|ils|elles|ça|se|ya|ha|él|ella|ele|ela|já|lui|lei|è|é)"


def _one(place: int) -> str:
    """Return the pattern of an animal or a relative of the user; the groups of each *place* have names of their own."""
    kin = "|".join(_PETS)
    return rf"(?:{_MINE}\ (?:(?!\w+'s\b)\w+\ )?(?P<kin{place}>{kin})\b(?:,?\ (?P<name{place}>{_CALLED}),?)?|(?P<alone{place}>(?!{_NO_NAME}\b){_CALLED}))"


_MONTH: Final = r"(?:(?:jan|feb|fév|fev|mar|mär|apr|avr|abr|may|mai|mag|jun|jui|giu|gen|jul|lug|aug|ago|aoû|sep|set|oct|okt|ott|out|nov|dec|dez|déc|dic)\w{0,7}|spring|summer|autumn|fall|winter|frühling|sommer|herbst|printemps|été|automne|hiver|primavera|verano|verão|otoño|invierno|estate|autunno|inverno)"
_LATELY: Final = rf"(?:today|yesterday|recently|finally|sadly|last\ (?:night|week|weekend|month|\w+day)|this\ (?:morning|week|month|weekend|spring|summer|autumn|winter)|on\ \w+day|am\ \w{{3,9}}(?:tag|woch|ende)|(?:el\ )?(?:lunes|martes|miércoles|jueves|viernes|sábado|domingo)|n[ao]\ (?:segunda|terça|quarta|quinta|sexta|sábado|domingo)|(?:in|im|en|em|ad?)\ {_MONTH}|after\ \w{{1,12}}\ (?:years|months)|for\ good|now|again|heute|gestern|leider|kürzlich|gerade|vorige\ woche|letzte\w?\ \w+|diesen\ \w+|jetzt|wieder|nun|endlich|hier|aujourd'hui|cet(?:te)?\ \w+|la\ semaine\ dernière|le\ mois\ dernier|(?:lun|mar|mercre|jeu|vendre|same)di|dimanche|ayer|hoy|est[ea]\ \w+|la\ semana\ pasada|el\ mes\ pasado|ontem|hoje|(?:na\ )?semana\ passada|(?:no\ )?mês\ passado|ieri|oggi|la\ settimana\ scorsa|il\ mese\ scorso|quest'?[oa]?\ ?\w+)"
_END: Final = rf"(?=\W*$|,|:\)|\ {_LATELY}\b)"
_SOON: Final = rf"(?:{_LATELY}\ )?"
_HAS: Final = r"(?:(?:have|'ve|had|just|recently|finally|actually|sadly|also|already)\ |'ve\ )*"
_PARTED: Final = re.compile(
    rf"""(?ix)^(?:
      (?:we|(?:my|our)\ {_PARTNER}(?:\ (?P<a>{_CALLED}))?\ and\ (?:I|me)|(?P<b>{_CALLED})\ and\ (?:I|me)|me\ and\ (?:my\ {_PARTNER}|(?P<c>{_CALLED})))(?:'ve|'re)?\ ?{_HAS}(?:
          (?:broke|broken|split|splitted)\ up{_END} | (?:are|got|is|'re)?\ ?(?:divorced|separated){_END} | (?:are\ |'re\ )?(?:not|no\ longer)\ together\b | (?:are|aren't)\ (?:not\ )?together\ any\ ?more | called\ it\ quits | parted\ ways )
    | my\ {_PARTNER}(?:\ (?P<d>{_CALLED}))?\ {_HAS}(?:left\ me{_END}|dumped\ me|broke\ up\ with\ me|broke\ it\ off|ended\ things) | I(?:'ve)?\ {_HAS}(?:broken?\ up\ with|dumped|divorced|split\ (?:up\ )?(?:with|from))\ (?:my\ {_PARTNER}\b|(?P<e>{_CALLED}){_END})
    | I(?:'m|\ am)\ (?:now\ |officially\ |newly\ |recently\ )*(?:single\ again|newly\ single|divorced\ now|single\ now)\b
    | (?:wir|meine?\ {_PARTNER}(?:\ (?P<f>{_CALLED}))?\ und\ ich|ich\ und\ meine?\ {_PARTNER}|(?P<g>{_CALLED})\ und\ ich)\ (?:haben\ uns\ {_SOON}(?:getrennt|scheiden\ lassen)|sind\ {_SOON}(?:getrennt|geschieden|nicht\ mehr\ zusammen)|haben\ {_SOON}schluss\ gemacht)
    | meine?\ {_PARTNER}(?:\ (?P<h>{_CALLED}))?\ hat\ {_SOON}(?:mich\ {_SOON}verlassen|(?:mit\ mir\ )?schluss\ gemacht|sich\ (?:von\ mir\ )?getrennt) | ich\ bin\ (?:wieder|jetzt)\ (?:single|solo|geschieden)
    | (?:on|nous|(?:mon|ma)\ {_PARTNER}(?:\ (?P<i>{_CALLED}))?\ et\ moi|(?P<j>{_CALLED})\ et\ moi)(?:,?\ (?:on|nous))?\ (?:s'est|nous\ sommes|sommes|avons|a|n'est\ plus|ne\ sommes\ plus)\ (?:(?:séparé|quitté)\w*{_END}|rompu|divorcé|ensemble)
    | (?:mon|ma)\ {_PARTNER}(?:\ (?P<k>{_CALLED}))?\ m'a\ (?:quitté|largué|plaqué)e?{_END} | je\ suis\ (?:de\ nouveau|à\ nouveau|redevenue?)\ célibataire
    | (?:mi\ {_PARTNER}(?:\ (?P<l>{_CALLED}))?\ y\ yo\ )?(?:(?:hemos\ roto|rompimos|cortamos){_END}|nos\ (?:hemos\ )?(?:separa|divorcia)(?:mos|do){_END}|ya\ no\ estamos\ junt[oa]s) | mi\ {_PARTNER}\ y\ yo\ (?:terminamos|lo\ (?:hemos\ )?deja(?:mos|do)){_END} | mi\ {_PARTNER}(?:\ (?P<m>{_CALLED}))?\ me\ (?:dejó|ha\ dejado|cortó){_END} | (?:vuelvo\ a\ estar|estoy\ otra\ vez)\ solter[oa]
    | (?:(?:eu\ e\ )?(?:[oa]\ )?(?:meu|minha)\ {_PARTNER}(?:\ (?P<n>{_CALLED}))?\ (?:e\ eu\ )?)(?:termin[áa]mos|acab[áa]mos|nos\ (?:separ|divorci)[áa]mos|(?:separ|divorci)[áa]mo-nos|(?:deixou-me|me\ deixou){_END}|terminou\ comigo) | (?:(?:separ|divorci)[áa]mo-nos|nos\ (?:separ|divorci)amos){_END} | (?:já\ não\ estamos|não\ estamos\ mais)\ junt[oa]s | estou\ (?:solteir[oa]\ (?:outra\ vez|de\ novo)|de\ novo\ solteir[oa])
    | (?:io\ e\ (?:il\ mio|la\ mia|mi[oa])\ {_PARTNER}\ )?(?:ci\ siamo\ (?:lasciat|separat)[ie]{_END}|abbiamo\ (?:rotto{_END}|divorziato)|non\ stiamo\ più\ insieme) | (?:il\ mio|la\ mia|mi[oa])\ {_PARTNER}(?:\ (?P<o>{_CALLED}))?\ mi\ ha\ (?:lasciat|mollat)[oa]{_END} | sono\ (?:di\ nuovo|tornat[oa])\ single
    )"""
)
_REUNITED: Final = re.compile(
    r"(?i)\b(?:back together|reconciled|got married|wieder zusammen|geheiratet|remis ensemble|mariés|hemos vuelto|volvimos|nos casamos|reatamos|voltámos|voltamos|juntos de novo|tornati insieme|rimessi insieme|sposati)\b"
)
_JOB: Final = r"(?:job|position|post|arbeit|stelle|arbeitsplatz|travail|boulot|emploi|poste|trabajo|empleo|puesto|curro|emprego|trabalho|posto|lavoro|impiego)"
_FROM: Final = r"(?:\ (?:at|with|from|by|bei|von|chez|en|de|na|no|da|alla)\ (?:(?:the|my|der|dem|la|le|el|o|a)\ )?(?P<firm>[\w'-]+))?"
_SO: Final = rf"(?:{_END}|\ (?:because|since|to|and|so|weil|und|parce|car|et|porque|y|e|perché)\b)"
_JOB_ENDED: Final = re.compile(
    rf"""(?ix)^(?:
      I(?:'ve)?\ {_HAS}(?:(?:quit|left|lost|resigned\ from)\ (?:my|the)\ (?:old\ |day\ |current\ )?{_JOB}\b|(?:quit|resigned){_END}|retired{_END}) | I(?:\ was|\ got|'ve\ been|\ have\ been)\ (?:just\ |recently\ |suddenly\ )?(?:laid\ off|fired|sacked|made\ redundant|let\ go|dismissed)\b
    | (?:they|my\ (?:boss|company|employer))\ {_HAS}(?:(?:fired|sacked|laid\ off|dismissed)\ me|laid\ me\ off|let\ me\ go){_END} | I(?:'m|\ am)\ (?:now\ |currently\ )?(?:unemployed|out\ of\ work|between\ jobs|retired\ now)\b
    | (?:ich\ )?habe?\ {_SOON}(?:meinen?|den|die)\ {_JOB}\ {_SOON}(?:gekündigt|verloren|aufgegeben|(?:hin)?geschmissen) | ich\ habe?\ {_SOON}gekündigt\b(?!,) | (?:mir\ wurde|man\ hat\ mir|sie\ haben\ mir)\ {_SOON}gekündigt | (?:ich\ (?:wurde|bin)|{_LATELY}\ (?:wurde|bin)\ ich)\ {_SOON}(?:entlassen|gefeuert|arbeitslos)\b | ich\ bin\ (?:jetzt\ |seit\ \w+\ )?(?:arbeitslos|in\ rente)
    | j'ai\ (?:{_SOON}démissionné|été\ (?:licencié|viré)e?|(?:perdu|quitté)\ (?:mon|ma)\ {_JOB})\b | (?:on|ils)\ m'(?:a|ont)\ (?:licencié|viré)e? | je\ suis\ (?:maintenant\ |désormais\ )?(?:au\ chômage|sans\ emploi|à\ la\ retraite)
    | (?:he\ dejado|dejé|he\ perdido|perdí)\ (?:mi|el)\ {_JOB}\b | me\ (?:han\ despedido|despidieron|han\ echado\ del\ trabajo|echaron\ del\ trabajo)\b | (?:he\ renunciado|renuncié)(?:\ (?:a\ mi|al)\ {_JOB})?{_END} | estoy\ (?:en\ (?:el\ )?paro|desemplead[oa]|sin\ trabajo|jubilad[oa])\b | me\ (?:he\ jubilado|jubilé)\b
    | (?:deixei|perdi|larguei)\ (?:o\ )?(?:meu\ )?{_JOB}\b | fui\ (?:despedid|demitid)[oa]\b | (?:demiti-me|despedi-me|pedi\ demissão|me\ demiti)\b | estou\ (?:desempregad[oa]|reformad[oa]|aposentad[oa])\b | (?:reformei-me|me\ aposentei)\b
    | ho\ (?:lasciato|perso)\ il\ (?:mio\ )?{_JOB}\b | mi\ sono\ (?:licenziat|dimess)[oa]\b | (?:sono\ stat[oa]|mi\ hanno)\ licenziat[oa]\b | sono\ (?:disoccupat[oa]|in\ pensione)\b
    ){_FROM}{_SO}"""
)
_LOST: Final = re.compile(
    rf"""(?ix)^(?:
      {_one(0)}\ {_HAS}(?:died|passed\ away|is\ dead{_END}|was\ put\ (?:down|to\ sleep)|ist\ (?:(?!nicht\b|nie\b|fast\b)[\w.]+\ ){{0,3}}(?:gestorben|verstorben|tot{_END}|eingeschläfert)|(?:nous\ a\ quittés|est\ (?:\w+\ )?(?:morte?|décédée?)|vient\ de\ mourir)|(?:se\ )?(?:murió|falleció|ha\ muerto|ha\ fallecido)|(?:morreu|faleceu)|(?:è|ci\ ha)\ (?:mort|mancat|decedut|lasciat)[oa])\b
    | (?:se\ (?:nos\ |me\ )?)?(?:murió|ha\ muerto|falleció|morreu|è\ mort[oa])\ {_one(1)}{_END}
    | (?:I|we)(?:'ve)?\ {_HAS}(?:(?:had\ to|must)\ )?(?:(?:give|gave|given)\ {_one(2)}\ (?:away|up(?:\ for\ adoption)?){_END}|(?:rehome|rehomed|sell|sold)\ {_one(3)}{_END}|put\ {_one(4)}\ (?:down|to\ sleep){_END})
    | (?:(?:wir|ich)\ (?:mussten?|haben?)|(?:mussten?|haben?)\ (?:wir|ich))\ {_SOON}{_one(5)}\ {_SOON}(?:weggeben|abgeben|hergeben|weggegeben|abgegeben|hergegeben|einschläfern|verkaufen|verkauft)\b
    | (?:on\ a|nous\ avons|j'ai)\ (?:dû\ )?(?:donner|donné|faire\ piquer|fait\ piquer|placer|placé|vendre|vendu|euthanasier|euthanasié)\ {_one(6)}(?:{_END}|\ à\ l'adoption)
    | (?:(?:tuvimos|tuve)\ que\ (?:dar|regalar|sacrificar|dormir|vender)|dimos|regalamos|hemos\ dado|hemos\ regalado|vendimos)\ (?:en\ adopción\ )?(?:a\ )?{_one(7)}(?:{_END}|\ en\ adopción)
    | (?:(?:tivemos|tive)\ (?:de|que)\ (?:dar|doar|abater|sacrificar|vender)|demos|do[áa]mos|vendemos)\ {_one(8)}(?:{_END}|\ para\ adoção)
    | (?:abbiamo|ho)\ (?:dovuto\ )?(?:dare\ via|dato\ via|far\ sopprimere|fatto\ sopprimere|vendere|venduto)\ {_one(9)}{_END}
    )"""
)
_NO_ENDING: Final = re.compile(
    r"""(?ix)\?|\b(?:19|20)\d\d\b|\b(?:(?:years?|months?|decades?)\ ago|last\ year|when\ I|as\ a\ (?:kid|child)|almost|nearly|dream\w*|movie|film\w*|book|novel|game|episode|series|season|show|story|for\ the\ (?:week|weekend|day|night|holidays?)|while|until
    |vor\ (?:\w+\ )?(?:jahren|monaten)|letztes\ jahr|als\ ich|fast|beinahe|traum|spiel|serie|buch|roman|il\ y\ a|l'an\ dernier|l'année\ dernière|presque|rêve|livre|jeu|série|hace|el\ año\ pasado|casi|sueño|libro|juego|há|(?:no\ )?ano\ passado|quase|sonho|livro|jogo|anni\ fa|mesi\ fa|l'anno\ scorso|quasi|sogno|gioco)\b"""
)
"""Tells of what was long ago, in a story, or only nearly."""


@lru_cache(maxsize=4096)
def ending_in(text: str) -> Ending | None:
    """Return what one of the sentences of *text* says to be over: a relationship, a job, what died or was given away."""
    if len(text) > _MAX_CHARACTERS:
        return None
    for sentence in _SENTENCE.split(straight(text)):
        said = _LEADING.sub("", sentence)
        if _NO_ENDING.search(said):
            continue
        if found := _PARTED.match(said):
            return Ending("partner", names=_named_in(found))
        if found := _JOB_ENDED.match(said):
            return Ending("job", names=_named_in(found))
        if found := _LOST.match(said):
            kin = next(
                (value.casefold() for key, value in found.groupdict().items() if key.startswith("kin") and value), ""
            )
            names = frozenset(
                value.casefold() for key, value in found.groupdict().items() if not key.startswith("kin") and value
            )
            return Ending("one", _PETS.get(kin, ""), names)
    return None


def is_own_ending(text: str) -> bool:
    """Return whether *text* says of something of the user that it is over; who is named alone may be of others."""
    ending = ending_in(text)
    return ending is not None and (ending.what != "one" or ending.kin != "")


def _named_in(found: re.Match[str]) -> frozenset[str]:
    return frozenset(map(str.casefold, filter(None, found.groupdict().values())))


_LEADING: Final = re.compile(
    r"(?i)^\W*(?:(?:oh|ah|well|so|and|but|sadly|unfortunately|btw|by the way|update|sad news|bad news|fyi|leider|übrigens|also|du|malheureusement|hélas|au fait|por desgracia|lamentablemente|por cierto|infelizmente|aliás|purtroppo|comunque)[,.:!…]* )*"
)
_HAS_PARTNER: Final = re.compile(
    rf"""(?ix)^(?:
      my\ {_PARTNER}(?:'s\ name)?(?:,?\ {_CALLED},?)?(?:'s|\ is|\ lives|\ works|\ has|\ and\ I\ (?:live|are|have))\b | I(?:'ve|\ have)?\ (?:got\ |have\ )?an?\ {_PARTNER}\b | I\ live\ with\ my\ {_PARTNER}\b | I(?:'m|\ am)\ (?:happily\ )?(?:married|engaged|dating|seeing|in\ a\ relationship)\b
    | meine?\ {_PARTNER}\ heißt\b | meine?\ (?:frau|mann|verlobter?|partnerin|partner)(?:\ {_CALLED})?\ (?:ist|arbeitet|wohnt|hat)\b | ich\ (?:habe\ eine?n?\ (?:feste[nr]?\ )?{_PARTNER}|(?:wohne|lebe)\ mit\ meine[rm]\ {_PARTNER}|bin\ (?:verheiratet|verlobt|mit\ {_CALLED}\ zusammen))\b
    | (?:mon|ma)\ {_PARTNER}(?:\ {_CALLED})?\ (?:s'appelle|est|travaille|habite|vit|a)\b | (?:j'ai\ une?|je\ vis\ avec\ (?:mon|ma)|j'habite\ avec\ (?:mon|ma))\ {_PARTNER}\b | je\ suis\ (?:marié|fiancé|en\ couple)e?\b
    | mi\ {_PARTNER}(?:\ {_CALLED})?\ (?:se\ llama|es|trabaja|vive|tiene)\b | (?:tengo|vivo\ con\ mi)\ {_PARTNER}\b | estoy\ (?:casad|prometid)[oa]\b
    | (?:[oa]\ )?(?:meu|minha)\ {_PARTNER}(?:\ {_CALLED})?\ (?:se\ chama|chama-se|é|trabalha|vive|mora|tem)\b | (?:tenho\ uma?|(?:moro|vivo)\ com\ (?:[oa]\ )?(?:meu|minha))\ {_PARTNER}\b | (?:sou\ casad|estou\ noiv)[oa]\b
    | (?:il\ mio|la\ mia|mi[oa])\ {_PARTNER}(?:\ {_CALLED})?\ (?:si\ chiama|è|lavora|vive|abita|ha)\b | (?:ho\ un[oa']?|vivo\ con\ (?:il\ mio|la\ mia|mi[oa]))\ ?{_PARTNER}\b | sono\ (?:sposat|fidanzat)[oa]\b
    )"""
)
_HAS_JOB: Final = re.compile(
    rf"""(?ix)^(?:
      I(?:'m|\ am)?\ (?:now\ |currently\ )?(?:work|working|employed)\ (?:as\ [\w\ -]{{2,40}}\ )?(?:at|for|with|by)\ (?:the\ |a\ )?\w | I(?:'m|\ am)\ an?\ [\w\ -]{{3,40}}\ (?:at|for)\ (?:the\ )?{_CALLED} | I(?:'ve|\ have)?\ (?:just\ |recently\ )*(?:started|begun)\ (?:working\ )?(?:at|for)\ {_CALLED} | my\ (?:employer|job)\ is\b
    | (?:ich\ )?arbeite\ (?:jetzt\ |zurzeit\ )?(?:als\ \w+\ )?(?:bei|für|in|im|am)\b | ich\ bin\ (?:jetzt\ )?(?:als\ \w+\ )?bei\ (?:der\ )?{_CALLED} | (?:je\ )?travaille\ (?:comme\ \w+\ )?(?:chez|pour|à|au|dans)\b | je\ suis\ (?:\w+\ )?chez\ {_CALLED}
    | trabajo\ (?:de\ \w+\ |como\ \w+\ )?(?:en|para)\b | (?:eu\ )?trabalho\ (?:como\ \w+\ )?(?:em|na|no|para)\b | lavoro\ (?:come\ \w+\ )?(?:a|al|alla|allo|all'|per|da|in|nel|nella|presso)(?:\b|(?<='))
    )"""
)


_RELATIVE_KIN: Final = words("grandmother grandfather mother father sister brother uncle aunt husband wife")
_HAS_ONE: Final = re.compile(
    rf"""(?ix)(?:\b(?:my|our|mein(?:e[nmr]?)?|unser(?:e[nmr]?)?|mon|ma|notre|mi|nuestr[oa]|meu|minha|noss[oa]|mi[oa]|nostr[oa])
    | (?:\b(?:have|got|own|habe?|haben|avons|tengo|tenemos|tenho|temos|ho|abbiamo|on\ a)|'ve|'ai)\ (?:got\ )?(?:an?|one|eine?n?|une?|una?|uma?|um))\ (?:(?!\w+'s\b)\w+\ )?(?P<kin>{"|".join(_PETS)})\b(?!')"""
)
_LIVES: Final = re.compile(
    rf"(?i),?(?: {_CALLED},?)? (?:is|has|lives|works|likes|loves|speaks|ist|hat|heißt|wohnt|lebt|arbeitet|mag|est|a|s'appelle|habite|vit|travaille|es|tiene|se llama|vive|trabaja|é|tem|se chama|chama-se|mora|trabalha|è|ha|si chiama|abita|lavora)\b"
)


_GIVEN_NAME: Final = re.compile(
    rf"(?i)\b(?:called|named|is|name's|namens|heißt|s'appelle|appelée?|se llama|llamad[oa]|se chama|chama-se|chamad[oa]|si chiama|chiamat[oa]|{_PARTNER}|{'|'.join(_PETS)}),? (?P<name>{_CALLED})"
)


@lru_cache(maxsize=4096)
def given_names(text: str) -> frozenset[str]:
    """Return the names, in small letters, that *text* gives to people and animals."""
    return frozenset(name.casefold() for name in _GIVEN_NAME.findall(straight(text)[:_MAX_CHARACTERS]))


@lru_cache(maxsize=32_768)
def is_over(text: str, ending: Ending) -> bool:
    """Return whether *text*, a single sentence of an earlier time, says what *ending* says to be over."""
    said = straight(text)
    if (
        len(said) > _MAX_CHARACTERS
        or len(_SENTENCE.split(said)) > 1
        or _WAS.search(said)
        or ending_in(text) is not None
    ):
        return False
    claim = parse_claim(text)
    if ending.what == "job":
        return _HAS_JOB.match(said) is not None and ending.names <= claim.words
    other_name = bool(ending.names and (names := given_names(text)) and ending.names.isdisjoint(names))
    if ending.what == "partner":
        return _HAS_PARTNER.match(said) is not None and not other_name
    found = _HAS_ONE.search(said)
    kin = _PETS[found["kin"].casefold()] if found else ""
    if not found or ending.kin not in ("", kin) or other_name or not (ending.kin or ending.names <= claim.words):
        return False
    return kin not in _RELATIVE_KIN or (found.start() == 0 and _LIVES.match(said, found.end()) is not None)


def is_reunited(text: str) -> bool:
    """Return whether *text* says that two are together, again or married."""
    return _REUNITED.search(straight(text)) is not None


_WAS: Final = re.compile(
    r"(?i)\b(?:was|were|had|used to|died|went|gave|bought|met|took|(?<!'ve )(?<!have )got|adopted|war|hatte|waren|hatten|früher|gestorben|était|avait|avant|est mort|era|tenía|tuvo|murió|antes|tinha|morreu|aveva|prima|è morto)\b"
)
