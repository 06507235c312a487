"""The words that the fact benchmark is made of: subjects, and what can be known about each.

A *family* is a kind of subject (people, projects, trips, …); an *aspect* is one thing that can be known
about every subject of the family. Crossing the two gives facts that share both their subject's words and
their aspect's words with many others, so no single word tells which fact a question is about.

In the templates ``{subject}`` is the subject and ``{answer}`` the answer; in an answer ``#`` becomes a
random digit. A question never holds its answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final


@dataclass(frozen=True, slots=True)
class Aspect:
    """One thing that can be known about a subject.

    Attributes:
        fact: The statement, with ``{subject}`` and ``{answer}``.
        questions: Ways to ask for it, with ``{subject}``; some are near the statement's words, some are not.
        answers: What may stand for ``{answer}``.
    """

    fact: str
    questions: tuple[str, ...]
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of subject, the subjects in it, and what can be known about each."""

    name: str
    subjects: tuple[str, ...]
    aspects: tuple[Aspect, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.replace("\n", " ").split(",") if word.strip())


def _crossed(first: str, last: str) -> tuple[str, ...]:
    """Pair two word lists so that the beginning of the result already reuses the words of both."""
    pairs = product(enumerate(_words(first)), enumerate(_words(last)))
    return tuple(f"{one[1]} {two[1]}" for one, two in sorted(pairs, key=lambda pair: pair[0][0] + pair[1][0]))


_MONTHS: Final = _words(
    "January, February, March, April, May, June, July, August, September, October, November, December"
)
_DAYS: Final = tuple(f"{day} {month}" for month, day in product(_MONTHS, range(1, 29)))
_MONTHS_OF_YEARS: Final = tuple(f"{month} {year}" for month, year in product(_MONTHS, range(2009, 2026)))
_YEARS: Final = tuple(str(year) for year in range(2003, 2026))
_WEEKDAYS: Final = _words("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday")
_MINUTES: Final = _words("seven, nine, twelve, fifteen, eighteen, twenty, twenty-five, thirty-five, forty, fifty")
_CITIES: Final = _words("""Lisbon, Porto, Seville, Valencia, Bilbao, Bordeaux, Lyon, Nantes, Genoa, Turin, Bologna,
    Trieste, Ljubljana, Zagreb, Split, Sarajevo, Belgrade, Sofia, Bucharest, Brasov, Budapest, Vienna, Graz, Salzburg,
    Prague, Brno, Krakow, Gdansk, Vilnius, Riga, Tallinn, Helsinki, Turku, Stockholm, Uppsala, Oslo, Bergen, Aarhus,
    Hamburg, Leipzig, Dresden, Ghent, Antwerp, Utrecht, Rotterdam, Dublin, Galway, Edinburgh, Glasgow, Cardiff,
    Reykjavik, Athens, Thessaloniki, Istanbul, Tbilisi, Yerevan, Amman, Cairo, Tunis, Marrakesh, Dakar, Accra, Nairobi,
    Kampala, Kigali, Windhoek, Durban, Muscat, Mumbai, Kochi, Colombo, Hanoi, Hue, Bangkok, Penang, Jakarta, Manila,
    Taipei, Busan, Seoul, Kyoto, Osaka, Sapporo, Perth, Hobart, Auckland, Wellington, Honolulu, Vancouver, Calgary,
    Montreal, Halifax, Boston, Chicago, Denver, Portland, Oaxaca, Merida, Havana, Bogota, Quito, Lima, Cusco, La Paz,
    Valparaiso, Mendoza, Rosario, Montevideo, Salvador, Recife""")
_SURNAMES: Final = """Novak, Silva, Haddad, Okafor, Lindqvist, Tanaka, Moreau, Kowalska, Petrov, Fernandez, Osei,
    Rahman, Bianchi, Keller, Murphy, Yilmaz, Andersson, Cohen, Duarte, Jansen"""
_FIRST_NAMES: Final = """Marta, Ivan, Leila, Tomas, Ingrid, Kofi, Amelie, Pavel, Rosa, Hassan, Yuki, Elena, Daniel,
    Priya, Oscar, Nadia, Felix, Carmen, Jonas, Aisha"""
