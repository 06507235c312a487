"""What a statement says to be over without saying how it was: a relationship, a job, what died or was given away."""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from threadkeep.text.claims import FUNCTION, MAX_CHARACTERS, SENTENCE, WORD, parse_claim, subjects_of
from threadkeep.text.relatives import LOSABLE, RELATED_PEOPLE
from threadkeep.text.semantics import straight


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


_PARTNER: Final = r"(?:girlfriend|boyfriend|partner|fiancée?|wife|husband|spouse|freundin|freund|frau|mann|partnerin|verlobter?|copine|copain|petite?\ amie?|compagne|compagnon|femme|mari|conjointe?|novi[oa]|pareja|mujer|marido|espos[oa]|prometid[oa]|namorad[oa]|mulher|noiv[oa]|companheir[oa]|ragazz[oa]|fidanzat[oa]|compagn[oa]|moglie|marito)"
_MINE: Final = r"(?:my|our|the|mein(?:e[nmr]?)?|unser(?:e[nmr]?)?|der|die|das|den|mon|ma|notre|le|la|mi|nuestr[oa]|el|al|(?:[oa]\ )?(?:meu|minha|noss[oa])|o|a|(?:il\ |la\ )?(?:mi[oa]|nostr[oa])|il)"
_CALLED: Final = r"(?-i:[A-ZÀ-Ý][\w'-]+)"


_NO_NAME: Final = r"(?:i|we|he|she|it|they|this|that|everyone|nobody|someone|er|sie|es|das|il|elle|ils|elles|ça|se|ya|ha|él|ella|ele|ela|já|lui|lei|è|é)"


def _one(place: int) -> str:
    """Return the pattern of an animal or a relative of the user; the groups of each *place* have names of their own."""
    kin = "|".join(LOSABLE)
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
    | ich\ habe?\ (?:mich\ {_SOON}von\ (?:meine[rm]\ {_PARTNER}|(?P<v>{_CALLED}))\ getrennt|mit\ (?:meine[rm]\ {_PARTNER}|(?P<w>{_CALLED}))\ schluss\ gemacht) | je\ (?:me\ suis\ séparée?\ de|viens\ de\ quitter)\ (?:(?:mon|ma)\ {_PARTNER}|(?P<x>{_CALLED})){_END} | j'ai\ (?:rompu\ avec|quitté)\ (?:mon|ma)\ {_PARTNER}\b
    | (?:yo\ )?(?:me\ (?:he\ separado|separé|he\ divorciado|divorcié)\ de|(?:he\ roto|rompí|he\ cortado|corté)\ con|lo\ (?:he\ dejado|dejé)\ con)\ (?:mi\ {_PARTNER}|(?P<y>{_CALLED})){_END} | (?:separei-me|divorciei-me|me\ (?:separei|divorciei))\ d[oa]\ (?:(?:meu|minha)\ {_PARTNER}|(?P<z>{_CALLED})){_END} | (?:terminei|acabei)\ com\ (?:[oa]\ )?(?:meu|minha)\ {_PARTNER}\b
    | (?:io\ )?(?:mi\ sono\ (?:lasciat[oa]\ con|separat[oa]\ da(?:l|lla)?|divorziat[oa]\ da(?:l|lla)?)|ho\ rotto\ con)\ (?:(?:il\ mio|la\ mia|mi[oa])\ {_PARTNER}|(?P<aa>{_CALLED})){_END} | ho\ lasciato\ (?:il\ mio|la\ mia)\ {_PARTNER}\b
    | (?:on|nous|(?:mon|ma)\ {_PARTNER}(?:\ (?P<i>{_CALLED}))?\ et\ moi|(?P<j>{_CALLED})\ et\ moi)(?:,?\ (?:on|nous))?\ (?:s'est|nous\ sommes|sommes|avons|a|n'est\ plus|ne\ sommes\ plus)\ (?:(?:séparé|quitté)\w*{_END}|rompu|divorcé|ensemble)
    | (?:mon|ma)\ {_PARTNER}(?:\ (?P<k>{_CALLED}))?\ m'a\ (?:quitté|largué|plaqué)e?{_END} | je\ suis\ (?:de\ nouveau|à\ nouveau|redevenue?)\ célibataire
    | (?:(?:mi\ {_PARTNER}(?:\ (?P<l>{_CALLED}))?|(?P<p>{_CALLED}))\ y\ yo\ |yo\ y\ (?P<q>{_CALLED})\ )?(?:(?:hemos\ roto|rompimos|cortamos){_END}|nos\ (?:hemos\ )?(?:separa|divorcia)(?:mos|do){_END}|ya\ no\ estamos\ junt[oa]s) | mi\ {_PARTNER}\ y\ yo\ (?:terminamos|lo\ (?:hemos\ )?deja(?:mos|do)){_END} | mi\ {_PARTNER}(?:\ (?P<m>{_CALLED}))?\ me\ (?:dejó|ha\ dejado|cortó){_END} | (?:vuelvo\ a\ estar|estoy\ otra\ vez)\ solter[oa]
    | (?:(?:eu\ e\ )?(?:[oa]\ )?(?:meu|minha)\ {_PARTNER}(?:\ (?P<n>{_CALLED}))?\ (?:e\ eu\ )?)(?:termin[áa]mos|acab[áa]mos|nos\ (?:separ|divorci)[áa]mos|(?:separ|divorci)[áa]mo-nos|(?:deixou-me|me\ deixou){_END}|terminou\ comigo) | (?:(?:[oa]\ )?(?P<r>{_CALLED})\ e\ eu\ |eu\ e\ (?:[oa]\ )?(?P<s>{_CALLED})\ )?(?:(?:separ|divorci)[áa]mo-nos|nos\ (?:separ|divorci)[áa]mos){_END} | (?:já\ não\ estamos|não\ estamos\ mais)\ junt[oa]s | estou\ (?:solteir[oa]\ (?:outra\ vez|de\ novo)|de\ novo\ solteir[oa])
    | (?:io\ e\ (?:(?:il\ mio|la\ mia|mi[oa])\ {_PARTNER}|(?P<t>{_CALLED}))\ |(?P<u>{_CALLED})\ (?:e\ io|ed\ io)\ )?(?:ci\ siamo\ (?:lasciat|separat)[ie]{_END}|abbiamo\ (?:rotto{_END}|divorziato)|non\ stiamo\ più\ insieme) | (?:il\ mio|la\ mia|mi[oa])\ {_PARTNER}(?:\ (?P<o>{_CALLED}))?\ mi\ ha\ (?:lasciat|mollat)[oa]{_END} | sono\ (?:di\ nuovo|tornat[oa])\ single
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
    if len(text) > MAX_CHARACTERS:
        return None
    for sentence in SENTENCE.split(straight(text)):
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
            return Ending("one", LOSABLE.get(kin, ""), names)
    return None


