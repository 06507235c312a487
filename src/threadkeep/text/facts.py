"""Which of a person's sentences are lasting facts about them.

Rules refuse what is no statement of theirs: questions, requests, hypotheses, reports, quotations, jokes. Of the rest,
:mod:`threadkeep.text.keeping` tells how likely a sentence is to be worth keeping. How to answer from now on is kept, too.

A sentence counts when it says something of the person, their people, their work, their preferences or
their plans that will still be of use in another conversation. Precision comes before completeness:
what is in doubt is left to the episode.
"""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import attrgetter, methodcaller
from typing import Final, NamedTuple

from threadkeep.text.clauses import SUBJECT_IN_VERB, Clause, split_clauses
from threadkeep.text.ended_facts import is_own_ending
from threadkeep.text.keeping import CERTAIN, MIN_WORDS, SURE, is_refused, log_odds, score_wording
from threadkeep.text.marks import QUOTATION
from threadkeep.text.redaction import MARK
from threadkeep.text.requests import asks_from, asks_whether
from threadkeep.text.semantics import ended_by, plain, speaks_of_self, straight, words
from threadkeep.text.sentences import split_sentences
from threadkeep.text.slots import slot_of
from threadkeep.text.tokenizing import unspaced

MAX_CHARACTERS: Final = 300
MIN_SCORE: Final = 1.0
_LEAST_LOG_ODDS: Final = 2.5
"""From these odds on, about 12 to 1, a sentence is worth keeping.

Source:
    ``python -m threadkeep_evals.keeping_fit``: of English sentences by people from whom nothing was learnt, about nine
    of ten that reach it are worth keeping, and three of four that are worth keeping reach it.
"""
_LEAST_LOG_ODDS_BESIDE: Final = 0.75
"""Beside another author's text users are brief: what they say of themselves there is who they are to it.

Source:
    Of 75 such statements in six languages 60 are kept with it, 45 with the odds for other messages; of 72 remarks 3 and 3.
"""
_LEAST_LOG_ODDS_AROUND: Final = 0.0
"""A part of a sentence is kept where the whole is as likely as not to be worth it.

Source:
    Of the parts of other sentences, by people from whom nothing was learnt, 9 of 38 were worth keeping, of these 110 of
    121.
"""
_SHORT: Final = 6
"""So few words give the regression little to weigh, so the rules count for more: ``I have two cats.``"""
_KNOWN_WORDING: Final = 1.9
_LEAST_LOG_ODDS_SHORT: Final = -1.0


class Statement(NamedTuple):
    """A sentence that is worth keeping.

    Attributes:
        text: The person's own words, a part of the message.
        score: How much it says that lasts; higher is better, at least 1.
    """

    text: str
    score: float


_NOT_MEANT: Final = re.compile(
    r"""(?ix)(?<!\bnot\ )(?<!\bain't\ )\b(?:
      (?:just|only|totally|obviously)\ (?:kidding|joking)\b(?!\ about) | (?:I'm|I\ am|I\ was)\ (?:just\ |only\ )?(?:kidding|joking)\b | jk\b
    | (?:this|that|it|the\ following|what\ follows)\ (?:is|was)\ (?:just\ |only\ )?a\ (?:joke|prank)\b
    | (?:pretend|imagine|suppose|assume)\ (?:that\ )?(?:I|I'm|I'd|we|we're|my)\b | let's\ (?:pretend|role-?play)\b
    | (?:you(?:'re|\ are|\ play|'ll\ be)|be)\ (?-i:[A-Z])\w+,?\ and\ I(?:'m|\ am|\ play|'ll\ be)\ (?-i:[A-Z])
    )"""
)


def meant(text: str) -> bool:
    """Return whether the person means what *text* says: it is said to be neither a joke nor a part that is played."""
    return _NOT_MEANT.search(straight(text)) is None


