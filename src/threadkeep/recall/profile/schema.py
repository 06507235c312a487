"""The slots of a profile, their checks, and the default slots with the examples and words that match statements to them.

Words are English, German, French, Spanish and Portuguese; ``*`` stands for any end of a word. The examples are
English: they are compared by meaning, which the local model knows in English best.
"""

# ruff: noqa: E501 - a table of words and sentences; broken up, it could not be searched for a word

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from threadkeep.errors import InvalidInputError
from threadkeep.memories.kinds import check_named

if TYPE_CHECKING:
    from datetime import datetime

    from threadkeep.ids import MemoryId

MAX_SLOTS: Final = 32
MAX_EXAMPLES: Final = 32
MAX_WORDS: Final = 400
MAX_EXAMPLE_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class ProfileSlot:
    """One named slot of a profile.

    Attributes:
        name: Its key: lower-case letters, digits and ``_``, at most 32, the first a letter.
        description: What belongs in it, in a sentence.
        facts: Statements that fill it, as examples.
        requests: Requests that need it, as examples.
        words: Words or word beginnings (``allerg*``) of statements that fill it, in any language.
        asked: The same of requests that need it.
        single: Whether only the newest statement counts.
        relatives: Whether a statement about a relative or a pet fills it.
    """

    name: str
    description: str
    facts: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    single: bool = False
    relatives: bool = False


@dataclass(frozen=True, slots=True)
class SlotValue:
    """What a slot says, and where that is from.

    Attributes:
        text: The statement, in the user's own words.
        memory_id: The memory that says it.
        at: When it was said.
        earlier: Whether a newer value of the slot probably replaces it.
    """

    text: str
    memory_id: MemoryId
    at: datetime
    earlier: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """An owner's profile.

    Attributes:
        slots: The values of each slot, in the order of the schema, newest first; an empty slot has none.
        degraded: What was missing: ``embedder`` if slots were filled by words only.
    """

    slots: dict[str, tuple[SlotValue, ...]] = field(default_factory=dict[str, "tuple[SlotValue, ...]"])
    degraded: tuple[str, ...] = ()


def check_schema(slots: object) -> tuple[ProfileSlot, ...]:
    """Return *slots*, checked.

    Raises:
        InvalidInputError: It is no sequence of slots, has too many, or one of them is invalid; the message names it.
    """
    checked = check_named(slots, ProfileSlot, parameter="profile", noun="slot", most=MAX_SLOTS)
    return tuple(map(_check_slot, checked))


def _check_slot(slot: ProfileSlot) -> ProfileSlot:
    _check_texts(slot, "description", (slot.description,), 1)
    for field_name, most in (
        ("facts", MAX_EXAMPLES),
        ("requests", MAX_EXAMPLES),
        ("words", MAX_WORDS),
        ("asked", MAX_WORDS),
    ):
        _check_texts(slot, field_name, getattr(slot, field_name), most)
    if not (slot.facts or slot.words):
        msg = f"The profile slot {slot.name!r} has neither facts nor words; nothing could fill it."
        raise InvalidInputError(msg)
    return slot


def _check_texts(slot: ProfileSlot, name: str, texts: object, most: int) -> None:
    if isinstance(texts, str) or not isinstance(texts, Sequence) or len(cast("Sequence[object]", texts)) > most:
        msg = f"{name} of the profile slot {slot.name!r} must be a sequence of at most {most} strings."
        raise InvalidInputError(msg)
    for text in cast("Sequence[object]", texts):
        if not isinstance(text, str) or not text.strip() or len(text) > MAX_EXAMPLE_CHARACTERS or "\0" in text:
            msg = (
                f"{name} of the profile slot {slot.name!r} must be strings of 1 to {MAX_EXAMPLE_CHARACTERS} characters "
                "without NUL."
            )
            raise InvalidInputError(msg)


def _words(text: str) -> tuple[str, ...]:
    """Return the words of *text*, each once; ``_`` stands for a space in one of several words."""
    return tuple(dict.fromkeys(word.replace("_", " ") for word in text.split()))


