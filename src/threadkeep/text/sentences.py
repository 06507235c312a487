"""A person's own sentences in a message, without code, logs, quotations and what was pasted."""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from threadkeep.text.clauses import SUBJECT_IN_VERB
from threadkeep.text.marks import (
    BLANK_LINE,
    QUOTATION,
    QUOTES,
    around_marks,
    untagged,
    with_fences_apart,
    without_lone_quotations,
    without_quotations,
)
from threadkeep.text.requests import is_request
from threadkeep.text.semantics import plain, straight, words

MAX_CHARACTERS: Final = 32_768
"""What comes after so many characters of a message is not looked at."""

_PASTED_PARAGRAPH: Final = 1_500
"""A paragraph longer than this was not typed into a chat."""
_NARROWEST_WRAP: Final = 65
"""Programs that break lines leave at least so much room, in characters. A line without an end goes on in the next where
the next word would not have fitted: into this width, nor into the longest line of the text. Other lines are ended by
the user, as in a chat."""
LEADS_ON: Final = words(
    """
    and or but the a an of with my our your his her their und oder aber der die das ein eine mein meine et ou mais le la
    les un une mon ma mes y o pero el los las una mi e mas os as um uma meu minha
    """
)
"""No sentence ends with them, so that a line which does goes on in the next."""

_FENCE: Final = re.compile(r"^[ \t]{0,8}(```+|~~~+|\"\"\"|''')")
_QUOTATION: Final = re.compile(r"^\s{0,8}(?:>|\||\+\+\+ |--- |@@ |[$#%] \S|>>> |\.\.\. )")
_INDENTED: Final = re.compile(r"^(?: {4,}|\t)\S")
_BULLET: Final = re.compile(r"^\s{0,12}(?:[-*•‣–]|\(?\d{1,2}[.)])\s+")
_LOG: Final = re.compile(
    r"""(?x)^\s{0,8}\[?(?:\d{4}-\d\d-\d\d[T ]\d|\d\d:\d\d:\d\d\b|\d{1,3}(?:\.\d{1,3}){3}\b
        |(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL|CRITICAL|PANIC)\b[\]:\s]
        |Traceback\ \(|File\ "|at\ [\w.$<>]+(?:\(|\ \([^)]{1,200}:\d+\))|[\w.]{2,80}(?:Error|Exception)(?::|\ (?:in\ thread|ignored)\b|\s*$)|Exception\ in\ thread)"""
)
_TRACE: Final = re.compile(r"^\s{0,8}(?:Traceback \(|panic: |[\w.]{2,80}(?:Error|Exception): )")
"""How the trace of an error begins; what is announced as one ends at a blank line, for it is no letter."""
_CODE: Final = re.compile(
    r"""(?x)^\s{0,8}(?:
        (?:def|class|import|from|return|const|let|var|function|public|private|static|async|await|elif|fn|func|package|namespace|export)
            \ [^\s,]{1,80}\s{0,3}(?:[=({:;.*<]|import\b|$)
        | (?:SELECT|INSERT\ INTO|UPDATE|DELETE\ FROM|CREATE\ (?:TABLE|INDEX))\ | \#include | </?\w+[^>]{0,200}> | [{}\[\]();]+\s{0,4}$
        | (?!(?:i|we|my|our|use|using|prefer)\ |\S+\ (?:with|without|mit|ohne|avec|sans|con|sin|com|sem|senza)\ )[a-z][\w.-]{1,30}(?:\ [\w.-]{1,30})?\ --?[A-Za-z][\w-]{0,30}[\ =]\S
        | "?[\w.-]{1,60}"?\s{0,3}[:=]\s{0,3}[\[{"'] | // | /\* | \#!)"""
)
_COMMANDED: Final = re.compile(r"/[A-Za-z]{2,30}\s")
"""What is given to a chat's command, such as /summarize, is its text."""
_CODE_ENDS: Final = (";", "{", "}", "});", "=>", "\\")
_MAIL_HEADER: Final = re.compile(r"(?i)^(?:from|to|cc|bcc|subject|sent|date|reply-to):\s")
_OF_A_MAIL: Final = re.compile(r"(?i)(?:cc|bcc|subject|sent|reply-to):|(?:from|to):[^@\n]{0,80}@")
"""A line of a mail's headers and of no note: ``From: Vienna`` may be one of a journey."""
_SPEAKER: Final = re.compile(
    r"^(?!(?:Note|Also|Update|Reminder|Correction|Edit|PS|FYI|BTW): )(?:[A-Z][\w.'-]{1,30}(?: [A-Z][\w.'-]{1,30})?|[A-Z]{2,20}):\s"
)

