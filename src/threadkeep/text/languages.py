"""Words of the languages that search knows, and which of them a text is in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final, Literal, TypeAlias, get_args

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


def script_of(word: str) -> Language | None:
    """Return the language that stands for the letters of *word*; ``None`` for Latin ones and all others."""
    first = word[0]
    if "\u0400" <= first <= "\u052f":
        return "russian"
    return "arabic" if "\u0620" <= first <= "\u06d3" else None
