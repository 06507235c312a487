"""Where a sentence stops telling and begins to ask, and what it asks not to remember, or to forget.

People who type in haste tell and ask in one sentence, with a comma between the two or nothing, and leave the question
mark out: ``uso un Xiaomi viejo, me va lento, qué borro``. What begins a request is known for English, German, French,
Spanish, Portuguese and Italian: words that begin one anywhere, words that do so only behind a border (a comma, a dash, a
conjunction), and words that do so only there and where the sentence has a question mark.

A request not to remember something has a lead ("please don't", "I don't want you to"), a verb of keeping, and what it is
about: a clause, then the sentence is left out (:func:`kept_part`), or the message itself ("this", "it"), then the whole
turn is (:func:`unwanted`).
"""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from threadkeep.text.semantics import straight

_BORDER: Final = re.compile(
    r"""(?ix)(?P<sign>[,;:!)…]|\.{2,3}|\ [–—-]{1,2})?\ (?P<link>(?:(?:and|so|but|then|thus|therefore|also|plus|now|anyway|btw|und|aber|also|oder|jetzt|nun|dann|et|mais|donc|alors|du\ coup|y|e|pero|entonces|así\ que|oye|mas|então|daí|allora|quindi|ma|ed),?\ ){1,2})?
    (?P<asking>(?:please|pls|plz|kindly|hence|just|bitte|stp|svp|por\ favor|per\ favore)\ )?"""
)
"""Where a request may begin: behind a sign or a conjunction, which are borders, or a mere blank."""

_ENGLISH: Final = r"""
      (?:can|could|would|will)\ you\b | (?:what|wat)\ (?:is|are|do|does|should|would|can|could|kind)\b | what's\b | how\ (?:do|can|should|would|could|does|much|many|is|are|might)\b | should\ i\b | do\ you\b
    | can\ i\b | could\ i\b | is\ (?:it|there|that|this)\b | are\ there\b | which\ (?:one|of|should)\b | where\ (?:can|do|should)\b | any\ (?:ideas?|tips|advice|suggestions?|thoughts|recommendations?)\b
    | (?:please|pls)\ (?:help|give|tell|show|write|suggest|explain|recommend)\b | i(?:'m|\ am)\ (?:just\ |also\ )?(?:wondering|curious|not\ sure|unsure|asking)\b | i\ was\ wondering\b | i\ wonder\b
    | i(?:'d|\ would)\ (?:like|love|appreciate)\ (?:you|some\ help|your|help|to\ know|advice) | i\ need\ (?:you|help|your|some\ help|advice) | i\ want\ to\ (?:know|make\ sure|ask|understand)\b | i\ want\ you\b
    """
_GERMAN: Final = r"""
      (?:kannst|könntest|würdest|magst|weißt|weisst|hast|kennst|hättest|wüsstest)\ du\b(?=[^?]{1,200}\?) | (?:könnten|würden)\ sie\b(?=[^?]{1,200}\?) | kann\ (?:man|ich|mir)\b(?=[^,]{1,200}\?) | soll(?:te)?\ ich\b(?=[^,]{1,200}\?)
    | wie\ (?:viele?|lange|oft|weit|hoch|teuer|schnell|groß|alt|schwer|warm|kann|soll|muss|geht|mach\w?|krieg\w?|bekomm\w?|ist|sind|wäre|war|heißt|sagt|schreibt|funktioniert|würde)\b(?!\ (?:ich|du|er|wir|es)\ (?-i:[a-zäöü]\w+)\W*$)
    | wie\ \w{2,20}\ (?:ich|man|wir)\b | was\ (?:\w{2,20}\ (?:ich|man|wir|du|sie|das|die|der|es|denn|eigentlich|mir|am|da)|ist|sind|heißt|bedeutet|kostet|kosten|hilft|passt|wäre|gibt|gibt's|gibts|macht|taugt|tun|empfiehlst)\b
    | (?:mach|schreib|gib|erklär|zeig|sag|hilf|nenn|such|find|übersetz|rechne?|plan|erstell|formulier|fass|empfiehl|stell)(?:e|en\ sie)?\ (?:mir|uns|mal|bitte|doch|daraus|das\ mal)\b
    | ich\ (?:möchte|wollte|will|würde\ gern\w?|frage?|hätte\ gern\w?)\ (?:(?:nur|mal|dich|sie|mich|gern\w?|noch|eigentlich)\ ){0,3}(?:wissen|fragen|gefragt)\b | ich\ frag\w?\ mich\b | gibt\ es\ (?:da|dafür|eine?n?|irgend\w*)\b(?=[^,]{1,200}\?)
    """