# What follows such a colon is another author's text, even if the user typed it.
_INTRODUCES: Final = re.compile(
    r"""(?ix)\b(?:
        translate|translation|summar(?:y|i[sz]e|ising|izing)|rewrite|reword|rephrase|paraphrase|proof-?read|improve|edit|correct|polish|shorten
        |review|analy[sz]e|explain|classify|convert|format|fix|check|parse|extract|refactor|debug|complete|continue
        |read|write|draft|compose|reply|respond|send|generate|create
        |here(?:'s|’s|\ is|\ are)|this\ is|these\ are|following|below|as\ follows
        |means?|says?|said|wrote|writes|told|tells|asked|asks|replied|texted|quotes?|quoted|reads|goes|states|stated|according
        |e-?mails?|letter|message|text|article|paragraph|document|paper|essay|story|poem|lyrics|song|transcript|conversation|chat|prompt
        |code|snippet|script|function|query|output|error|logs?|trace|input|example|config|yaml|json|file
        |üb?ersetze?|fasse|traduis|traduisez|résume|traduce|resume|traduza|resuma|traduci|riassumi
        )\b(?:[^:\n]|(?<=\d):(?=\d\d\b)){0,200}:(?!(?<=\d:)\d\d\b)"""
)
"""A colon in a time of day introduces nothing."""
_INTRODUCED_QUOTATION: Final = re.compile(rf":\s?{re.escape(QUOTATION)}(?=\s+\w)")
_HERE_MINE: Final = re.compile(
    r"""(?ix)\W{0,9}(?:(?:ok|okay|so|well|and),?\ )?(?:here(?:'s|’s|\ is|\ are)|this\ is|these\ are)\ (?:my|our)\ (?:[\w-]+\ ){0,2}
    (?:address|allergies|background|budget|constraints|context|data|details|diet|equipment|facts|family|gear|goals|habits|health|hours|household|kids|list|measurements|medication|medicines|meds|needs|numbers|pets|plan|preferences|priorities|profile|requirements|routine|schedule|setup|situation|stack|stats|team|week)\s?:"""
)
"""So a user announces their own facts."""
_VALUE_WORDS: Final = 6
_LONGEST_LINE: Final = 240
_WITHOUT_I: Final = re.compile(
    r"(?i)(?:am|moved|joined|quit|married|bin|wohne|lebe|arbeite|suis|habite|travaille|(?:live|work) (?:as|at|for|from|in|with))\b"
)
_DICTATES: Final = re.compile(
    r"""(?ix)(?:(?:please|pls|kindly|now|also|ok|so|and|can\ you|could\ you|help\ me)[, ]+){0,3}
    (?:(?:write|draft|compose|create|generate|make|send|text|message|e-?mail|find)\ |(?:I|we)(?:['’]ve|\ have|['’]d|\ had)?\ (?:just\ |already\ |also\ |finally\ )?(?:told|said|sent|wrote|answered|texted|promised|asked)\ |[^:]{1,120}\ please\s?:|[^:]{1,120},\ please\s?:)"""
)
"""How a user begins to dictate a text, or tells what they said: ``Write my bio: …``, ``I told my boss yes: …``"""
_OF_A_TEXT: Final = re.compile(
    r"""(?ix)\b(?:this|these|that|it|following|below|above|attached|here|from|by|of\ (?:his|her|their)|(?:says?|said|wrote|told|asked)(?=\ (?:me|us)\b)|repl(?:y|ies|ied)|respon\w+|answer|translat\w+|summar\w+|review\w*|comment\w*|feedback|re(?:write|word|phrase)\w*|para(?:phrase|graph)\w*
    |proof-?read|improve|edit|correct|polish|shorten|analy[sz]e|explain|classify|convert|format|fix|check|parse|extract|refactor|debug|complete|continue|read|mean|means
    |poems?|story|stories|song|lyrics|novel|scene|dialogue|joke|speech|essay|script|code|sentences?|example|quotes?|lines?|words?|prompt|function|query|logs?|transcript|chat|conversation|article|document|paper)\b"""
)
"""With such a word, the text behind the colon is rather one that another author wrote: ``Write a reply to this: …``"""
_NOTE_WORDS: Final = 8
_DIGIT: Final = re.compile(r"\d")
_LEAST_FORM: Final = 3
"""In a conversation of so many lines a person speaks twice."""
_MOST_ITEMS: Final = 48
_LONGEST_LIST: Final = 1_000
"""In characters, so that it is no longer than a paragraph that was typed; what follows stands in lines of its own."""
_OF_AUTHOR: Final = re.compile(
    r"(?i)[\"“”„«»]|\b(?:i|i'\w{1,2}|my|me|mine|we|us|our|ich|mich|mir|mein\w{0,2}|wir|uns|je|j'|moi|mon(?![/.,:]|\ \d)|ma|mes|nous|yo|mi|mis|soy|nosotros|eu|meu|minha|nós|user|always|never|please)\b"
)
"""Speaks of its author, quotes, or says what shall be done: not a bare value after a colon."""
_TASKS: Final = re.compile(
    r"(?i)^\W*(?:please |can you |could you )*(?:translate|summar\w+|rewrite|reword|rephrase|paraphrase|proof-?read|improve|edit|correct|polish|shorten|review|analy[sz]e|explain|classify|convert|format|fix|check|parse|extract|refactor|debug|complete|continue|read|write|draft|compose|reply|respond|send|generate|create|here|this|these|following|below)\b"
)
# A user who asks about a text has put it into a paragraph of its own.
_ASKS_ABOUT: Final = re.compile(
    r"""(?ix)\b(?:
        (?:this|the|these|my|attached|pasted)\ (?:\w+\ ){0,2}(?:texts?|pages?|documents?|docs?|articles?|e-?mails?|mails?|letters?|messages?|notes?|posts?|drafts?|papers?|reports?|reviews?|comments?|transcripts?|passages?|paragraphs?|quotes?)
        |(?:text|one|lines?)\ (?:above|below)
        |(?:attached|uploaded)\b|attachments?\b
        |what\ (?:is|are|does|do|did)\ (?:this|these|it)\b.{0,40}\b(?:about|means?|says?|for)
        |(?:summari[sz]e|translate|explain|proof-?read|rewrite|rephrase|paraphrase|review|check|read|look\ (?:over|at|through|into)|analy[sz]e|answer|reply\ to|respond\ to|make\ of|think\ of|about)\ (?:this|these|the\ (?:following|above|below))
            (?!\ (?:[\w-]+\ ){0,2}(?:code|script|function|class|method|module|component|query|schema|test|tests|config\w*|implementation|workflow|issue|error|bug|approach|feature|problem|idea|plan)\b)
        )\b"""
)
# A line or sentence that only says what to do with a text, or that one is here: what follows is that text, and where
# nothing follows, what came before.
_TASK: Final = re.compile(
    r"""(?ix)^(?:(?:please|now|can\ you|could\ you)\ )*(?:
        (?:translate|summari[sz]e|proof-?read|rewrite|rephrase|paraphrase|polish|shorten|correct|continue|check)\ (?:this|these|it|the\ (?:following|text|sentences?|paragraph|story|statements?))\b
        | (?:fix|check|correct|improve)\ the\ (?:grammar|spelling|wording|style|typos?)\b
        | (?:improve|polish|shorten|fix|check|edit|correct|proof-?read|review|rewrite)\ (?:my|our|his|her|their|the)\ (?:(?!(?:error|commit|log|status)\b)\w+\ )?(?:letter|e-?mail|essay|text|bio|cv|résumé|resume|message|post|draft|paragraph|speech|abstract|caption)\b
        | (?:answer|reply\ to|respond\ to)\ (?:this|that|the)\ (?:\w+\ )?(?:e-?mail|mail|message|letter|text|comment|post|review)\b
        | (?:is|are)\ (?:this|these|the\ following)\ (?:\w+\ )?(?:sentences?|phrases?)\b | which\ (?:one\ |sentence\ )?is\ (?:right|correct)\b
        | (?:repeat|say|type|write)\ (?:this\ |it\ |exactly\ )*(?:after\ me|what\ I\ (?:say|write|type))\b
        )(?!.*\b(?:code|script|function|class|config\w*|test|tests|build|query|file)\b).{0,60}$
    | ^(?:here(?:'s|’s|\ is|\ are)|this\ is|I\ (?:just\ )?(?:got|received|found))\ (?:this|these|the|an?)\ (?:\w+\ )?(?:text|doc|document|message|e-?mail|mail|letter|page|article|note|post|transcript)s?\W*$
    | ^.{2,80}\b(?:posted|wrote|writes|sent|shared|said|says|texted|replied)\ (?:(?:me|us)\ )?(?:this|the\ following)\W*$"""
)
_PERSON: Final = (
    r"(?:clients?|customers?|tenants?|guests?|landlord|landlady|neighbou?rs?|colleagues?|coworker|boss|manager|friends?|flatmates?|roommate|pupils?|students?|teacher|mum|mom|mother|dad|father|parents?|sister|brother|aunt|uncle|cousin|niece|nephew|son|daughter|grand\w{1,20}|wife|husband|partner|girlfriend|boyfriend|ex|applicant|candidate|intern|supplier|patient|doctor|lawyer|reader|user"
    r"|kund\w{1,20}|mieter\w{0,20}|vermieter\w{0,20}|nachbar\w{0,20}|kolleg\w{1,20}|chef\w{0,20}|freund\w{0,20}|mitbewohner\w{0,20}|schüler\w{0,20}|student\w{0,20}|mutter|vater|eltern|schwester|bruder|tante|onkel|cousine?|nichte|neffe|sohn|tochter|oma|opa|frau|mann|bewerber\w{0,20}|praktikant\w{0,20}|gast|patient\w{0,20}"
    r"|cliente?s?|locataire|propriétaire|voisine?s?|collègues?|patronn?e?|amie?s?|coloc\w{0,20}|élèves?|étudiante?|mère|père|sœur|frère|tante|oncle|nièce|neveu|fils|fille|femme|mari|stagiaire|candidate?"
    r"|clientas?|inquilin[oa]s?|caser[oa]|vecin[oa]s?|compañer[oa]s?|jef[ea]|amig[oa]s?|alumn[oa]s?|madre|padre|herman[oa]|tí[oa]|prim[oa]|sobrin[oa]|hij[oa]|mujer|marido|abuel[oa]|becari[oa]"
    r"|senhori[oa]|vizinh[oa]s?|colegas?|chefe|alun[oa]s?|mãe|pai|irmã|irmão|ti[oa]|sobrinh[oa]|filh[oa]|mulher|avó|avô|estagiári[oa]"
    r"|clienti|vicin[oa]|collega|amic[oa]|mamma|papà|sorella|fratello|zi[oa]|cugin[oa]|nipote|figli[oa]|moglie|marito|nonn[oa]|stagista)"
)
"""Words for the authors of texts that users bring, in six languages."""
_OF_A: Final = r"(?:(?:an?|my|our|the|one\ of\ (?:my|our|the)|eine[mrn]?|ein|meine[mrn]?|mein|unsere[mrn]?|der|dem|une?|mon|ma|mes|notre|le|la|l'|un[oa]?|mi|mis|el|nuestr[oa]|uma?|o|a|(?:o\ |a\ |il\ |la\ )?(?:meu|minha|noss[oa]|mi[oa])|il)\ ?(?:\w{1,20}\ )?)"
OF_A_PERSON: Final = rf"{_OF_A}{_PERSON}\b"
"""``my aunt``, ``eine Kundin``, ``un voisin``."""
_NAMES_AUTHOR: Final = re.compile(
    rf"""(?ix)^\W*(?:
      (?:that|this|it)(?:'s|\ is|\ was|\ came)\ (?:(?:an?|the)\ (?:text|letter|message|e-?mail|mail|post|review|essay|note|application)\ )?(?:all\ )?(?:from|by)\ {OF_A_PERSON}
    | (?:that|this|it)(?:'s|\ is|\ was)\ (?:my|our)\ {_PERSON}(?:'s|s')\ (?:\w+\ )?(?:text|letter|message|e-?mail|mail|post|review|essay|note|application|poem|story|cv|homework|report|ad|speech|draft|statement)\b
    | {OF_A_PERSON}\ (?:just\ )?(?:sent|wrote|gave|forwarded|texted)\ (?:me\ |us\ )?(?:that|this)\b
    | (?:das|dies|es|die|der)\ (?:ist|war|kam|kommt|stammt)\ von\ {OF_A_PERSON} | (?:das|dies|die|den|es)\ hat\ (?:mir\ |uns\ )?{OF_A_PERSON}\ (?:mir\ |uns\ )?(?:geschickt|geschrieben|geschickt|gegeben|weitergeleitet)\b
    | (?:c'est|ça\ vient|cela\ vient|c'était)\ (?:(?:le|la|un|une)\ (?:mot|message|mail|lettre|texte)\ )?(?:de|d')\ ?{OF_A_PERSON} | c'est\ {OF_A_PERSON}\ qui\ (?:m'|nous\ |l')\ ?(?:a\ )?(?:écrit|envoyé)
    | (?:es|era|esto\ es|eso\ es)\ (?:(?:el|la|un|una)\ (?:mensaje|correo|carta|texto)\ )?de\ {OF_A_PERSON} | (?:me\ |nos\ )(?:lo|la)\ (?:escribió|mandó|envió|ha\ escrito|ha\ mandado|ha\ enviado)\ {OF_A_PERSON}
    | (?:é|isto\ é|isso\ é|era)\ (?:(?:o|a|um|uma)\ (?:mensagem|e-?mail|carta|texto)\ )?(?:d[aeo]|de\ uma?|dum|duma)\ (?:(?:minha|meu|noss[oa])\ )?{_PERSON}\b | foi\ {OF_A_PERSON}\ que\ (?:me\ )?(?:escreveu|mandou|enviou)\b
    | (?:è|era|viene)\ (?:(?:il|la|un|una|l')\ ?(?:messaggio|mail|lettera|testo)\ )?(?:di|da|del|della|dal|dalla)\ (?:un[oa']?\ |(?:mi[oa]|nostr[oa])\ )?{_PERSON}\b | (?:me|ce)\ l'ha\ (?:scritt|mandat|inviat)[oa]\ {OF_A_PERSON}
    | \^{{1,3}}\ ?\w | (?:that|this)(?:'s|\ is)\ what\ (?:[\w'-]{{1,20}}\ ){{1,4}}(?:wrote|said|sent|posted|texted)\b
    | c'est\ (?:le|un|la|une)\ (?:mot|message|mail|lettre|texte)\ (?:de|du|d')
    )"""
)
"""How a paragraph begins that names the author of the text above it."""
_TELLS: Final = re.compile(
    rf"(?ix)(?:please\ |pls\ )?(?:translate|übersetze?|traduis|traduce|traduz|traduci)\b[^.!?\n]{{0,40}}\ [–—-]\ |(?:so\ |also\ )?{OF_A_PERSON}(?:\ \w{{1,20}}){{0,3}}\ ?(?:->|→|=>|[–—-]\ (?=(?:I|I'm|im|my|we|ich|mein\w{{0,20}}|je|mon|ma|yo|mi|eu|io)\b)(?!.{{0,80}}\ [–—-]\ )|(?:goes|is\ like|was\ like|be\ like),?\ (?=(?:I|I'm|im|my|we)\b))"
)
"""A person, and their words behind an arrow or a dash: ``my boss on Slack -> I want you in at seven``."""
_ADDRESSED_TO: Final = re.compile(
    r"""(?x)(?<=[.!?:\n])\s{0,9}\b(?:Hi|Hello|Hey|Dear|Hallo|Liebe[rs]?|Guten\ Tag|Sehr\ geehrte[rs]?|Bonjour|Chère?|Salut|Hola|Querid[oa]|Estimad[oa]|Olá|Prezad[oa]|Car[oa]|Ciao|Gentile|Buongiorno)
        \ (?:[A-Z][\w.'-]{1,30}\ ?){1,3}[,!.:]?\s"""
)
_SIGNED: Final = re.compile(
    r"""(?x)\b(?:(?:[Kk]ind\ |[Bb]est\ |[Ww]arm\ )?[Rr]egards|Best(?:\ wishes)?|Cheers|Sincerely|Yours(?:\ (?:truly|sincerely|faithfully))?|(?:Viele|Liebe|Beste|Schöne)\ Grüße|(?:Mit\ f|F)reundlichen\ Grüßen|Gruß|Cordialement|Bien\ à\ \w+|Amicalement|(?:Un\ )?[Ss]aludos?|Un\ abrazo|Atentamente|Abraços?|Atenciosamente|Cumprimentos|Cordiali\ saluti|Saluti|Un\ saluto)
        \s{0,9}[,.!]?\s{1,9}[A-Z][\w.'-]{1,30}(?:\ [A-Z][\w.'-]{1,30})?\W{0,9}$"""
)
"""How a letter begins, behind words of one's own, and how it ends, at the end of a message."""
_SIGNATURE: Final = 120

