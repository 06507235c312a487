"""How likely it is that a sentence of the user says something that is worth keeping.

Rules know in which words people say what lasts. They are sure of common wordings and know no others: some know common
verbs and nouns of English, some take any verb of English and go by its grammar, and some know by what words people
speak of themselves in German, French, Spanish, Portuguese, Italian, Japanese and Chinese.

What the rules say, the words and the pattern of a sentence are weighed by a logistic regression, in six languages. Its
weights were learnt from sentences that people labelled; ``python -m threadkeep_evals.keeping_fit`` writes them.
"""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from operator import methodcaller
from typing import Final
from zlib import crc32

from threadkeep.text.semantics import straight, words
from threadkeep.text.tokenizing import FUNCTION_WORDS, STOP_WORDS, tokenise, unspaced

BUCKETS: Final = 1 << 16
"""Features share so many weights; a collision of two is rare and does little."""
SCALE: Final = 32.0
"""Weights are stored as whole numbers of 1/32, from -4 to 4."""
FILE: Final = "keeping.weights"
"""One byte for each bucket, beside this module."""
BIAS: Final = "bias"
"""The feature that every sentence has."""
_TOKEN: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+(?:[.,:/]\d+)*|[^\w\s]")
_LANGUAGES: Final = ("english", "french", "german", "italian", "portuguese", "spanish")
_OTHER_FUNCTION_WORDS: Final = words(
    """
    already always another around back even every first last later less many much near never next none now one onto
    quite really since soon still till two three unless via within without yet today tomorrow tonight yesterday day
    evening month morning time week year get gets getting goes going gonna got let need needs want wants hello hey hi
    ok okay thank thanks yeah aren't can't didn't doesn't don't hasn't haven't isn't wasn't weren't won't i'd i'll i'm
    i've it's let's that's there's we'll we're we've
    """
)
_FUNCTION: Final = STOP_WORDS.union(_OTHER_FUNCTION_WORDS, *(FUNCTION_WORDS[language] for language in _LANGUAGES))
_ENDINGS: Final = ("ing", "ed", "ly", "s")
_LEVELS: Final = (1.0, 2.0, 2.5)
_LONGEST: Final = 3
"""Patterns are of so many words at most."""
_BEGINNING: Final = 4
_WORDS_A_LENGTH: Final = 4
_LENGTHS: Final = 6


def log_odds(sentence: str, by_rules: float) -> float:
    """Return the logarithm of the odds that *sentence* is worth keeping; above 0: it rather is.

    Args:
        sentence: The sentence.
        by_rules: What :func:`threadkeep.text.facts.score_by_rules` says of it.
    """
    weights = _weights()
    return sum(weights[bucket] for bucket in buckets(sentence, by_rules)) / SCALE


def buckets(sentence: str, by_rules: float) -> set[int]:
    """Return the numbers of the weights that count for *sentence*."""
    return {crc32(feature.encode(errors="replace")) % BUCKETS for feature in features(sentence, by_rules)}


def features(sentence: str, by_rules: float) -> Iterator[str]:
    """Yield the words, pairs of words, stems, patterns and length of *sentence*, and what the rules say of it.

    A pattern has function words as they are, and for other words what they are: ``my w is N`` for "My boss is Ola".
    """
    said = straight(sentence).rstrip(" .…")  # many leave the full stop out
    found = _TOKEN.findall(said)
    small = ["#" if word[0].isdigit() else word.lower() for word in found]  # which number it is says nothing
    pattern = ["^", "^", *map(_class_of, found, small, range(len(found))), "$"]
    yield BIAS
    yield from (f"rules {level}" for level in _LEVELS if by_rules >= level)
    for length in range(1, _LONGEST + 1):
        yield from (f"{length} {part}" for part in _parts(pattern, length))
    yield f"begins {' '.join(pattern[2 : 2 + _BEGINNING])}"
    yield from (f"w {word}" for word in small)
    yield from (f"ww {pair}" for pair in _parts(["^", *small, "$"], 2))
    yield from (f"s {stem}" for stem in tokenise(said) if not stem[0].isdigit())
    yield f"length {min(len(small) // _WORDS_A_LENGTH, _LENGTHS)}"


def _parts(found: list[str], length: int) -> Iterable[str]:
    return (" ".join(found[place : place + length]) for place in range(len(found) - length + 1))


def _class_of(word: str, small: str, place: int) -> str:
    """Return *small* for function words, numbers, of which it is ``#``, and signs; else ``N`` for names, or ``w``."""
    if small in _FUNCTION or not word[0].isalpha():
        return small
    if place and word[0].isupper():
        return "N"
    return "w" + next((ending for ending in _ENDINGS if small.endswith(ending)), "")


@cache
def _weights() -> memoryview:
    """Return the weights, each from -128 to 127."""
    return memoryview(files("threadkeep.text").joinpath(FILE).read_bytes()).cast("b")