_FRENCH: Final = r"""
      (?:est-ce\ que|est-ce\ qu'|qu'est-ce|c'est\ quoi|c'est\ quand|c'est\ où|c'est\ combien)
    | (?:peux|pourrais|sais|connais|as|aurais|dois|veux|penses|crois|conseilles)-tu\b | (?:pouvez|pourriez|savez|connaissez|avez|auriez|pensez|conseillez)-vous\b | (?:puis|dois)-je\b | (?:faut|est|y\ a-t)-il\b | tu\ (?:peux|pourrais|saurais|aurais|conseilles|connais|sais\ (?:si|comment|où|combien|quand|quel\w*))\b
    | (?:fais|dis|donne|écris|explique|montre|aide|trouve|propose|conseille|rédige|prépare)(?:z|tes)?[- ]?(?:-moi|-nous|\ moi|\ nous)\b
    | je\ (?:voulais|voudrais|aimerais|souhaite|veux)\ (?:juste\ )?(?:savoir|te\ demander|vous\ demander|comprendre)\b | je\ (?:me\ )?demand(?:e|ais)\b | j'aimerais\ (?:savoir|que\ tu|que\ vous)\b
    """
_SPANISH: Final = r"""
      ¿ | (?:(?:a|de|en|con|para|por|hasta|desde)\ )?(?:qué|cuánt[oa]s?|cuál(?:es)?|cómo|dónde|cuándo|quién(?:es)?)\b(?!\ (?:tal\b|va\ a\b))
    | (?:me\ )?(?:puedes|podrías|podés|sabes|sabés|conoces)\b | me\ (?:ayudas|recomiendas|recomendás|aconsejas|explicas)\b | se\ puede\b(?=[^,]{1,200}\?) | hay\ alg(?:o|ún|una|uno)\b(?=[^,]{1,200}\?)
    | (?:dame|dime|decime|hazme|haceme|escríbeme|escribime|explícame|explicame|ayúdame|ayudame|recomiéndame|recomendame|búscame|pásame|cuéntame|muéstrame|prepárame|tradúceme|calcúlame|sugiéreme)\b
    | (?:quería|querría|quisiera|me\ gustaría|quiero|necesito)\ (?:saber|preguntar\w*|que\ me\ \w+)\b | me\ preguntaba?\b
    """
_PORTUGUESE: Final = r"""
      (?:(?:a|em)\ )?que\ horas\b | como\ (?:é\ que|que\ (?:eu|se|faz)|faço|eu\ (?:faço|posso)|se\ (?:diz|escreve))\b
    | (?:dá|tem\ como)\ (?:pra|para)?\ ?\w+r\b(?=[^,]{1,200}\?) | será\ que\b | (?:você|vc|tu)\ (?:pode|podes|sabe|sabes|conhece|conheces|acha|achas|consegue|consegues|recomenda|indica)\b | (?:pode|podes|podia|podias|poderia|consegue|consegues)\ (?:me|-me)\b | pode-?(?:s-)?me\b | sabes?\ (?:se|qual|como|onde|quando|quanto|dizer|me)\b
    | (?:faz|faça|escreve|escreva|explica|explique|dá|dê|diz|diga|ajuda|ajude|indica|indique|sugere|sugira|mostra|mostre)-me\b
    | (?:queria|quero|gostaria\ de|preciso)\ (?:saber|perguntar|que\ (?:você|vc|tu|me))\b | (?:tô|estou|fiquei)\ (?:na\ dúvida|me\ perguntando)\b
    """
_ITALIAN: Final = r"""
      (?:che\ )?cosa\ (?:posso|devo|mi|si|faccio|ne|significa|vuol|dovrei|metto|compro|cucino|è)\b | cos'è\b | come\ (?:si\ (?:fa|dice|scrive|può|toglie)|posso|faccio|devo|mai|dovrei|mi\ consigli)\b | quant'è\b | qual\ è\b | (?:di|a|da|in|per)\ (?:quale|quanti|quante|quanto)\b(?!\ (?:mi\ riguarda|ne\ so|a\ me)\b)
    | (?:mi\ )?(?:puoi|potresti|sapresti)\b | mi\ (?:aiuti|consigli|spieghi)\b | (?:mi\ )?sai\ (?:se|come|dove|quanto|quale|dirmi)\b | (?:può|potrebbe)\ (?:dirmi|aiutarmi|scrivermi)\b
    | (?:dammi|dimmi|fammi|scrivimi|spiegami|aiutami|consigliami|mostrami|trovami|preparami|suggeriscimi|traducimi|calcolami)\b
    | (?:volevo|vorrei|voglio)\ (?:sapere|chiedere|chiederti|capire)\b | mi\ chied(?:o|evo)\b
    """
_ANYWHERE: Final = re.compile(rf"(?ix)(?:{_ENGLISH})")
_ANYWHERE_ELSEWHERE: Final = re.compile(rf"(?ix)(?:{_GERMAN}|{_FRENCH}|{_SPANISH}|{_PORTUGUESE}|{_ITALIAN})")
"""Words that begin a request also without a sign or a conjunction before it, in English and in other languages."""

