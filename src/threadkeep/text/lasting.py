# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word
"""Statements in other languages, rules for answers in them, and what takes a statement back. Pure rules.

Italian, Japanese and Chinese statements are known by markers of what people say of themselves. Rules for answers, such
as ``Antworte immer auf Deutsch``, are known in German, French, Spanish, Portuguese, Italian, Japanese and Chinese.
"""

from __future__ import annotations

import re
from typing import Final

from threadkeep.text.semantics import straight

_SCORE: Final = 2.0

_ITALIAN_STATEMENTS: Final = re.compile(
    r"""(?ix)^(?:
      (?:io\ )?(?:mi\ chiamo|sono\ (?:(?-i:[A-Z])\w+|allergic[oa]|vegetarian[oa]|vegan[oa]|di|un|una|ingegnere|medico|sposat[oa]|single)|abito\ a|vivo\ (?:a|in)|lavoro\ (?:a|in|come|per|da)|mi\ (?:piace|piacciono|trasferisco)|non\ (?:mi\ piac\w+|mangio|bevo)|preferisco|odio|adoro|parlo|ho\ (?:due|tre|\d+|un[oa']?\ (?:can|gatt|figli|fratell|sorell))|studio|uso|sto\ (?:imparando|studiando))\w*
    | (?:il\ |la\ |i\ |le\ )?(?:mi[oae]|miei)\ (?:\S+\ ){1,4}(?:è|sono|si\ chiama|ha|lavora|vive|abita|inizia)\b | (?:il\ |la\ )?nostr[oaie]\ (?:\S+\ ){1,4}(?:è|sono|inizia|gira|usa)\b | usiamo\b | chiamami\b
    )"""
)
_NOT: Final = re.compile(
    r"""(?ix)^(?:wie|wann|wo|warum|wer|kannst|können|comment|quand|pourquoi|qui|peux|pouvez|cómo|qué|cuándo|dónde|por\ qué|puedes|como\ (?:posso|faço)|quando|onde|porque|pode|dove|perché|puoi)\b
    | \b(?:vielleicht|wenn\ ich|würde|könnte|peut-être|si\ je|j'aimerais|pourrais|quizás|si\ yo|talvez|se\ eu|gostaria|forse|se\ io|vorrei)\b
    | \b(?:sagt|sagte|gesagt|behauptet|meint|gemeint|findet|glaubt|denkt|angeblich|angenommen|a\ dit|croit\ que|pense\ que|dijo|dice|cree\ que|piensa\ que|disse|acha\ que|crede\ che|pensa\ che)\b"""
)
"""A question, a hypothesis or a report in another language than English."""


_UNSPACED: Final = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
"""Letters of scripts that put no space between words: Thai, Lao, Burmese, Khmer, Japanese and Chinese."""
_A_WORD: Final = 2

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