_GREETING: Final = re.compile(
    r"(?i)^(?:(?:hi|hey|hello|hiya|howdy|greetings|good (?:morning|afternoon|evening|day|night)|dear|thanks|thank you|thx|ty|cheers|great|cool|nice"
    r"|awesome|perfect|ok|okay|alright|sure|definitely|absolutely|exactly|totally|for sure|of course|no (?:problem|worries|prob)|congrats|congratulations|guess what|(?:good|great|big) news|yes|yeah|yep|yup|no|nope|nah|well|oh|ah|aha|wow|whoa|woah|yay|aw+|ugh|phew|omg|hmm+|um+|so|right|got it|i see|makes sense|sounds good|sorry"
    r"|haha|lol|anyway|anyways|btw|by the way|fyi|ps|p\.s\.|also|and|but|plus|actually|honestly|to be honest|tbh|just so you know|for context|for reference"
    r"|for the record|quick note|side note|as i (?:said|mentioned)|as you (?:know|may know)|like i said|first of all|first|anyhow|basically|in fact"
    r"|seriously(?: though)?|note|context|background|correction|update|reminder|wait|oops|i should (?:say|mention|add)|hallo|servus|moin|na(?: du)?|guten (?:morgen|tag|abend)|übrigens|ach (?:ja|so)|bonjour|bonsoir|salut|coucou|au fait|sinon|bon|hola|buenas|por cierto|oye|bueno|olá|oi|bom dia|boa (?:tarde|noite)|aliás|a propósito|ciao|buongiorno|buonasera|a proposito|senti|scratch that|(?:that's|that is|that was) (?:wrong|not right|not true)|my mistake|i was wrong)"
    r"(?:,? (?:there|all|everyone|team|again|so much|very much|a lot|for (?:the|your|that|all)[\w' ]{1,40}|(?-i:[A-Z][a-z]+)(?=[,!])))?(?:\s*(?:[,!:;–—-]+|\.+(?=\s))\s*|\s+(?=(?:i|i'm|i've|im|ive|my|we|our|we're|no|nope|yes|yeah|wait|sorry|btw|ich|wir|mein\w*|je|mon|ma|yo|mi|eu|meu|io|não|no|non)\b))"
    r"(?:that )?)+"
)
_KEEPS: Final = (
    r"(?:remember|note|keep in mind|bear in mind|be aware|make a note|take note|know|don't forget|save|store)"
    r"(?: for (?:later|next time|the future|me))?"
)
_REMEMBER: Final = re.compile(
    rf"(?i)^(?:please |pls |and |also |do |(?:can|could|would|will) you )*{_KEEPS}(?:[:,]? that| the fact that|[:,])? (?=(?:i|i'm|i've|i'd|my|we|our|we're|we've|call|from|always|never)\b)"
    rf"|^(?:(?:please|pls|(?:can|could|would|will) you) )+{_KEEPS} that (?!you\b)(?=[\w'-]+ )"
)
"""Who asks politely asks the assistant, so that anything may follow."""
_AGAIN: Final = re.compile(
    r"""(?ix)^(?:no|non|não|nope|sorry|but|pero|mais|mas|ma)?[,.!]?\ ?(?:
      i(?:\ (?:clearly|just|already|actually|literally)|'ve\ already)?\ (?:said|told\ you)(?:\ that|:|,)?\ (?=(?:i(?:'m|'ve)?|we(?:'re|'ve)?)\ (?!(?:was|were|would|had|did|could|might|should)\b) | (?:my|our)\ (?:[\w'-]+\ ){1,3}(?:is|are|has|have|lives|works)\b)
    | (?:je\ t'ai|j'ai)\ (?:déjà\ |bien\ )?dit\ (?:que\ (?=j'|(?:je|mon|ma|mes|nous)\b))
    | (?:te\ )?(?:he\ dicho|dije)\ que\ (?=\w) | eu\ (?:já\ )?(?:te\ )?disse\ que\ (?=\w) | (?:ti\ )?ho\ (?:già\ )?detto\ che\ (?=\w)
    )(?!.{0,200}\b(?:but|lied|joke|joking|wrong|mistake|mais|menti|pero|mentí|mas|ma|mentito)\b)"""
)
"""Who corrects the assistant repeats what they said: ``No, I said I live in Derby.``"""
_ONLY_KNOW: Final = re.compile(r"(?i)\b(?:know|be aware)\b")
_SUPPOSED_TAIL: Final = re.compile(r"(?i)(?<=\w), so (?:i|we)(?:'d| would| could| might| should)\b")
"""What follows from a statement as a thought: ``…, so I would leave the house to Paul``."""
_STANDING: Final = re.compile(
    r"(?i)^(?:please )?(?:(?:from now on|in (?:the )?future|going forward|by default|whenever you (?:answer|reply|respond|write))[, ]+(?:please )?(?:always |never |only |do not |don't )?"
    r"|(?:always|never|don't ever|do not ever) (?!(?:give|put|call|end|start) (?:up|out|back|in|off|away|down)\b))(?:answer|reply|respond|address|call|use|write|speak|talk|give|keep|explain|show|include|avoid|send|format|start|end|put|provide|mention|assume|prefer|suggest|recommend|propose|be (?:too |more |less |very )?(?:brief|short|concise|terse|verbose|direct|blunt|honest|polite|rude|formal|informal|casual|friendly|specific|precise|critical))\b"
    r"|^(?:please )?(?:you can |just )?call me (?!back\b|when\b|if\b|at\b|on\b|later\b|tomorrow\b|crazy\b|old\b|an?\b|maybe\b|tonight\b|in\b)\S+"
    r"|^(?:please )?(?:keep (?:your |the |all )?(?:answers|replies|responses|explanations|messages)|(?:answer|reply|respond|talk to me|speak to me|write to me) in (?:[A-Z]\w+|metric))\b"
)
_NO_CLAUSE: Final = r"(?:(?!(?:warum|wie|was|wann|wo|wer|welch\w*|dass|ob|weil|wenn|die|der|das|pourquoi|comment|quand|qui|que|où|si|por|porque|porquê|cómo|como|cuándo|quando|dónde|onde|quién|quien|quem|qué|perché|come|dove|chi|che|se)\b)[\w'’-]+\ ){0,3}?"
"""So many words may stand before ``always``, none of which begins a clause: ``explain to me why it never works``."""
_STANDING_ELSEWHERE: Final = re.compile(
    rf"""(?ix)^(?:(?:bitte|s'il\ (?:te|vous)\ plaît|stp|svp|por\ favor|per\ favore)[, ]+)?(?:
    # German
      (?:antworte|antwort|schreibe?|sprich|rede|verwende|benutze?|nutze?|gib|erkläre?|zeige?|vermeide|halte?|formatiere|begründe|duze?|sieze?|nenne?)\ (?:Sie\ )?{_NO_CLAUSE}(?:immer|stets|nie|niemals|nur\ noch|künftig|zukünftig|grundsätzlich|ausschließlich|in\ zukunft|ab\ (?:jetzt|sofort)|von\ (?:jetzt|nun)\ an)\b
    | (?:ab\ (?:jetzt|sofort)|von\ (?:jetzt|nun)\ an|künftig|in\ zukunft|immer|stets|niemals|nie)[, ]+(?:bitte\ )?(?:(?:antworte|schreibe?|sprich|verwende|benutze?|nutze?|gib|erkläre?|vermeide|halte?|formatiere|duze?|sieze?)\b|(?:[\w'-]+\ ){{0,5}}(?:antworten|schreiben|sprechen|verwenden|benutzen|nutzen|vermeiden|duzen|siezen)\W*$)
    | (?:antworte|antworten|rede|sprich|schreibe?)\ (?:Sie\ )?(?:(?:bitte|mir|mit\ mir)\ )*auf\ \w+isch\b | (?:antworte|antworten|rede|sprich|schreibe?)\ (?:Sie\ )?(?:(?:bitte|mir|mit\ mir)\ )*auf\ deutsch\b
    # French
    | (?:ne\ |n')?(?:me\ )?(?:réponds|répondez|écris|écrivez|parle|parlez|utilise|utilises|utilisez|évite|évitez|explique|expliquez|donne|donnez|montre|montrez|garde|gardez|tutoie|tutoyez|vouvoie|vouvoyez|emploie|employez)(?:-(?:moi|nous))?\ {_NO_CLAUSE}(?:toujours|jamais|désormais|dorénavant|systématiquement|à\ l'avenir|à\ partir\ de\ maintenant|par\ défaut)\b
    | (?:désormais|dorénavant|à\ partir\ de\ maintenant|à\ l'avenir|toujours|ne\ jamais)[, ]+(?:ne\ |n')?(?:me\ )?(?:réponds|répondez|répondre|écris|écrivez|écrire|parle|parlez|parler|utilise|utilisez|utiliser|évite|évitez|tutoie|tutoyer|vouvoie|vouvoyer|explique|expliquez|donne|donnez)\b
    | (?:réponds|répondez|parle|parlez|écris|écrivez)(?:-(?:moi|nous))?\ (?:s'il\ (?:te|vous)\ plaît\ )?en\ (?:français|anglais|allemand|espagnol|portugais|italien|japonais|chinois|néerlandais|arabe|russe)\b
    # Spanish and Portuguese
    | (?:no\ |não\ )?(?:me\ )?(?:respond[ea]s?|respóndeme|contest[ae]s?|contéstame|escrib[ea]s?|escríbeme|habl[ae]s?|háblame|us[ae]s?|utiliz[ae]s?|utilices?|evit[ae]s?|expli[ck]a|explíca?me|expliqu?es?|dame|muéstrame|trátame|tutéame|mantén|escrev[ae]s?|fal[ae]s?|dê|mostre|mantenha|trate)(?:-me)?\ {_NO_CLAUSE}(?:siempre|sempre|nunca|jamás|jamais|de\ ahora\ en\ adelante|a\ partir\ de\ ahora|en\ el\ futuro|por\ defecto|de\ agora\ em\ diante|a\ partir\ de\ agora|no\ futuro|por\ padrão)\b
    | (?:siempre|sempre|nunca|jamás|jamais|de\ ahora\ en\ adelante|a\ partir\ de\ ahora|de\ agora\ em\ diante|a\ partir\ de\ agora|daqui\ (?:em|para)\ diante)[, ]+(?:no\ |não\ )?(?:me\ )?(?:respond[ea]s?|respóndeme|contest[ae]s?|contéstame|escrib[ea]s?|escríbeme|habl[ae]s?|háblame|us[ae]s?|utiliz[ae]s?|utilices?|evit[ae]s?|dame|muéstrame|trátame|escrev[ae]s?|fal[ae]s?|mostre|trate)\b
    | (?:me\ )?(?:respond[ea]|respóndeme|contest[ae]|contéstame|escríbeme|habla|háblame|hable|fale|fala)(?:-me)?\ (?:comigo\ |conmigo\ )?(?:en|em)\ (?:español|castellano|inglés|francés|alemán|italiano|japonés|chino|portugués|português|inglês|francês|alemão|espanhol|japonês|chinês)\b
    # Italian
    | (?:non\ )?(?:rispondi|rispondimi|rispondere|risponda|scrivi|scrivimi|scrivere|scriva|parla|parlami|parlare|usa|usare|usi|utilizza|utilizzare|evita|spiega|spiegami|dammi|mostrami|mantieni)\ {_NO_CLAUSE}(?:sempre|mai|d'ora\ in\ (?:poi|avanti)|da\ ora\ in\ (?:poi|avanti)|in\ futuro)\b
    | (?:d'ora\ in\ (?:poi|avanti)|da\ ora\ in\ (?:poi|avanti)|in\ futuro|sempre)[, ]+(?:non\ )?(?:rispondi|rispondimi|rispondere|scrivi|scrivimi|scrivere|parla|parlami|parlare|usa|usare|utilizza|evita|spiega|dammi)\b
    | (?:rispondi|rispondimi|risponda|scrivimi|parlami)\ in\ (?:italiano|inglese|francese|tedesco|spagnolo|portoghese|giapponese|cinese)\b
    )"""
)
_STANDING_UNSPACED: Final = re.compile(
    r"""(?x)^(?:
      (?:今後|これから|以後|今から)?は?[、]?(?:常に|いつも|必ず|絶対に|毎回|今後|これから|今から)[^。?？]{0,40}(?:答え|回答し|返信し|返答し|返事し|書い|話し|使っ|使用し|説明し|避け|呼ん|使わない|しない|書かない|呼ばない)[てで](?:ください|下さい|ほしい|欲しい|くれ|ね)?[。！!]*$
    | [^。、?？]{0,12}(?:日本語|英語|中国語|韓国語|ドイツ語|フランス語|スペイン語|ポルトガル語|敬語)で(?:答え|回答し|返信し|返答し|返事し|話し)て(?:ください|下さい|ほしい|欲しい|くれ|ね)?[。！!]*$
    | (?:请|請)?(?:你)?(?:以后|以後|今后|今後|从现在起|從現在起|从现在开始|總是|总是|始终|始終|永远|永遠|每次)[^。?？]{0,12}(?:回答|回复|回覆|答复|说|說|写|寫|称呼|稱呼|解释|解釋|使用|避免|用)[^。?？]{0,30}[。！!]*$
    | (?:请|請)?(?:都|一直)?用[^。?？，]{1,4}[文语語](?:来|來)?(?:回答|回复|回覆|答复|跟我说话)[^。?？]{0,10}[。！!]*$
    )"""
)
"""Japanese and Chinese: a time or a language, and a verb of answering that asks for it."""
_NAMING: Final = re.compile(r"(?i)^(?:please )?(?:you can |just )?call me\b")
_AS_AN_EXAMPLE: Final = (
    r"(?:for (?:example|instance)|e\.g\.|to illustrate|by way of (?:example|illustration)|as an? (?:\w+ )?(?:example|illustration|experiment)|in (?:theory|another life|an ideal world|(?:this|that|the|my|an?) (?:\w+ )?(?:example|dream|experiment|scenario))"
    r"|zum beispiel|beispielsweise|theoretisch|angenommen|in der theorie|par exemple|en théorie|por ejemplo|en teoría|por exemplo|em teoria|(?:ad|per) esempio|in teoria)(?!\w)"
)
"""How a sentence begins that makes an example of what it says."""
_HYPOTHETICAL: Final = re.compile(
    rf"(?i)^(?:just )?{_AS_AN_EXAMPLE}"
    r"""|(?x:^(?:if|unless|suppose|supposing|imagine|assuming|say|let's\ say|what\ if|hypothetically|in\ theory|pretend|even\ if|in\ case|once\ upon)\b
    | \b(?:I|we)(?:'d|\ would|\ could|\ might|\ may|\ should)\b(?!\ (?:rather|prefer|like\ to\ be\ called|love\ to\ (?:visit|learn|live|move|become)|like\ to\ (?:visit|learn|live|move|become)))
    | \b(?:I|we)\ (?:wish|guess|suppose|imagine|assume|hope|bet|doubt|wonder|think|believe|reckon|suspect|expect|presume)\b
    | \b(?:I|we)\ (?:almost|nearly)\ (?!always|never|every|all\b|\d)
    | \b(?:hypothetically|for\ example|for\ instance|e\.g\.|as\ if|would\ have|could\ have|should\ have)\b | \b(?:maybe|perhaps|possibly|probably)\b)"""
)
_REPORTED: Final = re.compile(
    r"(?i)(?<!\bi )(?<!\bwe )\b(?:says?|said|saying|told|tells|telling|asks?|asked|wrote|writes|texted|replied|claims?|claimed|announced|instructed|instructs|(?:orders?|ordered) me|insists?|insisted|demands?)\b(?! (?:yes|no)\b)"
    r"|^(?:(?:no|nope|but|sorry),? )?i (?:(?:clearly|just|already|actually|literally) )?(?:said|wrote|typed)\b(?! (?:yes|no|goodbye|farewell|hello)\b)"
    r"|\baccording to\b|\bquote\b|(?<!\bi )(?<!\bwe )\b(?:thinks?|thought|believes?|believed|assumes?|assumed|reckons?|hears?|heard|suspects?|suspected|imagines?|pretends?|wishes|hopes) (?:that )?(?:I|I'm|I've|we|we're|my|our)\b"
    r"|\b(?:rumou?r has it|apparently|supposedly|allegedly)\b"
    r"|\b(?:e-?mail|mail|message|page|site|text|letter|article|note|post|document|doc|sign)s? (?:reads?|states?|goes|shows?)\b"
    r"|\b(?:reads?|states?) (?:that )?(?:I|I'm|I've|my|we|we're|our)\b"
)
_REPORTED_ELSEWHERE: Final = re.compile(
    r"(?i)\b(?:sagt|sagte|sagen|gesagt|behauptet|behaupten|schreibt|schrieb|geschrieben|meint|gemeint|findet|glaubt|denkt|angeblich)\b|\b(?:laut|selon|según|segundo|secondo)\b"
    r"|\b(?:dice|dicen|dijo|diz|dizem|disse|afirma|dit|disent|affirme|écrit) (?:que|qu'|che)"
)
_QUOTED: Final = re.compile(r"\"[^\"]{0,400}\"|(?<!\w)'[^']{8,400}'(?!\w)|«[^»]{0,400}»|„[^“”\"]{0,400}[“”\"]")
_ROLE_PLAY: Final = re.compile(
    r"(?i)\b(?:in (?:this|the|my) (?:story|novel|scenario|game|dream|role-?play)|my character|the protagonist|i am the narrator)\b"
)