_FOODS: Final = _words("""peanuts, shellfish, hazelnuts, strawberries, mustard, celery, sesame, lupin, kiwi, gluten,
    soy, egg whites, cow's milk, walnuts, mango, mushrooms, aubergine, cinnamon""")
_CUISINES: Final = _words("""Georgian, Ethiopian, Peruvian, Lebanese, Korean, Sichuan, Basque, Persian, Vietnamese,
    Oaxacan, Sicilian, Moroccan, Nepalese, Polish, Hawaiian, Turkish""")
_GIVEN: Final = _words("""Milo, Ada, Hugo, Nora, Emil, Zoe, Anton, Lucia, Theo, Mira, Otto, Alma, Bruno, Iris, Levi,
    Stella, Vera, Noah, Ines, Samir, Freya, Matteo""")

PEOPLE: Final = Family(
    "people",
    _crossed(_FIRST_NAMES, _SURNAMES),
    (
        Aspect(
            "{subject} always orders {answer} when we meet for a drink.",
            ("What does {subject} like to drink?", "Which drink should I order for {subject}?"),
            _words("""a double espresso, mint tea, an oat flat white, tonic water, rooibos, a dry cider, ginger beer,
                tomato juice, hot chocolate, iced matcha, a wheat beer, buttermilk, elderflower soda, chai"""),
        ),
        Aspect(
            "{subject} has a birthday on {answer}.",
            ("When is {subject}'s birthday?", "On what date was {subject} born?"),
            _DAYS,
        ),
        Aspect(
            "{subject} is allergic to {answer}.",
            ("Which allergy does {subject} have?", "What must I leave out when I cook for {subject}?"),
            _FOODS,
        ),
        Aspect(
            "{subject} moved to {answer} and lives there now.",
            ("Where does {subject} live?", "In which city is {subject}'s home these days?"),
            _CITIES,
        ),
        Aspect(
            "{subject} works as {answer}.",
            ("What does {subject} do for a living?", "What is {subject}'s job?"),
            _words("""a structural engineer, a pastry chef, a paediatric nurse, a court interpreter, a data scientist,
                a piano tuner, a beekeeper, a patent lawyer, an air traffic controller, a stonemason, a midwife,
                a sound engineer, a locksmith, a botanist, a tram driver, an actuary, a glassblower, a notary"""),
        ),
        Aspect(
            "{subject} plays {answer} in a small band.",
            ("Which instrument does {subject} play?", "What does {subject} play in the band?"),
            _words("""the cello, the trombone, the accordion, the oboe, the banjo, the vibraphone, the double bass,
                the harp, the clarinet, the drums, the mandolin, the French horn, the bagpipes, the viola"""),
        ),
        Aspect(
            "{subject} has a dog called {answer}.",
            ("What is the name of {subject}'s dog?", "How does {subject} call the dog?"),
            _words("""Biscuit, Rocket, Pepper, Waffles, Comet, Pixel, Truffle, Ziggy, Marble, Tofu, Bandit, Juno,
                Pretzel, Mochi, Gizmo, Noodle"""),
        ),
        Aspect(
            "{subject} likes {answer} food best.",
            ("What kind of restaurant would {subject} enjoy most?", "Which cuisine does {subject} prefer?"),
            _CUISINES,
        ),
        Aspect(
            "I met {subject} for the first time at {answer}.",
            ("How did I get to know {subject}?", "Where did I first meet {subject}?"),
            _words("""a pottery class, a data conference, a school reunion, a night train, a chess club, a wedding,
                a language exchange, a blood donation, a housing fair, a choir rehearsal, a flea market, a ski lift,
                a parents' evening, a city marathon"""),
        ),
        Aspect(
            "{subject} has a daughter named {answer}.",
            ("What is {subject}'s daughter called?", "What is the name of {subject}'s child?"),
            _GIVEN,
        ),
        Aspect(
            "{subject} drives {answer}.",
            ("What car does {subject} have?", "Which vehicle does {subject} drive?"),
            _words("""an old Volvo estate, a red Mini, a Skoda Octavia, a Fiat Panda, a Toyota hybrid, a Land Rover,
                a blue Beetle, a Citroen van, a Mazda roadster, a Dacia Duster, a white Tesla, a Saab convertible"""),
        ),
        Aspect(
            "{subject} can be reached at extension {answer}.",
            ("What is {subject}'s phone extension?", "Which number do I dial to call {subject}?"),
            ("####",),
        ),
        Aspect(
            "{subject} is learning {answer} in the evenings.",
            ("Which language is {subject} studying?", "What new language is {subject} learning?"),
            _words("""Finnish, Swahili, Arabic, Welsh, Mandarin, Greek, Icelandic, Hindi, Hungarian, Basque, Farsi,
                Estonian, Tagalog, Catalan"""),
        ),
        Aspect(
            "{subject} took up {answer} as a hobby last year.",
            ("What hobby has {subject} started?", "How does {subject} spend free time?"),
            _words("""orienteering, bookbinding, fencing, sourdough baking, kite surfing, birdwatching, calligraphy,
                model railways, rock climbing, origami, beach volleyball, astronomy, curling, wood carving"""),
        ),
        Aspect(
            "I want to give {subject} {answer} as a present.",
            ("What gift did I think of for {subject}?", "What should I buy for {subject} as a present?"),
            _words("""a fountain pen, a cast-iron teapot, a hammock, a star atlas, concert tickets, a wool blanket,
                a pasta machine, a bird feeder, a jigsaw puzzle, a pocket knife, a bonsai tree, a record player"""),
        ),
        Aspect(
            "{subject} borrowed {answer} from me and still has it.",
            ("What did I lend to {subject}?", "Which of my things does {subject} still have to give back?"),
            _words("""my cordless drill, my tent, my travel guide to Japan, my slide projector, my sewing machine,
                my bike rack, my pressure cooker, my ladder, my tripod, my snowshoes, my camping stove"""),
        ),
        Aspect(
            "{subject} comes to the office by {answer}.",
            ("How does {subject} commute?", "By what means does {subject} get to work?"),
            _words("""cargo bike, ferry, tram, car pool, night bus, kick scooter, suburban train, motorbike,
                cable car, electric unicycle"""),
        ),
        Aspect(
            "{subject} studied {answer} at university.",
            ("What was {subject}'s degree in?", "Which subject did {subject} read at university?"),
            _words("""marine biology, art history, theology, metallurgy, linguistics, forestry, statistics,
                philosophy, geodesy, pharmacy, musicology, hydrology, archaeology, textile design"""),
        ),
        Aspect(
            "{subject} supports {answer} and never misses a match.",
            ("Which team is {subject} a fan of?", "Which club does {subject} support?"),
            _words("""Celtic, Benfica, Ajax, Sevilla, Torino, Werder Bremen, Sparta Prague, Galatasaray, Everton,
                Olympiacos, Red Star, Rapid Vienna, Malmo, Fiorentina"""),
        ),
        Aspect(
            "{subject} is afraid of {answer}.",
            ("What phobia does {subject} have?", "What is {subject} scared of?"),
            _words("""heights, spiders, flying, deep water, lifts, needles, thunder, snakes, clowns, the dark, horses,
                tunnels, crowds, moths"""),
        ),
    ),
)

