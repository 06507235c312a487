"""What a person says that must not be remembered, and what they ask to forget.

A request has a lead ("please don't", "I don't want you to"), a verb of keeping, and what it is about: a clause, then the
sentence is left out (:func:`kept_part`), or the message itself ("this", "it"), then the whole turn is (:func:`unwanted`).
"""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from typing import Final

from threadkeep.text.semantics import straight

MAX_CHARACTERS: Final = 300
"""A request to forget is not longer."""

_FILLER: Final = r"(?:(?:please|pls|ever|even|just|also|actually|kindly|really)\ ){0,2}"
_NOT: Final = r"(?:do\ not|don't|dont|do\ n't|never)"
_KEEP_ONCE: Final = r"""(?:remember|save|store|memori[sz]e|record|log|retain|archive|note(?:\ down)?|(?:write|jot|put|take)\ down|make\ (?:a\ )?(?:note|record)(?:\ of)?
    |take\ (?:a\ )?note(?:\ of)?|keep(?:\ (?:in\ (?:mind|memory|your\ memory)|on\ (?:file|record)|(?:a|any)\ (?:note|record)(?:\ of)?|track(?:\ of)?))?|bear\ in\ mind|hold\ on\ to|(?:add|put|commit)\ (?:in|to|into)\ (?:your\ |the\ )?memory)"""
_KEEP: Final = rf"{_KEEP_ONCE}(?:\ (?:or|and|nor)\ {_KEEP_ONCE})?(?:\ (?:in|to|into)\ (?:your\ |the\ )?memory)?"
_KEPT: Final = r"(?:remembered|saved|stored|recorded|written\ down|kept|noted|logged|memori[sz]ed)"
_KEEPING: Final = r"(?:remembering|saving|storing|memori[sz]ing|recording|logging|retaining|noting(?:\ down)?|(?:writing|putting|taking)\ down|keeping(?:\ in\ (?:mind|memory))?)"
_TO_YOU: Final = rf"""(?:
      (?:can|could|would|will)\ (?:you|u)\ {_FILLER}(?:not|never)\ {_FILLER}{_KEEP}
    | i\ {_FILLER}(?:do\ not|don't|dont|would\ not|wouldn't|never)\ {_FILLER}(?:want|wish|like|need|expect)\ (?:you\ (?:to\ {_FILLER}{_KEEP}|{_KEEPING})|(?:it|this|that)\ (?:to\ be\ )?{_KEPT})
    | i(?:'d|\ would|'m|\ am)?\ {_FILLER}(?:want|like|need|ask|asked|told|asking|prefer|wish|beg|expect)\ (?:for\ )?you\ (?:not\ to|to\ not|to\ never|never\ to)\ {_FILLER}{_KEEP}
    | i(?:'d|\ would)\ {_FILLER}(?:rather|prefer)\ (?:it\ )?(?:that\ |if\ )?you\ (?:did\ not|didn't|do\ not|don't|not|never|would\ not|wouldn't)\ {_FILLER}{_KEEP}
    | i(?:'d|\ would)\ {_FILLER}(?:appreciate|prefer|like|love)\ it\ if\ you\ (?:did\ not|didn't|would\ not|wouldn't|could\ not|do\ not|don't)\ {_FILLER}{_KEEP}
    | you\ {_FILLER}(?:should\ not|shouldn't|should\ never|must\ not|mustn't|must\ never|are\ not\ to|aren't\ to|need\ not|needn't|(?:do\ not|don't|dont)\ (?:need|have)\ to|(?:are\ not|aren't)\ (?:allowed|supposed)\ to)\ {_FILLER}{_KEEP}
    | it(?:'s|\ is|\ would\ be)\ (?:\w{{1,12}}\ )?(?:important|essential|crucial|better|best)\ (?:that|if)\ you\ (?:do\ not|don't|did\ not|didn't|never|not)\ {_FILLER}{_KEEP}
    | under\ no\ circumstances\ (?:should|must|may|are)\ you\ (?:to\ )?{_FILLER}{_KEEP}
    | (?:make|be)\ sure\ (?:that\ )?(?:you\ (?:do\ not|don't|never)|not\ to|to\ not|to\ never)\ {_FILLER}{_KEEP}
    | (?:there(?:'s|\ is)\ )?no\ need\ (?:for\ you\ )?to\ {_KEEP} | (?:stop|avoid|refrain\ from|(?:would|do)\ you\ mind\ not)\ {_KEEPING} | keep\ (?:to\ yourself|between\ us|out\ of\ (?:your\ |the\ )?memory)
    )"""
