"""Whether passages have to do with a question. Pure rules over one ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from threadkeep.search.ranking import Ranking
    from threadkeep.search.scoring import Hit

LEAST_CLOSENESS: Final = 0.24
"""From so close on, a passage has to do with a question.

Source:
    The development half of ``threadkeep eval documents``: the closest passage of a question that names its subject has
    .29 or more, and 19 of 20 unrelated questions stay below. ``docs/evaluation.md`` has the other half.
"""

LEAST_LEXICAL: Final = 0.10
"""The same where words alone are compared, as in :mod:`threadkeep.recall.relevance`."""

IN_ITS_WORDS: Final = 0.40
"""A passage with so much of a question's words, as a share of BM25, is what it is about; the source is the same."""


def closest_hits(ranking: Ranking, limit: int, *, relevant_only: bool) -> list[Hit]:
    """Return the *limit* passages that are closest to the question, the closest first, with that as their scores.

    Memories are ordered by how far their words and their meaning stand out. Passages are ordered by how close they are:
    questions about documents use other words, and what few words they share says little.

    Args:
        ranking: All of what was found.
        limit: The most passages.
        relevant_only: Return none where the question has to do with none.
    """
    hits = ranking.hits
    places = hits.closest_places(limit)
    closest = [hits[place]._replace(score=hits.closeness_at(place)) for place in places]
    least = LEAST_LEXICAL if ranking.by_words else LEAST_CLOSENESS
    if relevant_only and not any(hit.score >= least or hit.lexical >= IN_ITS_WORDS for hit in closest):
        return []
    return closest