_OBJECT: Final = r"(?:me|us|my|our|an?|the|it|this|that|these|some|something|your|\d{1,4})"
_AT_BORDER: Final = re.compile(
    r"""(?ix)(?:
    # English
      (?:what|whats|wat)\ (?!(?:i|we|he|she|they|you|it|an?|my|our|not|with)\b)\w | how(?:'s|s|\ (?:do|does|did|can|could|should|would|will|is|are|was|were|am|long|much|many|often|far|big|old|hot|about|come))\b | why\ (?:is|are|was|were|do|does|did|can|could|should|would|will|has|have)\b | (?:where|when)\ (?:do|does|did|can|could|should|would)\b | why's\b | which\ \w{2,20}\ (?:do|does|should|would|can|will)\ (?:i|you|we)\b
    | (?:can|could|should|would|will|shall)\ (?:we|that|this|he|she|they|my|our|someone|anyone)\b | (?:do\ (?:i|we|they|these|those)|(?:does|did)\ (?:i|we|it|that|this|they|he|she)(?!\ (?:by|for|every|with|all|on|at|in|once|twice|well|right|so)\b)|(?:is|are|am|was|were)\ (?:i|we|it|there|that|this|these|those|they|he|she))\ \w
    | any\ (?:chance|good|way|recs|recommended|thoughts?|suggestions?)\b | thoughts\b\W*$ | ideas\ (?:for|on)\b | looking\ for\ (?:ideas|tips|advice|suggestions|recommendations|recipes|help)\b | i(?:'d|\ would)\ like\ (?:an?|some|the|it)\ | i\ want(?:ed)?\ to\ ask\b | i\ have\ a\ question\b | wdyt\b
    | (?:write|give|tell|show|help|explain|suggest|recommend|make|draft|find|translate|rewrite|summari[sz]e|compare|calculate|plan|remind|keep|list|convert|check|proof-?read|fix|correct|shorten|redo|skip)\ (?:me|us)\b | (?:let\ me\ know|remind\ me|lmk)\b
    # German
    | wieviele?\ \w | (?:wo|wer|wen|wem|wann|warum|wieso|weshalb|woher|wohin|womit|wofür|woran|worauf)\ (?!(?:ich|du|er|wir|ihr|man|der|die|das|mein\w*|unser\w*|es|sie|sich)\b)\w | welche[rsnm]?\ (?:\w{2,30}\ ){0,2}(?:soll\w*|kann|muss|passt|ist|sind|nehm\w*|hilft|brauch\w*|gibt|empfiehlst|wäre|würde\w*|hat|darf)\b
    | (?:kannst|könntest|würdest|magst|weißt|weisst|hast|kennst|hättest|wüsstest)\ du\b | (?:können|könnten|würden|wissen|kennen|hätten)\ sie\b | (?:ideen|tipps|vorschläge)\b | (?:brauch\w?|suche?)\ (?:mal\ |nur\ )?(?:ideen|tipps|hilfe|vorschläge|ne\ idee|eine\ idee|einen\ tipp|ein\ rezept)\b
    # French
    | (?:comment|pourquoi|combien)\b | (?:(?:à|de|en|pour|avec)\ )?quel(?:le)?s?\ \w | où\ (?:est-ce|puis|trouver|acheter|je\ peux|on\ peut)\b | quoi\ (?:de|faire|comme)\b | que\ (?:faire|dois|puis|me|peux|pourrais)\b | des\ (?:idées|conseils|astuces)\b | une\ idée\b
    | (?:corrige|traduis|résume|reformule|calcule|liste)(?:z|-)?\ ?(?:moi|le|la|les|ce|cette|ça|en)\b
    # Spanish
    | por\ qué\b | (?:cuanto|cuantos|cuantas|donde|cual)\ (?:es|son|está|puedo|hay|cuesta|me|tiempo|dinero|tengo|debo)\b | como\ (?:puedo|hago|le\ hago|se\ (?:hace|dice|escribe|puede))\b | (?:alguna|algún)\ (?:idea|consejo|receta|sugerencia|truco)\b | (?:ideas|consejos|trucos)\ (?:para|de)\b | (?:escribe|haz|traduce|resume|corrige|explica|redacta|calcula|prepara|recomienda)\ (?:un|una|el|la|los|las|esto|lo|me|por|al|mi)\b
    # Portuguese
    | (?:qual|quais|quant[oa]s?|por\ ?qu[eê]|quem|onde|aonde)\ (?:é|são|eu|a|o|as|os|seria|posso|devo|fica|tem|compro|tempo|custa|preciso|de|me|uso|vocês?|dos|das|melhor|\w+\ (?:eu|é|devo|posso|uso|compro))\b | (?:alguma|algum|alguém)\ (?:ideia|dica|sugestão|receita|sabe|tem|jeito)\b | (?:tem|tens|há|existe)\ (?:algum|alguma|alguém)\b | (?:dicas|ideias|sugestões)\ (?:de|para|pra)\b
    | me\ (?:(?:ajuda|explica|indica|recomenda|sugere|ensina|diz)\b(?!\ (?:muit\w+|bastante)\b) | (?:dá|fala|escreve|faz|passa|mostra|conta|manda|monta)\ (?:um|uma|o|a|os|as|uns|umas|ideias|dicas|sugestões|exemplos|isso|aí|como|qual|quais|quanto)\b(?!\ (?:dor|azia|alergia|coceira|raiva|agonia|preguiça|sono|medo)\b)) | o\ que\ (?:eu\ (?:faço|posso|devo|dou|uso)|é|faço|posso|devo|significa|quer\ dizer|vocês?)\b | como\ (?:posso|fica|funciona|faz)\b
    | (?:faz|faça|escreve|escreva|explica|explique|traduz|traduza|resume|resuma|monta|monte|lista|liste|cria|crie|calcula|calcule|corrige|corrija|dê|diga|sugere|sugira|prepara|prepare)\ (?:um|uma|o|a|os|as|pra|para|isso|isto|este|esta|esse|essa|aí|por)\b | (?:nem|não)\ (?:sugere|sugira|indica|indique|recomenda|recomende|me\ \w+)\b
    # Italian
    | (?:quale|quali|quant[oaie])\ \w | dove\ (?:posso|si|trovo|compro|devo)\b | perché\ (?:il|la|lo|non|mi|si)\b(?=[^,]{1,200}\?) | chi\ (?:può|mi|sa|è)\b | che\ (?:ne\ dici|differenza|tipo|ora|ore|significa|mi\ consigli|faccio|ne\ pensi|cosa)\b | (?:c'è|ci\ sono|esiste|hai)\ (?:un\ |una\ |qualche\ |dei\ |delle\ )(?:modo|idea|consiglio|ricetta|consigli|idee|\w+)\b(?=[^,]{1,200}\?) | (?:qualche|una)\ (?:idea|consiglio)\b
    | (?:scrivi|spiega|traduci|riassumi|calcola|correggi|prepara|elenca|trova)\ (?:un|una|il|la|lo|i|le|gli|questo|questa|per|mi)\b
    )"""
)
"""Words that begin a request behind a border."""

