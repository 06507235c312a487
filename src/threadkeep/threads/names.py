"""Thread ids as they are stored.

An ordinary id is stored as it is given, so that checkpoints can be moved to and from LangGraph's stock
savers. Ids that a database cannot hold are spelled out behind a mark, or stored as a digest, and
threads of a view that is scoped to one owner have names of a family that no id can spell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.ids import ThreadId, digest

if TYPE_CHECKING:
    from threadkeep.owners.owner import Owner

MAX_THREAD_ID_CHARACTERS: Final = 1000

_MARK: Final = "~tk~"
_SCOPED: Final = f"{_MARK}~"
_DIGESTED: Final = f"{_MARK}="
_UNBINDABLE: Final = re.compile(r"[\x00\ud800-\udfff]")
_ESCAPED_ONES: Final = re.compile(r"[\x00%~\ud800-\udfff]")
_ESCAPE: Final = re.compile(r"%([0-9a-f]{6})")


def thread_id_from(value: object) -> ThreadId:
    """Return *value* as a thread id; what is not a text (a UUID, a number) counts by its ``str()``.

    Raises:
        InvalidInputError: There is none, or it is empty.
        TooLargeError: It has more than 1,000 characters.
    """
    text = "" if value is None else str(value)
    if not text:
        msg = "The thread id is empty; give configurable.thread_id, the id of the conversation."
        raise InvalidInputError(msg)
    if len(text) > MAX_THREAD_ID_CHARACTERS:
        msg = f"The thread id has {len(text):,} characters; at most {MAX_THREAD_ID_CHARACTERS:,} are allowed."
        raise TooLargeError(msg, characters=len(text))
    return ThreadId(text)


@dataclass(frozen=True, slots=True)
class Names:
    """How the threads of one deployment are called where the checkpoints are kept.

    Args:
        key_prefix: Tells deployments that share one database apart; ``""``: there is one only.
        longest: The most bytes of a name that the database can find a thread by; ``None``: any.
    """

    key_prefix: str = ""
    longest: int | None = None

    def of(self, thread_id: str, owner: Owner | None) -> str:
        """Return how *thread_id* is stored: as it is, where the database can hold and tell it.

        A view that is scoped to *owner* stores a digest of both. It holds an unescaped ``~`` behind the
        mark, so it is no other thread's name.
        """
        deployment = (self.key_prefix,) if self.key_prefix else ()
        if owner is not None:
            return _SCOPED + digest("thread", *deployment, owner.tenant, owner.user_id, thread_id).hex()
        name = spelled(thread_id)
        if not deployment and (self.longest is None or len(name.encode()) <= self.longest):
            return name
        return f"{self._digested}{digest('thread', *deployment, thread_id).hex()}"

    def note_of(self, owner: Owner) -> str:
        """Return what tells *owner*'s scoped threads in a list of all."""
        whose = owner.partition.digest.hex()
        return digest("owner", self.key_prefix, whose).hex() if self.key_prefix else whose

    def is_unscoped(self, name: str) -> bool:
        """Whether an unscoped view of this deployment stored *name*."""
        if self.key_prefix:
            return name.startswith(self._digested)
        return not name.startswith(_SCOPED) and (not name.startswith(_DIGESTED) or name.startswith(self._digested))

    @property
    def _digested(self) -> str:
        return f"{_DIGESTED}{digest('deployment', self.key_prefix).hex()[:16]}-"


def is_digest(name: str) -> bool:
    """Whether *name* does not say which thread it is of, so that the id has to be noted beside it."""
    return name.startswith((_SCOPED, _DIGESTED))


def given_id(name: str) -> str:
    """Return the thread id that :func:`spelled` made *name* of."""
    if not name.startswith(_MARK):
        return name
    return _ESCAPE.sub(lambda found: chr(min(int(found[1], 16), 0x10FFFF)), name.removeprefix(_MARK))


def spelled(thread_id: str) -> str:
    """Return *thread_id* as a text that every database can hold: as it is, where that can be."""
    if not thread_id.startswith(_MARK) and not _UNBINDABLE.search(thread_id):
        return thread_id
    return _MARK + _ESCAPED_ONES.sub(lambda found: f"%{ord(found[0]):06x}", thread_id)