"""English words that ask the assistant, and do not tell what other people keep."""
_ELSEWHERE: Final = r"""(?:
    # German
      (?:merke?\ dir|merken\ sie\ sich|(?:speicher[en]?|notiere?n?|schreibe?n?|behalte?n?|halte?n?|vermerken?|protokolliere?n?)(?:\ sie)?(?:\ (?:dir|sich))?)(?:\ bitte)?(?:\ (?:das|dies|es))?(?:\ bitte)?\ (?:nicht|nie|niemals|nirgends|nirgendwo)(?:\ (?:auf|fest|ab|ein|im\ (?:kopf|gedächtnis)))?
    | (?:du\ (?:sollst|solltest|darfst|musst|brauchst)|sie\ (?:sollen|sollten|dürfen|müssen|brauchen)|(?:kannst|könntest|würdest)\ du|(?:können|könnten|würden)\ sie)?\ ?(?:(?:dir|sich|bitte|das|dies|es)\ ){0,3}(?:nicht|nie|niemals)\ (?:zu\ )?(?:merken|speichern|abspeichern|notieren|aufschreiben|aufzuschreiben|abzuspeichern|festhalten|behalten|vermerken|protokollieren)
    | ich\ (?:möchte|will|mag|wünsche)(?:\ (?:es|bitte))?\ nicht,?\ dass\ (?:du|sie)(?:\ (?:dir|sich))?(?:\ bitte)?(?:\ (?:das|dies|es))?\ (?:merkst|speicherst|abspeicherst|notierst|aufschreibst|behältst|festhältst|vermerkst|merken|speichern|abspeichern|notieren|aufschreiben|behalten|festhalten)
    # French
    | n(?:e\ (?:te\ |vous\ )?|')(?:retiens|retenez|enregistre[sz]?|mémorise[sz]?|note[sz]?|garde[sz]?|sauvegarde[sz]?|stocke[sz]?|conserve[sz]?|consigne[sz]?|écris|écrivez|souviens|souvenez)(?:-(?:toi|vous))?(?:\ (?:surtout|donc))?\ (?:pas|jamais)(?:\ en\ (?:mémoire|tête))?
    | (?:merci\ de|(?:peux|pourrais)-tu|(?:pouvez|pourriez)-vous|tu\ (?:ne\ )?(?:dois|devrais)|vous\ (?:ne\ )?(?:devez|devriez)|il\ (?:ne\ )?faut|je\ te\ demande\ de|prière\ de)?\ ?(?:ne\ )?pas\ (?:retenir|enregistrer|mémoriser|noter|garder|sauvegarder|stocker|conserver)(?:\ en\ (?:mémoire|tête))?
    | je\ (?:ne\ )?(?:veux|voudrais|souhaite)\ pas\ que\ (?:tu|vous)\ (?:retien(?:nes|niez)|enregistr(?:es|iez)|mémoris(?:es|iez)|not(?:es|iez)|gard(?:es|iez)|sauvegard(?:es|iez)|stock(?:es|iez)|conserv(?:es|iez))(?:\ en\ (?:mémoire|tête))?
    # Spanish
    | (?:no|nunca|jamás)\ (?:(?:te\ |se\ )?(?:recuerdes?|guardes?|memorices?|anotes?|apuntes?|registres?|almacenes?|conserves?|grabes?|retengas?|acuerdes?)|tom(?:es?)\ nota)(?:\ en\ (?:tu\ |su\ |la\ )?memoria)?
    | (?:no\ (?:debes|debe|deberías|tienes\ que|hace\ falta)|(?:puedes|podrías|puede|podría)(?:\ por\ favor)?\ no|(?:por\ favor,?\ )no)\ (?:recordar|guardar|memorizar|anotar|apuntar|registrar|almacenar|conservar|grabar)
    | no\ (?:quiero|quisiera|deseo)\ que\ (?:(?:te|se)\ )?(?:recuerdes?|guardes?|memorices?|anotes?|apuntes?|registres?|almacenes?|conserves?|grabes?|retengas?|acuerdes?)
    # Portuguese
    | (?:não|nunca|jamais)\ (?:(?:te\ |se\ )?(?:guardes?|lembres?|memorizes?|graves?|salves?|anotes?|registres?|registes?|armazenes?|retenhas?)|tomes?\ nota)(?:\ na\ (?:sua\ |tua\ )?memória)?
    | (?:(?:você\ |tu\ )?não\ (?:deves?|devias?|deveria|precisas?\ (?:de\ )?)|(?:podes?|poderias?)(?:\ por\ favor)?\ não|(?:por\ favor,?\ )não)\ ?(?:lembrar|guardar|memorizar|gravar|salvar|anotar|registrar|registar|armazenar)
    | não\ (?:quero|queria|gostaria)\ que\ (?:você\ |tu\ )?(?:(?:te|se)\ )?(?:guardes?|lembres?|memorizes?|graves?|salves?|anotes?|registres?|registes?|armazenes?)
    # Italian
    | (?:non|mai)\ (?:ricordar(?:e|ti|si)|memorizza(?:re|te)|memorizzi|salva(?:re|te)|salvi|annota(?:re|te)|annoti|registra(?:re|te)|conserva(?:re|te)|tenere\ a\ mente|scrivere|segnar(?:e|ti)|appuntar(?:e|ti))
    | (?:non\ (?:devi|deve|dovresti)|(?:puoi|potresti|può)(?:\ per\ favore)?\ non)\ (?:ricordar(?:e|ti)|memorizzare|salvare|annotare|registrare|conservare|segnare)
    | non\ voglio\ che\ (?:tu\ |lei\ )?(?:(?:ti|si)\ )?(?:ricordi|memorizzi|salvi|annoti|registri|conservi|segni)
    )(?:,?\ (?:bitte|s'il\ (?:te|vous)\ plaît|por\ favor|per\ favore))?"""
