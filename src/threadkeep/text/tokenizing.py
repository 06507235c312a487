"""Which terms a text is found by, which texts of an item are searchable, and which language a text is in."""

from __future__ import annotations

import json
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import Stemmer

Language: TypeAlias = Literal[
    "arabic",
    "danish",
    "dutch",
    "english",
    "finnish",
    "french",
    "german",
    "hungarian",
    "italian",
    "norwegian",
    "portuguese",
    "romanian",
    "russian",
    "spanish",
    "swedish",
]
"""What words are stemmed in: fifteen of Snowball's, by the names that it gives them."""

LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)

MONTHS: Final[Mapping[str, int]] = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar janvier enero gennaio janeiro januari",
            "february feb februar février febrero febbraio fevereiro februari",
            "march mar märz mars marzo março maart",
            "april apr avril abril aprile",
            "may mai mayo maggio maio mei",
            "june jun juni juin junio giugno junho",
            "july jul juli juillet julio luglio julho",
            "august aug août agosto augustus",
            "september sep sept septembre septiembre settembre setembro",
            "october oct oktober octobre octubre ottobre outubro",
            "november nov novembre noviembre novembro",
            "december dec dezember décembre diciembre dicembre dezembro",
        ),
        start=1,
    )
    for name in names.split()
}
"""The number of each month by its name: English, German, French, Spanish, Italian, Portuguese, Dutch; small letters."""

STOP_WORDS: Final = frozenset(
    """
    a an the this that these those
    i me my mine myself we us our ours ourselves you your yours yourself yourselves
    he him his himself she her hers herself it its itself they them their theirs themselves
    who whom whose which what when where why how
    am is are was were be been being do does did doing done have has had having
    can could will would shall should may might must
    and or but nor if then else than so because while until although though
    of at by for with about against between into through during before after above below
    to from up down in out on off over under again further once
    here there all any both each few more most other some such no not only own same too very just also
    as ever yes please
    s t d m ll re ve don doesn didn isn aren wasn weren hasn haven hadn won wouldn couldn shouldn
    """.split()  # noqa: SIM905 - a table of words reads better than a list of quoted ones
)
"""English words that say nothing about what a text is about; a question's own words among them."""