def is_own_ending(text: str) -> bool:
    """Return whether *text* says of something of the user that it is over; who is named alone may be of others."""
    ending = ending_in(text)
    return ending is not None and (ending.what != "one" or ending.kin != "")


_THING: Final = r"(?P<thing{}>[^,.;:!?()–—]{{1,60}}?)(?=[,.;:!?()–—]|\W{{0,3}}$|\ (?:because|since|as|so|but|and|now|weil|aber|und|seit|sondern|parce|mais|et|car|depuis|porque|pues|pero|y|desde|mas|e|perché|ma|da)\b)"
_ENDS_A_THING: Final = re.compile(
    rf"""(?ix)\b(?:
      no\ longer\ \w{{1,30}}\ {_THING.format(0)}
    | (?:don't|do\ not|doesn't|can't|cannot|won't|not)\ \w{{1,30}}\ (?P<thing1>[^,.;:!?()–—]{{1,60}}?)\ any\ ?(?:more|longer)\b
    | (?:stopped|quit|given\ up|gave\ up|dropped|ditched|cancelled|canceled)\ {_THING.format(2)}
    | nicht\ mehr\ {_THING.format(3)} | kein\w{{0,2}}\ (?P<thing4>[^,.;:!?()–—]{{1,60}}?)\ mehr\b
    | (?:ne\ (?:(?:me|te|se|le|la|les|y)\ )?|n'(?:y\ )?)[\w']{{1,30}}\ plus\ {_THING.format(5)} | je\ \w{{1,30}}\ plus\ (?=(?:aux?|à|chez|dans|avec|en|de|d')\b){_THING.format(6)}
    | ya\ no\ (?:(?:me|te|le|lo|la)\ )?\w{{1,30}}\ {_THING.format(7)} | já\ não\ (?:(?:me|o|a)\ )?\w{{1,30}}\ {_THING.format(8)}
    | n[ãa]?o\ (?:(?:me|o|a|lo|la|le)\ )?\w{{1,30}}\ m[aá]i?s\ {_THING.format(9)} | non\ (?:(?:mi|ci|lo|la)\ )?\w{{1,30}}\ più\ {_THING.format("A")}
    )"""
)


@lru_cache(maxsize=4096)
def ended_object(text: str) -> frozenset[str]:
    """Return the stems of what *text* says to be no more: ``bar`` of ``Ya no trabajo en el bar``; empty: of nothing."""
    if len(text) > MAX_CHARACTERS:
        return frozenset()
    found = _ENDS_A_THING.search(straight(text))
    spoken = WORD.findall(" ".join(filter(None, found.groups()))) if found else []
    return subjects_of(" ".join(word for word in spoken if word.casefold() not in FUNCTION))


