"""Relatives, companions and animals of a user, in six languages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


def _by_member(*groups: str) -> Mapping[str, str]:
    return {member: group.split()[0] for group in groups for member in group.split()}


_CLOSE: Final = _by_member(
    "sister soeur sœur schwester hermana irmã sorella",
    "brother frère bruder hermano irmão fratello",
    "mother mum mom mama mutter mère maman madre mamá mãe",
    "father dad papa vater père papá padre pai",
    "wife frau femme esposa mujer mulher moglie",
    "husband mann mari marido esposo marito",
    "grandmother gran grandma oma großmutter mamie grand-mère abuela avó nonna",
    "grandfather grandad grandpa opa großvater papi grand-père abuelo avô nonno",
    "uncle onkel oncle tío tio zio",
    "aunt tante tía tia zia",
)
_OTHERS: Final = _by_member(
    "partner girlfriend boyfriend freundin freund copain copine novia novio namorada namorado",
    "son sohn fils hijo filho figlio",
    "daughter tochter fille hija filha figlia",
    "child kid kids children kinder kind enfants enfant hijos niños filhos figli",
    "cousin cousine primo prima cugino cugina",
    "nephew neffe neveu sobrino sobrinho",
    "niece nichte nièce sobrina sobrinha",
    "parents eltern pais genitori",
    "boss manager chef chefin jefe jefa capo",
    "colleague kollege kollegin collègue colega compañero collega",
    "friend ami amie amigo amiga amico",
    "neighbour neighbor nachbar nachbarin voisin voisine vecino vecina vizinho vicino",
    "baby bébé bebé bebê eldest youngest",
    "flatmate roommate mitbewohner colocataire",
)
_DOGS_AND_CATS: Final = _by_member(
    "dog puppy hund hündin welpe chien chienne chiot perro perra perrito cão cachorro cachorra cadela cane cagna",
    "cat kitten kater katze chat chatte gato gata gatto gatta",
)
_OTHER_ANIMALS: Final = _by_member(
    "rabbit bunny kaninchen hase lapin conejo coneja coelho coelha coniglio",
    "horse pony pferd cheval jument caballo yegua cavalo égua cavallo",
    "parrot budgie papagei wellensittich perroquet perruche loro papagaio pappagallo",
    "hamster hámster criceto",
    "tortoise schildkröte tortue tortuga tartaruga",
)

RELATIVES: Final[Mapping[str, str]] = {**_CLOSE, **_OTHERS, **_DOGS_AND_CATS}
"""By the word, what it means in English: people and animals of whom a user has one or several.

Other animals are not among them: their words are too common in one of the languages, as Italian ``loro`` is.
"""

LOSABLE: Final[Mapping[str, str]] = {**_DOGS_AND_CATS, **_OTHER_ANIMALS, **_CLOSE}
"""The same of relatives and animals that die or are given away; each word is read after ``my`` or the like only."""

RELATED_PEOPLE: Final = frozenset(_CLOSE.values())
"""Which of :data:`LOSABLE` are people."""
