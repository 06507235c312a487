# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word
"""Statements about what lasts, and about what happened. Pure rules.

English is judged by its grammar. The rules of :mod:`threadkeep.text.facts` know common verbs and nouns. These take any
verb. What lasts is known by its subject and by whether the verb tells a state or a habit: ``We do failover drills every
other month``, ``The gateway is Kong``. What happened is known by the first person, a verb in the past and a time: ``Had
an interview yesterday``, ``my car broke down last Friday``.

German, French, Spanish, Portuguese, Italian, Japanese and Chinese are judged by markers of what people say of
themselves, and of how they want to be answered.
"""

from __future__ import annotations

import re
from operator import methodcaller
from typing import Final

from threadkeep.text.semantics import straight

_SCORE: Final = 2.0

_STATEMENTS: Final = re.compile(
    r"""(?ix)^(?:
    # German
      ich\ (?:heiße|wohne|lebe|arbeite|mag|liebe|hasse|bevorzuge|trinke|esse|spreche|komme\ aus|studiere|lerne|benutze|verwende|nutze|plane|ziehe|fahre|spiele|leite|habe?\ (?:zwei|drei|vier|einen?|eine|am)|bin\ (?:(?:der|die)\ (?-i:[A-Z])\w+\W*$|allergisch|vegetarier|veganer|verheiratet|ledig|geschieden|\d+|aus|in|als|ein|eine|von\ beruf|lehrer|ingenieur)\w*|werde\ (?:nächst|im|am|bald|nach)\w*)\b
    | mein(?:e|en)?\ (?:\S+\ ){1,4}(?:ist|sind|heißt|hat|haben|arbeitet|wohnt|lebt|mag|beginnt)\b
    | wir\ (?:verwenden|benutzen|nutzen|arbeiten|wohnen|haben|deployen|betreiben|entwickeln|ziehen)\b | unsere?\ (?:\S+\ ){1,4}(?:ist|sind|läuft|beginnt|hat)\b | nenn\ mich\b
    # French
    | je\ (?:m'appelle|suis\ (?:(?-i:[A-Z])\w+|allergique|végétarien|végétarienne|vegan|marié|mariée|célibataire|ingénieur|ingénieure|de|à|né|née|un|une|en)|vis|travaille|préfère|déteste|parle|joue|déménage|bois|mange|n'aime\ pas|ne\ mange\ pas|ne\ bois\ pas|vais\ (?:déménager|partir|commencer|changer)|dirige|gère)\b
    | j'(?:habite|aime|adore|ai\ (?:deux|trois|\d+|une?)|étudie|utilise|apprends|enseigne)\b
    | (?:mon|ma|mes)\ (?:\S+\ ){1,4}(?:est|sont|s'appelle|a|ont|travaille|vit|habite|aime|commence)\b | (?:notre|nos)\ (?:\S+\ ){1,4}(?:est|sont|commence|tourne|a)\b
    | nous\ (?:utilisons|travaillons|habitons|avons|déployons|vivons)\b | appelle[sz]?-moi\b | appelez-moi\b
    # Spanish
    | (?:yo\ )?(?:me\ llamo|soy\ (?:(?-i:[A-Z])\w+|alérgic[oa]|vegetarian[oa]|vegan[oa]|de|un|una|ingenier[oa]|médic[oa]|profesor[a]?|solter[oa]|casad[oa])|vivo\ en|trabajo\ (?:en|como|para|de)|me\ (?:gusta|gustan|encanta|encantan|mudo|mudé)|no\ (?:me\ gustan?|como|bebo)|prefiero|odio|hablo|tengo\ (?:dos|tres|\d+|una?\ (?:perr|gat|hij|herman))|estudio|uso|voy\ a\ (?:mudarme|viajar|empezar)|estoy\ (?:aprendiendo|casad[oa]|estudiando))\w*
    | mis?\ (?:\S+\ ){1,4}(?:es|son|se\ llama|tiene|trabaja|vive|empieza)\b | nuestr[oa]s?\ (?:\S+\ ){1,4}(?:es|son|empieza|corre|usa)\b | (?:nosotros\ )?usamos\b | llámame\b
    # Portuguese
    | (?:eu\ )?(?:me\ chamo|chamo-me|sou\ (?:(?-i:[A-Z])\w+|alérgic[oa]|vegetarian[oa]|vegan[oa]|de|do|da|um|uma|engenheir[oa]|médic[oa]|professor[a]?|solteir[oa]|casad[oa])|moro\ (?:em|no|na)|vivo\ (?:em|no|na)|trabalho\ (?:em|no|na|como|para|com)|gosto\ de|não\ (?:gosto|como|bebo)|adoro|prefiro|odeio|falo|tenho\ (?:dois|duas|três|\d+|uma?\ (?:cachorr|gat|filh|irm))|estudo|uso|vou\ (?:me\ )?mudar|estou\ (?:aprendendo|estudando))\w*
    | (?:o\ |a\ |os\ |as\ )?(?:meus?|minhas?)\ (?:\S+\ ){1,4}(?:é|são|se\ chama|tem|trabalha|mora|vive|começa)\b | (?:o\ |a\ )?noss[oa]s?\ (?:\S+\ ){1,4}(?:é|são|começa|roda|usa)\b | me\ chame\ de\b
    # Italian
    | (?:io\ )?(?:mi\ chiamo|sono\ (?:(?-i:[A-Z])\w+|allergic[oa]|vegetarian[oa]|vegan[oa]|di|un|una|ingegnere|medico|sposat[oa]|single)|abito\ a|vivo\ (?:a|in)|lavoro\ (?:a|in|come|per|da)|mi\ (?:piace|piacciono|trasferisco)|non\ (?:mi\ piac\w+|mangio|bevo)|preferisco|odio|adoro|parlo|ho\ (?:due|tre|\d+|un[oa']?\ (?:can|gatt|figli|fratell|sorell))|studio|uso|sto\ (?:imparando|studiando))\w*
    | (?:il\ |la\ |i\ |le\ )?(?:mi[oae]|miei)\ (?:\S+\ ){1,4}(?:è|sono|si\ chiama|ha|lavora|vive|abita|inizia)\b | (?:il\ |la\ )?nostr[oaie]\ (?:\S+\ ){1,4}(?:è|sono|inizia|gira|usa)\b | usiamo\b | chiamami\b
    )"""
)
_REFUSED: Final = re.compile(
    r"""(?ix)^(?:wie|was|wann|wo|warum|wer|kannst|können|comment|quand|pourquoi|qui|peux|pouvez|cómo|qué|cuándo|dónde|por\ qué|puedes|como\ (?:posso|faço)|quando|onde|porque|pode|dove|perché|puoi)\b
    | \b(?:vielleicht|wenn\ ich|würde|könnte|peut-être|si\ je|j'aimerais|pourrais|quizás|si\ yo|talvez|se\ eu|gostaria|forse|se\ io|vorrei)\b
    | \b(?:sagt|sagte|gesagt|behauptet|meint|gemeint|findet|glaubt|denkt|angeblich|angenommen|a\ dit|croit\ que|pense\ que|dijo|dice|cree\ que|piensa\ que|disse|acha\ que|crede\ che|pensa\ che)\b"""
)
_NOT: Final = re.compile(
    r"(?i)^come\b|\b(?:problem|frage|fehler|problème|question|erreur|problema|pregunta|error|pergunta|erro|domanda|errore)\b|\?"
)


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
    return _REFUSED.search(said) is not None


def score_other(text: str) -> float:
    """Return how much *text* says that lasts if it is a first-person statement in one of the languages; else 0."""
    said = straight(text)
    if unspaced(said):
        return _SCORE if _UNSPACED_STATEMENTS.search(said) and not _NOT_UNSPACED.search(said) else 0.0
    return _SCORE if _STATEMENTS.match(said) and not (is_refused(said) or _NOT.search(said)) else 0.0


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
    return tells_when(said) and any(map(methodcaller("search", text), (_HAPPENED, _WITHOUT_SUBJECT, _LATELY)))


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