_STAMPED: Final = re.compile(
    r"""(?imx)^[ \t]*[\w.'-]{1,30}(?:\ [\w.'-]{1,30}){0,2}[ \t]{0,3}[,—–-]?[ \t]{1,9}
    \[?(?:(?:\d{1,4}[./-]\d{1,2}[./-]\d{1,4},?|today|yesterday|heute|gestern|aujourd'hui|hier|hoy|ayer|hoje|ontem|oggi|ieri)[ \t]{1,3}(?:(?:at|um|à|a\ las|às|alle)[ \t]{1,3})?)?
    \d{1,2}:\d\d(?::\d\d)?(?:\ ?[ap]\.?m\.?)?\]?[ \t]*$"""
)
"""A name and a time alone in a line: a chat shows so who says what follows."""
_TALK: Final = 2
"""So many of them are a conversation that was copied."""
_BRACKETED: Final = re.compile(r"(?i)\[(/?)quote(?:=[^\]\n]{0,80})?\]")
_RULED: Final = re.compile(r"(?ms)^[ \t]*[-=_*~]{3,}[ \t]*$.*^[ \t]*[-=_*~]{3,}[ \t]*$")
_FENCED: Final = re.compile(r"(?ms)^[ \t]{0,8}(```|~~~).*^[ \t]{0,8}\1")
ABOUT_ME: Final = re.compile(
    r"(?i)\b(?:about (?:me|myself|us|my\b.*)|my (?:preferences|details|setup|situation|background|context|profile|facts)|context|background|fyi)\W*$"
)

