"""Policies: which statements are kept by themselves, which need an approval, and which are never kept. Pure rules.

A policy is a list of rules, ``what=verdict``, separated by commas. *What* is who stands behind a statement
(``user``, ``import``, ``assistant``, ``agent``, ``document``, ``tool``), a kind (``semantic``, ``episodic``,
``procedural``), or both (``tool.semantic``). The rule that names both is stronger than one that names one;
of two that name one each, the stricter counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast, get_args

from threadkeep.errors import InvalidInputError
from threadkeep.memories.models import TRUSTED, Kind, Speaker
from threadkeep.proposals.models import Verdict

Rule: TypeAlias = tuple[Speaker | None, Kind | None]

STRICTNESS: Final[tuple[Verdict, ...]] = ("auto", "ask", "never")


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules for statements; what none of them names is decided by :func:`by_default`.

    Attributes:
        rules: The verdict for a speaker, a kind, or both.
        owner_rules: An owner's own, which count first; only what *rules* never keep stays so.
        shared: Whether the owner is a scope that users share: then only its own rules let anything pass unasked.
    """

    rules: Mapping[Rule, Verdict] = field(default_factory=dict[Rule, Verdict])
    owner_rules: Mapping[Rule, Verdict] = field(default_factory=dict[Rule, Verdict])
    shared: bool = False

    def verdict(self, kind: Kind, speaker: Speaker) -> Verdict:
        """Return the verdict on a statement of *kind* with *speaker* as its least trusted source."""
        general = _ruled(self.rules, kind, speaker) or by_default(kind, speaker)
        if self.shared and general == "auto":
            general = "ask"
        return general if general == "never" else _ruled(self.owner_rules, kind, speaker) or general


def by_default(kind: Kind, speaker: Speaker) -> Verdict:
    """Return the verdict where no rule says: the user is believed, how to behave is always asked.

    What others say of a turn is no history, so an episode that the user's words do not bear out is not kept.
    """
    if speaker not in TRUSTED and kind == "episodic":
        return "never"
    return "ask" if kind == "procedural" or speaker not in TRUSTED else "auto"


def rules_of(text: str) -> dict[Rule, Verdict]:
    """Read the rules of a policy.

    Raises:
        InvalidInputError: One sentence that names the rule to correct.
    """
    rules: dict[Rule, Verdict] = {}
    for rule_text in filter(None, (part.strip() for part in text.split(","))):
        what, equals, verdict = (part.strip() for part in rule_text.partition("="))
        if not equals or verdict not in get_args(Verdict):
            msg = f"A rule must be what=verdict with auto, ask or never, such as tool=never, got {rule_text[:80]!r}."
            raise InvalidInputError(msg)
        rule = _rule(what)
        if rule[1] == "procedural" and verdict == "auto":
            msg = f"How to behave is always asked; {rule_text[:80]!r} can only be ask or never."
            raise InvalidInputError(msg)
        rules[rule] = cast("Verdict", verdict)
    return rules


def _rule(what: str) -> Rule:
    speakers, kinds = get_args(Speaker), get_args(Kind)
    first, dot, second = what.partition(".")
    if not dot and first in speakers:
        return cast("Speaker", first), None
    if not dot and first in kinds:
        return None, cast("Kind", first)
    if first in speakers and second in kinds:
        return cast("Speaker", first), cast("Kind", second)
    msg = (
        f"{what[:80]!r} is not a kind of statement; give {', '.join(speakers)}, {', '.join(kinds)}, "
        "or both as in tool.semantic."
    )
    raise InvalidInputError(msg)


def spelled(rules: Mapping[Rule, Verdict]) -> str:
    """Return *rules* as :func:`rules_of` reads them."""
    return ", ".join(sorted(f"{'.'.join(part for part in rule if part)}={verdict}" for rule, verdict in rules.items()))


def _ruled(rules: Mapping[Rule, Verdict], kind: Kind, speaker: Speaker) -> Verdict | None:
    """Return what *rules* say; a rule for a speaker alone never lets pass how to behave."""
    exact = rules.get((speaker, kind))
    if exact is not None:
        return exact
    found = [rule for rule in (rules.get((speaker, None)), rules.get((None, kind))) if rule is not None]
    strictest: Verdict | None = None
    for verdict in STRICTNESS:
        strictest = verdict if verdict in found else strictest
    return "ask" if strictest == "auto" and kind == "procedural" else strictest