PROJECTS: Final = Family(
    "projects",
    tuple(
        f"the {name} project"
        for name in _crossed(
            "Blue, Quiet, Silver, Northern, Hidden, Copper, Rapid, Amber, Winter, Hollow, Velvet, Crimson, Distant",
            "Falcon, Harbor, Lantern, Meadow, Compass, Orchid, Glacier, Beacon, Anchor, Thicket, Summit, Otter",
        )
    ),
    (
        Aspect(
            "The backend of {subject} is written in {answer}.",
            ("Which programming language does {subject} use?", "What is {subject} coded in?"),
            _words("Rust, Go, Kotlin, Elixir, Scala, TypeScript, Clojure, Swift, Haskell, Python, Ruby, Zig, OCaml"),
        ),
        Aspect(
            "The deadline of {subject} is {answer}.",
            ("When is {subject} due?", "By what date does {subject} have to be finished?"),
            _DAYS,
        ),
        Aspect(
            "We keep the data of {subject} in {answer}.",
            ("Which database does {subject} use?", "Where is the data of {subject} stored?"),
            _words("""Postgres, MongoDB, Cassandra, DuckDB, CockroachDB, MariaDB, Neo4j, ClickHouse, DynamoDB, SQLite,
                Couchbase, Firestore"""),
        ),
        Aspect(
            "The staging server of {subject} listens on port {answer}.",
            (
                "On which port does the staging server of {subject} run?",
                "What port do I use to reach {subject} on staging?",
            ),
            ("4###", "5###", "8###", "9###"),
        ),
        Aspect(
            "The person who leads {subject} is {answer}.",
            ("Who is in charge of {subject}?", "Who leads {subject}?"),
            tuple(
                f"{one} {two}" for one, two in product(_GIVEN, ("Brandt", "Castro", "Dlamini", "Eriksen", "Fischer"))
            ),
        ),
        Aspect(
            "Hours on {subject} are booked to cost centre {answer}.",
            ("Which cost centre do I book for {subject}?", "Where do the hours spent on {subject} go?"),
            ("CC-1###", "CC-2###", "CC-7###"),
        ),
        Aspect(
            "We deploy {subject} every {answer}.",
            ("On what day do we release {subject}?", "When is {subject} deployed each week?"),
            _WEEKDAYS,
        ),
        Aspect(
            "{subject} is discussed in the chat channel {answer}.",
            ("In which channel do we talk about {subject}?", "Where do I post a message about {subject}?"),
            tuple(
                f"#{one}-{two}"
                for one, two in product(
                    ("pine", "cedar", "maple", "birch", "hazel", "willow"), ("room", "deck", "yard", "loft", "cabin")
                )
            ),
        ),
        Aspect(
            "{subject} is hosted in the {answer} region.",
            ("Which cloud region does {subject} run in?", "Where is {subject} hosted?"),
            _words("""Frankfurt, Oregon, Ohio, Singapore, Sydney, Stockholm, Ireland, Mumbai, Tokyo, Montreal,
                Sao Paulo, Cape Town"""),
        ),
        Aspect(
            "The customer who pays for {subject} is {answer}.",
            ("Who is the client of {subject}?", "Which customer ordered {subject}?"),
            _words("""a shipping line, a chain of bakeries, the water board, a museum, a regional airline, a hospital
                group, a toy maker, the tax office, a wind farm, a music label, a seed bank, a bicycle maker"""),
        ),
        Aspect(
            "The test suite of {subject} takes {answer} minutes.",
            ("How long do the tests of {subject} run?", "How much time does testing {subject} take?"),
            _MINUTES,
        ),
        Aspect(
            "{subject} is released under the {answer} licence.",
            ("What licence does {subject} have?", "Under which terms is {subject} published?"),
            _words("MIT, Apache, BSD, Mozilla, GPL, AGPL, Eclipse, ISC, Unlicense, European Union"),
        ),
        Aspect(
            "The biggest risk of {subject} is {answer}.",
            ("What worries us most about {subject}?", "Which risk threatens {subject}?"),
            _words("""the legacy importer, a missing translator, the slow approval by legal, flaky sensors,
                the single database server, an unpaid supplier, the summer holidays, the payment gateway,
                outdated documentation, the expiring certificate, the old mainframe, unclear requirements"""),
        ),
        Aspect(
            "The kick-off of {subject} took place in {answer}.",
            ("When did {subject} start?", "In which month and year did we kick off {subject}?"),
            _MONTHS_OF_YEARS,
        ),
    ),
)

