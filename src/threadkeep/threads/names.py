"""Thread ids as they are stored.

An ordinary id is stored as it is given, so that a file can be moved to and from LangGraph's stock
savers. Ids that a database cannot hold are spelled out behind a mark, and threads of a view that is
scoped to one owner have names of a family that no id can spell.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.ids import ThreadId, digest

if TYPE_CHECKING:
    from threadkeep.owners.owner import Owner

MAX_THREAD_ID_CHARACTERS: Final = 1000

_MARK: Final = "~tk~"
_SCOPED: Final = f"{_MARK}~"
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


def stored_name(thread_id: str) -> str:
    """Return how *thread_id* is stored: as it is, unless a database could not hold or tell it."""
    if not thread_id.startswith(_MARK) and not _UNBINDABLE.search(thread_id):
        return thread_id
    return _MARK + _ESCAPED_ONES.sub(lambda found: f"%{ord(found[0]):06x}", thread_id)


def given_id(name: str) -> str:
    """Return the thread id that :func:`stored_name` spelled as *name*."""
    if not name.startswith(_MARK):
        return name
    return _ESCAPE.sub(lambda found: chr(min(int(found[1], 16), 0x10FFFF)), name.removeprefix(_MARK))


def scoped_name(thread_id: str, owner: Owner) -> str:
    """Return how *thread_id* of *owner* is stored by a scoped view: a digest of both.

    It holds an unescaped ``~`` behind the mark, so it is no other thread's :func:`stored_name`.
    """
    return _SCOPED + digest("thread", owner.tenant, owner.user_id, thread_id).hex()


def is_scoped(name: str) -> bool:
    """Whether a scoped view stored *name*."""
    return name.startswith(_SCOPED)