_SMALL_TALK: Final = words(
    """
    hi hey hello hiya howdy greetings good morning afternoon evening day night thanks thank you thx ty cheers great
    cool nice awesome perfect ok okay alright sure yes yeah yep yup no nope nah well oh wow hmm got it i see makes
    sense sounds that's that is this was very so much a lot for the your help all again and bye goodbye see later
    soon take care please continue go on ahead more next do done right correct exactly lol haha fine how are doing
    what's up there everyone team my friend again too welcome it really appreciate amazing wonderful excellent hallo
    hi danke bitte tschüss guten morgen tag abend ja nein ich bin's noch mal nochmal it's me i'm back c'est encore moi soy yo otra vez sou eu de novo bonjour salut merci oui non au revoir hola gracias sí
    adiós buenos días olá obrigado obrigada sim não tchau ciao grazie prego buongiorno
    ありがとう ありがとうございます こんにちは おはよう おはようございます こんばんは はい いいえ わかりました 了解 了解です
    谢谢 謝謝 你好 您好 好的 好 再见 再見 明白了 안녕하세요 감사합니다 네 아니요 спасибо привет да нет
    """
)


def asks_to_remember(sentence: str) -> bool:
    """Return whether *sentence* asks to remember what it says: ``Please remember that …``."""
    said = straight(plain(sentence))
    if greeting := _GREETING.match(said):
        said = said[greeting.end() :]
    found = _REMEMBER.match(said)
    return found is not None and _ONLY_KNOW.search(found[0]) is None