_ABBREVIATIONS: Final = words(
    """
    mr mrs ms dr prof st sr jr vs etc e.g i.e eg ie approx no nr nos inc ltd corp co dept est fig gen gov hon rev
    sen rep jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur fri sat sun a.m p.m u.s u.k
    u.s.a d.c ph.d m.d b.a b.sc m.a m.sc z.b d.h u.a bzw ca mme mlle sra srta dña sig dra profa hr fr av
    govt intl univ assoc attn incl excl resp temp orig misc mgmt inkl exkl evtl bspw sogen vgl abzgl zzgl
    """
)
_ENDS_SHORT: Final = words("it me us him her you now too yet all out off up on in job day way one two so him")
"""Words of fewer letters than :data:`_LONGEST_ABBREVIATION` that end a sentence, and are no abbreviations."""

_LONGEST_ABBREVIATION: Final = 4
"""From so many letters on a word that is no known abbreviation ends its sentence, also where lower case follows it."""

_MONTH: Final = re.compile(r" (?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)")
_END: Final = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s)|[。！？]+")


def sentences(text: str) -> list[str]:
    """Return the sentences of *text* that the person wrote about the moment, in order, white space made plain.

    Left out are fenced and indented code, quoted lines, tables, logs, mails with their headers, what
    follows a colon that introduces another author's text, and very long paragraphs.
    """
    return list(_sentences(text[:MAX_CHARACTERS]))