_FUNCTION_WORDS: Final[Mapping[Language, str]] = {
    "arabic": """
        من في على إلى الى عن مع هذا هذه ذلك تلك هو هي هم هن أنا انا أنت انت نحن كان كانت يكون تكون ما ماذا متى أين اين
        كيف لماذا كم هل لا لم لن ليس ليست قد لقد إن ان أن و ف ثم أو او لكن بل حتى كل بعض غير بعد قبل عند لدي لديك لي لك
        له لها التي الذي الذين أي اي إذا اذا كما منذ بين تحت فوق هنا هناك
    """,
    "danish": """
        jeg du han hun den det vi i de mig dig ham hende os jer dem min mit mine din dit dine sin sit sine hans hendes
        vores deres og eller men at som der hvad hvem hvor hvornår hvorfor hvordan hvilken hvilket hvilke er var være
        været bliver blev har havde have kan kunne skal skulle vil ville må en et på til af for fra med om ved efter
        over under ikke også når da så nu her mange meget hvis
    """,
    "dutch": """
        ik jij je u hij zij ze het wij we jullie mij me jou hem haar ons hen hun mijn jouw uw zijn onze de een en of
        maar want dat die dit deze er wat wie waar wanneer waarom hoe welke welk ben bent is was waren geweest word
        wordt werd heb hebt heeft had hebben kan kunnen zal zullen wil moet van in op te aan met voor naar uit bij om
        tot over onder door niet geen ook nog als dan toen nu hier daar veel zo
    """,
    "finnish": """
        minä sinä hän me te he minun sinun hänen meidän teidän heidän minut sinut minua sinua minulla sinulla hänellä
        minulle sinulle se ne tämä nämä tuo nuo sen niiden sitä ja tai mutta että jos kun koska kuin joka jotka mikä
        mitä kuka kenen missä mistä mihin milloin miksi miten millainen olen olet on olemme olette ovat oli olin olit
        olivat ollut olla ei en et eivät ole myös vain nyt sitten täällä siellä kanssa ennen jälkeen
    """,
    "french": """
        je tu il elle on nous vous ils elles moi toi lui leur leurs me te se mon ma mes ton ta tes son sa ses notre nos
        votre vos le la les un une des du de au aux ce cet cette ces ça cela qui que quoi dont où quand comment pourquoi
        quel quelle quels quelles est es suis sommes êtes sont était étais étaient été être ai as avons avez ont avait
        avais avaient avoir et ou mais donc ni car si ne pas plus en y à dans sur sous avec sans pour par chez entre
        vers depuis pendant après avant aussi très ici là c d j l m n qu s t
    """,
    "german": """
        ich du er sie es wir ihr mich dich ihn uns euch mir dir ihm ihnen mein meine meinen meinem meiner meines dein
        deine deinen deinem deiner sein seine seinen seinem seiner ihre ihren ihrem ihrer unser unsere euer eure der die
        das den dem des ein eine einen einem einer eines dieser diese dieses diesen jener jene und oder aber denn
        sondern dass ob wenn als weil da wer wen wem wessen was wo wann warum wie welche welcher welches welchen woher
        wohin bin bist ist sind seid war waren warst gewesen habe hast hat haben hatte hatten werde wirst wird werden
        wurde wurden kann können konnte muss müssen soll sollen will wollen darf in im an am auf aus bei beim mit nach
        von vom zu zum zur für über unter um durch gegen ohne vor hinter zwischen seit bis nicht kein keine keinen auch
        noch nur schon sehr so hier dort dann jetzt man sich
    """,
    "hungarian": """
        én te ő mi ti ők engem téged őt minket nekem neked neki az a egy ez ezek azok és vagy de hogy ha mert mint aki
        ami amely akik ki mit hol hova honnan mikor miért hogyan milyen melyik hány vagyok vagy van vagyunk vannak volt
        voltam voltak lesz lenni nem sem is csak már még most itt ott nagyon meg el fel le be után előtt alatt között
    """,
    "italian": """
        io tu lui lei noi voi loro me te mi ti ci vi si lo la li le gli ne mio mia miei mie tuo tua tuoi tue suo sua
        suoi sue nostro nostra vostro vostra il i l un uno una di a da in con su per tra fra del dello della dei degli
        delle al allo alla ai agli alle dal dalla dai nel nello nella nei nelle sul sulla sui sulle e ed o ma anche se
        che chi cosa quando dove come perché quale quali quanto quanti sono sei è siamo siete era ero erano stato stata
        essere ho hai ha abbiamo avete hanno aveva avevo avere non più molto qui questo questa questi queste quello
        quella d c dell nell all dall sull
    """,
    "norwegian": """
        jeg du han hun den det vi i dere de meg deg ham henne oss dem min mitt mine din ditt dine sin sitt sine hans
        hennes vår vårt våre deres og eller men at som hva hvem hvor når hvorfor hvordan hvilken hvilket hvilke er var
        være vært blir ble har hadde ha kan kunne skal skulle vil ville må en ei et på til av for fra med om ved etter
        over under ikke også da så nå her mange mye hvis
    """,
    "portuguese": """
        eu tu ele ela nós vós eles elas você vocês me te se lhe nos mim ti meu minha meus minhas teu tua seu sua seus
        suas nosso nossa o a os as um uma uns umas de do da dos das em no na nos nas num numa por pelo pela com sem para
        pra entre sobre até desde após e ou mas que quem qual quais quando onde como porque porquê quanto quantos é és
        sou somos são era eram foi fui foram ser estou está estão estava estar tenho tens tem temos têm tinha ter havia
        não mais muito também já só aqui isto isso este esta esse essa aquele aquela
    """,
    "romanian": """
        eu tu el ea noi voi ei ele mă te îl o ne vă îi le mie ție lui îmi îți meu mea mei mele tău ta tăi tale său sa
        nostru noastră un o unei unui al a ai ale de la în din pe cu pentru prin sub între despre după până și sau dar
        iar că dacă ca să care cine ce când unde cum cât câți sunt ești este e suntem sunteți era eram erau fost fi am
        ai are avem aveți au avea nu mai foarte aici acolo acest această acel aceea acum
    """,
    "russian": """
        я ты он она оно мы вы они меня тебя его её ее нас вас их мне тебе ему ей нам вам им мной тобой мой моя моё мое
        мои моего моей моих твой твоя твоё твои свой своя своё свои наш наша наше наши ваш ваша это этот эта эти тот та
        те того что кто кого чего кому чему где куда откуда когда почему зачем как какой какая какое какие сколько и а
        но или да нет не ни же ли бы если чтобы потому в во на с со к ко от до из у о об за под над при по для без между
        через после перед был была было были быть есть буду будет уже ещё еще только тоже также очень здесь там тут
        сейчас
    """,
    "spanish": """
        yo tú él ella nosotros vosotros ellos ellas usted ustedes me te se le les lo la los las nos os mí ti mi mis tu
        tus su sus mío mía nuestro nuestra vuestro el un una unos unas al del de a en con sin por para entre sobre hasta
        desde hacia según tras y e o u ni pero sino que qué quién quiénes cuál cuáles cuándo cuando dónde donde cómo
        como porque cuánto cuántos cuántas soy eres es somos son era eras eran fui fue fueron ser sido estoy estás está
        estamos están estaba estar he has ha hemos han había haber tengo tienes tiene no más muy también ya aquí allí
        este esta esto estos estas ese esa eso esos esas aquel aquella si
    """,
    "swedish": """
        jag du han hon den det vi i ni de mig dig honom henne oss er dem min mitt mina din ditt dina sin sitt sina hans
        hennes vår vårt våra deras och eller men att som vad vem var när varför hur vilken vilket vilka är varit vara
        blir blev har hade ha kan kunde ska skulle vill ville måste en ett på till av för från med om vid efter över
        under inte också då så nu här många mycket där
    """,
}

