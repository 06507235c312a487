"""Who is who on the test's server: a bearer token is looked up in a table."""

from __future__ import annotations

from langgraph_sdk import Auth

from threadkeep.langgraph.server import protect

USERS = {"token-of-ana": "ana@x.org", "token-of-bob": "bob@x.org"}

auth = Auth()
protect(auth)


@auth.authenticate
async def authenticate(authorization: str | None) -> Auth.types.MinimalUserDict:
    """Return the user of the token, or refuse."""
    user = USERS.get((authorization or "").removeprefix("Bearer "))
    if user is None:
        raise Auth.exceptions.HTTPException(status_code=401, detail="unknown token")
    return {"identity": user}