def is_small_talk(sentence: str) -> bool:
    """Return whether *sentence* is a greeting, thanks, or a word of assent: nothing to remember a turn by."""
    return _SMALL_TALK.issuperset(re.findall(r"[^\W\d_]+(?:'\w+)?|\d+", straight(sentence).casefold()))


def has_own_words(sentence: str) -> bool:
    """Return whether *sentence* has a word of the first person, in six languages."""
    return _OWN_WORDS.search(straight(sentence)) is not None


_MOST_FILLER_WORDS: Final = 7


def is_filler(sentence: str) -> bool:
    """Return whether *sentence* is short and names nothing: no person, name, number or thing of the user's."""
    said = _with_apostrophes(straight(sentence))
    if len(said.split()) > _MOST_FILLER_WORDS or unspaced(said) or speaks_of_self(said):
        return False
    return not (_anchored(said) or _NAME_ALONE.match(said))


_NAME_ALONE: Final = re.compile(r"^(?!\w{1,30}(?:ing|ed|ly)\b)[A-ZÀ-Þ][\w'-]{2,30}[.!]?$")
"""A sentence of one word may be a name that corrects another one: ``Niamh.``"""


def is_standing(statement: str) -> bool:
    """Return whether *statement* says how to behave from now on; how a person is to be called is their name."""
    said = straight(statement)
    return _is_standing_rule(said) and _NAMING.match(said) is None