_MEALS: Final = _words(
    "table restaurant dinner lunch breakfast brunch menu catering food eat cook meal* snack* dessert cake bbq barbecue groceries recipe tisch essen abendessen mittagessen frühstück koch* kuchen menü dîner déjeuner gâteau manger repas traiteur cuisine mesa cena comida almuerzo restaurante menú cocinar* cocino tarta jantar almoço refeição bolo cozinhar* cozinho pizza sushi takeaway takeout take-out picnic buffet canteen bakery grocery supermarket ingredients meal_plan drinks drink wine cocktail pub coffee appetizer appetiser main_course sandwich lebensmittel einkauf* picknick apéro pique-nique compra* bebida* lanche supermercado"
)
"""Words of requests for a meal, which need diets and allergies alike."""

DEFAULT_SLOTS: Final[tuple[ProfileSlot, ...]] = (
    ProfileSlot(
        "name",
        "How the user is called.",
        (
            "My name is Anna Schmidt.",
            "I'm called Peter Jones.",
            "People call me Bob.",
            "I go by Liz.",
            "Everyone calls me Max.",
            "I'm Laura.",
        ),
        (
            "Sign the letter for me.",
            "Sign me up for the event.",
            "Introduce me in a note.",
            "Fill in the form with my name.",
            "Put my name on the badge.",
            "Register me for the course.",
        ),
        _words(
            "my_name_is name's i'm_called call_me calls_me i_go_by heiße nenn_mich nennt_mich nennen_mich appelle appellent m'appelle llamo llaman llámame chamo chamam chama-me my_full_name my_first_name my_surname nickname short_for known_as address_me heisse mein_name name_ist je_m'appelle mon_nom prénom me_llamo mi_nombre apodo meu_nome me_chamo apelido"
        ),
        _words(
            "sign sign-off signature sign-up register enrol enroll label badge introduce unterschreib* unterzeichn* anmeld* signe* signer inscri* firma* inscrib* regist* assin* registr* rsvp application_form petition certificate diploma guest_list invitation formular formulaire formulario formulário"
        ),
        single=True,
    ),
    ProfileSlot(
        "role",
        "The user's occupation or role.",
        (
            "I'm a nurse.",
            "I work as a software engineer.",
            "I teach maths at a school.",
            "I teach adults to drive.",
            "I am the head of marketing.",
            "I'm a self-employed photographer.",
            "I study medicine.",
            "I run a small bakery.",
            "I'm doing a degree in law.",
            "I repair bicycles for a living.",
            "I'm retired.",
        ),
        (
            "Write my bio.",
            "Update my profile on the website.",
            "Polish my CV.",
            "Write a cover letter for my application.",
            "Prepare the material for work.",
            "Write an invoice for my client.",
            "Write a job reference.",
        ),
        _words(
            "occupation profession freelance* self-employed nurse teacher engineer developer beruf arbeite als angestellt* selbstständig* métier travaille infirmi* enseign* ingénieur* profesión trabajo enfermer* profesor* ingenier* profissão trabalho professor* engenheir* arquitet* arquitect* teach teaches teaching study studying student apprentice intern trainee lawyer attorney doctor physician surgeon dentist vet architect accountant bookkeeper consultant analyst scientist researcher lecturer professor journalist translator designer illustrator photographer musician chef baker barista waiter plumber electrician carpenter mechanic farmer gardener hairdresser midwife paramedic therapist psychologist pharmacist librarian social_worker firefighter police_officer programmer sysadmin sre product_manager project_manager recruiter salesperson realtor work_as working_as job_is for_a_living by_trade retired unterrichte lehrer* lehrerin krankenpfleger* ärztin anwält* studiere auszubildende* étudiant* avocat* médecin journaliste estudiante abogad* médic* periodista estudante advogad* jornalista"
        ),
        _words(
            "bio biography cv résumé resume invoice linkedin profile worksheet lebenslauf bewerbung* rechnung* vorstellung* biographie facture candidature biografía biograf* currículum currículo factura fatura apresentação présentation presentación syllabus portfolio testimonial about_me elevator_pitch business_card job_application"
        ),
    ),
    ProfileSlot(
        "team",
        "The user's team, company or school, and the people there.",
        (
            "Our team is called Falcon.",
            "I work at Acme.",
            "I'm in the payments team.",
            "My manager is Susan.",
            "I belong to the design department.",
            "There are five of us in the team.",
            "I report to Daniel.",
            "My company makes furniture.",
            "Ruth leads our group.",
        ),
        (
            "Open a ticket for the bug.",
            "Invite everybody to the meeting.",
            "File the expense report.",
            "Escalate the incident.",
            "Print our business cards.",
            "Send an update to the others at work.",
            "Assign the task to a colleague.",
        ),
        _words(
            "team department company employer colleagues manager boss studio kollegen abteilung firma arbeitgeber chef chefin équipe entreprise collègues equipo empresa compañeros jefe jefa equipe colegas squad startup colleague coworkers co-workers supervisor line_manager report_to reports_to works_with work_for working_for work_at university i_work kollegin vorgesetzte* mannschaft collègue supérieur* compañer* oficina colega escritório"
        ),
        _words(
            "ticket expense* everybody everyone colleague* team escalate invite cards spesen kollegen alle lade note frais invite* collègues gastos compañeros invita* despesas colegas convida* coworkers co-workers standup retro handover rota roster onboarding expenses reimbursement timesheet"
        ),
    ),
    ProfileSlot(
        "stack",
        "The tools, languages and systems that the user works with.",
        (
            "We use Kubernetes and Helm.",
            "I write everything in Go.",
            "Our database is Postgres.",
            "Our logs go to Elasticsearch.",
            "I use Figma for my designs.",
            "We deploy with GitHub Actions.",
            "I edit my videos in Premiere.",
            "Our builds run on Buildkite.",
            "We keep our secrets in Vault.",
            "The website is made with WordPress.",
        ),
        (
            "Restart the service on staging.",
            "Deploy the new version.",
            "Write a script for the backup.",
            "Set up a dashboard.",
            "Run the query for last month.",
            "Add tests to the module.",
            "Fix the failing build.",
            "Make the slides for the talk.",
            "Export the file for the client.",
            "Roll back the release.",
        ),
        _words(
            "kubernetes docker python java javascript typescript rust golang terraform postgres postgresql mysql redis aws azure gcp linux django react git github gitlab jenkins prometheus grafana excel powerpoint keynote figma photoshop programmier* läuft tourne utilisons usamos roda framework stack cluster database node ruby rails php laravel perl scala kotlin haskell elixir clojure fastapi vue svelte angular nextjs bash powershell mongodb sqlite snowflake bigquery redshift kafka rabbitmq elasticsearch opensearch loki splunk datadog helm argocd flux ansible pulumi nginx traefik envoy istio bitbucket circleci cloudflare heroku vercel netlify hetzner ubuntu debian fedora macos windows vim neovim emacs vscode intellij pycharm jupyter pandas numpy pytorch tensorflow matlab spss stata latex sharepoint slack confluence jira trello asana salesforce hubspot quickbooks shopify wordpress premiere lightroom indesign blender autocad ableton pro_tools"
        ),
        _words(
            "restart deploy* redeploy rollback rollout staging production pod pods server service script dashboard chart pipeline build migrate migration query slides module endpoint container numbers export starte dienst testumgebung redémarre déploie reinicia despliega servidor serviço servicio implanta server* servers logs log alert alerts cron job database schema api upgrade patch backup restore spreadsheet macro config configuration refactor debug release hotfix merge playbook manifest"
        ),
    ),
    ProfileSlot(
        "location",
        "Where the user lives.",
        (
            "I live in Berlin.",
            "I'm based in London.",
            "We moved to Chicago last year.",
            "Our flat is in Rome.",
            "My home is in the north of Madrid.",
            "I moved to Lyon in spring.",
            "Our house is in a village near Bath.",
        ),
        (
            "Find me a doctor who takes new patients.",
            "Recommend a gym nearby.",
            "Get me tickets for a show.",
            "Find a hairdresser for tomorrow.",
            "Look up a plumber.",
            "Order a taxi home.",
            "Get a quote from movers.",
            "Find a place to go for a walk.",
        ),
        _words(
            "live lives based moved relocated wohne wohnen lebe umgezogen habite habitons vis déménagé vivo vivimos mudé moro moramos mudei live_in living_in i'm_from home_is outskirts neighbourhood neighborhood hometown postcode zip_code moved_to barrio bairro"
        ),
        _words(
            "nearby near dentist doctor gym hairdresser plumber tickets movers vet garage taxi mechanic electrician weather zahnarzt arzt friseur werkstatt tierarzt klempner nähe dentiste médecin coiffeur plombier vétérinaire dentista médico peluquer* fontanero veterinario taller ginásio cabeleireiro veterinário encanador oficina gimnasio local around_here delivery deliver courier parcel post_office bank pharmacy supermarket bakery butcher florist cinema theatre theater concert park playground school kindergarten nursery swimming_pool pool sauna yoga physiotherapist optician tailor locksmith cleaner babysitter handyman gardener notary accountant bus parking jog sunrise sunset forecast"
        ),
        single=True,
    ),
    ProfileSlot(
        "timezone",
        "The user's time zone, working hours and when they are available.",
        (
            "I'm in the Tokyo time zone.",
            "I start work at nine and finish at five.",
            "I'm only free in the mornings.",
            "I don't take meetings on Fridays.",
            "I am never available before noon.",
            "I'm on Pacific time.",
            "I work from Monday to Wednesday only.",
            "I work night shifts.",
        ),
        (
            "Schedule a call with the supplier.",
            "Set up a weekly meeting.",
            "Arrange an appointment.",
            "Offer the customer a time for a call.",
            "Find a time when we can talk.",
            "Move my meeting to next week.",
        ),
        _words(
            "timezone time_zone zeitzone fuseau fuso horario horário horaire arbeitszeit* uhrzeit working_hours office_hours mornings afternoons evenings mondays tuesdays wednesdays thursdays fridays before_noon after_lunch free_before free_after free_between available_before available_after never_free only_free day_off days_off part-time night_shift early_shift late_shift school_run pick_up_the_kids cet utc gmt pst vormittags nachmittags abends freitags montags matins après-midi soirs mañanas tardes noches manhãs noites"
        ),
        _words(
            "schedule reschedule appointment meeting sync call termin* besprechung vereinbare rendez-vous réunion planifie cita reunión agenda* reunião marca marque invite calendar book_a_call book_a_meeting interview demo workshop webinar consultation remind reminder deadline"
        ),
    ),
    ProfileSlot(
        "language",
        "The languages that the user speaks.",
        (
            "My native language is Polish.",
            "I speak French and a little Arabic.",
            "My mother tongue is Hindi.",
            "I don't speak German.",
        ),
        (
            "Call the hotel for me.",
            "Write a card to my parents.",
            "Record a greeting for my phone.",
            "Write a message to my grandmother.",
            "Phone the office for me.",
        ),
        _words(
            "native_language mother_tongue first_language muttersprache spreche sprechen parle maternelle hablo idioma falo língua speak bilingual fluent_in fluent mother_language learning_french learning_spanish learning_german don't_speak can't_speak only_speak grew_up_speaking zweisprachig fließend bilingue bilingüe"
        ),
        _words(
            "voicemail phone greeting card ruf anrufen appelle téléphone llama teléfono liga telefone postcard text_message sms toast eulogy invitation translate_for nachricht courrier lettre carta recado"
        ),
    ),
    ProfileSlot(
        "style",
        "How the user wants answers and texts to be.",
        (
            "I prefer short answers.",
            "I like detailed explanations.",
            "I want the conclusion first.",
            "I hate jargon.",
            "I like lists more than long texts.",
            "I prefer a formal tone.",
            "I want numbers in a table.",
            "I don't like emojis.",
        ),
        (
            "Draft the summary for the channel.",
            "Write up the notes of the meeting.",
            "Write the weekly report.",
            "Explain the document to me before I decide.",
            "Prepare a briefing for me.",
            "Write the status update.",
        ),
        _words(
            "answers explanations bullet jargon concise verbose antworten réponses respuestas respostas ton tone short_answers long_answers details detailed bullets bullet_points tables headings plain_language plain_words to_the_point straight_to emojis emoji exclamation formal informal casual polite examples numbers_first summary_first tl;dr oxford_comma british_spelling american_spelling metric kurz ausführlich stichpunkte bref détaillé corto breve detallado curto detalhado"
        ),
        _words(
            "report summary notes briefing update bericht zusammenfassung protokoll rapport compte-rendu informe resumen relatório resumo memo write-up recap overview minutes changelog newsletter announcement proposal documentation explanation analysis wording"
        ),
    ),
    ProfileSlot(
        "diet",
        "What the user does and does not eat and drink.",
        (
            "I'm vegetarian.",
            "I don't eat meat.",
            "I eat halal.",
            "I don't drink alcohol.",
            "I can't stand mushrooms.",
            "I avoid sugar.",
            "No dairy for me.",
            "I'm on a low-carb diet.",
        ),
        (
            "Book a table for two.",
            "Order lunch for tomorrow.",
            "Plan the meals for the week.",
            "Arrange the catering.",
            "Find a restaurant.",
            "Suggest what I should cook tonight.",
            "Write a shopping list for the weekend.",
        ),
        _words(
            "vegetarian* vegan* pescatarian kosher koscher casher halal vegetarisch* vegetarier* veganer* végétarien* végan* végétalien* pork alcohol teetotal* diet schwein* alkohol fleisch viande porc carne cerdo porco gluten* keto veggie plant-based meat-free meat fish seafood dairy-free gluten-free sugar-free low-carb paleo fasting ramadan lent jain don't_eat never_eat can't_eat won't_eat stopped_eating gave_up_meat don't_drink never_drink stopped_drinking sober spicy coffee caffeine decaf tea mushrooms coriander cilantro olives liver eggs esse_kein trinke_kein ernähre ohne_fleisch mange_pas bois_pas no_como no_bebo não_como não_bebo"
        ),
        (*_MEALS, "cocina*", "cozinha*"),  # a kitchen, too
    ),
    ProfileSlot(
        "allergies",
        "Allergies and intolerances.",
        (
            "I'm allergic to pollen.",
            "Milk makes me sick.",
            "I have a nut allergy.",
            "I can't tolerate gluten.",
            "Penicillin gives me a rash.",
        ),
        (
            "Order food for the party.",
            "Pick a dessert.",
            "Choose a restaurant for the dinner.",
            "Fill in the form for the hospital.",
            "Tell the caterer what to avoid.",
            "Buy me something against a headache.",
        ),
        _words(
            "allerg* intoleran* unverträglich* alérg* alergia* coeliac celiac lactose laktose nüsse noix rash hives anaphyla* epipen epi-pen hay_fever hayfever pollen nuts peanuts peanut shellfish shrimp gluten penicillin bee_sting wasp makes_me_sick makes_me_ill swell swells itch itches can't_have can't_tolerate not_allowed_to_eat ausschlag erdnüsse heuschnupfen arachides cacahuètes éruption cacahuetes sarpullido amendoim"
        ),
        (
            *_MEALS,
            *_words(
                "clinic hospital pharmacy medicine apotheke klinik pharmacie clinique farmacia clínica farmácia bake baking cookies biscuits chocolate prescription painkiller antibiotic ointment sunscreen perfume flowers bouquet arzt rezept médicament ordonnance medicamento receita"
            ),
        ),
        relatives=True,
    ),
    ProfileSlot(
        "needs",
        "Health and access: what a plan must allow for.",
        (
            "I use a wheelchair.",
            "I'm deaf in one ear.",
            "I have a bad knee.",
            "I'm pregnant.",
            "I get seasick.",
            "I have diabetes.",
            "I can't walk far.",
            "I have asthma.",
            "I take tablets for my blood pressure.",
            "My back hurts when I sit for long.",
        ),
        (
            "Reserve a holiday flat.",
            "Plan a hike for Saturday.",
            "Book seats for the concert.",
            "Pick an exercise for me.",
            "Buy the bus tickets.",
            "Fill in the medical form.",
        ),
        _words(
            "wheelchair pregnant diabet* asthma* deaf blind carsick seasick epilep* rollstuhl schwanger fauteuil enceinte embarazada ruedas grávida rodas crutches walking_stick walker hearing_aid hearing hard_of_hearing hearing_loss visually_impaired colour-blind colour_blind color-blind colorblind dyslexi* dyscalcul* adhd autis* migraine* arthritis back_pain bad_back bad_knee epilepsy insulin heart_condition pacemaker blood_pressure claustrophobi* vertigo afraid_of_heights fear_of_heights fear_of_flying chronic pregnan* prosthe* surgery injured injury sprained broke_my rückenschmerzen knie migräne hörgerät genou appareil_auditif rodilla espalda audífono joelho costas"
        ),
        _words(
            "cottage hotel hike seats clinic exercise trip reise hôtel voyage randonnée viaje excursión viagem stairs elevator walk walking tour visit museum theatre theater festival stadium airbnb accommodation workout training gym swim run marathon yoga ski cycling bike massage insurance wanderung unterkunft hébergement alojamiento alojamento urlaub ferien vacances vacaciones férias"
        ),
        relatives=True,
    ),
    ProfileSlot(
        "household",
        "The people and pets that the user lives with.",
        (
            "My daughter Mia is six.",
            "My wife works at night.",
            "We have two dogs.",
            "My son plays football.",
            "I live with my partner.",
            "We have a baby.",
            "My mother lives with us.",
            "I share a flat with two friends.",
        ),
        (
            "Pick a museum for Sunday.",
            "Plan a weekend away for us.",
            "Choose a sofa for the living room.",
            "Reserve a holiday house.",
            "Find an evening when both of us are free.",
            "Find a babysitter.",
            "Buy a present for the family.",
        ),
        _words(
            "daughter son wife husband partner kids children baby dog dogs cat cats toddler twins tochter sohn frau mann kinder hund katze fille fils femme mari enfants chien chat hija hijo esposa marido hijos perro gato filha filho mulher filhos cachorro married divorced fiancé fiancée girlfriend boyfriend wife's husband's sons daughters kid child newborn teenager teenage stepson stepdaughter grandchildren grandson granddaughter foster adopted roommate roommates flatmate flatmates housemate live_with live_alone on_my_own puppy kitten hamster rabbit guinea_pig parrot budgie tortoise aquarium pony verheiratet geschieden töchter söhne allein marié* divorcé* bébé jumeaux casad* divorciad* bebé gemelos gêmeos bebê solteir*"
        ),
        _words(
            "family weekend museum babysitter sofa cottage holiday us both familie wochenende kinder famille week-end enfants familia finde niños família crianças zoo playground birthday present gift toy toys outing day_trip day_out picnic board_game family_photo car_seat kindergarten childcare kita sitter cat_sitter dog_sitter kennel pet pets carpet rug geburtstag geschenk ausflug anniversaire cadeau sortie cumpleaños regalo excursión aniversário presente passeio"
        ),
        relatives=True,
    ),
    ProfileSlot(
        "travel",
        "How the user likes to travel, and what they avoid.",
        (
            "I never fly.",
            "I always take the train.",
            "I prefer a window seat.",
            "I don't drive.",
            "I like small hotels.",
            "I feel ill on boats.",
            "I travel with one bag only.",
        ),
        (
            "Plan the trip to Vienna.",
            "Book a flight to Paris.",
            "Buy the train tickets.",
            "Find a hotel for the conference.",
            "Get me to the airport.",
            "Organise the journey.",
        ),
        _words(
            "fly flying flights seat aisle train trains driving licence fliege zug vole avion vuelo tren avião comboio don't_fly won't_fly afraid_of_flying never_fly by_train by_bus by_car by_bike driving_licence driver's_licence driver's_license can't_drive don't_drive window_seat aisle_seat first_class business_class economy bahncard interrail hand_luggage carry-on hostel hostels airbnb camping campervan night_train sleeper frequent_flyer loyalty_card bahn fahre_nicht führerschein fenster permis couchette ventanilla carnet_de_conducir pasillo janela carteira_de_motorista corredor"
        ),
        _words(
            "trip flight hotel train journey travel airport coach reise flug zug voyage vol hôtel viaje vuelo tren viagem voo comboio flights trains tickets ticket ferry cruise itinerary taxi rental rent_a_car car_hire holiday vacation getaway weekend_away conference visa urlaub ferien fahrkarte* vacances billet* vacaciones billete* férias bilhete* passagem passagens"
        ),
    ),
)

