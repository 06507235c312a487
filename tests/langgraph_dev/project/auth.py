"""Who is who on the test's server: a bearer token is looked up in a table."""

from __future__ import annotations

from langgraph_sdk import Auth

from threadkeep.langgraph.server import only_own

USERS = {"token-of-ana": "ana@x.org", "token-of-bob": "bob@x.org"}

auth = Auth()
auth.on.store(only_own)


@auth.authenticate
async def authenticate(authorization: str | None) -> Auth.types.MinimalUserDict:
    """Return the user of the token, or refuse."""
    user = USERS.get((authorization or "").removeprefix("Bearer "))
    if user is None:
        raise Auth.exceptions.HTTPException(status_code=401, detail="unknown token")
    return {"identity": user}


@auth.on.threads
@auth.on.assistants
@auth.on.crons
async def own(ctx: Auth.types.AuthContext, value: dict[str, object]) -> dict[str, object]:
    """Mark what is made with who made it, and show nobody else."""
    metadata = value.setdefault("metadata", {})
    assert isinstance(metadata, dict)
    metadata["owner"] = ctx.user.identity
    return {"owner": ctx.user.identity}