CLIENTS: Final = Family(
    "clients",
    _crossed(
        "Alder, Borealis, Corvus, Delphin, Ember, Fathom, Granite, Helix, Juniper, Kestrel",
        "Logistics, Foods, Textiles, Energy, Optics, Travel, Robotics, Media, Pharma, Timber",
    ),
    (
        Aspect(
            "My contact at {subject} is {answer}.",
            ("Who do I talk to at {subject}?", "What is the name of my contact person at {subject}?"),
            tuple(f"{one} {two}" for one, two in product(_GIVEN, ("Girard", "Hoffman", "Ibrahim", "Kaplan", "Larsen"))),
        ),
        Aspect(
            "{subject} pays its invoices within {answer} days.",
            ("What are the payment terms of {subject}?", "How long does {subject} take to pay?"),
            _MINUTES,
        ),
        Aspect(
            "My customer number at {subject} is {answer}.",
            ("Which customer number do I have at {subject}?", "How am I registered at {subject}?"),
            ("K-#####", "R-#####", "T-#####"),
        ),
        Aspect(
            "{subject} wants to be billed in {answer}.",
            ("In which currency do I bill {subject}?", "What currency goes on the invoice to {subject}?"),
            _words("""Swiss francs, euros, Danish kroner, US dollars, Czech crowns, Polish zloty, Japanese yen,
                pounds sterling, Turkish lira, Canadian dollars"""),
        ),
        Aspect(
            "Meetings with {subject} are held on {answer}.",
            ("Which tool do we use for calls with {subject}?", "How do I join a video meeting with {subject}?"),
            _words("Zoom, Webex, Jitsi, Teams, Google Meet, Whereby, BigBlueButton, FaceTime"),
        ),
        Aspect(
            "The contract with {subject} ends in {answer}.",
            ("Until when does the contract with {subject} run?", "When do I have to renew with {subject}?"),
            tuple(f"{month} {year}" for month, year in product(_MONTHS, range(2027, 2033))),
        ),
        Aspect(
            "I grant {subject} a discount of {answer} percent.",
            ("What discount does {subject} get?", "How much off the price do I give {subject}?"),
            _MINUTES,
        ),
        Aspect(
            "The head office of {subject} is in {answer}.",
            ("Where is {subject} based?", "In which city are the headquarters of {subject}?"),
            _CITIES,
        ),
        Aspect(
            "At the office of {subject} I may park in bay {answer}.",
            ("Where do I leave my car at {subject}?", "Which parking space do I have at {subject}?"),
            ("A##", "B##", "C##", "D##"),
        ),
        Aspect(
            "{subject} found me through {answer}.",
            ("How did {subject} hear about me?", "How did I win {subject} as a client?"),
            _words("""a trade fair, an old classmate, my newsletter, a podcast, a public tender, a former intern,
                a magazine article, my landlord, an online forum, a lecture"""),
        ),
    ),
)