_LED_TO: Final = re.compile(
    rf"(?ix)(?:write|give|show|make|draft|find|translate|rewrite|summari[sz]e|compare|calculate|plan|list|convert|check|redo|do|skip|explain|suggest|describe|design|create|pick|choose)\ {_OBJECT}\b"
)
"""Orders behind ``so``, ``please`` and the like; behind a comma alone one may tell what one does: ``I cook, write a blog``."""
_ORDERS: Final = re.compile(r"(?i)\b(?:so|then|now|therefore|please|pls|plz|kindly|just)\b")

_IF_MARKED: Final = re.compile(
    r"""(?ix)(?:
      (?:is|are|was|were|am|do|does|did|can|could|should|would|will|shall|has|have|may|might|isn't|aren't|don't|doesn't|won't|wouldn't|shouldn't|can't)\ \w | (?:what|why|how)\b | (?:who|where|when|which|whose)\b(?=[^,;]{1,200}\?) | any\b | anyone\b | (?:ok|okay|right|correct|yes|no|thoughts|ideas|tips|advice|suggestions)\W{0,4}$
    | (?:ist|sind|kann|könnte|soll|sollte|muss|darf|geht|gibt's|gibts|gibt|hilft|reicht|passt|wäre|habt|hat|lohnt|brauch\w{0,6}|war)\ \w | (?:was|wie|wo|wer|wen|wem|wann|warum|wieso|welche\w?|wofür|womit)\b | (?:oder|ja|ok|tipps|ideen)\W{0,4}$
    | (?:est|ça|c'est|il\ (?:faut|y)|y\ a|je\ (?:peux|dois|fais|mets|prends)|on\ (?:peut|fait|doit)|tu\ (?:as|penses|crois|me|viens)|vous\ (?:avez|pensez))\b | (?:quel\w*|comment|combien|où|quand|qui|que|quoi|pourquoi)\b | (?:non|n'est-ce\ pas|hein|ok)\W{0,4}$
    | (?:es|son|está|hay|puedo|debo|debería|tengo\ que|se\ puede|conviene|vale|sirve|tienes|tenés)\ \w | (?:que|como|cuando|donde|cual|cuanto\w?|por\ que)\b | (?:no|verdad|cierto|ideas|consejos|ok)\W{0,4}$
    | (?:é|são|está|há|posso|devo|preciso|pode|dá|tem|tens|vale|existe|dou|serve)\ \w | (?:qual|quais|quem|quando|onde|como|quant[oa]s?|por\ ?que)\b | (?:né|certo|não|ok|dicas)\W{0,4}$
    | (?:è|sono|c'è|ci\ sono|posso|devo|si\ può|conviene|va|vale|hai|basta)\ \w | (?:chi|che|cosa|come|quando|dove|quale|quali|quant[oaie]|perché)\b | (?:vero|no|giusto|ok|idee|consigli)\W{0,4}$
    )"""
)
"""Words that begin a question behind a border where the sentence has a question mark."""

