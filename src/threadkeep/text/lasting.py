"""Statements about what lasts, and about what happened, by their grammar. Pure rules, English only.

The rules of :mod:`threadkeep.text.facts` know common verbs and nouns. These take any verb. What lasts is known by its
subject and by whether the verb tells a state or a habit: ``We do failover drills every other month``, ``The gateway is
Kong``. What happened is known by the first person, a verb in the past and a time: ``Had an interview yesterday``, ``my
car broke down last Friday``.
"""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from typing import Final

from threadkeep.text.semantics import straight

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

_HAPPENED: Final = re.compile(
    rf"(?i)^(?:I|we|(?:my|our) (?:[\w'-]+ ){{0,3}}?[\w'-]+|(?:me|my [\w-]+) and (?:I|my [\w-]+)) {_ADVERBS}{_PAST_EVENT}\b"
)
_WITHOUT_SUBJECT: Final = re.compile(rf"^(?i:{_ADVERBS}(?!{_ALSO_COMMANDS}\b){_PAST_EVENT}|been [a-z]+ing) (?=\S)")
_LATELY: Final = re.compile(rf"(?i)^{_BEEN}\b")

_UNIT: Final = r"(?:second|minute|hour|day|night|weekend|week|month|year|decade|summer|winter|spring|autumn|fall|season|semester|term|mon|tues?|wed(?:nes)?|thur?s?|fri|sat(?:ur)?|sun)(?:day)?s?"
_SOME: Final = r"(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|a few|a couple of|several|some|many|\d+)"
_WHEN: Final = re.compile(
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
    return tells_when(said) and any(rule.search(text) for rule in (_HAPPENED, _WITHOUT_SUBJECT, _LATELY))


def tells_when(text: str) -> bool:
    """Return whether *text* names a time that is past."""
    return _WHEN.search(text) is not None


_OFTEN: Final = (
    r"(?:every|each|always|usually|normally|mostly|mainly|typically|regularly|weekly|monthly|daily|yearly|nightly|(?:once|twice|three times|four times|\w+ times) an?|(?:a|per|an) (?:day|week|month|year|hour|quarter|night)|on (?:mon|tues|wednes|thurs|fri|satur|sun)days"
    r"|in the (?:mornings?|evenings?|afternoons?)|at (?:night|weekends)|(?:at|on|by|until|from|around) (?:the )?(?:noon|midnight|\d{1,2}\b|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|half|quarter)|all (?:year|night|day)|for (?:\w+ )?(?:years|decades|months)|since (?:\d{4}|i was|childhood|january|february|march|april|may|june|july|august|september|october|november|december|last))"
)
_HABIT: Final = re.compile(rf"(?i)\b{_OFTEN}")
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
_DOING: Final = re.compile(
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
_FLEETING: Final = re.compile(
    r"(?i)\b(?:right now|just now|today|tonight|tomorrow|yesterday|this (?:morning|afternoon|evening|minute|second|time)|a (?:minute|moment|second) ago|out of (?!town\b)\w+|again|so far|already)\b"
)
_UNRESOLVED: Final = re.compile(
    r"(?i)\b(?:it|this(?! (?:week|month|year|spring|summer|autumn|fall|winter)\b)|these(?! days\b)|those|them|there|such|that (?:one|way|thing))\b"
)
_GUESS: Final = re.compile(
    r"(?i)\b(?:maybe|perhaps|probably|possibly|i (?:guess|think|suppose|assume)|might|would|could|if|unless|whether)\b"
)

_WORDS: Final = re.compile(r"[^\W\d_]{4,}")
_AT_WORK: Final = re.compile(
    r"(?i)^(?:at (?:work|our (?:place|company|firm)|my (?:place|company|job))|in (?:our|my) \w+)\b"
)
_TELLS: Final = 2
"""More longer words than so many must be there where nothing else ties the statement to something."""


_LED: Final = 4
"""After ``It's`` begins what it is."""
_SURE: Final = ((1.6, (_TRAIT, _IT_IS_MY, _BECAME)), (1.5, (_HAS,)), (1.4, (_ON_THE_WAY,)), (1.3, (_AT_OURS, _IS_WHAT)))
"""By themselves these tell what lasts."""


def score(own: str, said: str) -> float:
    """Return how much a sentence without greeting tells of what lasts; 0: not, or not certainly.

    Args:
        own: Without a time or place that it begins with.
        said: With it.
    """
    if any(rule.search(said) for rule in (_SARCASM, _FLEETING, _GUESS)) or _UNRESOLVED.search(own, _LED):
        return 0.0
    found = next((worth for worth, rules in _SURE if any(rule.search(own) for rule in rules)), 0.0)
    is_tied = any(rule.search(said) for rule in (_NAME, _HABIT, _AT_WORK))
    is_counted = _DATE.search(said) is not None or _NUMBER.search(said) is not None
    if own.endswith("!") and not (is_counted or _HABIT.search(said)):  # a feeling of the moment, more often than not
        return found
    if is_tied and any(rule.search(own) for rule in (_DOING, _THE, _THE_SHORT)):
        found = max(found, 1.2)
    if (_MINE.search(own) and (is_tied or is_counted)) or (
        _DOES.search(own) and (is_tied or is_counted or len(_WORDS.findall(own)) > _TELLS)
    ):
        found = max(found, 1.4)
    return found


_SUBORDINATE: Final = re.compile(
    r"(?i)^(?:hypothetical\w*|theoretical\w*|if|when|while|since|because|although|though|after|before|as|once|until|unless|even|suppose|say|imagine|had|were|with|without|pretend|let's)\b|:"
)
_TURNS: Final = re.compile(
    r"(?i)\b(?:not|wish|joke|joking|kidding|said|says|told|except|unless|if|or|nor|but|never|almost|nearly|haha|lol|would|used to)\b|[\"“]"
)
_OWN_SUBJECT: Final = re.compile(r", (?=(?:I|I'm|I've|my|we|we're|we've|our)\b)")


def parts(text: str) -> list[str]:
    """Return the first part of *text* up to a comma, and the part from a comma on that has a subject of its own.

    Of ``My cousin owns a van, maybe that helps`` the beginning says something. Nothing where a word may turn it round.
    """
    said = straight(text)
    comma = said.find(", ")
    if (
        len(said) != len(text)
        or comma < 0
        or len(said) > _LONGEST
        or _SUBORDINATE.match(said)
        or _TURNS.search(said, comma)
    ):
        return []
    own = _OWN_SUBJECT.search(said, comma)
    return [text[:comma], *([text[own.end() :]] if own else [])]


_LONGEST: Final = 200
_TAKEN_BACK: Final = re.compile(
    r"(?i)^\W*(?:not(?: really)?|nope|no|never|(?:just )?kidding|as if|yeah right|haha|just a joke|nicht|nein|non|pas vraiment|no es cierto|não|mentira|scherzo)\W*$"
)


def is_taken_back(following: str) -> bool:
    """Return whether *following*, the next sentence, says that the one before it was not meant."""
    return _TAKEN_BACK.match(following) is not None