TRIPS: Final = Family(
    "trips",
    tuple(f"my trip to {city}" for city in _CITIES),
    (
        Aspect(
            "On {subject} I stayed at {answer}.",
            ("Where did I sleep on {subject}?", "Which hotel was I at during {subject}?"),
            _words("""the Bluebird Inn, Pension Aurora, Hotel Meridian, the Old Mill, Casa Verde, the Lighthouse
                Hostel, Villa Rosalia, the Grand Station Hotel, Guesthouse Olive, the Tower Rooms, Camp Juniper"""),
        ),
        Aspect(
            "I went on {subject} together with {answer}.",
            ("Who came along on {subject}?", "Who was my companion on {subject}?"),
            _words("""my sister, my uncle, two colleagues, my godfather, a school friend, my mother, the hiking club,
                my flatmate, my nephew, my father-in-law, the choir"""),
        ),
        Aspect(
            "{subject} was in {answer}.",
            ("When was {subject}?", "What month and year was {subject}?"),
            _MONTHS_OF_YEARS,
        ),
        Aspect(
            "The best meal on {subject} was {answer}.",
            ("What was the best thing that I ate on {subject}?", "Which dish did I love on {subject}?"),
            _words("""grilled sardines, a lentil stew, lamb dumplings, fish curry, cheese pie, noodle soup, stuffed
                peppers, roast duck, an onion tart, crab cakes, pumpkin ravioli, bean burritos"""),
        ),
        Aspect(
            "From {subject} I brought home {answer}.",
            ("What souvenir did I buy on {subject}?", "What did I bring back from {subject}?"),
            _words("""a copper pot, a painted tile, a straw hat, a wooden flute, a silk scarf, a snow globe, olive
                oil, a chess set, a clay mask, a leather belt, an old map, a brass bell"""),
        ),
        Aspect(
            "On the flight of {subject} I sat in seat {answer}.",
            ("Which seat did I have on the plane for {subject}?", "Where on the plane did I sit for {subject}?"),
            tuple(f"{row}{letter}" for row, letter in product(range(4, 38), "ACDF")),
        ),
        Aspect(
            "The weather on {subject} was spoilt by {answer}.",
            ("What was wrong with the weather on {subject}?", "How was the weather on {subject}?"),
            _words("a sandstorm, hail, thick fog, three days of drizzle, a heat wave, gales, sleet, a late frost"),
        ),
        Aspect(
            "On {subject} I lost {answer}.",
            ("What went missing on {subject}?", "Which of my belongings did I lose on {subject}?"),
            _words("""my sunglasses, my passport, one glove, my phone charger, my umbrella, a rain jacket, my reading
                glasses, a wallet, my swimsuit, my headphones, my notebook"""),
        ),
        Aspect(
            "On {subject} I got around by {answer}.",
            ("What did I rent to get around on {subject}?", "How did I travel locally on {subject}?"),
            _words("""tandem, moped, camper van, rowing boat, hired bicycle, tuk-tuk, horse cart, funicular, water
                taxi, roller skates"""),
        ),
    ),
)