_NO_CLAUSE: Final = r"(?:(?!(?:warum|wie|was|wann|wo|wer|welch\w*|dass|ob|weil|wenn|die|der|das|pourquoi|comment|quand|qui|que|où|si|por|porque|porquê|cómo|como|cuándo|quando|dónde|onde|quién|quien|quem|qué|perché|come|dove|chi|che|se)\b)[\w'’-]+\ ){0,3}?"
"""So many words may stand before ``always``, none of which begins a clause: ``explain to me why it never works``."""
_STANDING: Final = re.compile(
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
_UNSPACED_STANDING: Final = re.compile(
    r"""(?x)^(?:
      (?:今後|これから|以後|今から)?は?[、]?(?:常に|いつも|必ず|絶対に|毎回|今後|これから|今から)[^。?？]{0,40}(?:答え|回答し|返信し|返答し|返事し|書い|話し|使っ|使用し|説明し|避け|呼ん|使わない|しない|書かない|呼ばない)[てで](?:ください|下さい|ほしい|欲しい|くれ|ね)?[。！!]*$
    | [^。、?？]{0,12}(?:日本語|英語|中国語|韓国語|ドイツ語|フランス語|スペイン語|ポルトガル語|敬語)で(?:答え|回答し|返信し|返答し|返事し|話し)て(?:ください|下さい|ほしい|欲しい|くれ|ね)?[。！!]*$
    | (?:请|請)?(?:你)?(?:以后|以後|今后|今後|从现在起|從現在起|从现在开始|總是|总是|始终|始終|永远|永遠|每次)[^。?？]{0,12}(?:回答|回复|回覆|答复|说|說|写|寫|称呼|稱呼|解释|解釋|使用|避免|用)[^。?？]{0,30}[。！!]*$
    | (?:请|請)?(?:都|一直)?用[^。?？，]{1,4}[文语語](?:来|來)?(?:回答|回复|回覆|答复|跟我说话)[^。?？]{0,10}[。！!]*$
    )"""
)
"""Japanese and Chinese: a time or a language, and a verb of answering that asks for it."""


def standing(said: str) -> bool:
    """Return whether a text in normal form says how to answer from now on, in one of the languages."""
    rule = _UNSPACED_STANDING if unspaced(said) else _STANDING
    return rule.match(said) is not None


_TASK: Final = re.compile(
    r"""(?ix)^(?:(?:bitte|por\ favor|per\ favore|s'il\ (?:te|vous)\ plaît)[, ]+)?(?:
    (?:übersetze?|fasse?|korrigiere?|verbessere?|formuliere?|überarbeite?|beantworte?|kürze?)\ (?:mir\ )?(?:das|dies\w*|den|die|folgende\w*)\b
    | (?:traduis|traduisez|résumez?|corrigez?|reformulez?|améliorez?|réponds\ à|répondez\ à)\ (?:ceci|cela|ça|cet?|cette|ces|les?|la)\b
    | (?:traduce|traduzca|resume|corrige|reescribe|mejora|responde\ a|traduz|traduza|resuma|corrija|reescreva|melhore|responda\ a)\ (?:est[eoa]s?|iss?to|isso|ess[ea]|el|la|lo|los|las|o|a|os|as)\b
    | (?:traduci|riassumi|correggi|riscrivi|migliora|rispondi\ a)\ (?:quest[oaie]|il|la|lo|i|le)\b
    | (?:これ|この(?:文|文章|メール)|次の(?:文|文章|メール)|以下)[^。]{0,20}(?:翻訳|訳し|要約|添削|校正|修正|返信)
    | (?:请|請)?(?:把|将|將)(?:这|這|以下|下面)[^。]{0,12}(?:翻译|翻譯|总结|總結|润色|潤色|改写|改寫|校对|校對)
    | (?:请|請)?(?:翻译|翻譯|总结|總結|润色|潤色|改写|改寫|校对|校對|回复|回覆)(?:一下)?(?:这|這|以下|下面)
    ).{0,60}$"""
)
"""Says what to do with a text that follows."""


def is_task(sentence: str) -> bool:
    """Return whether *sentence* only says what to do with a text, in one of the languages."""
    return _TASK.match(straight(sentence)) is not None


_UNWANTED: Final = re.compile(
    r"(?:覚え|記憶し|保存し|記録し)(?:ないで|なくていい)|(?:不要|别|別)(?:记住|記住|保存|记录|記錄)"
)


def unwanted(text: str) -> bool:
    """Return whether *text* asks in a script without spaces that nothing of it is remembered."""
    return _UNWANTED.search(text) is not None


def unspaced(text: str) -> int:
    """Return about how many words of scripts without spaces *text* has."""
    return len(_UNSPACED.findall(text)) // _A_WORD


def is_refused(said: str) -> bool:
    """Return whether a text in normal form is a question, a hypothesis or a report in one of the languages."""
    return _NOT.search(said) is not None


def score_by_rules(said: str) -> float:
    """Return how much an Italian, Japanese or Chinese text in normal form says that lasts; else 0."""
    if unspaced(said):
        return _SCORE if _UNSPACED_STATEMENTS.search(said) and not _NOT_UNSPACED.search(said) else 0.0
    return _SCORE if _ITALIAN_STATEMENTS.match(said) else 0.0


_SUBORDINATE: Final = re.compile(
    r"(?i)^(?:hypothetical\w*|theoretical\w*|if|when|while|since|because|although|though|after|before|as|once|until|unless|even|suppose|say|imagine|had|were|with|without|pretend|let's)\b|:"
)
_TURNS: Final = re.compile(
    r"(?i)\b(?:not|wish|joke|joking|kidding|said|says|told|except|unless|if|or|nor|but|never|almost|nearly|haha|lol|would|used to)\b|[\"“]"
)
_INTRODUCED: Final = re.compile(r":(?!\d)")
"""Text after a colon may be another person's, or an example: a part of it does not stand alone."""
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
        or is_introduced(said)
        or len(said) > _LONGEST
        or _SUBORDINATE.match(said)
        or _TURNS.search(said, comma)
    ):
        return []
    own = _OWN_SUBJECT.search(said, comma)
    return [text[:comma], *([text[own.end() :]] if own else [])]