def _is_standing_rule(said: str) -> bool:
    elsewhere = _STANDING_UNSPACED if unspaced(said) else _STANDING_ELSEWHERE
    return _STANDING.match(said) is not None or elsewhere.match(said) is not None


_NOT_ASSERTED: Final = (_HYPOTHETICAL, _REPORTED, _REPORTED_ELSEWHERE, _ROLE_PLAY)


@lru_cache(maxsize=512)
def statements(sentence: str, *, beside_text: bool = False) -> tuple[Statement, ...]:
    """Return what *sentence* says that lasts: the sentence itself, or those clauses that stand on their own.

    A greeting or ``remember that`` in front and a request at the end are cut off; what is left is a
    part of the person's own words.

    Args:
        sentence: In the person's own words.
        beside_text: Whether it stands in a message that holds another author's text.
    """
    least = _LEAST_LOG_ODDS_BESIDE if beside_text else _LEAST_LOG_ODDS
    text = _trimmed(plain(sentence))
    clauses = split_clauses(text)
    if MARK in text or _is_withdrawn(text) or (len(clauses) > 1 and _is_introduced(clauses[0].text)):
        return ()
    if _is_topic(text, plain(sentence)) or asks_whether(straight(sentence)):
        return ()
    standing = _worth_keeping(clauses, least) if len(clauses) > 1 else ()
    if standing and len(standing) == len(clauses):
        return () if _refused(straight(text)) else standing
    if (score := _score(text, least)) >= MIN_SCORE:
        return (Statement(text, score),)
    if len(clauses) > 1:
        whole = beside_text or _is_nearly_kept(text)
        return standing if standing and whole and not _refused(straight(text)) else ()
    said = _without_lead(plain(sentence))[0]
    kept = _worth_keeping([Clause(part, part) for part in _first_and_own_part(said)], least)[:1]
    return kept if kept and (beside_text or _is_nearly_kept(said)) else ()


