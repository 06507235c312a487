"""Rules that know in which words people say what lasts, English first; :mod:`threadkeep.text.keeping` weighs them.

They are sure of common wordings and know no others.
"""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from typing import Final

from threadkeep.text import lasting

SURE: Final = 2.5
CERTAIN: Final = 3.0
"""From this score on a statement is kept, however unusual its other words are: names, homes, allergies and the like."""
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


def score(text: str, said: str, own: str, *, known: bool, anchored: bool) -> float:
    """Return how much a sentence says that lasts, as far as the rules know its words; 0: they do not.

    Args:
        text: The sentence.
        said: In normal form.
        own: Without a name and a time that it begins with.
        known: Whether it fills a slot of the profile, or ends something.
        anchored: Whether a name or a number ties it to something.
    """
    happened = lasting.has_happened(own, said=said)
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
    elif base == 0.0 and (base := lasting.score(own, said)):
        return base
    return base + _details(said, anchored=anchored) if base else lasting.score_other(text)


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