_NEAR: Final = 24
_FAR: Final = 400
"""So many characters behind a border are searched; each of many borders is."""
_KNOWN: Final = re.compile(
    r"""(?ix)\b(?:know|knows|knew|see|sees|saw|understand|understands|understood|remember|remembers|forget|forgot|figure|figured|sure|idea|decide|decided|decides|depends|learnt|learned|taught|explains|explained|checked|told|care|cares|careful|don't|dont|never
    |weiß|weiss|wusste|verstehe|ahnung|egal|kommt\ drauf\ an|sais|sait|savoir|comprends|sé|sabe|saber|sabía|entiendo|importa|sei|sabia|entendo|so|sapere|capisco)(?:\ (?:not|out|about|exactly|of|me|yet|nicht|nie|noch|genau|pas|bien|mehr|darüber))?$"""
)
_INDIRECT: Final = re.compile(
    r"(?i)\b(?:about|of|on|to|for|at|with|in|that's|that|than|not|never|no|my|the|and|matters?|nicht|dass|ob|als|que|según|di|da|a|de|para|por|con|com)$"
)
"""What stands before an indirect question, which tells: ``I know what is good``; the second, where no border does."""

_POLITE: Final = r"(?:(?:and|so|but|ok|okay|then|und|aber|also|et|mais|donc|alors|y|e|pero|entonces|mas|então|ma|allora|bon|oye|bueno|hey|hi),?\ ){0,2}(?:(?:please|pls|bitte|stp|svp|por\ favor|per\ favore),?\ )?"
_QUESTION_ELSEWHERE: Final = re.compile(
    rf"""(?ix)^[\W_]{{0,4}}{_POLITE}(?:
      ¿ | (?:whats|hows|wheres|whos|wanna\ know|anyone\ know|quick\ question)\b
    | (?:wieviele?|wie|was|wo|wer|wen|wem|wann|warum|wieso|weshalb|woher|wohin|womit|wofür|welche[rsnm]?)\ (?!(?:(?:ich|du|er|sie|wir|man|es|mich|mir|uns|meine?\w?)\ (?!\w{{2,20}}\?))|(?:gesagt|immer|auch|schon|alle|üblich|jede\w?|gewohnt|früher|damals|bereits|erwähnt)\b|du\ (?:weißt|siehst)\b|[^,?]{{1,60}}\b(?:angeht|betrifft|anbelangt)\b) | (?:kann|kannst|könntest|soll|sollte|muss|darf|gibt|gibt's|gibts|hast|weißt|können|könnten|würdest|brauche?)\ (?:ich|du|man|es|sie|wir|ihr|mir|da)\b
    | (?:comment|pourquoi|combien|quel(?:le)?s?|qu'est-ce|est-ce|c'est\ quoi|quoi|où|que\ (?:faire|dois|puis|veut|signifie)|qui\ (?:a|est|sont|peut|était)|à\ quelle?|de\ combien|en\ combien)\b | (?:peux|pourrais|sais|connais|as)-tu\b | (?:pouvez|pourriez|savez|avez)-vous\b | tu\ (?:peux|pourrais|connais|saurais)\b
    | (?:(?:a|de|en|con|para|por|hasta|desde)\ )?(?:qué|cómo|cuánt[oa]s?|cuándo|dónde|cuál(?:es)?|quién(?:es)?|por\ qué)\b | cuant[oa]s\ \w{{2,20}}\ (?:tiene|hay|son|tengo|puedo|necesito)\b | cuanto\ (?:es|cuesta|dura|vale|tiempo|mide)\b | cual(?:es)?\ (?:es|son)\b | (?:me\ )?(?:puedes|podrías|podés|sabes)\b
    | (?:(?:a|de|em|com|para|pra|por)\ )?(?:qual|quais|quant[oa]s|quanto\ (?:é|custa|tempo|de|que|eu|tem)|quem\ (?:é|foi|pintou|escreveu|inventou|\w+[ou]u)|onde\ (?:fica|posso|compro|eu\ (?!moro|trabalho|vivo))|o\ que\ (?:é|significa|quer|faço|fazer|eu\ (?:faço|posso|devo))|que\ horas|por\ ?quê|por\ que)\b | como\ (?:se|é\ que|que|faço|posso|fazer|eu\ (?:faço|posso))\b | (?:você|vc)\ (?:pode|sabe|consegue)\b
    | (?:(?:di|a|da|in|per|con)\ )?(?:qual(?:e|i|\ è)?|quant[oaie](?!\ (?:a\ me|mi\ riguarda|ne\ so)\b)|quant'è|cos'è|che\ cosa|cosa|dove(?!\ (?:vivo|abito|lavoro|sto)\b)|perché(?=[^.]{{1,200}}\?)|come\ (?:si|posso|faccio|mai|devo|va)|che\ (?:differenza|ore|ora|tempo|significa))\b | (?:mi\ )?(?:puoi|potresti)\b
    )"""
)
"""How a question begins, also without a question mark, in other languages than English."""
_COMMAND_ELSEWHERE: Final = re.compile(
    rf"""(?ix)^[\W_]{{0,4}}{_POLITE}(?:
      (?:übersetze?|schreibe?|erkläre?|nenne?|fasse?|formuliere?|erstelle?|berechne?|rechne?|korrigiere?|zeige?|gib|hilf|mach|suche?(?=\ (?:mir|uns|bitte|nach|mal|einen?|das|die|den)\b)|plane?|empfiehl|vergleiche?|beschreibe?)\ (?!ich\b|wir\b|meinen\ namen\b)\w
    | (?:traduis|traduisez|écris|écrivez|explique|expliquez|corrige|corrigez|résume|résumez|rédige|rédigez|propose|calcule|compare|liste|fais|dis|donne|aide|montre|trouve|cite)(?:z|-)?\ ?(?!pas\b)(?:-?moi|-?nous|un|une|le|la|les|l'|ce|cette|ça|en|des|mon|ma|mes)\b
    | (?:traduce|escribe|explica|resume|corrige|redacta|calcula|compara|haz|prepara|recomienda|enumera|dame|dime|hazme|escríbeme|explícame|ayúdame|recomiéndame|cuéntame)\ (?:(?:un|una|el|la|los|las|esto|lo|al?|en|me|mi|tres|cinco|diez|dos|con|por|para|cómo|qué|ideas?|algo)\b|\d|['"«“])
    | (?:traduz|traduza|escreve|escreva|explica|explique|resume|resuma|corrige|corrija|reescreve|reescreva|calcula|calcule|compara|compare|lista|liste|cria|crie|monta|monte|sugere|sugira|prepara|prepare)(?:-me)?\ (?:(?:um|uma|o|a|os|as|pra|para|isso|isto|este|esta|esse|essa|em|me|aí|por|três|cinco|dez)\b|\d|['"«“]) | me\ (?:ajuda|dá|diz|explica|escreve|indica|recomenda|passa|mostra|sugere|ensina)\b
    | (?:traduci|scrivi|spiega|riassumi|correggi|calcola|prepara|elenca|consiglia|riscrivi)(?:mi)?\ (?:(?:un|una|il|la|lo|i|le|gli|questo|questa|in|per|mi|tre|cinque|dieci)\b|\d|['"«“]) | (?:dammi|dimmi|fammi|scrivimi|spiegami|aiutami|consigliami)\b
    | rewrite: | translate: | traduz\b[^:]{{0,30}}: | traduce\b[^:]{{0,30}}: | traduci\b[^:]{{0,30}}: | traduis\b[^:]{{0,30}}: | übersetz\w?\b[^:]{{0,30}}:
    )"""
)
"""How a command begins there."""