DOGS: Final = Family(
    "dogs",
    tuple(
        f"the shelter dog {name}"
        for name in _words("""Bruno, Luna, Rex, Bella, Charlie, Daisy, Max, Molly, Rocky, Coco, Teddy, Ruby, Oscar,
            Lola, Buddy, Rosie, Toby, Stella, Jack, Sadie, Duke, Penny, Bear, Nala, Murphy, Willow, Simba, Hazel,
            Archie, Maggie, Winston, Ginger, Otis, Poppy, Leo, Roxy, Finn, Olive, Benny, Pearl""")
    ),
    (
        Aspect(
            "{subject} is {answer}.",
            ("What breed is {subject}?", "What kind of dog is {subject}?"),
            _words("""a beagle, a greyhound, a dachshund, a collie, a poodle mix, a husky, a boxer, a spaniel,
                a terrier, a schnauzer, a whippet, a labrador"""),
        ),
        Aspect(
            "{subject} sleeps in kennel {answer}.",
            ("Which kennel is {subject} in?", "What is the kennel number of {subject}?"),
            tuple(str(number) for number in range(11, 97)),
        ),
        Aspect(
            "{subject} only eats {answer}.",
            ("What do I feed {subject}?", "Which food does {subject} accept?"),
            _words("""boiled chicken, rice with carrots, canned tuna, dry kibble, raw beef, turkey mince, pumpkin
                puree, salmon flakes, scrambled eggs"""),
        ),
        Aspect(
            "{subject} has to take {answer} every evening.",
            ("Which medicine does {subject} get?", "What medication must I give {subject}?"),
            _words("""eye drops, a heart tablet, a worming pill, an antibiotic, cough syrup, an insulin shot, a joint
                supplement, an ear ointment"""),
        ),
        Aspect(
            "I take {subject} for a walk at {answer}.",
            ("At what time do I walk {subject}?", "When is the walk with {subject}?"),
            tuple(f"{hour}:{minute}" for hour, minute in product(range(6, 21), ("10", "25", "40", "55"))),
        ),
        Aspect(
            "{subject} panics at the sight of {answer}.",
            ("What scares {subject}?", "What must I keep {subject} away from?"),
            _words("""umbrellas, motorbikes, cats, vacuum cleaners, bearded men, skateboards, pigeons, balloons,
                wheelchairs, hot-air balloons"""),
        ),
        Aspect(
            "{subject} loves to play with {answer}.",
            ("What is {subject}'s favourite toy?", "Which toy should I bring for {subject}?"),
            _words("""a frisbee, a squeaky hedgehog, an old sock, a tennis ball, a rope, a rubber bone, a plastic
                bottle, a plush rabbit"""),
        ),
        Aspect(
            "{subject} was brought to the shelter by {answer}.",
            ("Where did {subject} come from?", "Who handed {subject} over to the shelter?"),
            _words("""the police, a lorry driver, an old lady, the fire brigade, a farmer, a student, the postman,
                customs officers, a hiker, a petrol station"""),
        ),
    ),
)