@lru_cache(maxsize=4)
def _sentences(text: str) -> tuple[str, ...]:
    text = with_fences_apart(text)
    if around := around_marks(text):
        return (*_sentences_of(_unmarked(around.before)), *_sentences_of(_unmarked(around.after)))
    found = tuple(_sentences_of(_typed(text)))
    task = next((place for place, sentence in enumerate(found) if _is_task(sentence)), None)
    if task is None:
        return found
    return found[: task + 1] if task + 1 < len(found) else found[task:]


_TASK_ELSEWHERE: Final = re.compile(
    r"""(?ix)^(?:(?:bitte|por\ favor|per\ favore|s'il\ (?:te|vous)\ plaît)[, ]+)?(?:
    (?:übersetze?|fasse?|korrigiere?|verbessere?|formuliere?|überarbeite?|beantworte?|kürze?)\ (?:mir\ )?(?:das|dies\w*|den|die|folgende\w*)\b
    | (?:traduis|traduisez|résumez?|corrigez?|reformulez?|améliorez?|réponds\ à|répondez\ à)\ (?:ceci|cela|ça|cet?|cette|ces|les?|la)\b
    | (?:traduce|traduzca|resume|corrige|reescribe|mejora|responde\ a|traduz|traduza|resuma|corrija|reescreve|reescreva|melhore|responda\ a)\ (?:est[eoa]s?|iss?to|isso|ess[ea]|el|la|lo|los|las|o|a|os|as)\b
    | (?:traduci|riassumi|correggi|riscrivi|migliora|rispondi\ a)\ (?:quest[oaie]|il|la|lo|i|le)\b
    | (?:これ|この(?:文|文章|メール)|次の(?:文|文章|メール)|以下)[^。]{0,20}(?:翻訳|訳し|要約|添削|校正|修正|返信)
    | (?:请|請)?(?:把|将|將)(?:这|這|以下|下面)[^。]{0,12}(?:翻译|翻譯|总结|總結|润色|潤色|改写|改寫|校对|校對)
    | (?:请|請)?(?:翻译|翻譯|总结|總結|润色|潤色|改写|改寫|校对|校對|回复|回覆)(?:一下)?(?:这|這|以下|下面)
    ).{0,60}$"""
)
"""Says only what to do with a text that follows, in languages other than English."""


