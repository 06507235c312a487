"""Marks of statements that change what was said before: replaced, corrected, ended or reversed, as people put it.

A mark is one sign of several; ``text/claims`` compares two statements.
"""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from threadkeep.text.semantics import straight
from threadkeep.text.tokenizing import STOP_WORDS, tokenise

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


def count_marks(text: str) -> int:
    """Return how many marks of a change *text* has."""
    return len(_CHANGE.findall(straight(text))) if len(text) <= _MAX_CHARACTERS else 0


def adds_to_it(text: str) -> bool:
    """Return whether *text* adds to what was said: ``also``, ``another``."""
    return len(text) <= _MAX_CHARACTERS and _ADDS.search(straight(text)) is not None


@lru_cache(maxsize=4096)
def subjects_of(text: str) -> frozenset[str]:
    """Return the stems of *text* that tell what it is about."""
    return frozenset(stem for stem in tokenise(straight(text)[:_MAX_CHARACTERS]) if stem not in _STEMS)


_STEMS: Final = frozenset(tokenise(" ".join((*_ABOUT_NOTHING, *STOP_WORDS)))) | _ABOUT_NOTHING