FUNCTION_WORDS: Final[Mapping[Language, frozenset[str]]] = {
    "english": STOP_WORDS,
    **{language: frozenset(words.split()) for language, words in _FUNCTION_WORDS.items()},
}
"""Words of each language that say nothing about what a text is about, and much about which language it is in."""
EVERY_FUNCTION_WORD: Final = frozenset[str]().union(*FUNCTION_WORDS.values())

_OF_SCRIPT: Final[tuple[Language, ...]] = ("arabic", "russian")
_ENGLISH_TOO: Final = frozenset(
    """
    a ai al ale also am ami are art as at au be ben bent bin but by c ca car care cet chi ci com come comment con d
    da dai dan de deg dei del dell dem den der des di die dig din dir dit dont door dos dove du e ed ei el ella elle
    em en er era eras es esse est este et fi fin for fra from ha had hade ham han hans has hat have he hem hen her
    here hers him his ho hun hur hurt i im in io is it j ja jos kan ki kun l la las le lei les li lo los
    m ma mai man mas me mea med meg mei men mes met mi mia mig min mina mine mint mir mis mit mitt mon most n na nas
    ne nei no noi non nor nos nu num o of ole om on once ons op or os ott ou over par pas pendant per plus por pour
    quando que s sa san sans se sem sen ser ses si sin sine sit ska so son su sub sue sui sur sus t tai tale te ten
    tens ter tes ti til till to ton tot tu u um un unde under uno us vain van var vers vi via vid vil volt vom von
    vor vos want war was we wen will wo word y ya yo your ze zo
    """.split()  # noqa: SIM905 - a table of words
)
"""Words of other languages that stand in English texts, too: as English words, in names, and as abbreviations."""