SURE: Final = 2.5
CERTAIN: Final = 3.0
"""From this score on a statement is kept, however unusual its other words are: names, homes, allergies, what is over."""
MIN_WORDS: Final = 3
LONG: Final = 150
_KNOWN: Final = 2.2
_NAMED: Final = 2.6
_GENERAL: Final = 1.6
_HAPPENED: Final = 1.5
_ADDRESSED: Final = re.compile(r"(?i)\b(?:you|your|yours|you're|you've|you'll|yourself|u|ur)\b(?<!call me you)")
# What is said about the present exchange, a passing state, or the work at hand.
_PASSING: Final = re.compile(
    r"""(?ix)^(?:I|we)(?:'m|\ am|'re|\ are|\ was|\ were|'ve\ been|\ have\ been|\ feel|\ felt|'m\ feeling|\ am\ feeling)\ (?:(?:just|really|so|very|a\ bit|a\ little|kind\ of|kinda|pretty|quite|still|not|also|too|all|completely|totally|currently|already|super|always)\ )*
      (?:trying|getting(?!\ (?:married|divorced|engaged|an?\ (?:dog|cat|puppy|kitten|new|divorce|tattoo|promotion|degree)|my|into|ready\ for))|having\ (?:trouble|issues|problems?|difficult\w*|some|an?\ (?:hard|issue|problem|error))|wondering|asking|looking\ (?:for(?!\ (?:an?\ (?:new\ |bigger\ |smaller\ )?(?:job|flat|apartment|house|room|internship|position|flatmate|roommate)|work)\b)|at|to|into)|stuck|confused|lost|sorry|sure|unsure|certain|afraid|glad|happy|pleased|sad|excited|worried|curious|ready|done|back(?!\ in\b)|here|there|good|fine|ok|okay|well
      |great|tired|exhausted|hungry|thirsty|bored|busy|late|early|sick|stressed|nervous|anxious|overwhelmed|frustrated|annoyed|impressed|grateful|thankful|aware|thinking|struggling|seeing|facing|running\ into|following|kidding|joking|serious|saying|talking
      |interested\ in\ (?:this|that|how|what|hearing)|able|unable|not\ sure|missing|doing\ (?:well|good|great|fine|ok)|using\ (?:this|that|it|the\ (?:same|following|above))|testing\ (?:this|it|the)|reading\ (?:this|that|the)|writing\ (?:this|to)|calling|right|wrong|in\ a\ (?:hurry|rush|meeting)|at\ a\ loss|on\ it|all\ set|open\ to|down\ to|about\ to|up\ to|so)\b
    | ^(?:I|we)\ (?:just\ |also\ |really\ |still\ |only\ |actually\ |already\ |totally\ |completely\ |fully\ |definitely\ |don't\ |do\ not\ |didn't\ |did\ not\ |can't\ |cannot\ |can\ |couldn't\ |have\ to\ |need\ to\ |had\ to\ |'ll\ |will\ |won't\ )*
      (?:see|know|understand|mean|get(?!\ (?:(?:sea|car|air|travel|motion|home)[ -]?sick|migraines|hay\ fever|panic\ attacks|hives|a\ rash))|got(?!\ (?:married|engaged|divorced|promoted|hired|fired|laid\ off|accepted|into|my|two|three|an?\ (?:new|dog|cat|puppy|kitten|job|promotion|raise|tattoo|degree|scholarship)))|need|want\ (?:you|it|this|that|the|an?|some|something|more|to\ (?:know|see|make|ask|understand|check|be|do|use|get|add|say|talk|try|fix|go\ over|ensure|avoid|implement))|agree|disagree|appreciate|hear|find|found|tried|try|checked|check|looked|look|noticed|notice|saw|meant|thought|forgot|asked|ask|read|wrote|ran|run\ (?:the|this|it|into)|changed|added|removed|fixed|figured|realized|realised|heard
      |feel|felt|seem|have\ (?:a|an|some|one|another|two|no|any|this|the)\ (?:quick\ |small\ |few\ |simple\ |follow-?up\ |more\ |other\ |good\ |bad\ |weird\ |new\ |bit\ of\ )*(?:question|questions|problem|issue|issues|problems|error|errors|bug|bugs|doubt|idea|ideas|request|file|table|list|function|class|query|dataset|dataframe|script|string|array|snippet|code|csv|log|feeling|hard\ time|trouble|look|clue|choice|hunch|task|point)
      |have\ (?:to|been\ trying|tried|seen|heard|read|noticed|checked|found|got\ (?:a|an|this|some)\ (?:question|problem|issue|error|idea))|give\ up|will\ (?:try|do|check|let|see|take|get|keep)|try|let|do(?=\W*$|\ (?:it|this|that|so|not|you|know|have|think|agree|see|need|want|mean|hope|appreciate|understand)\b)|did|say|guess|ended|followed|received\ (?:this|the|an?\ error)|keep\ getting|came\ across|had\ (?:no\ idea|a\ (?:question|look|thought|chance|feeling)|trouble|problems|an?\ (?:idea|issue|error)))\b
    | ^(?:I|we)'(?:ll|ve)\ (?:try|do|check|see|let|get|keep|take|tried|seen|heard|read|noticed|checked|found|got(?=\ (?:it|this|that|these|those|to|you|no|some|the|(?:an?\ (?:\w+\ )?)?(?:questions?|problems?|issues?|errors?|bugs?|ideas?|feeling|requests?|doubts?|minute|moment|second|task|meeting))\b)|looked|added|changed|fixed|updated|done|run|forgotten)\b
    | ^my\ (?:(?:main|next|first|other|last|only|biggest|real|second|original|previous|current)\ )*(?:question|questions|problem|issue|error|bug|code|apologies|bad|mistake|guess|point|query|request|understanding|thought|thoughts|opinion|idea|concern|suggestion|answer|reply|message|prompt|turn|screen|output|input|function|script|test|tests|build|terminal|command|response|feeling|impression|assumption|attempt|fault|pleasure|god|goodness)\b
    | ^(?:my|our)\ (?:[\w'-]+\ ){1,4}(?:is|are)\ (?:(?:still|currently|now|again|just)\ )*(?:(?<!is\ )waiting|ringing|calling|crying|barking|loading|charging|dying|burning|leaking|spinning|killing\ me|hurting|aching|pending|failing|broken|down|stuck|stalled|blocked|crashing|hanging|timing\ out|not\ working)\b
    | ^(?:I|we)\ have\ (?:a\ few|some|many|several|lots\ of|big|other|a\ lot\ of)\ (?:big\ |other\ |more\ )?(?:plans|ideas|things|options|goals|thoughts)\W*$
    | ^our\ (?:conversation|chat|last|previous|discussion|talk)\b
    | ^(?:I|we)\ (?:like|love|hate|prefer|enjoy|dislike|want|use|am|was|have|did|do)\ (?:it|this|that|them|these|those|the\ (?:first|second|third|last|latter|former|idea|sound|look|way|one|answer|suggestion))\b
    | \b(?:this|that|the\ (?:above|following|previous|code|function|file|script|error|answer|reply|output))\ (?:is|was|code|error|one|function|answer)\b | \b(?:thanks|thank\ you|sorry|lol|haha)\b | \bhave\ (?:\w+\ ){1,4}left\b | ^(?:my|our)\ (?:[\w'-]+\ ){1,4}is\ an?\ (?:mess|disaster|nightmare)\b"""
)
_AT_WORK: Final = re.compile(
    r"(?i)\b(?:errors?|issues?|bugs?|problems?|questions?|exceptions?|traceback|warnings?|code|scripts?|functions?|quer(?:y|ies)|commands?"
    r"|tests?|builds?|output|logs?|files?|it|this|that|same)\b"
)
_UNRESOLVED: Final = re.compile(
    r"""(?ix)^(?:I|we)(?:'ve|'m|'re|'ll|'d)?\ (?:(?!(?:an?|the|my|our|his|her|their|your|some|two|three|and|but|how|that|when|because|since|so|if)\b)[a-z'-]+\ ){1,4}?
      (?:(?:it|them)\b | (?:this|that|these|those)(?=\ (?:after|before|because|'cause|when|while|for|to|in|on|at|with|by|from|last|yesterday|ago|and|but|so|too|together)\b|\W*$) | (?:one|ones|any|some)\b(?=\W*$)) | ^(?:I|we)\b.{1,40}\bof\ (?:it|them|these|those)\b"""
)
"""What was done to is named in another sentence: by itself it says nothing."""
_FLEETING: Final = re.compile(
    r"(?i)\b(?:right now|at the moment|just now|today|tonight|this (?:morning|afternoon|evening)|for now|a (?:minute|moment|second) ago)\b"
)
_VAGUE: Final = re.compile(
    r"(?i)\b(?:this|that|it|these|those|them|something|stuff|things?|here|there|such|same|above|below)\b"
)
_PEOPLE: Final = (
    r"(?:mother|mom|mum|father|dad|parents?|sister|brother|siblings?|wife|husband|partner|girlfriend|boyfriend|fiancée?|spouse|son|daughter|kids?|child(?:ren)?|baby|twins?|toddler|teenager"
    r"|grand(?:mother|father|ma|pa|son|daughter|parents?|kids?|child(?:ren)?)|aunt|uncle|cousin|niece|nephew|in-laws?|(?:mother|father|sister|brother)-in-law|step\w+|friend|best friend|roommate"
    r"|flatmate|housemate|neighbou?r|colleague|coworker|co-worker|boss|manager|teammate|team|mentor|doctor|therapist|dentist|teacher|coach|landlord|assistant|client|customers?"
    r"|dog|cat|puppy|kitten|pet|horse|rabbit|hamster|parrot|fish|ex)"
)
_LIKING: Final = r"(?:like|love|hate|prefer|enjoy|dislike|adore|detest|avoid|can't stand|cannot stand|don't (?:really )?(?:like|eat|drink|enjoy|want|use|do|watch|read|own|drive|smoke|speak)|do not (?:like|eat|drink|enjoy|use)|can't (?:eat|drink|have|do|work|hear|see|drive|walk|climb|lift|bend|kneel|swim|smell|taste|digest|tolerate|sleep)|never (?:eat|drink|use|work|drive|wear|travel|fly))"
_LIFE: Final = (
    r"(?:moved|bought|sold|adopted|started|joined|quit|left|graduated|married|finished|completed|visited|met|won|lost|signed|accepted|switched|grew up|studied|used to|was (?:born|diagnosed|promoted|hired|raised|laid off|accepted|elected|awarded)"
    r"|broke|became|founded|co-founded|retired|learn(?:ed|t)|turned|got (?:a|an|married|engaged|divorced|promoted|into|my|the)|gave birth|had (?:a (?:baby|son|daughter|surgery|stroke|miscarriage)|surgery|my|our)|passed|failed|published|launched|built|ran (?:a|my|the) \w*\s?marathon|earned|inherited|enrolled|volunteer(?:ed)?|travell?ed|went (?:to|on|vegan|vegetarian|back to)|came out|migrated|released|shipped|hired|attended|celebrated|decided|promised|planned|booked|applied)"
)
_DOING: Final = r"(?:moving|going (?:to|on)|flying|travell?ing|starting|planning|joining|leaving|switching|visiting|taking|launching|building|working|learning|studying|training|writing|developing|preparing|migrating|renovating|expecting|raising|saving|teaching|applying|running|organi[sz]ing|hosting|getting (?:married|divorced|a|my|ready for)|having (?:a baby|surgery|a party|an?)|finali[sz]ing|practi[sc]ing|researching|recovering|looking after|responsible|in charge|considering|looking for|thinking of (?:moving|buying|quitting|starting|changing)|buying|selling|designing|reading|hoping to|turning|retiring|graduating|marrying|releasing|rolling out|deprecating|hiring|using|based|living|dating|seeing a)"
_HABIT: Final = re.compile(
    r"(?i)\b(?:every|each|always|usually|normally|often|regularly|daily|weekly|monthly|twice a|once a|on (?:mon|tues|wednes|thurs|fri|satur|sun)days?|in the (?:mornings?|evenings?)|since|for (?:the (?:last|past) )?\w+ (?:years?|months?)|at (?:night|home))\b"
)
_WHEN: Final = re.compile(
    r"(?i)\b(?:tomorrow|next (?:week|month|year|spring|summer|autumn|fall|winter|\w+day)|in (?:january|february|march|april|may|june|july|august|september|october|november|december|q[1-4]|\d+ (?:days|weeks|months|years)|20\d\d)|on (?:\w+day|the \d|\d|january|february|march|april|may|june|july|august|september|october|november|december)|this (?:weekend|summer|winter|spring|autumn|fall|year|month|coming)|by (?:the end|\w+day|january|february|march|april|may|june|july|august|september|october|november|december))\b"
)
_RULES: Final[tuple[tuple[float, re.Pattern[str]], ...]] = tuple(
    (score, re.compile(rf"(?i){pattern}"))
    for score, pattern in (
        (
            3.0,
            r"^(?:i|we)(?:'ve| have) (?:\w+ )?(?:been|lived|worked) (?:in|at|with|for) (?:this|the|that|my|our|an?) (?:\w+ ){0,2}(?:flat|house|apartment|building|town|city|village|street|neighbou?rhood|country|job|company|firm|team|place|role|department|trade|business|industry|club|band|choir)\b.{0,40}\b(?:since|for)\b",
        ),
        (
            3.0,
            r"^(?:my (?:full |first |last |real |middle )?name(?: is|'s)|i(?:'m| am) called|(?:people|everyone|friends) calls? me|i go by)\b",
        ),
        (
            3.0,
            r"^i (?:now |currently |still )?(?:live|reside|work (?:at|for|as|in|on|with|from|remotely|part|full|night|shifts))\b|^i(?:'m| am) (?:based|living|from|located|originally from)\b|^i was born\b",
        ),
        (
            3.0,
            r"^i(?:'m| am) (?:not |severely |highly |very |mildly )?(?:allergic|intolerant|lactose|gluten|diabetic|asthmatic|vegan|vegetarian|pescatarian|coeliac|celiac|colou?r[- ]?blind|deaf|blind|left-handed|dyslexic|pregnant|married|single|divorced|engaged|widowed|retired|self-employed|unemployed|autistic|bilingual)\b",
        ),
        (
            3.0,
            r"^i(?:'m| am) (?:now |only |almost |nearly )?\d{1,3}\b(?! %|%|percent| minutes| hours)|^my (?:birthday|age|time ?zone|pronouns|nationality|native language|mother tongue|home ?town|phone|e-?mail|address|anniversary|blood type)\b",
        ),
        (
            2.8,
            r"^(?:my|our) (?:all-time |absolute |personal )?(?:favou?rite|least favou?rite|preferred|go-to|dream|biggest fear|hobby|hobbies|passion)\b|^.{2,60} (?:is|are) my (?:new |all-time )?favou?rite\b",
        ),
        (
            2.8,
            rf"^(?:i|we) (?:really |absolutely |usually |generally |always |strongly |mostly |also |still |personally |just |actually |now |much |truly |particularly |especially |kinda |kind of |do )*{_LIKING}\b|^i(?:'d| would) rather\b|^i(?:'d| would) prefer\b|^i(?:'m| am) (?:a (?:big |huge )?fan of|into|not into|not a fan of|obsessed with|passionate about|not (?:a )?\w+ person|fond of|scared of|terrified of|afraid of)\b",
        ),
        (
            2.6,
            rf"^my (?:(?:older|younger|elder|little|big|twin|late|new|two|three|four|only|oldest|youngest|eldest|first|second|future|old|best|closest|childhood) )*{_PEOPLE}(?:'s)?(?: [A-Z][\w'’-]+){{0,2}},? (?:\w+,? )?(?:is|are|was|has|have|had|works?|lives?|likes?|loves?|hates?|prefers?|just|owns?|plays?|speaks?|studies|can't|cannot|doesn't|don't|go(?:es)?|turns|turned|moved|got|died|passed|runs?|name|names|birthday|and i|wants?|needs?|teaches|started|will)\b",
        ),
        (
            2.4,
            r"^my (?:[\w-]+ ){0,3}[\w-]+(?:'s)? (?:is|are|has|have|runs?|starts?|ends?|lives?|works?|will be|was|costs?|expires?)\b",
        ),
        (
            2.4,
            r"^our (?:[\w'-]+ ){0,4}[\w'-]+ (?:is|are|has|have|runs?|uses?|starts?|ends?|lives?|works?|will be|meets?|deploys?|ships?|handles?|expires?|consists?|takes?)\b",
        ),
        (
            2.3,
            r"^we (?:now |currently |always |usually |mostly |only |also |still |never |don't |do not |just |have to |must |recently )*(?:deploy|use|run|host|store|ship|meet|release|write|build|work|live|manage|maintain|support|develop|sell|serve|rely|follow|practi[sc]e|keep|own|operate|test|monitor|log|track|document|deployed|migrated|moved|switched|adopted|launched|hired|bought|got|started|have (?:\d+|a|an|two|three|four|five|six|seven|eight|nine|ten|several|many|no|our|been|moved|switched|migrated|decided))\b|^we(?:'re| are) (?:a|an|the|on|in|based|using|running|building|moving|migrating|planning|launching|hiring|going|getting|switching|developing|working|expecting|married|\d+)\b",
        ),
        (
            2.2,
            r"^i (?:now |currently |also |usually |mostly |mainly |always |still |only |primarily |generally )*(?:use|manage|lead|run (?!the\b|this\b|it\b|into\b)|own|teach|coach|study|speak|play|drive|ride|volunteer|commute|cook|bake|train|sleep|wake|maintain|develop|write|paint|read (?!this|that|the)|collect|grow|practi[sc]e|wear|eat|drink|follow|support|report to|specialize|specialise|freelance|consult|program|code|sing|dance|swim|hike|climb|garden|travel|fly|attend|belong|suffer|take|watch|listen|earn|make \d|weigh|rent|share|go to)\b",
        ),
        (
            2.2,
            r"^(?:i|we) (?:also |currently |now |still )?(?:run|staff|head|chair) the (?:[\w'-]+ ){0,2}(?:desk|team|shop|store|office|department|club|group|branch|kitchen|bar|practice|clinic|school|nursery|farm|programme|choir|society|board|committee|reception)\b|^(?:i|we) do (?:the|their|our|his|her|its) (?:\w+ )?(?:books|hosting|accounts|accounting|payroll|cleaning|catering|gardening|bookkeeping|website|newsletter|marketing|taxes)\b|^we (?:now |still |currently )?self[ -]host\b",
        ),
        (
            2.2,
            r"^i (?:don't|do not) have (?:any |an? )(?!(?:\w+ )?(?:idea|clue|question|problem|issue|error|choice|way|chance|minute|moment|second|preference|doubt|opinion|backup|log|file|test|answer|plan|date)s?\b)|^i (?:often |always |usually |easily )?get (?:(?:sea|car|air|travel|motion|home)[ -]?sick|migraines|hay fever|panic attacks|hives|a rash)\b|^i have (?!to\b)(?:been (?:working|living|using|studying|learning|married|playing|coding|vegan|vegetarian|a|an|with|in)\b|an? (?:\w+ ){0,4}\w+|\d+ |two |three |four |five |six |no |type|celiac|asthma|diabetes|adhd|anxiety|depression|trouble sleeping|arthritis|migraines|dyslexia|worked|lived|moved|decided|started|never)",
        ),
        (
            2.2,
            r"^i(?:'ve| have) (?:always |never |recently |just |been )*(?:been (?:working|living|using|studying|learning|married|playing|a|an|to)|worked|lived|moved|decided|started|owned|visited|studied|played|practi[sc]ed|booked|signed|joined|accepted|bought|quit|finished|completed|attended|switched|got (?:two|three|four|\d+|a|an|\w+ (?:kids|children|dogs|cats))|working|living|married|loved|hated|wanted to)\b",
        ),
        (
            2.2,
            rf"^(?:i|we)(?:'m| am|'re| are) (?:now |currently |also |actually |still |finally |just |really |not )*{_DOING}\b",
        ),
        (
            2.0,
            r"^i(?:'m| am) (?:now |currently |also |still |actually )*(?:a|an|the|one of|on (?:the|a) \w+|in (?:my|the) |part of|head of|cto|ceo|cfo|vp|director|responsible|in charge|on call|on-call|the only)\b",
        ),
        (
            2.0,
            rf"^(?:i|we) (?:just |recently |finally |once |already |originally |actually |also |both |never |had )*{_LIFE}\b|^when i was\b",
        ),
        (
            2.0,
            r"^(?:i|we) (?:want|plan|intend|aim|would like|would love|hope|need) to (?:learn|become|visit|travel|move|run a|lose|start (?:a|my)|buy|save|retire|live|study|get (?:married|fit|a|my|into|certified)|quit|build a|write a|launch|publish|finish (?:my|the)|migrate|switch|reach|improve my|pass)\b|^i(?:'d| would) (?:like|love) to (?:visit|learn|live|move|become|be called)\b",
        ),
        (
            2.0,
            r"^(?:i|we)(?:'ll| will| won't| will not) (?:be )?(?:mov|start|visit|travel|fly|go|leav|join|attend|switch|launch|migrat|retir|turn|graduat|get|be|run|take|present|teach|study|work|meet|celebrat|releas|host|marr)\w*\b",
        ),
        (2.0, r"^(?:my|our) (?:goal|plan|dream|deadline|budget|target|priority|resolution|aim|ambition)\b"),
    )
)
_INTRODUCTION: Final = re.compile(r"^(?:[Ii]'m|[Ii] am) [A-Z][\w'-]+(?: [A-Z][\w'-]+)?(?:[.,!]|$)")
_GENERIC: Final = re.compile(
    r"(?i)^(?:i|we) (?:\w+ly |also |still )?(?!(?:am|are|was|were|have|had|do|did|can|could|will|would|may|might|must|shall|should)\b)[a-z]{2,}s? "
)


