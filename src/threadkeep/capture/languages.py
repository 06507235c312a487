"""First-person statements in German, French, Spanish, Portuguese, Italian, Japanese and Chinese, by their markers."""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from typing import Final

from threadkeep.memories.wording import straight

_SCORE: Final = 2.0

_STATEMENTS: Final = re.compile(
    r"""(?ix)^(?:
    # German
      ich\ (?:heiße|wohne|lebe|arbeite|mag|liebe|hasse|bevorzuge|trinke|esse|spreche|komme\ aus|studiere|lerne|benutze|verwende|nutze|plane|ziehe|fahre|spiele|leite|habe\ (?:zwei|drei|vier|einen?|eine|am)|bin\ (?:allergisch|vegetarier|veganer|verheiratet|ledig|geschieden|\d+|aus|in|als|ein|eine|von\ beruf|lehrer|ingenieur)\w*|werde\ (?:nächst|im|am|bald|nach)\w*)\b
    | mein(?:e|en)?\ (?:\S+\ ){1,4}(?:ist|sind|heißt|hat|haben|arbeitet|wohnt|lebt|mag|beginnt)\b
    | wir\ (?:verwenden|benutzen|nutzen|arbeiten|wohnen|haben|deployen|betreiben|entwickeln|ziehen)\b | unsere?\ (?:\S+\ ){1,4}(?:ist|sind|läuft|beginnt|hat)\b | nenn\ mich\b
    # French
    | je\ (?:m'appelle|suis\ (?:allergique|végétarien|végétarienne|vegan|marié|mariée|célibataire|ingénieur|ingénieure|de|à|né|née|un|une|en)|vis|travaille|préfère|déteste|parle|joue|déménage|bois|mange|n'aime\ pas|ne\ mange\ pas|ne\ bois\ pas|vais\ (?:déménager|partir|commencer|changer)|dirige|gère)\b
    | j'(?:habite|aime|adore|ai\ (?:deux|trois|\d+|une?)|étudie|utilise|apprends|enseigne)\b
    | (?:mon|ma|mes)\ (?:\S+\ ){1,4}(?:est|sont|s'appelle|a|ont|travaille|vit|habite|aime|commence)\b | (?:notre|nos)\ (?:\S+\ ){1,4}(?:est|sont|commence|tourne|a)\b
    | nous\ (?:utilisons|travaillons|habitons|avons|déployons|vivons)\b | appelle[sz]?-moi\b | appelez-moi\b
    # Spanish
    | (?:yo\ )?(?:me\ llamo|soy\ (?:alérgic[oa]|vegetarian[oa]|vegan[oa]|de|un|una|ingenier[oa]|médic[oa]|profesor[a]?|solter[oa]|casad[oa])|vivo\ en|trabajo\ (?:en|como|para|de)|me\ (?:gusta|gustan|encanta|encantan|mudo|mudé)|no\ (?:me\ gustan?|como|bebo)|prefiero|odio|hablo|tengo\ (?:dos|tres|\d+|una?\ (?:perr|gat|hij|herman))|estudio|uso|voy\ a\ (?:mudarme|viajar|empezar)|estoy\ (?:aprendiendo|casad[oa]|estudiando))\w*
    | mis?\ (?:\S+\ ){1,4}(?:es|son|se\ llama|tiene|trabaja|vive|empieza)\b | nuestr[oa]s?\ (?:\S+\ ){1,4}(?:es|son|empieza|corre|usa)\b | (?:nosotros\ )?usamos\b | llámame\b
    # Portuguese
    | (?:eu\ )?(?:me\ chamo|chamo-me|sou\ (?:alérgic[oa]|vegetarian[oa]|vegan[oa]|de|do|da|um|uma|engenheir[oa]|médic[oa]|professor[a]?|solteir[oa]|casad[oa])|moro\ (?:em|no|na)|vivo\ (?:em|no|na)|trabalho\ (?:em|no|na|como|para|com)|gosto\ de|não\ (?:gosto|como|bebo)|adoro|prefiro|odeio|falo|tenho\ (?:dois|duas|três|\d+|uma?\ (?:cachorr|gat|filh|irm))|estudo|uso|vou\ (?:me\ )?mudar|estou\ (?:aprendendo|estudando))\w*
    | (?:o\ |a\ |os\ |as\ )?(?:meus?|minhas?)\ (?:\S+\ ){1,4}(?:é|são|se\ chama|tem|trabalha|mora|vive|começa)\b | (?:o\ |a\ )?noss[oa]s?\ (?:\S+\ ){1,4}(?:é|são|começa|roda|usa)\b | me\ chame\ de\b
    # Italian
    | (?:io\ )?(?:mi\ chiamo|sono\ (?:allergic[oa]|vegetarian[oa]|vegan[oa]|di|un|una|ingegnere|medico|sposat[oa]|single)|abito\ a|vivo\ (?:a|in)|lavoro\ (?:a|in|come|per|da)|mi\ (?:piace|piacciono|trasferisco)|non\ (?:mi\ piac\w+|mangio|bevo)|preferisco|odio|adoro|parlo|ho\ (?:due|tre|\d+|un[oa']?\ (?:can|gatt|figli|fratell|sorell))|studio|uso|sto\ (?:imparando|studiando))\w*
    | (?:il\ |la\ |i\ |le\ )?(?:mi[oae]|miei)\ (?:\S+\ ){1,4}(?:è|sono|si\ chiama|ha|lavora|vive|abita|inizia)\b | (?:il\ |la\ )?nostr[oaie]\ (?:\S+\ ){1,4}(?:è|sono|inizia|gira|usa)\b | usiamo\b | chiamami\b
    )"""
)
_NOT: Final = re.compile(
    r"""(?ix)^(?:wie|was|wann|wo|warum|wer|kannst|können|comment|quand|pourquoi|qui|peux|pouvez|cómo|qué|cuándo|dónde|por\ qué|puedes|como\ (?:posso|faço)|quando|onde|porque|pode|come|dove|perché|puoi)\b
    | \b(?:vielleicht|wenn\ ich|würde|könnte|peut-être|si\ je|j'aimerais|pourrais|quizás|si\ yo|talvez|se\ eu|gostaria|forse|se\ io|vorrei)\b
    | \b(?:problem|frage|fehler|problème|question|erreur|problema|pregunta|error|pergunta|erro|domanda|errore)\b | \b(?:sagt|sagte|a\ dit|dijo|dice|disse)\b | \?"""
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


_UNWANTED: Final = re.compile(
    r"(?:覚え|記憶し|保存し|記録し)(?:ないで|なくていい)|(?:不要|别|別)(?:记住|記住|保存|记录|記錄)"
)


def unwanted(text: str) -> bool:
    """Return whether *text* asks in a script without spaces that nothing of it is remembered."""
    return _UNWANTED.search(text) is not None


def unspaced(text: str) -> int:
    """Return about how many words of scripts without spaces *text* has."""
    return len(_UNSPACED.findall(text)) // _A_WORD


def score(text: str) -> float:
    """Return how much *text* says that lasts if it is a first-person statement in one of the languages; else 0."""
    said = straight(text)
    if unspaced(said):
        return _SCORE if _UNSPACED_STATEMENTS.search(said) and not _NOT_UNSPACED.search(said) else 0.0
    return _SCORE if _STATEMENTS.match(said) and not _NOT.search(said) else 0.0
