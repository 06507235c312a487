"""First-person statements in German, French, Spanish, Portuguese and Italian, by their markers."""

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


def score(text: str) -> float:
    """Return how much *text* says that lasts if it is a first-person statement in one of the languages; else 0."""
    said = straight(text)
    return _SCORE if _STATEMENTS.match(said) and not _NOT.search(said) else 0.0