def score_wording(text: str, said: str, own: str, *, known: bool, anchored: bool) -> float:
    """Return how much a sentence says that lasts, as far as the rules know its words; 0: they do not.

    Args:
        text: The sentence.
        said: In normal form.
        own: Without a name and a time that it begins with.
        known: Whether it fills a slot of the profile, or ends something.
        anchored: Whether a name or a number ties it to something.
    """
    happened = has_happened(own, said=said)
    if _refused(said, of_the_past=happened) or _refused(own, of_the_past=happened):
        return 0.0
    base = max((score for score, rule in _RULES if rule.search(own)), default=0.0)
    if base == 0.0 and known:
        base = _KNOWN
    elif base == 0.0 and _INTRODUCTION.match(own):
        base = _NAMED
    elif base == 0.0 and _GENERIC.match(own) and (anchored or _HABIT.search(said)):
        base = _GENERAL
    elif base == 0.0 and happened:
        base = _HAPPENED
    elif base == 0.0 and (base := _score_any_verb(own, said)):
        return base
    return base + _details(said, anchored=anchored) if base else _score_other(text)


def _refused(said: str, *, of_the_past: bool) -> bool:
    """Return whether it is about the other person, about something unnamed, or about the present exchange.

    What a person did in the past is not about the present exchange, unless it is their work on it.
    """
    if _ADDRESSED.search(said) or _UNRESOLVED.search(said):
        return True
    return _PASSING.search(said) is not None and not (of_the_past and _AT_WORK.search(said) is None)