_QUESTION: Final = re.compile(
    r"(?i)^(?:and |so |but |ok |then )*(?:who|whom|whose|what|what's|which|where|when(?! i was\b)|why|how|can(?!'t wait\b)|could|would|will|shall|should|do|does|did|is|are|am(?= i\b)|was(?! [^,?]{1,60}\b(?:angeht|betrifft|anbelangt)\b)|were|has|had(?= (?:i|you|he|she|we|they|it|this|that|any\w+)\b)|may|might|must|isn't"
    r"|aren't|don't (?:you|we|they)|doesn't|didn't|won't|wouldn't|couldn't|any (?:idea|chance|tips)|anyone|wdyt)\b|^have (?:you|i|we|they)\b"
)
"""How a question begins in English; elsewhere, and without a question mark: :data:`_QUESTION_ELSEWHERE`."""
_COMMAND: Final = re.compile(
    r"""(?ix)^(?:please|pls|kindly|just|now|then|next|also|and|ok|okay|first)?,?\ ?(?:please\ |just\ |now\ |then\ )*(?:
      write|make|give|show|tell|explain|help|fix|create|generate|summari[sz]e|translate|list|find|check|run|add|remove|update|delete|change|convert|draft|compose|describe
    | compare|suggest|recommend|let|let's|lets|try|use|open|send|search|look|read|calculate|compute|remind|schedule|book|set|turn|play|stop|start|continue|go|proceed|rewrite|rephrase
    | proofread|review|analy[sz]e|refactor|debug|implement|build|design|plan|prepare|provide|include|exclude|ignore|disregard|forget|pretend|act|imagine|suppose|assume|assuming
    | consider|answer|reply|respond|say|repeat|print|return|output|define|outline|walk|teach|ask|tell|put|move|copy|paste|merge|deploy|restart|install|upgrade|count|sort|filter
    | format|expand|shorten|simplify|elaborate|correct|edit|improve|optimi[sz]e|see|note|think|wait|hold|come|get|bring|take|keep|don't|do\ not|never|always|from\ now\ on|you
    | your|please|pls|remember|recall|do|redo|undo|retry|double-check|verify|test|validate|confirm|choose|pick|select|order|buy|cancel|call|email|message|ping|text
    )\b"""
)
_OF_THE_OTHER: Final = re.compile(r"(?i)^(?:and |so |but )?you(?:r|rs|'re|'ve|'ll)?\b")
_RHETORICAL: Final = re.compile(
    r"(?i)[,;.!–—-] (?:can you believe (?:it|that|this)|would you believe it|believe it or not|you know|huh|eh|hm{1,6}|and why not|who knew|how about that)\?{1,3}$"
)
_PERSON: Final = r"(?:i|he|she|it|we|they)"
_AUXILIARY: Final = r"(?:is|are|am|was|were|do|does|did|have|has|had|can|could|will|would|should)"
_ASKS_WHETHER: Final = re.compile(
    rf"""(?ix)(?:[,;–—-]|\.{{2,3}}|…)\ ?(?:and\ |but\ )?(?:{_AUXILIARY}n['’]?t\ {_PERSON}|{_AUXILIARY}\ {_PERSON}\ not|am\ i\ (?:right|wrong)|n['’]est-ce\ pas|nicht\ wahr)[?!.\s]{{0,4}}$
    | [\s,;–—-]\ ?¿?(?:{_AUXILIARY}n['’]?t\ {_PERSON}|am\ i\ (?:right|wrong)|(?:is|isn['’]t)\ that\ (?:right|correct|true|so)|right|correct|yes|no|innit
      |oder(?:\ (?:nicht|etwa|doch))?|nicht\ wahr|stimmt(?:['’]?s|\ das)?|richtig|ne|gell?|non|n['’]est-ce\ pas|pas\ vrai|c['’]est\ (?:ça|bien\ ça)|hein
      |(?:es\ )?verdad|(?:es\ )?cierto|no\ es\ (?:así|cierto|verdad)|a\ que\ sí|né|não\ é(?:\ (?:verdade|mesmo|isso))?|é\ isso|certo|vero|giusto|non\ è\ (?:vero|così)|sbaglio)\s?[?!]{{1,4}}$"""
)
"""A tag that asks whether what stands before it is so; ``ok?`` and ``remember?`` ask nothing about it."""
_ASKS_WHETHER_NOT: Final = re.compile(rf"(?i), {_AUXILIARY} {_PERSON}\s?[?]{{1,4}}$")
"""Behind a denial such words are a tag, too: ``I don't work at Siemens, do I?``"""
_DENIAL: Final = re.compile(r"(?i)\b(?:not|never|no)\b|n['’]t\b")
_LONGEST_TAG: Final = 32
_ALWAYS: Final = re.compile(
    r"(?i)\b(?:always|never|whenever|ever|every time|from now on|in future|immer|stets|nie|niemals|grundsätzlich|künftig|ab (?:jetzt|sofort)|toujours|jamais|désormais|siempre|nunca|jamás|sempre|jamais|mai|d'ora in poi)\b"
)
"""An order with such a word is none of the moment: ``so correct me whenever a sentence sounds off``."""
_CONDITION: Final = re.compile(
    r"""(?ix)^[\W_]{0,4}(?:(?:and|but|so|und|aber|et|mais|y|e|pero|mas|ma)\ )?(?:if|unless|whether|in\ case|suppose|supposing|assuming|when(?!\ i\ was\b)|whenever|is\ it\ true\ that|what\ if|wenn|falls|sobald|ob|angenommen|si(?=\ (?!me\b))|quand|lorsque|dès\ que|cuando|en\ caso|caso|quando|se\ (?:eu|tu|você|io|fosse|fossi|puder|for|quiser|tiver|avessi|un|uno|una|il|la|o|a)\b)\b"""
)
"""How a part begins that is a condition of what is asked, and so tells nothing: ``If I am vegan, can I have honey?``"""
_WORD: Final = re.compile(r"[^\W\d_]{2}|\d")