_LEAD: Final = r"(?:(?:please|pls|ok|okay|and|also|so|now|hey|hi|hello|thanks|but|just|do\ me\ a\ favou?r(?:\ and)?|bitte|s'il\ (?:te|vous)\ plaît|stp|svp|por\ favor|per\ favore)[,:!]?\ ){0,4}"
_START: Final = r"""(?:^|(?<=[;:,.!?–—(])\ ?|(?<=\ -)\ |,\ (?:and|but|so)\ (?=(?:do\ not|don't|dont|never)\ (?!remember|keep|bear))
    |\ (?:and|but|so|because|und|aber|et|mais|y|pero|e|mas|ma)\ (?=(?:please|pls|bitte|i|i'd|i'm|you|can|could|would|will|make|be|s'il|por|per|ich|du|ne|no|não|non|je)\b))"""
_SUBJECT: Final = r"""(?=(?:i|i'm|im|i've|i'd|i'll|my|mine|we|we're|we've|our|he|she|they|he's|she's|they're|it's|there|there's|his|her|their|the|an?|you|your|some|all|every|no|people)\b|(?-i:[A-Z])
    |[\w-]{1,40}\ (?:is|are|was|were|has|have|had|will|can|does|did|doesn't|lives?|works?|likes?|loves?|hates?)\b)"""
_CLAUSE: Final = rf"(?::\ |,?\ (?:that\ {_SUBJECT}|the\ fact\ (?:that\ )?|(?:how|where|why|when|whether|what\ i)\ |(?:anything\ |things\ )?(?:about|of)\ (?:me|my|us|our)\b|(?=(?:i|i'm|im|i've|i'd|we|we're|we've)\ )|(?=(?:my|our)\ (?:[\w'-]{{1,40}}\ ){{0,4}}[\w'-]{{1,40}}(?::|\W{{0,9}}$))))"
_CLAUSE_ELSEWHERE: Final = r"(?::\ |,?\ (?:das[sß]\ |(?:le\ fait\ )?(?:que\ |qu')|(?:el\ hecho\ )?(?:de\ )?que\ |(?:o\ facto?\ )?(?:de\ )?que\ |(?:il\ fatto\ )?che\ ))"
_REFUSED: Final = re.compile(
    rf"(?ix){_START}{_LEAD}(?:(?:{_NOT}\ {_FILLER}{_KEEP}|(?:try|remember|be\ careful)\ not\ to\ {_FILLER}{_KEEP}|{_TO_YOU}){_CLAUSE}|(?:{_ELSEWHERE}){_CLAUSE_ELSEWHERE})(?P<topic>.{{0,301}})"
)
_MUST_NOT_BE_KEPT: Final = re.compile(
    r"(?i)\b(?:should|must|may|need|is|are)(?: not|n't| never) (?:to |ever ){0,2}be (?:remembered|saved|stored|recorded|written down|kept|noted|logged|memori[sz]ed)\b"
)
_THAT: Final = re.compile(r"(?i)^(?:please,? )?(?:the fact )?that (?:i|i'm|i've|my|we|we're|our)\b")