def _having(word: str) -> tuple[Language, ...]:
    """Return the languages in Latin letters that have this function word."""
    return tuple(one for one in LANGUAGES if one not in _OF_SCRIPT and word in FUNCTION_WORDS[one])


_SAYS: Final[Mapping[str, tuple[Language, ...]]] = {
    word: languages for word in frozenset[str]().union(*FUNCTION_WORDS.values()) if (languages := _having(word))
}
_SAID_ELSEWHERE: Final = frozenset(word for word, languages in _SAYS.items() if languages != ("english",))
_TELLING: Final = frozenset(_SAYS) - STOP_WORDS - _ENGLISH_TOO


def languages_of(words: Collection[str]) -> tuple[Language, ...]:
    """Return the languages that a text of *words*, folded, may be in: most likely first; none where nothing says.

    Only languages in Latin letters are told apart; words in other letters say for themselves.

    Source:
        Function words make up half of any text and hardly any is in two languages that are not
        neighbours. English stands where it does not have fewer of them, so an English text with a foreign
        name or phrase stays English: all of LoCoMo and BEAM-100K does.
    """
    if _TELLING.isdisjoint(words):
        return () if STOP_WORDS.isdisjoint(words) else ("english",)
    told = frozenset(words)
    counts: Counter[Language] = Counter(language for word in told for language in _SAYS.get(word, ()))
    english = counts.pop("english", 0)
    most = max(counts.values())
    if most <= english:
        return ("english",)
    found: list[Language] = [one for one in LANGUAGES if counts[one] and counts[one] >= max(most - 1, english)]
    return tuple(sorted(found, key=lambda one: -counts[one]))


def language_of(words: Collection[str]) -> Language:
    """Return the language that a text of *words* is most likely in: English where nothing says."""
    return "english" if _TELLING.isdisjoint(words) else languages_of(words)[0]


def is_foreign(words: Collection[str]) -> bool:
    """Return whether a text of *words*, in small letters, has more function words of another language than English.

    A question has too few words for :func:`language_of` to be sure.
    """
    told = _SAID_ELSEWHERE.intersection(words)
    english = len(STOP_WORDS.intersection(words))
    if len(told) <= english:
        return False
    return any(len(told & FUNCTION_WORDS[language]) > english for language in LANGUAGES if language != "english")


def script_of(word: str) -> Language | None:
    """Return the language that stands for the letters of *word*; ``None`` for Latin ones and all others."""
    first = word[0]
    if "\u0400" <= first <= "\u052f":
        return "russian"
    return "arabic" if "\u0620" <= first <= "\u06d3" else None


MAX_TERMED_CHARACTERS: Final = 200_000
"""What comes after so many characters of a text is not found by its words; keeps 1 MB of text to some 50 ms."""

_WORD_CHARACTERS: Final = 64
"""Of a longer run of letters (base64, a digest) only the beginning counts, so that no term grows without bound."""

_REMEMBERED_WORDS: Final = 65_536
_FOLDED_AT_ONCE: Final = 16_384  # one character can become eighteen

# Scripts that are written without spaces between words: they are found by single characters and pairs.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
# Marks that stand inside words but are no letters to ``\w``: accents, Hebrew and Arabic points, Indic vowels.
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0963\u0966-\u0dff"
)
_ASCII_FOLD: Final = bytes(code if chr(code).isalnum() and code < 0x80 else 0x20 for code in bytes(range(256)).lower())  # noqa: PLR2004
_ASCII_WORDS: Final = bytes(ord("_") if code == ord("_") else folded for code, folded in enumerate(_ASCII_FOLD))
_LINES_FOLD: Final = bytes(ord("\n") if code == ord("\n") else folded for code, folded in enumerate(_ASCII_FOLD))
_WORDS: Final = re.compile(rf"[{_UNSPACED}]+|(?:[^\W_{_UNSPACED}]|[{_MARKS}])+")
_PLAIN_WORDS: Final = re.compile(r"\w+")
_IS_UNSPACED: Final = re.compile(rf"[{_UNSPACED}]")
_ACCENTS: Final = re.compile("[\u0300-\u036f]")
_LAST_LATIN: Final = "\u024f"