def _named_in(found: re.Match[str]) -> frozenset[str]:
    return frozenset(map(str.casefold, filter(None, found.groupdict().values())))


_LEADING: Final = re.compile(
    r"(?i)^\W*(?:(?:oh|ah|well|so|and|but|sadly|unfortunately|btw|by the way|update|sad news|bad news|fyi|leider|übrigens|also|du|malheureusement|hélas|au fait|por desgracia|lamentablemente|por cierto|infelizmente|aliás|purtroppo|comunque)[,.:!…]* )*"
)
_HAS_PARTNER: Final = re.compile(
    rf"""(?ix)^(?:
      {_CALLED}\ (?:is|ist|est|es|é|è)\ (?:my|meine?|mon|ma|mi|(?:[oa]\ )?(?:meu|minha)|(?:il\ mio|la\ mia))\ {_PARTNER}\b | my\ {_PARTNER}(?:'s\ name)?(?:,?\ {_CALLED},?)?(?:'s|\ is|\ lives|\ works|\ has|\ and\ I\ (?:live|are|have))\b | I(?:'ve|\ have)?\ (?:got\ |have\ )?an?\ {_PARTNER}\b | I\ live\ with\ my\ {_PARTNER}\b | I(?:'m|\ am)\ (?:happily\ )?(?:married|engaged|dating|seeing|in\ a\ relationship)\b
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


_HAS_ONE: Final = re.compile(
    rf"""(?ix)(?:\b(?:my|our|mein(?:e[nmr]?)?|unser(?:e[nmr]?)?|mon|ma|notre|mi|nuestr[oa]|meu|minha|noss[oa]|mi[oa]|nostr[oa])
    | (?:\b(?:have|got|own|habe?|haben|avons|tengo|tenemos|tenho|temos|ho|abbiamo|on\ a)|'ve|'ai)\ (?:got\ )?(?:an?|one|eine?n?|une?|una?|uma?|um))\ (?:(?!\w+'s\b)\w+\ )?(?P<kin>{"|".join(LOSABLE)})\b(?!')"""
)
_LIVES: Final = re.compile(
    rf"(?i),?(?: {_CALLED},?)? (?:is|has|lives|works|likes|loves|speaks|ist|hat|heißt|wohnt|lebt|arbeitet|mag|est|a|s'appelle|habite|vit|travaille|es|tiene|se llama|vive|trabaja|é|tem|se chama|chama-se|mora|trabalha|è|ha|si chiama|abita|lavora)\b"
)


_GIVEN_NAME: Final = re.compile(
    rf"(?i)\b(?:called|named|is|name's|namens|heißt|s'appelle|appelée?|se llama|llamad[oa]|se chama|chama-se|chamad[oa]|si chiama|chiamat[oa]|{_PARTNER}|{'|'.join(LOSABLE)}),? (?P<name>{_CALLED})"
)


@lru_cache(maxsize=4096)
def given_names(text: str) -> frozenset[str]:
    """Return the names, in small letters, that *text* gives to people and animals."""
    return frozenset(name.casefold() for name in _GIVEN_NAME.findall(straight(text)[:MAX_CHARACTERS]))


@lru_cache(maxsize=32_768)
def is_over(text: str, ending: Ending) -> bool:
    """Return whether *text*, a single sentence of an earlier time, says what *ending* says to be over."""
    said = straight(text)
    if len(said) > MAX_CHARACTERS or len(SENTENCE.split(said)) > 1 or _WAS.search(said) or ending_in(text) is not None:
        return False
    claim = parse_claim(text)
    if ending.what == "job":
        return _HAS_JOB.match(said) is not None and ending.names <= claim.words
    other_name = bool(ending.names and (names := given_names(text)) and ending.names.isdisjoint(names))
    if ending.what == "partner":
        return _HAS_PARTNER.match(said) is not None and not other_name
    found = _HAS_ONE.search(said)
    kin = LOSABLE[found["kin"].casefold()] if found else ""
    if not found or ending.kin not in ("", kin) or other_name or not (ending.kin or ending.names <= claim.words):
        return False
    return kin not in RELATED_PEOPLE or (found.start() == 0 and _LIVES.match(said, found.end()) is not None)


def is_reunited(text: str) -> bool:
    """Return whether *text* says that two are together, again or married."""
    return _REUNITED.search(straight(text)) is not None


_WAS: Final = re.compile(
    r"(?i)\b(?:was|were|had|used to|died|went|gave|bought|met|took|(?<!'ve )(?<!have )got|adopted|war|hatte|waren|hatten|früher|gestorben|était|avait|avant|est mort|era|tenía|tuvo|murió|antes|tinha|morreu|aveva|prima|è morto)\b"
)