def _is_topic(text: str, sentence: str) -> bool:
    """Return whether *text*, which stands before a request, only names what that is about: ``lme4, singular fit, what now?``."""
    said = straight(text)
    if not said or not asks_from(sentence) or _OWN_WORDS.search(said) or SUBJECT_IN_VERB.match(said):
        return False
    return score_by_rules(text) <= 0


_text_of: Final[Callable[[Clause], str]] = attrgetter("text")


def _worth_keeping(parts: Iterable[Clause], least: float) -> tuple[Statement, ...]:
    return tuple(Statement(part.text, score) for part in parts if (score := _score(part.whole, least)) >= MIN_SCORE)


def _is_nearly_kept(text: str) -> bool:
    """Return whether *text* is near enough to being worth keeping that a part of it may be."""
    return log_odds(text, score_by_rules(text)) >= _LEAST_LOG_ODDS_AROUND


def clauses(sentence: str) -> list[str]:
    """Return *sentence* without greeting and request, and, where it has several clauses, each of them."""
    return [*map(_text_of, split_clauses(_trimmed(plain(sentence))))]


def asserts(clause: str) -> bool:
    """Return whether *clause* says that something is so, or how something is always to be done.

    A question, a request of the moment, a supposition, a report of what others say and a part that is
    played say nothing of what is so.
    """
    said = straight(clause)
    if "?" in said or MARK in said or _is_quotation(said):
        return False
    if _is_standing_rule(said):
        return True
    return asks_from(said) != 0 and not any(map(methodcaller("search", said), _NOT_ASSERTED))


@lru_cache(maxsize=4096)
def only_asks(request: str) -> bool:
    """Return whether *request* tells nothing beside what it asks for: no clause of it says that something is so."""
    return not any(asserts(clause) for sentence in split_sentences(request) for clause in clauses(sentence))


def _trimmed(text: str) -> str:
    text, said = _without_lead(text)
    if not _is_standing_rule(said) and (place := asks_from(said)):
        text, said = text[:place].rstrip(" ,;–—-"), said[:place]
    if (supposed := _SUPPOSED_TAIL.search(said)) is not None:
        text = text[: supposed.start()]
    return text.strip()


def _without_lead(text: str) -> tuple[str, str]:
    """Return *text* without a greeting and ``remember that`` in front, and its normal form."""
    said = straight(text)
    if len(said) != len(text):  # a ligature or a wide form was taken apart: positions would not fit
        text = said
    for lead in (_GREETING, _AGAIN, _REMEMBER, _GREETING):
        if (found := lead.match(said)) and found.end() < len(said):
            text, said = text[found.end() :], said[found.end() :]
            if (
                lead is _REMEMBER and said.endswith("?") and " that " in found[0]
            ):  # "Can you remember that I ski?" asks nothing about it
                text, said = f"{text.rstrip(' ?')}.", f"{said.rstrip(' ?')}."
    return text, said


_SETTING: Final = re.compile(
    r"(?i)^(?:(?:last|this|next|every|each|most) \w+|yesterday|tomorrow|lately|recently|currently|nowadays|these days|(?:on|in|since|after|before|at|for|during|by) [\w' ,-]{2,40}?"
    r"|(?:two|three|four|five|a few|\d+) \w+ ago|professionally|personally|at (?:work|home)),? (?=(?:i|i'm|i've|i'll|my|we|we're|we've|our)\b)"
)


_VOCATIVE: Final = re.compile(r"^(?:[A-Z][a-z]+ )?[A-Z][a-z]+[,!] (?=(?:I|I'm|I've|My|my|We|we|We've|we've|Our|our)\b)")