_NEGATION: Final = re.compile(
    r"(?i)n't\b|\b(?:not|never|no|dont|stop|avoid|refrain|yourself|us|out|nicht|nie|niemals|nirgends|nirgendwo|pas|jamais|nunca|jamás|jamais|não|non|mai)\b"
)
"""A sentence without one refuses nothing, and is read no further."""
_PART: Final = 2_048
_LONGEST_LEAD: Final = 256
"""No request before its clause is longer."""


def _refused(said: str) -> re.Match[str] | None:
    """Return where *said* asks not to keep a clause; searched in parts, between which other threads can run."""
    if _NEGATION.search(said) is None:
        return None
    starts = range(0, len(said), _PART)
    return next(filter(None, (_REFUSED.search(said, start, start + _PART + _LONGEST_LEAD) for start in starts)), None)


_ASKED: Final = r"(?:(?<![a-z]\ )|(?<=please\ )|(?<=but\ )|(?<=and\ )|(?<=so\ ))"
"""No subject stands in front, so it is a request."""
_THIS_SAID: Final = r"(?:this|that|it|these|any\ of\ (?:this|that|it)|my\ message|the\ following|what\ (?:follows|i\ (?:say|said|just\ said|tell\ you|told\ you)))"
# Read against text in small letters. The first look ahead lets nearly every place fail at once.
_UNWANTED: Final = re.compile(
    rf"""(?x)\b(?=[abcdefgijkmnopqrstwyç])(?<!\bi\ )(?<!\bwe\ )(?<!\bthey\ )(?<!\bto\ )(?:
      (?:do\ not|don't|do\ n't|please\ don't|never)\ (?:ever\ )?(?:remember|save|store|keep|memori[sz]e|record|log|note)\ (?:any\ of\ )?(?:this|that(?!\ (?:i|i'm|i've|i'd|my|we|we're|our|he|she|they|his|her|their|it's|there|the|an?)\b)|it|what|these|my\ message|the\ following)
    | (?:{_ASKED}{_NOT}\ {_FILLER}|(?<=you\ )not\ {_FILLER})(?:write|note|jot|put|take)\ (?:this|that|it|any\ of\ this)\ down
    | (?:{_ASKED}{_NOT}\ {_FILLER}{_KEEP}|{_TO_YOU})\ {_THIS_SAID}(?=\W*$|[.,;:!?)–—]|\ (?:please|anywhere|down|about\ me|in\ (?:mind|memory|your\ memory)|to\ (?:your\ )?memory)\b)
    | (?:forget|ignore|disregard)\ (?:that\ i\ (?:said|told|asked|mentioned)|what\ i\ (?:just\ )?(?:said|told|wrote)|this\ (?:message|conversation|chat)|i\ (?:said|mentioned)\ (?:that|this|anything))
    | off\ the\ record | (?:this|that)\ is\ (?:strictly\ )?(?:confidential|not\ to\ be\ remembered) | keep\ (?:this|that|it)\ (?:between\ (?:us|you\ and\ me)|to\ yourself|out\ of\ (?:your\ |the\ )?memory)
    | (?:this|that|it)\ (?:stays|remains|must\ stay|has\ to\ stay|should\ stay|is\ (?:just|strictly|only))\ (?:just\ |strictly\ )?between\ (?:us|you\ and\ me)(?=\W*$|[.,;:!?)–—-]|\ (?:and|but|please|ok|okay)\b) | (?:just|strictly)\ between\ (?:us|you\ and\ me)(?=[,:])
    | (?:this|that|it)\ (?:should|must)(?:\ not|n't|\ never)\ be\ (?:remembered|saved|stored|recorded|written\ down|noted|memori[sz]ed)
    | not\ for\ (?:(?:your\ )?memory|the\ record)
    | merk(?:e)?\ dir\ das\ (?:bitte\ )?nicht | (?:das|dies)\ (?:bitte\ )?nicht\ (?:merken|speichern|notieren|aufschreiben) | (?:speicher[en]?|notiere?|schreibe?|behalte?)\ (?:dir\ )?(?:bitte\ )?(?:das|dies|es)\ (?:bitte\ )?(?:nicht|nie|niemals)
    | (?:das|dies|es)\ (?:bleibt|muss|soll)\ (?:bitte\ )?unter\ uns | behalte?n?\ (?:sie\ )?(?:das|dies|es)\ (?:bitte\ )?für\ (?:dich|sich)
    | ne\ (?:retiens|retenez|mémorise[sz]?|note[sz]?)\ pas(?!\ qu[e'])|(?:n'enregistre[sz]?|ne\ (?:garde|sauvegarde|stocke|conserve)[sz]?)\ (?:pas|jamais)\ (?:ça|cela|ceci) | (?:ça|cela|ceci)\ (?:reste|doit\ rester)\ entre\ nous | garde[sz]?\ (?:ça|cela|ceci)\ pour\ (?:toi|vous)
    | (?:no|nunca)\ (?:recuerdes?|guardes?|memorices?|anotes?|apuntes?|registres?)\ (?:esto|eso) | (?:esto|eso)\ queda\ entre\ nosotros | que\ (?:esto\ )?quede\ entre\ nosotros | guárda(?:te)?lo\ para\ (?:ti|usted)
    | (?:não|nunca)\ (?:guardes?|lembres?|memorizes?|graves?|salves?|anotes?|registres?)\ (?:isso|isto) | (?:isso|isto)\ fica\ (?:só\ )?entre\ nós | guarda?e?\ (?:isso|isto)\ para\ (?:si|ti|você)
    | non\ (?:ricordare|memorizzare|salvare|annotare|registrare)\ (?:questo|quello|ciò) | (?:questo|questa\ cosa)?\ ?(?:resta|rimane|resti)\ tra\ (?:di\ )?noi | tieni(?:lo|telo)?\ (?:questo\ )?per\ te
    )(?!\w)"""
)
_UNWANTED_UNSPACED: Final = re.compile(
    r"(?:覚え|記憶し|保存し|記録し)(?:ないで|なくていい)|(?:不要|别|別)(?:记住|記住|保存|记录|記錄)"
)
_PIECE: Final = 65_536
"""So many characters are searched at once, in a few milliseconds, during which nothing else can run."""
_LONGEST_UNWANTED: Final = 128
"""No form of the request is longer."""