def _is_task(sentence: str) -> bool:
    return _TASK.match(sentence) is not None or _TASK_ELSEWHERE.match(straight(sentence)) is not None


def _sentences_of(text: str) -> list[str]:
    return [sentence for paragraph in _paragraphs(text) for sentence in split_sentences(paragraph)]


def _unmarked(text: str) -> str:
    """Return *text* without the parts between marks that users put around texts of other authors.

    From the first such mark to the last: what is between may hold marks of its own.
    """
    text = _BRACKETED.sub(r"\n<\1quote>\n", _before_a_letter(_before_transcript(text)))
    text = without_lone_quotations(_RULED.sub("\n\n", untagged(text)))
    return without_quotations(text)


def _typed(text: str) -> str:
    """Return *text* without other authors' texts: what is in marks and, where the first or last paragraph asks, the rest.

    Where the first or the last paragraph asks about a text, the others are that text.
    """
    text = _unmarked(text)
    if (fence := _FENCED.search(text)) and _ASKS_ABOUT.search(text[: fence.start()]):
        text = f"{text[: fence.start()]}\n```\n```{text[fence.end() :]}"
    blocks = [block for block in BLANK_LINE.split(text) if block.strip()]
    if len(blocks) == 1 or not blocks:
        return text
    first, *between, last = blocks
    announced = _INTRODUCES.search(first) or first.rstrip().endswith(":") or _MAIL_HEADER.match(first.strip())
    if announced and (between or _MAIL_HEADER.match(first.strip())) and names_author(last):
        return f"{first if between else ''}\n```\n```\n{last}"
    asks_first, asks_last = (_ASKS_ABOUT.search(one) and not _INTRODUCES.search(one) for one in (first, last))
    if asks_last:  # if the first speaks of a text, too, either may be the text
        return "" if asks_first or _INTRODUCES.search(first) else last
    return first if asks_first else text


def names_author(paragraph: str) -> bool:
    """Return whether *paragraph* begins by naming the author of the text above it: ``That's from a pupil``."""
    return _NAMES_AUTHOR.match(straight(paragraph)) is not None


def is_letter(paragraph: str) -> bool:
    """Return whether *paragraph* begins by addressing a person by name and ends with the name of another."""
    text = f"\n{paragraph.strip()}"
    return _ADDRESSED_TO.match(text, 1) is not None and _SIGNED.search(text, max(0, len(text) - _SIGNATURE)) is not None


def _before_a_letter(text: str) -> str:
    signed = _SIGNED.search(text, max(0, len(text) - _SIGNATURE))
    letter = _ADDRESSED_TO.search(text, 0, signed.start()) if signed else None
    return text[: letter.start()] if letter else text


def _before_transcript(text: str) -> str:
    stamped = [found.start() for found in _STAMPED.finditer(text)]
    return text[: stamped[0]] if len(stamped) >= _TALK else text