OTHER_FACTS: Final = (
    "The meeting took three hours.", "I bought a new lamp last week.", "My bike was stolen.", "I read a good book about whales.", "We painted the fence at the weekend.", "I lost my keys.",
    "My cousin is getting married.", "I saw a film about the war.", "The build was red this morning.", "I broke my arm as a child.", "Our neighbour is loud.", "It rained all day.", "I'm tired today.", "I learnt to swim late.", "I want to buy a house.", "My grandmother was a singer.",
    "I owe the bank nine thousand.", "My salary went up in January.", "I get a bonus in summer.", "The rent is due on the first.", "I pay my taxes in May.", "I save two hundred a month.",
    "I play the drums on Tuesdays.", "I go running before breakfast.", "My dance class is on Thursday evening.", "I swim twice a week.", "We play cards every Sunday.", "I collect stamps.", "I bake bread at the weekend.", "I grow tomatoes on the balcony.", "I knit my own jumpers.",
    "I call my car Bertha.", "Our boat is named Swallow.", "My plant is called Fred.", "I named my bike after a singer.", "Long functions annoy me.", "I keep my notes in a paper notebook.",
    "My exam is on the third of June.", "The course begins in October.", "The shop closes between Christmas and New Year.", "I could eat pancakes every day.", "I make my own jam in the cellar.",
    "My brother's cat is old.", "The washing machine is broken.", "Our garden is two hundred square metres.", "I am on the parents' committee.", "I voted last Sunday.", "I am reading about the Romans.", "I donate blood every spring.", "My grandfather fought in the war.", "I hate waiting in queues.", "Tom drinks black coffee.", "Maria likes the opera.", "Ben lives in Oslo.",
)  # fmt: skip
"""Statements that fill no slot."""

OTHER_REQUESTS: Final = (
    "Write a poem about the sea.", "Translate this sentence into Italian.", "Explain how a volcano works.", "Solve this equation.", "Convert 5 miles to kilometres.", "Tell me a joke.", "List the capitals of Europe.",
    "Summarise the plot of a novel.", "Give me synonyms for happy.", "Invent a name for a dragon.", "Correct the grammar of this sentence.", "Write a regular expression for dates.", "Show me how to sort a list.", "Write a commit message.",
    "Rewrite this paragraph politely.", "Compare two programming languages.", "Suggest a title for a story.", "Describe a forest.", "Prove the theorem.", "Define entropy.", "Thanks, that is all.", "That is interesting.", "I went to the cinema yesterday.", "Write a function that reverses a string.",
)  # fmt: skip
"""Requests that need nothing about the user."""
