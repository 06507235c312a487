"""Whose memory it is: the value, its label in LangGraph namespaces, and its partition."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.storage.port import Namespace, Partition

MAX_ID_CHARACTERS: Final = 1000
OWNED_ROOTS: Final = ("memories", "summaries", "users")
"""First labels of the namespaces that belong to an owner, whose label comes second."""

_MARK: Final = "~tk~"
_ESCAPED: Final = re.compile(r"\+([0-9a-f]{6})")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_@:-]")
"""Escaped behind the mark: deep agents take ASCII letters, digits and ``-_.@+:~`` only, and LangGraph no period."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A user of a tenant; every stored row belongs to exactly one partition, and most to an owner's.

    Attributes:
        user_id: Any text of 1–1,000 characters: an e-mail address, a path, Unicode.
        tenant: Any text of up to 1,000 characters; by default the only one, ``""``. Gateways use the token's issuer.
    """

    user_id: str
    tenant: str = ""

    def __post_init__(self) -> None:
        for name, text in (("user id", self.user_id), ("tenant", self.tenant)):
            if not isinstance(text, str):
                msg = f"The {name} must be a text, not {type(text).__name__}."
                raise InvalidInputError(msg)
            if len(text) > MAX_ID_CHARACTERS:
                msg = f"The {name} has {len(text):,} characters; at most {MAX_ID_CHARACTERS:,} are allowed."
                raise TooLargeError(msg, characters=len(text))
        if not self.user_id:
            msg = "The user id is empty; give the id that your application knows the user by."
            raise InvalidInputError(msg)

    @property
    def partition(self) -> Partition:
        """The partition that holds everything of this owner."""
        return _partition(self.tenant, self.user_id)

    @property
    def label(self) -> str:
        """This owner as a LangGraph namespace label: legal, and different for every owner.

        An id that is legal as it is, and does not begin with the mark ``~tk~``, is its own label.
        """
        if not self.tenant and not self.user_id.startswith(_MARK) and not _ILLEGAL.search(self.user_id):
            return self.user_id
        if not self.tenant:
            return _MARK + _escape(self.user_id)
        return f"{_MARK}{_escape(self.tenant)}~{_escape(self.user_id)}"


@lru_cache(maxsize=4096)
def _partition(tenant: str, user_id: str) -> Partition:
    """Return an owner's partition, the same one each time: it works its digest out once."""
    return Partition("owner", (tenant, user_id))


_ILLEGAL: Final = re.compile(r"[.\x00\ud800-\udfff]")


@lru_cache(maxsize=4096)
def owner_of_label(label: str) -> Owner | None:
    """Return the owner whose label this is, or ``None`` where no owner has it.

    The inverse of :attr:`Owner.label`: a text that no owner's label can be (a forged mark, an
    escape that says nothing, more than 1,000 characters) belongs to nobody.
    """
    tenant, user_id = "", label
    if label.startswith(_MARK):
        head, _, rest = label.removeprefix(_MARK).rpartition("~")
        tenant, user_id = _unescape(head), _unescape(rest)
    try:
        owner = Owner(user_id, tenant)
    except InvalidInputError:
        return None
    return owner if owner.label == label else None


def owner_of_partition(partition: Partition) -> Owner | None:
    """Return whose *partition* is; ``None``: nobody's."""
    match partition:
        case Partition(kind="owner", parts=(tenant, user_id)):
            return Owner(user_id, tenant)
        case _:
            return None


@lru_cache(maxsize=4096)
def partition_of(namespace: Namespace) -> Partition:
    """Return the partition that items in *namespace* belong to.

    ``("memories", label, …)``, ``("summaries", label, …)`` and ``("users", label, …)`` belong to
    the owner with that label; every other namespace to its root label.
    """
    owner = owner_in(namespace)
    return Partition("root", namespace[:1]) if owner is None else owner.partition


def owner_in(namespace: Namespace) -> Owner | None:
    """Return whose *namespace* is, ``None`` where it is nobody's."""
    return owner_of_label(namespace[1]) if len(namespace) > 1 and namespace[0] in OWNED_ROOTS else None


def _escape(text: str) -> str:
    return _UNSAFE.sub(lambda found: f"+{ord(found[0]):06x}", text)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(min(int(found[1], 16), 0x10FFFF)), text)