def _details(said: str, *, anchored: bool) -> float:
    """Return what its details are worth: names, numbers, habits and dates add; vagueness and length take away."""
    more = 0.4 * anchored + 0.3 * bool(_HABIT.search(said)) + 0.3 * bool(_WHEN.search(said))
    less = 0.9 * bool(_FLEETING.search(said)) + 0.7 * min(2, len(_VAGUE.findall(said)))
    less += 0.3 * (len(said.split()) <= MIN_WORDS) + 0.4 * (len(said) > LONG)
    return more - less


_IRREGULAR_PASTS: Final = (
    r"(?:ate|beat|became|began|bent|bet|bit|blew|bought|bred|broke|brought|built|came|caught|chose|cut|dealt|did|dove|drank|drew|drove|dug|fed|fell|felt|fought|flew|forgave|froze|gave|got|grew"
    r"|had|heard|held|hid|hit|hosted|hurt|kept|knelt|laid|lay|led|left|lent|lost|made|met|paid|put|quit|ran|rang|rode|rose|sang|sat|saw|sent|set|shook|shot|shut|slept|sold|spent|spoke|spun|stole|stood|struck|swam|swept"
    r"|swore|taught|threw|tore|told|took|understood|went|were|woke|won|wore|wove|wrote)"
)
"""Verbs in the past that do not end in ``-ed``."""
# Of these the bare form is a command, too, so a sentence that begins with one has no certain subject.
_ALSO_COMMANDS: Final = r"(?:beat|bet|cut|hit|hurt|lay|let|put|quit|set|shut|bit|were|read|run|come|become)"
_PAST_EVENT: Final = rf"(?:{_IRREGULAR_PASTS}|(?!(?:need|feed|seed|speed|weed|bleed|breed|exceed|proceed|succeed|indeed)\b)[a-z]{{2,}}ed)"
_ADVERBS: Final = (
    r"(?:(?:just|recently|finally|actually|also|both|even|once|already|officially|really|only|first|then|\w+ly) )*+"
)
_BEEN: Final = rf"(?:(?:I|we)(?:'ve| have) {_ADVERBS}been|been) {_ADVERBS}(?!(?:trying|having (?:trouble|issues|problems)|getting (?:an?|this|the|these) (?:\w+ )?errors?|wondering|looking|seeing|thinking|meaning|going (?:over|through) (?:this|the))\b)[a-z]+ing"
_DID: Final = re.compile(
    rf"(?i)^(?:I|we|(?:my|our) (?:[\w'-]+ ){{0,3}}?[\w'-]+|(?:me|my [\w-]+) and (?:I|my [\w-]+)) {_ADVERBS}{_PAST_EVENT}\b"
)
_WITHOUT_SUBJECT: Final = re.compile(rf"^(?i:{_ADVERBS}(?!{_ALSO_COMMANDS}\b){_PAST_EVENT}|been [a-z]+ing) (?=\S)")
_LATELY: Final = re.compile(rf"(?i)^{_BEEN}\b")
_UNIT: Final = r"(?:second|minute|hour|day|night|weekend|week|month|year|decade|summer|winter|spring|autumn|fall|season|semester|term|mon|tues?|wed(?:nes)?|thur?s?|fri|sat(?:ur)?|sun)(?:day)?s?"
_SOME: Final = r"(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|a few|a couple of|several|some|many|\d+)"
_WHEN_PAST: Final = re.compile(
    rf"(?i)\b(?:yesterday|the other (?:day|night|week)|the day before|lately|recently|last (?:\w+ )?{_UNIT}|(?:this|the) past {_UNIT}|{_SOME} {_UNIT} (?:ago|back)|(?:this|over the|on the) weekend|earlier this {_UNIT}"
    r"|(?:in|since|back in) (?:(?:early|late|mid-?) ?)?(?:january|february|march|april|june|july|august|september|october|november|december|19\d\d|20\d\d)"
    r"|on (?:mon|tues|wednes|thurs|fri|satur|sun)day|ago|since (?:I|we) (?:was|were)|for (?:\w+ )?(?:years|months)|at the age of|when I (?:was|turned)|as a (?:kid|child|teenager))\b"
)


