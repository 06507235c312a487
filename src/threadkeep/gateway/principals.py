"""Who makes a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from threadkeep.errors import ScopeRequiredError

if TYPE_CHECKING:
    from threadkeep.identity import Owner

SCOPES: Final = frozenset({"chat", "memory:read", "memory:write", "memory:review", "admin", "act"})
USER_SCOPES: Final = SCOPES - {"admin", "act"}


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a request, as a token or a session says.

    Attributes:
        owner: The owner of what the request reads and writes.
        scopes: What the request may do.
        subject: Who acts, for the audit; the user id, unless another one acts for the owner.
    """

    owner: Owner
    scopes: frozenset[str]
    subject: str

    def require(self, scope: str) -> None:
        """Refuse a request that lacks *scope*.

        Raises:
            ScopeRequiredError: It lacks it.
        """
        if scope not in self.scopes:
            msg = f"The request needs the scope {scope}."
            raise ScopeRequiredError(msg, scope=scope)