_LONGEST: Final = 200
_CORRECTS: Final = (
    r"(?:(?:no|oh|or|and|sorry|well|hang on|hold on),? (?:wait|no|rather)\b|wait,? (?:no\b|actually\b|i mean\b)|scratch that\b|(?:sorry,? |no,? |or )?i meant?\b|make that\b|(?:that's|that was|that is) (?:wrong|not right|not true|a lie)\b"
    r"|(?:ach|ne+|nein|oder),? (?:doch|nein|nicht|eher)\b|quatsch\b|stimmt nicht\b|(?:enfin |euh )?non,? (?:attends|plutôt|pardon)\b|no,? (?:espera|perdón|mejor dicho)\b|(?:ou melhor|não,? espera|digo)\b|(?:anzi|no,? aspetta)\b)"
)
"""How a sentence or a clause begins that puts something else in place of what was just said."""
_WITHDRAWN: Final = re.compile(rf"(?i)[,;.–—-]\s*{_CORRECTS}|,\s*(?:obviously|as if|yeah right|not)\W*$")
_IRONY: Final = re.compile(
    r"(?i)^(?:oh|well|ah|yay|ugh)?,? ?(?:great|brilliant|wonderful|fantastic|lovely|perfect|joy|fun),? (?:another|yet another|one more|just what)\b"
)
_TAKEN_BACK: Final = re.compile(
    r"(?i)^\W*(?:not(?: really)?|nope|no|never|(?:just )?kidding|as if|yeah right|haha|just a joke|nicht|nein|non|pas vraiment|no es cierto|não|mentira|scherzo)\W*$"
    rf"|^\W*{_CORRECTS}"
)


_BARE: Final = re.compile(
    r"(?i)\b(?:(i)(m|ve)|(do|does|did|ca|wo|is|are|was|were|could|would|should|have|has|had)(nt))\b"
)
"""Contractions as they are typed in haste, and as dictation has them."""


def with_apostrophes(said: str) -> str:
    """Return *said* with the apostrophes that are missing: ``im`` is ``i'm``, ``dont`` is ``don't``."""
    return _BARE.sub(lambda found: f"{found[1]}'{found[2]}" if found[1] else f"{found[3]}n't", said)


_CONTRACTED: Final = re.compile(
    r"""(?ix)^(?P<who>(?:my|our|the)\ (?:[\w-]+\ ){0,2}?[\w-]+)'s\ (?=
        (?P<has>got\b|been\b)
        | (?:now|currently|still|always|not|never|just|also|only|about|almost|nearly|at|in|on|from|with|into|called|named|allergic|vegan|vegetarian|afraid|married|divorced|engaged|pregnant|retired|due|born|an?|the|[a-z]+ing)\b
        | \d[\w.]*(?=[.,!;]|$|\ (?:next|this|in|and|years?)\b) | (?-i:[A-Z][\w-]+)(?=[.,!;]|$|\ and\b))"""
)
"""A subject with ``'s`` for ``is`` or ``has``, and not for what belongs to it: ``my sister's in Leeds``."""


def with_verb(said: str) -> str:
    """Return *said* with the verb that its subject is contracted with: ``my sister is`` for ``my sister's``."""
    return _CONTRACTED.sub(lambda found: f"{found['who']} {'has' if found['has'] else 'is'} ", said)


def is_introduced(text: str) -> bool:
    """Return whether a colon introduces a part of *text*."""
    return _INTRODUCED.search(text) is not None


def is_withdrawn(sentence: str) -> bool:
    """Return whether *sentence* itself takes back or mocks what it says: ``I live in Prague, no wait, Brno``."""
    return _WITHDRAWN.search(straight(sentence)) is not None


def begins_irony(sentence: str) -> bool:
    """Return whether *sentence* praises another mishap, so that what follows may not be meant: ``Oh great, another outage``."""
    return _IRONY.search(straight(sentence)) is not None


def is_taken_back(following: str) -> bool:
    """Return whether *following*, the next sentence, says that the one before it was not meant."""
    return _TAKEN_BACK.match(following) is not None