def has_happened(text: str, *, said: str) -> bool:
    """Return whether *text* tells what happened to the person, and *said*, the whole of it, says when.

    Args:
        text: Without a time that it begins with.
        said: With it.
    """
    return _WHEN_PAST.search(said) is not None and any(
        map(methodcaller("search", text), (_DID, _WITHOUT_SUBJECT, _LATELY))
    )


_OFTEN: Final = (
    r"(?:every|each|always|usually|normally|mostly|mainly|typically|regularly|weekly|monthly|daily|yearly|nightly|(?:once|twice|three times|four times|\w+ times) an?|(?:a|per|an) (?:day|week|month|year|hour|quarter|night)|on (?:mon|tues|wednes|thurs|fri|satur|sun)days"
    r"|in the (?:mornings?|evenings?|afternoons?)|at (?:night|weekends)|(?:at|on|by|until|from|around) (?:the )?(?:noon|midnight|\d{1,2}\b|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|half|quarter)|all (?:year|night|day)|for (?:\w+ )?(?:years|decades|months)|since (?:\d{4}|i was|childhood|january|february|march|april|may|june|july|august|september|october|november|december|last))"
)
_OFTEN_DONE: Final = re.compile(rf"(?i)\b{_OFTEN}")
_DAYS: Final = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august|september|october|november|december|christmas|easter|english|god)"
_NAME: Final = re.compile(rf"(?<=[a-z,;:'’”)\d] )(?!(?i:{_DAYS})s?\b)(?!I\b)[A-Z][\w'’-]+")
_NUMBER: Final = re.compile(
    r"(?i)\b(?:\d[\d.,:]*\w*|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million)\b"
)
_DATE: Final = re.compile(
    r"(?i)\b(?:on|by|until|from|in|before|after|of) (?:the )?(?:\d{1,2}(?:st|nd|rd|th)?\b|(?:first|second|third|fourth|last)\b|(?:january|february|march|april|may|june|july|august|september|october|november|december)\b|20\d\d\b)"
)
_WE: Final = r"(?:i|we)"
_SOON: Final = r"(?:(?:now|also|only|still|just|never|always|usually|mostly|mainly|currently|actually|really|normally|often|generally|both|all|mainly|sometimes|\w{2,20}ly) )*+"
_NOT_LASTING: Final = (
    r"(?:am|are|was|were|be|been|being|have|had|has|did|can|could|will|would|may|might|must|shall|should|see|mean|think|guess|suppose|believe|hope|wish|bet|doubt|wonder|know|understand|remember|forget|agree|disagree|feel|sound|seem|look|notice|realise|realize|hear|find|try|need|want|ask|say|tell|appreciate|apologi[sz]e|promise|swear|assume|imagine|expect|reckon|suspect|insist|suggest"
    r"|admit|confess|refuse|thank|beg|hesitate|pray|plan|aim|intend|propose|get|keep|let|give up|care|mind|matter|wait|stand by|love|like|hate|go|come|stop|start|begin|end|become|happen|miss|worry|wanna|gotta|gonna|stay|rock|help|admire|cherish|value|reckon|recommend|reccomend|learn|panic|struggle|fail|cannot|can't|won't|don't|didn't|couldn't)"
)
_PAST: Final = rf"(?:\w{{2,}}ed|{_IRREGULAR_PASTS}|said|saw|knew|thought|rocks?)"
_ADVERB: Final = (
    r"(?:now|also|only|still|just|never|always|usually|mostly|mainly|often|both|all|sometimes|then|even|once|\w+ly)"
)
_DOES: Final = re.compile(rf"(?i)^{_WE} {_SOON}(?!{_ADVERB}\b)(?!{_NOT_LASTING}\b)(?!{_PAST}\b)[a-z]{{2,}} \S")
_HAS: Final = re.compile(
    rf"(?i)^{_WE}(?:'ve| have) (?:also |only |just |now |still )*got (?!to\b|something\b|anything\b|everything\b|nothing\b|lots to\b|a lot to\b|so much\b|it\b|that\b|this\b|you\b|an? (?:\w+ )?(?:question|problem|issue|error|bug|idea|feeling|point|request|task|favou?r|doubt|headache|minute|moment|second|meeting)\b|no (?:idea|clue|time)\b|some (?:time|questions|problems)\b)\S+"
)
_BECAME: Final = re.compile(
    rf"(?i)^{_WE}(?:'ve| have) (?:just |recently |finally |since |already |now )*(?:gone (?!through\b|over\b|to\b|back\b|into\b|on\b|wrong\b|crazy\b|mad\b)|become |turned |been (?:an?|the|on|in|with|at) .{{2,60}}\b(?:for|since)\b)"
)
_TRAIT: Final = re.compile(
    r"(?i)^i(?:'m| am) (?:not |never )?(?:very |really |quite |pretty |rather |so |too |a bit |a little |absolutely |totally |always |only |partly |mostly |severely |hopelessly )*"
    r"(?:(?:slow|quick|fast|good|great|bad|terrible|awful|hopeless|useless|horrible|rubbish|weak|strong|clumsy|careless|careful|strict|picky|fussy|sensitive|allergic|immune|prone|afraid|scared|used|new|keen|hooked|crazy|mad|nuts|serious|fluent|certified|trained|qualified|licensed|experienced|skilled|gifted|tall|short|small|left-handed|right-handed|near-?sighted|short-?sighted|far-?sighted|hard of hearing|half|originally|related|engaged|married|divorced|separated|widowed|subscribed|insured|enrolled|registered|addicted|intolerant) (?:at|with|about|in|of|to|on|by|from|for|as|\w+)\b(?! (?:this|that|it|these)\b)"
    r"|(?:an early bird|a night owl|an only child|a morning person))"
)
_IS_DOING: Final = re.compile(
    rf"(?i)^{_WE}(?:'m|'re| am| are) (?:also |still |currently |now |just |only |mostly |mainly )*(?!(?:trying|getting|having|wondering|asking|looking|thinking|going|struggling|hoping|wanting|feeling|sitting|waiting|talking|saying|kidding|joking|seeing|calling|debugging|stuck|doing|coming|heading|cooking|eating|drinking|meeting|picking|bringing|driving|flying)\b)[a-z]+ing\b"
)
_ON_THE_WAY: Final = re.compile(
    rf"(?i)^{_WE}(?:'m|'re| am| are) (?:also |always )*(?!feeling\b|looking\b|hoping\b|wondering\b|trying\b|thinking\b)[a-z]+ing\b.*\b{_OFTEN}"
)
_THING: Final = r"(?:questions?|problems?|issues?|errors?|bugs?|code|apolog\w+|mistakes?|guess|query|queries|requests?|understanding|thoughts?|opinion|ideas?|concerns?|suggestions?|answers?|repl(?:y|ies)|messages?|prompts?|screen|output|input|functions?|scripts?|tests?|build|terminal|commands?|response|feeling|impression|assumption|attempts?|fault|pleasure|point|god|goodness|head|brain|mind|eyes?|stomach|regex|loop|file|files|page|app|pod|pods|container|deploy\w*|pull request|pr|laptop fan|browser|cursor|pipeline run|essay|draft|homework|assignment|exercise)"
_MINE: Final = re.compile(
    rf"(?i)^(?:my|our) (?!(?:[\w'-]+ ){{0,2}}{_THING}\b)(?:[\w'’-]+,? ){{1,5}}?(?:{_SOON})(?:is|are|has|have|isn't|aren't|doesn't|don't|can't|(?!(?:smells?|looks?|sounds?|seems?|feels?|says?|thinks?|claims?|means?|insists?|swears?|believes?|reckons?|wonders?|wants?|hurts?|fails?|crashes|breaks|aches?|guess|was|boss|address|class|process|access|business|news|less|glasses|always|perhaps|this|its|his|as|us|thus)\b)[a-z]+s) (?!(?:just |so |really |only )*(?:killing|driving me|asking|waiting|wondering|gone|fine|ok|okay|great|weird|strange|wrong|broken|down|late|here|there|back)\b)\S"
)
_AT_OURS: Final = re.compile(
    r"(?i)^(?!(?:this|that|it|there|what|how|why|someone|somebody|everyone|everybody|nobody|people|they|he|she|you|i|we)\b)[a-z].{3,120}\b(?:at our (?:place|company|firm|shop|office|end|school|house)|at my (?:place|company|firm|office|job|school)|at mine|at ours|in our (?:house|home|team|company|office|family|flat|stack|setup|repo|monorepo)|in my (?:family|team|company|house|flat)|with us|for us|around here)\b(?!\?)"
)
_THE: Final = re.compile(
    r"(?i)^the (?!(?:[\w'-]+ ){0,2}(?:errors?|bugs?|issues?|problems?|questions?|output|input|prompt|deploy\w*|build|response|code|tests?|command|exit|status|return|stack|trace|log|logs|line|detective|hero|narrator|character|story|article|text|one|thing|first|second|third|following|above|same|other|fact|reason|answer|movie|film|book|plot|weather|world)\b)(?:[\w'’-]+ ){1,4}?(?:is|are|'s|runs? on|lives? (?:in|on|under)|sits? (?:in|on)|meets?|starts?|begins?|ends?|opens?|closes?|takes? place)\b"
)
_THE_SHORT: Final = re.compile(r"(?i)^(the (?:[\w'’-]+ ){0,3}[\w’-]+)'s\b")
_IT_IS_MY: Final = re.compile(
    r"(?i)^it(?:'s| is) (?:my|our) (?!(?:fault|problem|mistake|turn|question|pleasure|guess|understanding|opinion|bad|call|way|own)\b)[\w'-]+ [A-Z][\w'-]+ (?:who|that|whose)\b"
)
_IS_WHAT: Final = re.compile(
    rf"(?i)^(?!(?:this|that|it|here|there|which)\b).{{3,80}}? (?:is|are) (?:what|where|who|how|when) {_WE}(?:'m|'re|'ve)? (?!(?:mean|meant|want|wanted|need|needed|think|thought|said|asked|see|got)\b)\w+"
)
_SARCASM: Final = re.compile(
    r"(?i)(?:,\s*(?:brilliant|great|wonderful|lovely|fantastic|awesome|terrific|marvell?ous|charming|perfect|just great|how nice|what a \w+|yay|hooray|right|sure|not|as if|obviously)\W*$|\b(?:oh sure|yeah right|of course i|as if|just what i (?:wanted|needed)|my idea of fun|who needs|what a (?:guy|joke|surprise|treat))\b|^(?:oh,? )?(?:great|brilliant|wonderful|sure|fantastic|lovely),)"
)
_OF_NOW: Final = re.compile(
    r"(?i)\b(?:right now|just now|today|tonight|tomorrow|yesterday|this (?:morning|afternoon|evening|minute|second|time)|a (?:minute|moment|second) ago|out of (?!town\b)\w+|again|so far|already)\b"
)
_POINTS_ELSEWHERE: Final = re.compile(
    r"(?i)\b(?:it|this(?! (?:week|month|year|spring|summer|autumn|fall|winter)\b)|these(?! days\b)|those|them|there|such|that (?:one|way|thing))\b"
)
_GUESS: Final = re.compile(
    r"(?i)\b(?:maybe|perhaps|probably|possibly|i (?:guess|think|suppose|assume)|might|would|could|if|unless|whether)\b"
)
_WORDS: Final = re.compile(r"[^\W\d_]{4,}")
_AT_OUR_WORK: Final = re.compile(
    r"(?i)^(?:at (?:work|our (?:place|company|firm)|my (?:place|company|job))|in (?:our|my) \w+)\b"
)
_TELLS: Final = 2
"""More longer words than so many must be there where nothing else ties the statement to something."""
_LED: Final = 4
"""After ``It's`` begins what it is."""
_LASTING_RULES: Final = (
    (1.6, (_TRAIT, _IT_IS_MY, _BECAME)),
    (1.5, (_HAS,)),
    (1.4, (_ON_THE_WAY,)),
    (1.3, (_AT_OURS, _IS_WHAT)),
)
"""By themselves these tell what lasts."""