def _score(text: str, least: float) -> float:
    """Return how much *text* says that lasts; 0 where it is no statement of the person with odds of *least* or more."""
    said = _spelt_out(text)
    if not _is_sized(said) or _is_quotation(said):
        return 0.0
    if _is_standing_rule(said):
        return SURE
    outside, own = _outside_and_own(said)
    if _is_introduced(said) or _refused(outside) or (own != outside and _refused(own)):
        return 0.0
    by_rules = _score_by_rules(text, said, outside, own)
    if unspaced(said) or by_rules >= CERTAIN:
        return by_rules
    odds = log_odds(text, by_rules)
    if by_rules >= _KNOWN_WORDING and odds >= _LEAST_LOG_ODDS_SHORT and len(said.split()) <= _SHORT:
        return by_rules
    return max(MIN_SCORE + odds - least, 0.0)


def score_by_rules(text: str) -> float:
    """Return how much *text* says that lasts as far as rules know its words, if it is a statement of the person."""
    said = _spelt_out(text)
    return _score_by_rules(text, said, *_outside_and_own(said))


def _score_by_rules(text: str, said: str, outside: str, own: str) -> float:
    known = ended_by(own) is not None or slot_of(own) is not None
    score = score_wording(text, outside, own, known=known, anchored=_anchored(said))
    return max(score, CERTAIN) if is_own_ending(own) else score


def _spelt_out(text: str) -> str:
    return _with_verb(_with_apostrophes(straight(text)))


def _outside_and_own(said: str) -> tuple[str, str]:
    """Return *said* without quotations, and that without the name and the time that it begins with."""
    outside = _QUOTED.sub(" ", said)
    return outside, _SETTING.sub("", _VOCATIVE.sub("", outside))


def _is_sized(said: str) -> bool:
    count = len(said.split()) + said.count("'") + unspaced(said)  # "I'm vegan" has three
    count += SUBJECT_IN_VERB.match(said) is not None
    return count >= MIN_WORDS and len(said) <= MAX_CHARACTERS and "?" not in said and MARK not in said


def _is_quotation(said: str) -> bool:
    """Return whether it quotes another person: it is in quotation marks, and not a short title."""
    return QUOTATION in said or said[0] in "\"'«„" or any(len(quoted.split()) > 4 for quoted in _QUOTED.findall(said))  # noqa: PLR2004 - a title's length


def _refused(said: str) -> bool:
    """Return whether it is a question, a request, a hypothesis, a report, or in a part that is played."""
    refusing = (_HYPOTHETICAL, _REPORTED, _ROLE_PLAY)
    return is_refused(said) or asks_from(said) == 0 or any(map(methodcaller("search", said), refusing))


def _anchored(said: str) -> bool:
    """Whether a name or a number ties the statement to something."""
    return any(
        any(map(str.isdigit, word)) or (word[:1].isupper() and word not in _PRONOUNS) for word in said.split()[1:]
    )


_PRONOUNS: Final = frozenset({"I", "I'm", "I've", "I'd", "I'll"})


_SUBORDINATE: Final = re.compile(
    r"(?i)^(?:hypothetical\w*|theoretical\w*|if|when|while|since|because|although|though|after|before|as|once|until|unless|even|suppose|say|imagine|had|were|with|without|pretend|let's|assum\w+)\b|:"
    rf"|^(?:just )?{_AS_AN_EXAMPLE}"
)
_TURNS: Final = re.compile(
    r"(?i)\b(?:not|wish|joke|joking|kidding|said|says|told|except|unless|if|or|nor|but|never|almost|nearly|haha|lol|would|used to)\b|[\"“]"
)
_COLON: Final = re.compile(r":(?!\d)")
_OWN_WORDS: Final = re.compile(
    r"(?i)\b(?:i|me|my|mine|we|us|our|ich|mir|mich|meine?[rmns]?|wir|unsere?[rmns]?|je|j'|moi|mon|ma|mes|nous|notre|nos|yo|mis?|nosotros|eu|meus?|minhas?|nós|nossos?|nossas?|io|mi[oae]|miei)\b"
)
_OWN_SUBJECT: Final = re.compile(r", (?=(?:I|I'm|I've|my|we|we're|we've|our|ich bin|wir sind|je suis|soy|sou|sono)\b)")


def _first_and_own_part(text: str) -> list[str]:
    """Return the first part of *text* up to a comma, and the part from a comma on that has a subject of its own.

    Of ``My cousin owns a van, maybe that helps`` the beginning says something. Nothing where a word may turn it round.
    """
    said = straight(text)
    comma = said.find(", ")
    if (
        len(said) != len(text)
        or comma < 0
        or _is_introduced(said)
        or len(said) > _LONGEST_PARTED
        or _SUBORDINATE.match(said)
        or _TURNS.search(said, comma)
    ):
        return []
    own = _OWN_SUBJECT.search(said, comma)
    return [text[:comma], *([text[own.end() :]] if own and not _POINTS_AT.search(said, own.end()) else [])]


