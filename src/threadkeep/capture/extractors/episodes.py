"""The episode of a turn: a model's, where the user's own words bear it out, else one that is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from threadkeep.capture.extractors.local import candidates as local_candidates
from threadkeep.capture.record import Candidate, Turn
from threadkeep.capture.support import backing

MAX_CHARACTERS: Final = 1_000


def with_episode(candidates: Sequence[Candidate], turn: Turn) -> tuple[Candidate, ...]:
    """Return *candidates* with one episode: the first that the user's words bear out, else one made of those words.

    What a reply, a tool or a document says does not become history by way of a summary.
    """
    facts = [candidate for candidate in candidates if candidate.kind != "episodic"]
    borne_out = (
        candidate
        for candidate in candidates
        if candidate.kind == "episodic"
        and len(candidate.text) <= MAX_CHARACTERS
        and backing(candidate.text, "episodic", turn.messages).speaker == "user"
    )
    made = (candidate for candidate in local_candidates(turn) if candidate.kind == "episodic")
    episode = next(borne_out, None) or next(made, None)
    return (*facts, episode) if episode else tuple(facts)
