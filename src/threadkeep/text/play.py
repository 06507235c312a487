"""Where a conversation plays a part: a role play, a practised interview, a simulation. Pure rules, English first.

What a person says in a part is not about themselves. A part takes several messages, so the rules read those before
the one in question, too.
"""

# ruff: noqa: E501 - a pattern is a flat list of alternatives; broken up, it could not be searched for a word

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from threadkeep.text.semantics import straight

LONGEST: Final = 20
"""A part that no message ends is over after so many messages of the user."""
_READ_CHARACTERS: Final = 400
"""So much of a message is looked at, from its beginning."""

_ACT: Final = r"(?:role[- ]?play(?:ing)?|game|practi[cs]e|interview|scene|simulation|debate|exercise|rehearsal|improv|adventure|campaign|character)"
_A_PART: Final = r"(?:(?:an?|the)\ (?!(?:your|my|not|just|so|really|sorry|sure|glad|right|here|also|still|always|currently|trying|looking|using|wondering|asking|great|good|bad|big|huge|real|nice|smart|clever|genius|star|help|legend|bot|model|machine|computer|ai)\b)\w+|(?-i:[A-Z])[\w'-]+)"
# ``Let's pretend I'm a pirate`` is mostly said for one message, as facts.meant() knows.
_BEGINS: Final = re.compile(
    rf"""(?ix)\b(?:
      let'?s\ (?:(?:do|play|start|try|have|make|run)\ )?(?:an?\ |the\ |some\ )?(?:quick\ |little\ |mock\ |short\ )*(?:role[- ]?play|simulat\w+|rehears\w+|debate\b|act\ out|improvise|practi[cs]e\ (?:an?|the|my|for)|mock\ \w+)
    | (?:do|play|start|begin|run|want|like|need)\b[^.!?]{{0,30}}\b(?:role[- ]?play|mock\ (?:interview|trial|exam)|dungeon\ master)
    | (?:be|act\ as|are)\ (?:my|the|our|a)\ (?:dungeon|game)\ master
    | (?:you(?:'re|\ are|\ be|'ll\ be|\ will\ be|\ play)|you\ (?:to\ )?(?:be|play)|pretend\ (?:to\ be|you're|you\ are))\ {_A_PART}[^.!?]{{0,60}}?(?:\ and|,)\ (?:I(?:'m|\ am|'ll\ be|\ will\ be|\ play|'ll\ play)|me)\ (?:{_A_PART}|\w+ing\ you\b)
    | I(?:'m|\ am|'ll\ be|\ will\ be|\ play|'ll\ play)\ {_A_PART}[^.!?]{{0,60}}?(?:\ and|,)\ you(?:'re|\ are|\ be|'ll\ be|\ will\ be|\ play)\ {_A_PART}
    | lass(?:t)?\ uns\ (?:ein\ )?(?:rollenspiel|so\ tun|üben) | jeu\ de\ rôle | juego\ de\ rol | gioco\ di\ ruolo
    )"""
)
_ENDS: Final = re.compile(
    rf"""(?ix)\b(?:
      game\ over | end\ of\ (?:the\ |this\ |our\ )?{_ACT} | (?:stop|pause|quit|leave|exit|end|finish|enough\ of)\ (?:with\ )?(?:the\ |this\ |our\ )?{_ACT}
    | (?:stop|break)\ (?:here|it|now|this)\b | ^(?:ok(?:ay)?,?\ )?stop\b | break\ from\ (?:the\ )?{_ACT} | out\ of\ character | not\ in\ character
    | back\ to\ (?:reality|work|normal|real\ life|the\ real\ world) | in\ (?:real\ life|reality|truth) | irl | for\ real | something\ real | joking\ aside | seriously\ (?:now|though)
    | (?:good|nice|great|fun)\ (?:debate|game|scene|practi[cs]e|interview|round|session|role[- ]?play) | (?:how|what)\ (?:was|did)\ (?:I|my)\b | (?:was|were)\ (?:I|that)\ (?:ok|okay|good|too|convincing|better|right|fine)\b
    | spiel\ vorbei | fin\ du\ jeu | fin\ del\ juego
    )"""
)


def in_play(texts: Sequence[str]) -> list[bool]:
    """Return of each message of the user whether it plays a part; the one that ends it does not.

    Args:
        texts: Consecutive messages of one conversation, oldest first.
    """
    played: list[bool] = []
    left = 0
    for text in texts:
        begins = _begins(text[:_READ_CHARACTERS])
        if begins is not None:
            left = LONGEST if begins else 0
        played.append(left > 0)
        left = max(0, left - 1)
    return played


@lru_cache(maxsize=2_048)
def _begins(text: str) -> bool | None:
    """Return whether a message begins a part (True) or ends one (False); ``None``: neither."""
    said = straight(text)
    if _ENDS.search(said):
        return False
    return True if _BEGINS.search(said) else None