_POINTS_AT: Final = re.compile(r"(?i)\b(?:them|it|those|these|one)\b")
"""May be what stands before the part: ``Nothing with nuts please, my son can't have them.``"""
_LONGEST_PARTED: Final = 200
_CORRECTS: Final = (
    r"(?:(?:no|oh|or|and|sorry|well|hang on|hold on),? (?:wait|no|rather)\b|wait,? (?:no\b|actually\b|i mean\b)|scratch that\b|(?:sorry,? |no,? |or )?i meant?\b|make that\b|(?:that's|that was|that is) (?:wrong|not right|not true|a lie)\b"
    r"|(?:ach|ne+|nein|oder),? (?:doch|nein|nicht|eher)\b|quatsch\b|stimmt nicht\b|(?:enfin |euh )?non,? (?:attends|plutôt|pardon)\b|no,? (?:espera|perdón|mejor dicho)\b|(?:ou melhor|não,? espera|digo)\b|(?:anzi|no,? aspetta)\b)"
)
"""How a sentence or a clause begins that puts something else in place of what was just said."""
_IN_JEST: Final = (
    r"(?:not(?: really| at all)?|nope|(?:i'?m )?(?:just |only )?(?:kidding|joking|messing with you)|jk|just a joke|as if|yeah,? right|i wish|if only|in (?:my|your) dreams|(?:ha){2,4},? no"
    r"|nicht|von wegen|schön wär'?s|(?:nur |kleiner |war (?:nur )?)?(?:ein )?(?:scherz|spaß|witz)|(?:ou )?pas(?: du tout| vraiment)?|je (?:plaisante|rigole|blague|déconne)|(?:c'est )?(?:une )?blague|dans mes rêves"
    r"|(?:es |era )?(?:una )?broma|no es (?:cierto|verdad)|(?:es )?mentira|ojalá|(?:ya|más) quisiera(?: yo)?|qué va|só que não|(?:é |era )?(?:uma )?brincadeira|(?:estou|tô) (?:a )?brinca(?:r|ndo)|quem me dera|não é verdade"
    r"|(?:è uno |sto )?scherz(?:o|ando)|magari|macché|non è vero)"
)
"""What alone behind a statement says that it was not meant; after a dash, so does a bare ``no``."""
_WITHDRAWN: Final = re.compile(
    rf"(?i)[,;.–—-]\s*{_CORRECTS}|(?:[,;.–—(]|\s-)\s*¡?{_IN_JEST}\W*$|,\s*obviously\W*$|(?:[–—(]|\s-|\.\.)\s*¡?(?:no|non|nein|não)\W*$"
)
_IRONY: Final = re.compile(
    r"(?i)^(?:oh|well|ah|yay|ugh)?,? ?(?:great|brilliant|wonderful|fantastic|lovely|perfect|joy|fun),? (?:another|yet another|one more|just what)\b"
)
_TAKEN_BACK: Final = re.compile(rf"(?i)^\W*(?:{_IN_JEST}|no|never|haha|nein|non|não)\W*$|^\W*{_CORRECTS}")
_BARE: Final = re.compile(
    r"(?i)\b(?:(i)(m|ve)|(do|does|did|ca|wo|is|are|was|were|could|would|should|have|has|had)(nt))\b"
)
"""Contractions as they are typed in haste, and as dictation has them."""


def _with_apostrophes(said: str) -> str:
    """Return *said* with the apostrophes that are missing: ``im`` is ``i'm``, ``dont`` is ``don't``."""
    return _BARE.sub(lambda found: f"{found[1]}'{found[2]}" if found[1] else f"{found[3]}n't", said)


_CONTRACTED: Final = re.compile(
    r"""(?ix)^(?P<who>(?:my|our|the)\ (?:[\w-]+\ ){0,2}?[\w-]+)'s\ (?=
        (?P<has>got\b|been\b)
        | (?:now|currently|still|always|not|never|just|also|only|about|almost|nearly|at|in|on|from|with|into|called|named|allergic|vegan|vegetarian|afraid|married|divorced|engaged|pregnant|retired|due|born|an?|the|[a-z]+ing)\b
        | \d[\w.]*(?=[.,!;]|$|\ (?:next|this|in|and|years?)\b) | (?-i:[A-Z][\w-]+)(?=[.,!;]|$|\ and\b))"""
)
"""A subject with ``'s`` for ``is`` or ``has``, and not for what belongs to it: ``my sister's in Leeds``."""


def _with_verb(said: str) -> str:
    """Return *said* with the verb that its subject is contracted with: ``my sister is`` for ``my sister's``."""
    return _CONTRACTED.sub(lambda found: f"{found['who']} {'has' if found['has'] else 'is'} ", said)


def _is_introduced(text: str) -> bool:
    """Return whether a colon introduces what a person, perhaps another, says of themselves: ``The customer writes: I have waited …``."""
    colon = _COLON.search(text)
    return colon is not None and _OWN_WORDS.search(text, colon.end()) is not None


def _is_withdrawn(sentence: str) -> bool:
    """Return whether *sentence* itself takes back or mocks what it says: ``I live in Prague, no wait, Brno``."""
    return _WITHDRAWN.search(straight(sentence)) is not None


def begins_irony(sentence: str) -> bool:
    """Return whether *sentence* praises another mishap, so that what follows may not be meant: ``Oh great, another outage``."""
    return _IRONY.search(straight(sentence)) is not None


def is_taken_back(following: str) -> bool:
    """Return whether *following*, the next sentence, says that the one before it was not meant."""
    return _TAKEN_BACK.match(straight(following)) is not None