@lru_cache(maxsize=2048)
def asks_from(sentence: str) -> int | None:
    """Return the place in *sentence* from which on it asks; 0: it asks from its beginning, ``None``: it only tells.

    The place is one in the normal form of *sentence*.
    """
    said = straight(sentence)
    return 0 if _begins_asking(said) else _asks_behind_border(said)


def told_in(sentence: str) -> str:
    """Return the part of *sentence* that tells, without the request behind it; empty if it only asks."""
    said = straight(sentence)
    place = 0 if _ANYWHERE.match(said) else asks_from(said)
    return sentence if place is None else said[:place].rstrip(" ,;–—-")


def is_request(sentence: str) -> bool:
    """Return whether *sentence* is, or ends with, a request or a command."""
    said = " ".join(_RHETORICAL.sub("", straight(sentence)).split())
    if _ANYWHERE.match(said):
        return True
    place = _asks_behind_border(said) if _OF_THE_OTHER.match(said) else asks_from(said)
    return place is not None


def is_question(sentence: str) -> bool:
    """Return whether *sentence* asks for an answer and wants nothing done; it may lack the question mark."""
    said = straight(sentence)
    return "?" in said or _QUESTION.match(said) is not None or _QUESTION_ELSEWHERE.match(said) is not None


def asks_whether(said: str) -> bool:
    """Return whether *said*, in normal form, ends with a tag such as ``, don't I?``: the user asks whether it is so."""
    end = max(0, len(said) - _LONGEST_TAG)
    if _ASKS_WHETHER.search(said, end):
        return True
    found = _ASKS_WHETHER_NOT.search(said, end)
    return found is not None and _DENIAL.search(said, 0, found.start()) is not None