def _paragraphs(text: str) -> list[str]:
    """Return paragraphs, bullets and lines, each as one line."""
    found: list[str] = []
    fence = ""
    introduced = False
    logged = False
    unended = 0
    lines = text.splitlines()
    width = max(_NARROWEST_WRAP, max(map(len, lines), default=0))
    lines, lists = _with_lists(lines)
    noted = _are_notes(lines)
    for line in lines:
        opening = _FENCE.match(line)
        if opening:
            fence = "" if fence and opening[1].startswith(fence) else fence or opening[1][:3]
            unended, introduced = 0, False  # what was announced is what the fence holds
            continue
        body = line.strip()
        if introduced and not logged and _TRACE.match(line):
            introduced, logged = False, True
        logged = logged and bool(body)
        if fence or logged or (introduced and not body):
            continue
        if introduced:
            break
        if _MAIL_HEADER.match(body) and not noted:
            break
        if not body or _is_foreign(line, body):
            unended = 0
            head, colon, _ = body.partition(":")
            introduced = bool(_INTRODUCES.search(head + colon)) and not _is_foreign(head, head)
            continue
        item = _without_bullet(line)
        bulleted, body = item != body, item
        with_next = unended + 1 + len(body.partition(" ")[0])
        goes_on = bool(unended) and with_next > width and not bulleted and body[:1].islower()
        unended = _unended(line.rstrip())
        if goes_on and len(found[-1]) > _PASTED_PARAGRAPH:  # it is left out anyway, so it is not read again
            _, introduced = _split_introduced(body)
            continue
        if goes_on:
            found[-1] = f"{found[-1]} {body}"
        else:
            found.append(body)
        found[-1], introduced = _split_introduced(found[-1], noted=noted or body in lists)
    return [plain(paragraph) for paragraph in found if 0 < len(paragraph) <= _PASTED_PARAGRAPH]


def _unended(line: str) -> int:
    """Return how wide *line* is if its sentence may go on in the next: 0 for no, and no bound where it must."""
    if line[-1:] in '.!?:;…"”':
        return 0
    last = line.rpartition(" ")[2].lower()
    return MAX_CHARACTERS if last in LEADS_ON else len(line)


def _is_foreign(line: str, body: str) -> bool:
    """Whether a line was pasted: a quotation, a table, code or a log."""
    if _QUOTATION.match(line) or _LOG.match(line) or _CODE.match(body) or body.endswith(_CODE_ENDS):
        return True
    if (_INDENTED.match(line) and not _BULLET.match(line)) or _COMMANDED.match(body):
        return True
    symbols = sum(map(body.count, "{}[]()<>=;|&$#\\/_*+~^@`"))
    return symbols * 8 > len(body) + 16


def labelled_line(text: str) -> str:
    """Return *text* if it is one short line that a name and a colon lead, so that it has no own sentence; else nothing.

    ``Knives: I swear by carbon steel.`` may be a line of a conversation, or a note of the user's. What is announced as
    a text is left out, unless the user dictates it: ``Draft an invoice: three hours at 78.``
    """
    line = text.strip()
    if len(line) > _LONGEST_LINE or "\n" in line or _is_foreign(line, line):
        return ""
    if announced := _INTRODUCES.search(line):
        head = line[: announced.end()]
        return line if _DICTATES.match(head) and not (_OF_A_TEXT.search(head) or QUOTES.search(line)) else ""
    own, is_of_other = _split_introduced(line, noted=_are_notes([line]))
    return line if is_of_other and not own else ""


def _are_notes(lines: Sequence[str]) -> bool:
    """Return whether the lines that a name and a colon lead are notes, of a label and a value, and no conversation.

    No value speaks of its author. In several lines, values are short and do not end as sentences do, and no label
    occurs twice: ``Height: 168 cm``, ``Weight: 64 kg``. Unless all have figures, there are three at least, and no
    statement of a person follows.
    """
    bodies = [_without_bullet(line) for line in lines]
    labelled = {place: body.partition(":") for place, body in enumerate(bodies) if _SPEAKER.match(body)}
    values = [value.strip() for _, _, value in labelled.values()]
    if not labelled or any(map(_speaks, values)) or any(map(_OF_A_MAIL.match, bodies)):
        return False
    if len(lines) == 1:
        return True
    if len({label for label, _, _ in labelled.values()}) < len(labelled) or not all(map(_is_short_value, values)):
        return False
    behind = [body for place, body in enumerate(bodies) if place > min(labelled) and place not in labelled]
    if all(map(_DIGIT.search, values)):
        return True
    return len(values) >= _LEAST_FORM and not any(_speaks(body) and not is_request(body) for body in behind)


def _is_short_value(value: str) -> bool:
    return len(value.split()) <= _NOTE_WORDS and value[-1:] not in (".", "!", "?", "…")


def _with_lists(lines: Sequence[str]) -> tuple[list[str], set[str]]:
    """Return *lines*, each heading with its list of notes in one, and those: ``Shopping:``, ``- oat milk``."""
    joined: list[str] = []
    lists: set[str] = set()
    rest = 0
    for place, line in enumerate(lines):
        if place < rest:
            continue
        heading = line.rstrip()
        items, end = _items(lines, place + 1) if heading.endswith(":") and not _introduced_in(heading) else ([], 0)
        if items:
            heading = f"{heading} {'; '.join(items)}"
            lists.add(_without_bullet(heading))
            rest = end
        joined.append(heading if items else line)
    return joined, lists