_stemming: Final = threading.Lock()

_UNTOLD_WORDS: Final = 32
"""A question of more words that no language can be told of is data rather than a question."""


def tokenise(text: str, language: Language | None = None) -> list[str]:
    """Return the terms of *text* in order, as a document is found by them: folded, without stop words, stems.

    Words in Latin letters are stemmed in *language*, or in the one that the text's function words are
    of, English where nothing says; words in Cyrillic and Arabic letters as Russian and Arabic. Accents
    on Latin letters do not count. Scripts without spaces between words give single characters and pairs
    of neighbours. Any text is taken; what is no letter or digit (NUL and lone surrogates included) only
    separates. At most 200,000 characters are looked at.

    Source:
        On LoCoMo, stemming and stop words are worth 12 points of recall@10 to BM25.
    """
    words = _words_of(text)
    terms_of = _TERMS[language or language_of(words)].__getitem__
    if text.isascii():
        return list(filter(None, map(terms_of, words)))
    terms: list[str] = []
    for word in words:
        if _IS_UNSPACED.match(word):
            terms += _unspaced(word)
        elif term := terms_of(word):
            terms.append(term)
    return terms


def tokenise_each(texts: Sequence[str], language: Language | None = None) -> tuple[list[str], list[int]]:
    """Return what :func:`tokenise` gives for each of *texts*, one after the other, and how many terms each has."""
    tokens: list[str] = []
    lengths: list[int] = []
    plain = [text[:MAX_TERMED_CHARACTERS].replace("\n", " ") if text.isascii() else "" for text in texts]
    folded = "\n".join(plain).encode("ascii").translate(_LINES_FOLD).decode("ascii").split("\n")
    for text, line in zip(texts, folded, strict=bool(texts)):
        before = len(tokens)
        if line:
            words = line.split()
            tokens += filter(None, map(_TERMS[language or language_of(words)].__getitem__, words))
        else:
            tokens += tokenise(text, language)
        lengths.append(len(tokens) - before)
    return tokens, lengths


def alternatives(question: str, language: Language | None = None) -> tuple[tuple[str, ...], ...]:
    """Return the terms that each word of *question* may stand as in a document, best first.

    A short text often does not tell its language, and is then kept as English. So a question in another
    language asks for English stems, too, and one that does not tell its own for those of all.
    """
    words = _words_of(question)
    told = (language,) if language is not None else languages_of(words)
    if told and told not in (("english",), (language,)):
        told = (*dict.fromkeys((*told, "english")),)
    elif not told:
        told = _UNTOLD if len(words) <= _UNTOLD_WORDS else ("english",)
    tables = [_TERMS[one] for one in told]
    if len(tables) == 1 and question.isascii():  # the common case
        return tuple([(term,) for term in map(tables[0].__getitem__, words) if term])
    found: list[tuple[str, ...]] = []
    for word in words:
        if _IS_UNSPACED.match(word):
            found += ((term,) for term in _unspaced(word))
        elif tables[0][word]:
            found.append(tuple(dict.fromkeys(filter(None, [table[word] for table in tables]))))
    return tuple(found)


@lru_cache(maxsize=16)
def plain_words(text: str) -> frozenset[str]:
    r"""Return the words of *text* in small letters, as the pattern ``\w+`` finds them, whatever they mean."""
    if text.isascii():
        return frozenset(text.encode("ascii").translate(_ASCII_WORDS).decode("ascii").split())
    return frozenset(_PLAIN_WORDS.findall(text.lower()))