def _score_any_verb(own: str, said: str) -> float:
    """Return how much a sentence without greeting tells of what lasts; 0: not, or not certainly.

    Args:
        own: Without a time or place that it begins with.
        said: With it.
    """
    if any(rule.search(said) for rule in (_SARCASM, _OF_NOW, _GUESS)) or _POINTS_ELSEWHERE.search(own, _LED):
        return 0.0
    found = next((worth for worth, rules in _LASTING_RULES if any(rule.search(own) for rule in rules)), 0.0)
    is_tied = any(rule.search(said) for rule in (_NAME, _OFTEN_DONE, _AT_OUR_WORK))
    is_counted = _DATE.search(said) is not None or _NUMBER.search(said) is not None
    if own.endswith("!") and not (
        is_counted or _OFTEN_DONE.search(said)
    ):  # a feeling of the moment, more often than not
        return found
    if is_tied and any(rule.search(own) for rule in (_IS_DOING, _THE, _THE_SHORT)):
        found = max(found, 1.2)
    if (_MINE.search(own) and (is_tied or is_counted)) or (
        _DOES.search(own) and (is_tied or is_counted or len(_WORDS.findall(own)) > _TELLS)
    ):
        found = max(found, 1.4)
    return found


_STATED: Final = 2.0
_STATEMENTS: Final = re.compile(
    r"""(?ix)^(?:
    # German
      ich\ bin\ (?!(?:Ende|Mitte|Anfang|Fan|Opfer|Schuld|Ihnen|Ihr\w*|Montag|Dienstag|Mittwoch|Donnerstag|Freitag|Samstag|Sonntag)\b)(?-i:[A-ZÄÖÜ])\w{3,40}(?:\W*$|\ (?:und|bei|in|im|am|an|auf|von)\b)
    | ich\ (?:heiße|wohne|lebe|arbeite|mag|liebe|hasse|bevorzuge|trinke|esse|spreche|komme\ aus|studiere|lerne|benutze|verwende|nutze|plane|ziehe|fahre|spiele|leite|habe?\ (?:zwei|drei|vier|einen?|eine|am)|bin\ (?:[\w.]+\ ){0,4}?nach\ [\w\ -]{2,30}\ (?:um|zurück)?gezogen|bin\ (?:(?:der|die)\ (?-i:[A-Z])\w+\W*$|allergisch|vegetarier|veganer|diabetiker|asthmatiker|epileptiker|linkshänder|schwanger|laktoseintolerant|schwerhörig|farbenblind|gehörlos|verwitwet|verheiratet|ledig|geschieden|\d+|aus|in|als|ein|eine|von\ beruf|lehrer|ingenieur)\w*|werde\ (?:nächst|im|am|bald|nach)\w*)\b
    | mein(?:e|en)?\ (?:\S+\ ){1,4}(?:ist|sind|heißt|hat|haben|arbeitet|wohnt|lebt|mag|beginnt)\b
    | (?:wir\ sind|bin)\ (?:[\w.]+\ ){0,4}?nach\ [\w\ -]{2,30}\ (?:um|zurück)?gezogen\b | ich\ habe?\ (?:[\w.]+\ ){0,3}bei\ [\w\ -]{2,30}\ angefangen\b | wir\ (?:verwenden|benutzen|nutzen|arbeiten|wohnen|haben|deployen|betreiben|entwickeln|ziehen)\b | unsere?\ (?:\S+\ ){1,4}(?:ist|sind|läuft|beginnt|hat)\b | nenn\ mich\b
    # French
    | je\ (?:m'appelle|suis\ (?:(?-i:[A-Z])\w+|allergique|végétarien|végétarienne|vegane?|végane?|enceinte|diabétique|asthmatique|épileptique|cœliaque|intolérante?|sourde?|malentendante?|daltonien|daltonienne|gaucher|gauchère|veuf|veuve|retraitée?|divorcée?|marié|mariée|célibataire|ingénieur|ingénieure|de|à|né|née|un|une|en)|vis|travaille|préfère|déteste|parle|joue|déménage|bois|mange|n'aime\ pas|ne\ mange\ pas|ne\ bois\ pas|vais\ (?:déménager|partir|commencer|changer)|dirige|gère)\b
    | on\ (?:utilise|habite|vit|travaille|tient|gère)\b
    | j'(?:habite|aime|adore|ai\ (?:deux|trois|\d+|une?)|étudie|utilise|apprends|enseigne)\b
    | (?:mon|ma|mes)\ (?:\S+\ ){1,4}(?:est|sont|s'appelle|a|ont|travaille|vit|habite|aime|commence)\b | (?:notre|nos)\ (?:\S+\ ){1,4}(?:est|sont|commence|tourne|a)\b
    | (?:j'ai|on\ a|nous\ avons)\ (?:em|dé)ménagé\ (?:à|en|au|dans|chez|de)\b | je\ suis\ (?:parti|revenu)e?\ (?:vivre|habiter)\b | nous\ (?:utilisons|travaillons|habitons|avons|déployons|vivons)\b | appelle[sz]?-moi\b | appelez-moi\b
    # Spanish
    | (?:yo\ )?(?:me\ llamo|soy\ (?:(?-i:[A-Z])\w+|alérgic[oa]|celíac[oa]|diabétic[oa]|hipertens[oa]|asmátic[oa]|epiléptic[oa]|intolerante|sord[oa]|daltónic[oa]|zurd[oa]|viud[oa]|jubilad[oa]|divorciad[oa]|vegetarian[oa]|vegan[oa]|de|un|una|ingenier[oa]|médic[oa]|profesor[a]?|solter[oa]|casad[oa])|vivo\ en|resido\ en|nos\ mudamos\ a|trabajo\ (?:en|como|para|de)|me\ (?:gusta|gustan|encanta|encantan|mudo|mudé)|no\ (?:me\ gustan?|como|bebo)|prefiero|odio|hablo|tengo\ (?:dos|tres|\d+|una?\ (?:perr|gat|hij|herman))|estudio|uso|voy\ a\ (?:mudarme|viajar|empezar)|estoy\ (?:aprendiendo|casad[oa]|embarazada|jubilad[oa]|divorciad[oa]|estudiando))\w*
    | mis?\ (?:\S+\ ){1,4}(?:es|son|se\ llama|tiene|trabaja|vive|empieza)\b | nuestr[oa]s?\ (?:\S+\ ){1,4}(?:es|son|empieza|corre|usa)\b | (?:nosotros\ )?usamos\b | llámame\b
    # Portuguese
    | (?:eu\ )?(?:me\ chamo|chamo-me|sou\ (?:(?-i:[A-Z])\w+|alérgic[oa]|celíac[oa]|diabétic[oa]|hipertens[oa]|asmátic[oa]|epiléptic[oa]|intolerante|surd[oa]|daltônic[oa]|canhot[oa]|viúv[oa]|aposentad[oa]|reformad[oa]|divorciad[oa]|vegetarian[oa]|vegan[oa]|de|do|da|um|uma|engenheir[oa]|médic[oa]|professor[a]?|solteir[oa]|casad[oa])|(?:moro|habito|resido|moramos|habitamos)\ (?:em|no|na)|mudei-me\ para|mudei\ para|mud[áa]mo-nos\ para|vivo\ (?:em|no|na)|trabalho\ (?:em|no|na|como|para|com)|gosto\ de|não\ (?:gosto|como|bebo)|adoro|prefiro|odeio|falo|tenho\ (?:dois|duas|três|\d+|uma?\ (?:cachorr|gat|filh|irm))|estudo|uso|vou\ (?:me\ )?mudar|estou\ (?:aprendendo|grávida|aposentad[oa]|desempregad[oa]|estudando))\w*
    | (?:o\ |a\ |os\ |as\ )?(?:meus?|minhas?)\ (?:\S+\ ){1,4}(?:é|são|se\ chama|tem|trabalha|mora|vive|começa)\b | (?:o\ |a\ )?noss[oa]s?\ (?:\S+\ ){1,4}(?:é|são|começa|roda|usa)\b | me\ chame\ de\b
    # Italian
    | (?:io\ )?(?:mi\ chiamo|sono\ (?:(?-i:[A-Z])\w+|allergic[oa]|celiac[oa]|diabetic[oa]|ipertes[oa]|asmatic[oa]|epilettic[oa]|intollerante|sord[oa]|daltonic[oa]|mancin[oa]|vedov[oa]|pensionat[oa]|divorziat[oa]|incinta|vegetarian[oa]|vegan[oa]|di|un|una|ingegnere|medico|sposat[oa]|single)|(?:abito|risiedo|abitiamo)\ (?:a|in)|(?:mi\ sono|ci\ siamo)\ (?:appena\ )?(?:trasferit|spostat)[oaie]\ (?:a|in)|vivo\ (?:a|in)|lavoro\ (?:a|in|come|per|da)|mi\ (?:piace|piacciono|trasferisco)|non\ (?:mi\ piac\w+|mangio|bevo)|preferisco|odio|adoro|parlo|ho\ (?:due|tre|\d+|un[oa']?\ (?:can|gatt|figli|fratell|sorell))|studio|uso|sto\ (?:imparando|studiando))\w*
    | (?:il\ |la\ |i\ |le\ )?(?:mi[oae]|miei)\ (?:\S+\ ){1,4}(?:è|sono|si\ chiama|ha|lavora|vive|abita|inizia)\b | (?:il\ |la\ )?nostr[oaie]\ (?:\S+\ ){1,4}(?:è|sono|inizia|gira|usa)\b | usiamo\b | chiamami\b
    )"""
)
_REFUSED: Final = re.compile(
    r"""(?ix)^(?:si(?=\ )|falls|wie|was|wann|wo|warum|wer|kannst|können|comment|quand|pourquoi|qui|peux|pouvez|cómo|qué|cuándo|dónde|por\ qué|puedes|como\ (?:posso|faço)|quando|onde|porque|pode|dove|perché|puoi)\b
    | \b(?:vielleicht|wenn\ ich|würde|könnte|peut-être|si\ je|j'aimerais|pourrais|quizás|si\ yo|talvez|se\ eu|gostaria|forse|se\ io|vorrei)\b
    | \b(?:sagt|sagte|gesagt|behauptet|meint|gemeint|findet|glaubt|denkt|angeblich|angenommen|a\ dit|croit\ que|pense\ que|dijo|dice|cree\ que|piensa\ que|disse|acha\ que|crede\ che|pensa\ che)\b"""
)
_NOT: Final = re.compile(
    r"(?i)^come\b|\b(?:problem|frage|fehler|problème|question|erreur|problema|pregunta|error|pergunta|erro|domanda|errore)\b|\?"
)
# Japanese tells by how a sentence ends, Chinese by how it begins.
_UNSPACED_STATEMENTS: Final = re.compile(
    r"""(?x)(?:
      (?:が|は|も)(?:大)?(?:好き|嫌い|苦手)(?:です|だ)? | (?:を|は|も)(?:使用|利用|担当|運用|採用|管理|勉強|使)(?:し|っ)て(?:い)?(?:ます|る)
    | (?:で|に)(?:働|勤め|住ん|勤務し|所属し)(?:い)?(?:て|で)(?:い)?(?:ます|る) | と(?:申します|いいます|言います) | アレルギー(?:です|だ|があります|がある)
    | ^(?:私|僕|俺|わたし|ぼく|弊社)(?:たち)?(?:の[^、。]{1,20})?は[^、。]{2,40}(?:です|だ|であります)
    )\W*$
    | ^我(?:们|們)?(?:现在|現在|平时|平時|一直|也|都|更)?(?:住在|叫|喜欢|喜歡|不喜欢|不喜歡|讨厌|討厭|使用|用的?是|负责|負責|在[^，。]{1,16}(?:工作|上班)|对[^，。]{1,10}过敏|對[^，。]{1,10}過敏|是[^，。]{2,20})
    | ^我(?:们|們)?的[^，。]{1,16}(?:是|叫|有)[^，。]{1,30}"""
)
_NOT_UNSPACED: Final = re.compile(
    r"[?？]|か[。\s]*$|(?:問題|エラー|質問|问题|错误|錯誤|不具合)|(?:と思|かもしれ|でしょう|らしい|もし|ください|今日|本日|明日|今夜)|[吗嗎呢吧]|(?:什么|什麼|怎么|怎麼|如果|可能|也许|也許|今天|明天)|と(?:言って|聞い)"
)