DEVICES: Final = Family(
    "devices",
    tuple(
        f"the {name}"
        for name in _words("""boiler, dishwasher, washing machine, tumble dryer, refrigerator, freezer, oven, microwave,
            toaster, kettle, coffee grinder, vacuum cleaner, lawn mower, hedge trimmer, garage door, doorbell,
            thermostat, smoke detector, television, projector, soundbar, turntable, printer, scanner, label maker,
            wifi router, network switch, backup drive, laptop dock, webcam, desk lamp, standing desk, sewing machine,
            air purifier, dehumidifier, ceiling fan, water softener, solar inverter, wall charger, cargo bike,
            electric scooter""")
    ),
    (
        Aspect("I bought {subject} in {answer}.", ("When did I buy {subject}?", "How old is {subject}?"), _YEARS),
        Aspect(
            "The warranty of {subject} runs out on {answer}.",
            ("Until when is {subject} under warranty?", "When does the guarantee for {subject} end?"),
            _DAYS,
        ),
        Aspect(
            "The serial number of {subject} is {answer}.",
            ("What serial number does {subject} have?", "Which serial number do I quote for {subject}?"),
            ("SN-####-##", "XK-####-##", "QM-####-##"),
        ),
        Aspect(
            "The manual of {subject} is kept in {answer}.",
            ("Where are the instructions for {subject}?", "Where do I find the manual of {subject}?"),
            _words("""the blue binder, the hallway drawer, a shoe box, the filing cabinet, the kitchen cupboard,
                the attic, the glove compartment, the bookshelf, the cellar, my desk"""),
        ),
        Aspect(
            "{subject} is repaired by {answer}.",
            ("Who fixes {subject}?", "Whom do I call when {subject} is broken?"),
            tuple(f"{one} {two}" for one, two in product(_GIVEN, ("Electric", "and Sons", "Services", "Repairs"))),
        ),
        Aspect(
            "I paid {answer} euros for {subject}.",
            ("How much did {subject} cost?", "What was the price of {subject}?"),
            ("1##", "2##", "3##", "4##", "7##"),
        ),
        Aspect(
            "{subject} makes {answer} before it fails.",
            ("What noise does {subject} make?", "How does {subject} announce a fault?"),
            _words("""a humming sound, a shrill beep, a rattling, a smell of burnt dust, a clicking, a low growl,
                a hiss, two red blinks, a squeal"""),
        ),
    ),
)

DISHES: Final = Family(
    "dishes",
    tuple(
        f"my {name}"
        for name in _words("""lasagne, goulash, paella, borscht, ratatouille, moussaka, risotto, chili, gumbo, ramen,
            pierogi, quiche, tiramisu, apple strudel, carrot cake, cheesecake, banana bread, plum cake, pavlova,
            brownies, pumpkin soup, potato salad, coleslaw, hummus, falafel, shakshuka, biryani, dal, pad thai, kimchi,
            gnocchi, pesto, focaccia, rye bread, pretzels, pancakes, granola, lemon curd, fish pie, shepherd's pie""")
    ),
    (
        Aspect(
            "I learnt {subject} from {answer}.",
            ("Who taught me to make {subject}?", "Where does the recipe of {subject} come from?"),
            _words("""my grandmother, a Dutch neighbour, a cooking show, an army cook, my first landlady, a monk,
                my uncle in Naples, a library book, a night-school course, a bus driver"""),
        ),
        Aspect(
            "The secret ingredient of {subject} is {answer}.",
            ("What makes {subject} special?", "Which secret ingredient goes into {subject}?"),
            _words("""smoked paprika, orange zest, anchovy paste, cardamom, black garlic, star anise, dark beer,
                tamarind, miso, nutmeg, horseradish, maple syrup"""),
        ),
        Aspect(
            "{subject} needs {answer} minutes of cooking.",
            ("How long do I cook {subject}?", "How much time does {subject} need on the stove?"),
            _MINUTES,
        ),
        Aspect(
            "I always serve {subject} with {answer}.",
            ("What goes with {subject}?", "Which side do I put next to {subject}?"),
            _words("""pickled beets, a green salad, sour cream, roast chestnuts, cucumber relish, flatbread,
                vanilla ice cream, stewed pears, radishes, garlic toast"""),
        ),
        Aspect(
            "I make {subject} every year for {answer}.",
            ("On what occasion do I prepare {subject}?", "For which holiday do I make {subject}?"),
            _words("""Easter, New Year's Eve, the street party, Midsummer, Saint Nicholas, the office picnic,
                Thanksgiving, the harvest fair, Carnival, Mother's Day"""),
        ),
        Aspect(
            "Once I burnt {subject} because of {answer}.",
            ("Why did {subject} burn?", "What distracted me so that {subject} got burnt?"),
            _words("""a phone call, a power cut, a penalty shoot-out, a fire drill, a parcel delivery, a crossword,
                a crying baby, a broken timer"""),
        ),
    ),
)