def _begins_asking(said: str) -> bool:
    if _QUESTION.match(said) or _COMMAND.match(said) or asks_whether(said):
        return True
    elsewhere = any(rule.match(said) for rule in (_QUESTION_ELSEWHERE, _COMMAND_ELSEWHERE, _ANYWHERE_ELSEWHERE))
    return elsewhere and ("?" in said or _ALWAYS.search(said) is None)


def _asks_behind_border(said: str) -> int | None:
    borders = [*_BORDER.finditer(said)]
    place = next((one.start() for one in borders if _asks_behind(said, one)), None)
    if "?" in said and place is None:
        marked = (one for one in reversed(borders) if one["sign"] or one["link"])
        place = next((one.start() for one in marked if _IF_MARKED.match(said, one.end())), 0)
    return 0 if place and (_CONDITION.match(said) or not _WORD.search(said, 0, place)) else place


def _asks_behind(said: str, border: re.Match[str]) -> bool:
    start, end = border.span()
    if _KNOWN.search(said, max(0, start - _NEAR), start):
        return False
    anywhere = _ANYWHERE.match(said, end) or _ANYWHERE_ELSEWHERE.match(said, end)
    if not (border["sign"] or border["link"] or border["asking"]):
        return anywhere is not None and _INDIRECT.search(said, max(0, start - _NEAR), start) is None
    if "?" not in said and _ALWAYS.search(said, end, end + _FAR):
        return False
    if anywhere or _AT_BORDER.match(said, end):
        return True
    return _ORDERS.search(border[0]) is not None and _LED_TO.match(said, end) is not None


_LONGEST_TO_FORGET: Final = 300
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


@lru_cache(maxsize=64)
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
    said = straight(sentence).strip()
    if refused := _refused(said):  # that is for the whole of it
        return _topic_of(_forgetting(said) or refused)
    request, _ = _request_and_rest(said)
    return _topic_of(_forgetting(request))


def kept_part(sentence: str) -> str:
    """Return what of *sentence* may be kept: nothing of what is asked to be forgotten or not to be kept."""
    said = straight(sentence).strip()
    if _refused(said) or (_THAT.match(said) and _MUST_NOT_BE_KEPT.search(said)):
        return ""
    request, rest = _request_and_rest(said)
    return sentence if _topic_of(_forgetting(request)) is None else rest


def _forgetting(said: str) -> re.Match[str] | None:
    if len(said) > _LONGEST_TO_FORGET:
        return None
    return _FORGETTING.match(said) or _FORGETTING_ELSEWHERE.match(said)


def _topic_of(found: re.Match[str] | None) -> str | None:
    topic = found.group("topic").strip(" \t\n.!?") if found else ""
    return topic if 1 < len(topic) <= _LONGEST_TO_FORGET and _NO_TOPIC.match(topic) is None else None


def _request_and_rest(said: str) -> tuple[str, str]:
    """Return a request to forget and what follows it, of a sentence that does not ask not to keep something."""
    if (after := _NEXT_CLAUSE.search(said)) and _forgetting(said[: after.start()]):
        return said[: after.start()], said[after.end() :]
    return said, ""