def _items(lines: Sequence[str], start: int) -> tuple[list[str], int]:
    """Return the notes that stand from *start* on in *lines*, and where they end; none if they may be another author's.

    They have bullets or are a few words. None speaks of its author, or says what shall be done.
    """
    items: list[str] = []
    place = start + 1 if start < len(lines) and not lines[start].strip() else start
    bulleted = place < len(lines) and _BULLET.match(lines[place]) is not None
    while place < len(lines) and sum(map(len, items)) <= _LONGEST_LIST and len(items) < _MOST_ITEMS:
        line, item = lines[place], _without_bullet(lines[place])
        if not item or (bulleted and item == line.strip()):
            break
        if not _is_note(line, item, bulleted=bulleted):
            return [], start
        items.append(item.rstrip(".;,"))
        place += 1
    return items, place


def _is_note(line: str, item: str, *, bulleted: bool) -> bool:
    few = bulleted or _is_short_value(item)
    text = _speaks(item) or _INTRODUCES.search(item) or _is_foreign(line, item) or _FENCE.match(line)
    return few and len(item) <= _LONGEST_LINE and not item.endswith(":") and not text


def _without_bullet(line: str) -> str:
    bullet = _BULLET.match(line)
    return line[bullet.end() if bullet else 0 :].strip()


def _speaks(text: str) -> bool:
    """Return whether *text* speaks of its author, quotes, or says what shall be done."""
    said = straight(text.strip())
    return any((_OF_AUTHOR.search(text), SUBJECT_IN_VERB.match(said), _WITHOUT_I.match(said)))


def _introduced_in(paragraph: str) -> re.Match[str] | None:
    """Return what announces another author's text in *paragraph*; ``Here are my allergies:`` does not."""
    mine = _HERE_MINE.match(paragraph)
    return _INTRODUCES.search(paragraph, mine.end() if mine else 0)


def _split_introduced(paragraph: str, *, noted: bool = False) -> tuple[str, bool]:
    """Return the part before another author's text, and whether there is such a text that may go on.

    A quotation right behind the first colon is that text, and what follows it is the user's again. A label and a value
    are no line of a conversation where such lines are *noted* (``Passport: until 2031.``); a name and its words are one.
    """
    quoted = _INTRODUCED_QUOTATION.search(paragraph)
    if quoted and ":" not in paragraph[: quoted.start()] and not QUOTES.search(paragraph, quoted.end()):
        return f"{_split_introduced(paragraph[: quoted.start() + 1])[0]} {paragraph[quoted.end() :]}".strip(), False
    if (found := _introduced_in(paragraph)) and not _is_value(paragraph):
        start = _sentence_start(paragraph, found.end())  # what stands before the sentence with the colon is the user's
        if not _INTRODUCES.search(paragraph, start):  # but for what an earlier one announces
            start = _sentence_start(paragraph, found.start())
        return paragraph[:start], True
    if paragraph.endswith(":") and not ABOUT_ME.search(paragraph):
        return paragraph[: _sentence_start(paragraph, len(paragraph))], True
    if _TELLS.match(paragraph):
        return "", True
    if not noted and _SPEAKER.match(paragraph) and not ABOUT_ME.search(paragraph.partition(":")[0]):
        return "", True
    return paragraph, False


def _sentence_start(paragraph: str, place: int) -> int:
    """Return where the sentence begins in which *place* stands."""
    return max((end.end() for end in _END.finditer(paragraph, 0, place)), default=0)


def _is_value(paragraph: str) -> bool:
    """Whether a colon leads to a few words that speak of no author, as in ``The letter arrived: 1,010 a month``."""
    head, _, tail = paragraph.partition(":")
    return 0 < len(tail.split()) <= _VALUE_WORDS and not (
        ":" in tail or _OF_AUTHOR.search(tail) or _is_task(head) or _TASKS.match(head) or _ASKS_ABOUT.search(head)
    )


def split_sentences(paragraph: str) -> list[str]:
    """Return the sentences of one paragraph."""
    found: list[str] = []
    start = 0
    for end in _END.finditer(paragraph):
        if _is_abbreviation(paragraph, start, end):
            continue
        found.append(paragraph[start : end.end()].strip())
        start = end.end()
    found.append(paragraph[start:].strip())
    return [sentence for sentence in found if any(map(str.isalnum, sentence))]


def _is_abbreviation(paragraph: str, start: int, end: re.Match[str]) -> bool:
    """Whether the stop is an abbreviation's, an initial's or an ordinal number's."""
    if end[0] != ".":
        return end[0] in ("…", "...") and paragraph[end.end() :].lstrip()[:1].islower()
    words = paragraph[start : end.start()].rsplit(maxsplit=1)
    word = words[-1].lstrip("(\"'“").casefold() if words else ""
    following = paragraph[end.end() :].lstrip()[:1]
    if word in _ABBREVIATIONS:
        ends = word in {"a.m", "p.m", "etc", "co", "inc", "ltd", "no"} and not following.islower()
        return not ends or (word == "no" and following.isdigit())
    initial = len(word) == 1 and word.isalpha() and word != "i"
    ordinal = word.isdigit() and len(words) > 1 and _MONTH.match(paragraph, end.end()) is not None
    whole = word in _ENDS_SHORT or (len(word) >= _LONGEST_ABBREVIATION and word[-1].isalpha())
    return initial or ordinal or (following.islower() and not whole)