BOOKS: Final = Family(
    "books",
    tuple(
        f"the novel The {name}"
        for name in _crossed(
            "Last, Silent, Glass, Borrowed, Salt, Paper, Endless, Crooked",
            "Orchard, Lighthouse, Cartographer, Winter, Clockmaker, River, Garden",
        )
    ),
    (
        Aspect(
            "{subject} was recommended to me by {answer}.",
            ("Who told me to read {subject}?", "Who suggested {subject}?"),
            _words("""my dentist, my aunt, a librarian, a taxi driver, my physics teacher, a bookshop owner,
                my neighbour, a radio host, my running coach, a flight attendant"""),
        ),
        Aspect(
            "I finished {subject} {answer}.",
            ("Where was I when I finished {subject}?", "Where did I read the end of {subject}?"),
            _words("""on a ferry, in a hospital bed, in a laundrette, on the balcony, in a waiting room, on the beach,
                in a mountain hut, at the airport, in the bathtub, on a park bench"""),
        ),
        Aspect(
            "What I liked most in {subject} was {answer}.",
            ("Which part of {subject} did I like best?", "What did I enjoy about {subject}?"),
            _words("""the talking crow, the final trial, the letters, the train chase, the old translator, the storm,
                the recipes, the twin sisters, the map at the end, the unreliable narrator"""),
        ),
        Aspect(
            "I own {subject} as {answer}.",
            ("In what form do I have {subject}?", "Which edition of {subject} do I own?"),
            _words("""an audiobook, a signed hardcover, a battered paperback, an e-book, a library discard,
                a large-print copy, a first edition, a photocopy"""),
        ),
        Aspect(
            "I gave {subject} {answer} points out of a hundred.",
            ("How did I rate {subject}?", "How many points did {subject} get from me?"),
            tuple(str(points) for points in range(21, 99)),
        ),
    ),
)

PLANTS: Final = Family(
    "plants",
    tuple(
        f"the {name}"
        for name in _words("""lemon tree, fig tree, olive tree, apple tree, cherry tree, rose bush, lavender, rosemary,
            thyme, basil, mint, sage, oregano, tomato plants, pepper plants, courgettes, pumpkins, rhubarb, raspberries,
            blackcurrants, grapevine, wisteria, clematis, hydrangea, peonies, dahlias, tulips, sunflowers, fuchsia,
            geraniums, bamboo, monstera, ficus, aloe, orchids, jade plant, snake plant, rubber plant, cactus, fern""")
    ),
    (
        Aspect(
            "In my garden plan {subject} must be watered {answer}.",
            ("How often does my garden plan say to water {subject}?", "When do I water {subject}?"),
            _words("""twice a week, every other day, once a fortnight, only at dawn, each evening, on odd dates,
                once a month, every Friday, after the midday heat"""),
        ),
        Aspect(
            "In my garden plan {subject} stands {answer}.",
            ("Where in the garden plan is {subject}?", "What place did I choose for {subject}?"),
            _words("""by the south wall, next to the shed, under the skylight, beside the pond, on the windowsill,
                behind the garage, in the greenhouse, along the fence, at the gate"""),
        ),
        Aspect(
            "In my garden plan {subject} is fed with {answer}.",
            ("What fertiliser does my garden plan give {subject}?", "What do I feed {subject} with?"),
            _words("""nettle tea, bone meal, coffee grounds, seaweed extract, horse manure, wood ash, egg shells,
                compost, banana peel"""),
        ),
        Aspect(
            "In my garden plan {subject} is threatened by {answer}.",
            ("Which pest does my garden plan name for {subject}?", "What attacks {subject}?"),
            _words("slugs, aphids, scale insects, vine weevils, powdery mildew, spider mites, leaf miners, blackbirds"),
        ),
        Aspect(
            "For my garden plan I got {subject} from {answer}.",
            ("Where did I get {subject} for the garden plan?", "Who gave me {subject}?"),
            _words("""a seed swap, my mother-in-law, the monastery shop, a demolition site, the botanical garden,
                a street market, a retired gardener, a mail-order nursery"""),
        ),
    ),
)

FAMILIES: Final = (PEOPLE, PROJECTS, CLIENTS, TRIPS, DOGS, DEVICES, DISHES, BOOKS, PLANTS)
"""Every family; together they hold more than 10,000 facts."""