def _words_of(text: str) -> list[str]:
    """Return the words of *text* as they are compared; a run of an unspaced script is one."""
    text = text[:MAX_TERMED_CHARACTERS]
    if text.isascii():
        return text.encode("ascii").translate(_ASCII_FOLD).decode("ascii").split()  # twice as fast as a pattern
    return cast("list[str]", _WORDS.findall(_folded(text)))


def _unspaced(run: str) -> Iterator[str]:
    yield from run
    yield from map("".join, pairwise(run))


def _folded(text: str) -> str:
    """Return *text* without differences of case and of compatible spelling, cut where it has grown too long."""
    parts: list[str] = []
    room = MAX_TERMED_CHARACTERS
    for start in range(0, len(text), _FOLDED_AT_ONCE):
        part = unicodedata.normalize("NFKC", text[start : start + _FOLDED_AT_ONCE])
        parts.append(unicodedata.normalize("NFKC", part.casefold())[:room])
        room -= len(parts[-1])
        if not room:
            break
    return "".join(parts)


class _Terms(dict[str, str]):
    """The term of each word of one language that was met lately; nothing for a stop word."""

    def __init__(self, language: Language) -> None:
        super().__init__()
        self._language: Language = language
        self._stop_words = FUNCTION_WORDS[language]
        self._stem = cast("Callable[[str], str]", Stemmer.Stemmer(language, 0).stemWord)  # pyright: ignore[reportUnknownMemberType]

    def __missing__(self, word: str) -> str:
        if len(word) > _WORD_CHARACTERS:
            return self[word[:_WORD_CHARACTERS]]
        language = script_of(word) or self._language
        if language != self._language:
            term = _TERMS[language][word]
        elif word in self._stop_words:
            term = ""
        else:
            with _stemming:  # a stemmer is one C object with one buffer
                term = _without_accents(self._stem(word))
        if len(self) >= _REMEMBERED_WORDS:
            self.clear()
        self[word] = term
        return term


def _without_accents(term: str) -> str:
    """Return *term* without marks on Latin letters; they are left out as often as not."""
    if term.isascii() or term[0] > _LAST_LATIN:
        return term
    return _ACCENTS.sub("", unicodedata.normalize("NFD", term)) or term


_TERMS: Final[Mapping[Language, _Terms]] = {language: _Terms(language) for language in LANGUAGES}
_UNTOLD: Final[tuple[Language, ...]] = (*dict.fromkeys(("english", *LANGUAGES)),)

TIME_TERMS: Final = frozenset(
    [
        *tokenise(
            """
            yesterday today tonight tomorrow last next ago week weekend month year day date
            morning evening night recently since soon anniversary birthday
            summer winter spring autumn fall decade century
            monday tuesday wednesday thursday friday saturday sunday
            january february march april may june july august september october november december
            jan feb mar apr jun jul aug sep sept oct nov dec
            1st 2nd 3rd 21st 22nd 23rd 31st
            """
        ),
        *(f"{day}th" for day in range(4, 31)),
        *map(str, range(1900, 2100)),
    ]
)
"""Terms of texts that say when. Source: questions that ask when on LoCoMo gain 3 points of recall@10 by them."""


def texts_of(value: Mapping[str, Any], index: Sequence[str]) -> list[str]:
    """Return the searchable texts of an item's *value*, in the order of its *index* paths.

    The rules are those of LangGraph's ``index`` fields: ``"a.b"`` a nested field, ``"a[0]"`` and
    ``"a[-1]"`` an element, ``"a[*]"`` and ``"*"`` each element or field, ``"{a,b.c}"`` several
    fields, ``"$"`` the whole value as JSON. A number or truth value is its text, a list or object
    its JSON; what is not there, or is null, gives nothing. The same value and paths always give the
    same list: text *i* is what row *i* of the item's embedding stands for.
    """
    texts: list[str] = []
    for path in index:
        found = value.get(path) if path != "$" else None
        if isinstance(found, str) and _is_plain(path):
            texts.append(found)  # the common case
        elif path in ("$", ""):
            texts.append(_json(dict(value)))
        else:
            _collect(dict(value), _steps(path), texts)
    return texts