def is_refused(said: str) -> bool:
    """Return whether a text in normal form is a question, a hypothesis or a report in one of the languages."""
    return _REFUSED.search(said) is not None


def _score_other(text: str) -> float:
    """Return how much *text* says that lasts if it is a first-person statement in one of the languages; else 0."""
    said = straight(text)
    if unspaced(said):
        return _STATED if _UNSPACED_STATEMENTS.search(said) and not _NOT_UNSPACED.search(said) else 0.0
    told = _STATEMENTS.match(said) or _STATEMENTS.match(_in_plain_order(said))
    return _STATED if told and not (is_refused(said) or _NOT.search(said)) else 0.0


_TIME_FIRST: Final = re.compile(
    r"""(?ix)^(?:(?:seit\ (?:(?:dem|der|einem|einer|zwei|drei|letzte\w?)\ )?\w+|letzte\w?\ \w+|vor\ (?:\w+\ ){1,2}?\w+|im\ \w+|jetzt|nun|inzwischen|mittlerweile|neuerdings|gestern)\ (?P<verb>\w+)\ (?P<who>ich|wir)\b
    | (?:(?:depuis|desde|da)\ (?:(?:le|la|el|o|a|une?|una|um|uma|deux|dos|dois|duas|due)\ )?[\w'-]+(?:\ (?:passé|pasado|passado|scorso))?|dal(?:l'|lo\ |la\ |\ )\w+|maintenant|désormais|ahora|actualmente|agora|atualmente|adesso|ora|attualmente),?\ )"""
)
"""A time at the beginning; in German the verb and its subject follow."""


def _in_plain_order(said: str) -> str:
    """Return *said* without a time that it begins with, the subject first."""
    found = _TIME_FIRST.match(said)
    if found is None:
        return said
    rest = said[found.end() :].lstrip()
    return f"{found['who']} {found['verb']} {rest}" if found["who"] else rest