def unwanted(text: str) -> bool:
    """Return whether the person asks that nothing of *text* is remembered."""
    small = straight(text).lower()
    if _UNWANTED_UNSPACED.search(small):
        return True
    for start in range(0, len(small), _PIECE):
        stop = start + _PIECE + _LONGEST_UNWANTED
        found = _UNWANTED.search(small, start, stop)
        # At the cut a word may only seem to end; what follows there is in the next piece, too.
        if found and (found.end() < stop or _UNWANTED.match(small, found.start())):
            return True
    return False


_MEMORY: Final = r"(?:from|out\ of|in)\ (?:your\ |the\ )?(?:memory|memories|records?|notes|database)"
_FORGETTING: Final = re.compile(
    rf"""(?ix)^(?:(?:please|pls|ok|okay|and|also|so|now|hey|thanks|can\ you|could\ you|would\ you|will\ you|you\ can|you\ may|you\ should|i\ want\ you\ to|i'd\ like\ you\ to)[,\ ]+){{0,4}}(?:
      (?:forget|stop\ remembering|(?:do\ not|don't)\ remember)(?:\ about)?
      (?:[:,]|\ that|\ the\ fact\ that|\ (?:everything|anything|all|what)(?:\ that)?(?:\ you\ (?:know|remember|have)|\ i\ (?:said|told\ you))?\ about)?
    | (?:delete|erase|remove|wipe|scrub|clear)(?:\ {_MEMORY})?
      (?:\ that(?=\ {_SUBJECT})|\ the\ fact\ that|\ (?:everything|anything|all|what)(?:\ that)?(?:\ you\ (?:know|remember|have)|\ i\ (?:said|told\ you))?\ about)
    | (?:delete|erase|remove|wipe|scrub|clear)(?=\ my\ [^,;:.!?]{{1,80}}\ {_MEMORY}\W*$)
    )\ (?P<topic>\S.{{1,300}}?)(?:,?\ (?:please|any\ ?more|any\ longer|from\ now\ on|{_MEMORY}))*[\s.!?]*$"""
)
_FORGETTING_ELSEWHERE: Final = re.compile(
    r"""(?ix)^(?:(?:bitte|s'il\ (?:te|vous)\ plaît|por\ favor|per\ favore)[,\ ]+)?(?:
      (?:vergiss|vergesst|vergessen\ sie)(?!\ (?:\w+\ )?nicht\b)(?:\ bitte)?(?:,?\ dass|\ alles\ über|\ was\ du\ über)?
    | (?:lösche?|löschen\ sie|streiche?)(?:\ bitte)?(?:\ aus\ (?:deinem|ihrem)\ gedächtnis)?(?:,?\ dass|\ alles\ über|\ was\ du\ über)
    | oublie[zs]?(?:\ (?:que|tout\ (?:sur|de)))? | (?:efface|supprime)[zs]?(?:\ de\ ta\ mémoire)?\ (?:que|le\ fait\ que|tout\ sur)
    | (?:olvida|olvide|olvídate\ de|olvídese\ de)(?:\ (?:que|todo\ sobre|lo\ de))? | (?:borra|borre|elimina|elimine)(?:\ de\ tu\ memoria)?\ (?:que|el\ hecho\ de\ que|todo\ sobre)
    | (?:esquece|esqueça)(?:-(?:te|se))?(?:\ (?:de\ que|que|tudo\ sobre|de))? | (?:apaga|apague|elimina|elimine)(?:\ da\ (?:tua|sua)\ memória)?\ (?:que|o\ facto?\ de\ que|tudo\ sobre)
    | (?:dimentica|dimentichi|scorda)(?:ti)?(?:\ (?:che|tutto\ su|di))? | (?:cancella|elimina)(?:\ dalla\ (?:tua\ )?memoria)?\ (?:che|il\ fatto\ che|tutto\ su)
    )(?:\ |(?<=,)\ ?)(?P<topic>\S.{1,300}?)[\s.!?]*$"""
)
_NO_TOPIC: Final = re.compile(
    r"""(?ix)^(?:about\ )?(?:it|that|this|them|everything|anything|all|what\ i\ (?:just\ )?said
    |das|es|alles|ça|cela|tout|eso|esto|todo|isso|isto|tudo|questo|quello|tutto)$"""
)
_NEXT_CLAUSE: Final = re.compile(
    r"""(?ix)(?:[,;]|\ [–—-])\ (?=(?:(?:and|but|because|since|as|for|actually|now|in\ fact|these\ days|aber|denn|ich\ meine|mais|car|pero|porque|mas|ma|perché)[, ]+){0,3}
    (?:(?:i|i'm|im|i've|i'd|i'll|we|we're|we've|it|it's|that|that's|he|she|they|he's|she's|they're|ich|wir|das|es|je|yo|eu|io)\b|j'|[\w'’-]{1,40}\ (?:is|are|was|were|ist|sind|est|es|são|é|è)\b|(?:my|our)\ (?:[\w'-]{1,40}\ ){1,3}(?:is|are|was|were|has|have|lives|works)\b))"""
)
"""Where a request to forget ends, and the person says something else: ``Forget that I like jazz, I like it less now``."""