def texts_of_each(values: Sequence[Mapping[str, Any]], indexes: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return what :func:`texts_of` gives for each of *values* and the paths beside it."""
    first = indexes[0] if indexes else ()
    if len(first) == 1 and first[0] != "$" and _is_plain(first[0]) and indexes.count(first) == len(indexes):
        found = [value.get(first[0]) for value in values]
        if set(map(type, found)) == {str}:  # what memories are
            return [[text] for text in cast("list[str]", found)]
    return list(map(texts_of, values, indexes))


_SPECIAL: Final = re.compile(r"[.\[\]{}*]")
_ELEMENT: Final = re.compile(r"\[\s*([+-]?[0-9]{1,9})\s*\]")


def _collect(value: object, steps: tuple[str, ...], texts: list[str]) -> None:
    """Append the texts that *steps* lead to from *value*."""
    if not steps:
        if value is not None:
            texts.append(_json(cast("object", value)) if isinstance(value, list | dict) else str(value))
        return
    step, rest = steps[0], steps[1:]
    if step.startswith("{") and step.endswith("}"):
        if isinstance(value, dict):
            for field in step[1:-1].split(","):
                if inner := _steps(field.strip()):
                    # Between braces LangGraph takes field names only.
                    _collect(_field(cast("dict[str, object]", value), inner), (), texts)
        return
    for child in _children(value, step):
        _collect(child, rest, texts)


def _children(value: object, step: str) -> Sequence[object]:
    """Return what one step leads to: nothing, one child, or all of them."""
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        if step == "*":
            return list(fields.values())
        return (fields[step],) if step in fields and not step.startswith("[") else ()
    if isinstance(value, list):
        elements = cast("list[object]", value)
        if step in ("*", "[*]"):
            return elements
        if place := _ELEMENT.fullmatch(step):
            return elements[int(place[1]) :][:1] if -len(elements) <= int(place[1]) < len(elements) else ()
    return ()


def _field(value: object, names: tuple[str, ...]) -> object:
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return None
        value = cast("dict[str, object]", value)[name]
    return value


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


@lru_cache(maxsize=1024)
def _is_plain(path: str) -> bool:
    """Whether *path* names a field and nothing else."""
    return not _SPECIAL.search(path)


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[str, ...]:
    """Split a path into names, ``[…]`` and ``{…}``; a bracket that is never closed runs to the end."""
    steps: list[str] = []
    name = ""
    place = 0
    while place < len(path):
        character = path[place]
        if character in "[{":
            end = _closing(path, place)
            steps += [name] if name else []
            steps.append(path[place:end])
            name, place = "", end
            continue
        if character == ".":
            steps += [name] if name else []
            name = ""
        else:
            name += character
        place += 1
    return tuple([*steps, name] if name else steps)


def _closing(path: str, start: int) -> int:
    """Return the place after the bracket that closes the one at *start*."""
    opening = path[start]
    closing = "]" if opening == "[" else "}"
    depth = 0
    for place in range(start, len(path)):
        depth += (path[place] == opening) - (path[place] == closing)
        if not depth:
            return place + 1
    return len(path)


_WITHOUT_SPACES: Final = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
"""Letters of scripts that put no space between words: Thai, Lao, Burmese, Khmer, Japanese and Chinese; not Korean."""
_LETTERS_A_WORD: Final = 2


def unspaced(text: str) -> int:
    """Return about how many words of scripts without spaces *text* has."""
    return len(_WITHOUT_SPACES.findall(text)) // _LETTERS_A_WORD