def topic_to_forget(sentence: str) -> str | None:
    """Return what *sentence* asks to forget or not to keep ("I live in Rome" of "Forget that I live in Rome."); else None."""
    request, _ = _request_and_rest(straight(sentence).strip())
    found = _forgetting(request) or _refused(request)
    topic = found.group("topic").strip(" \t\n.!?") if found else ""
    return topic if 1 < len(topic) <= MAX_CHARACTERS and _NO_TOPIC.match(topic) is None else None


def kept_part(sentence: str) -> str:
    """Return what of *sentence* may be kept: nothing of what is asked to be forgotten or not to be kept."""
    said = straight(sentence).strip()
    if _refused(said) or (_THAT.match(said) and _MUST_NOT_BE_KEPT.search(said)):
        return ""
    request, rest = _request_and_rest(said)
    if topic_to_forget(request) is None:
        return sentence
    return rest


def _forgetting(said: str) -> re.Match[str] | None:
    if len(said) > MAX_CHARACTERS:
        return None
    return _FORGETTING.match(said) or _FORGETTING_ELSEWHERE.match(said)


def _request_and_rest(said: str) -> tuple[str, str]:
    """Return a request to forget and what follows it in the sentence; a request not to keep is for the whole of it."""
    if _refused(said) is None and (after := _NEXT_CLAUSE.search(said)) and _forgetting(said[: after.start()]):
        return said[: after.start()], said[after.end() :]
    return said, ""
