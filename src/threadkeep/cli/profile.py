"""``threadkeep profile``: see and edit the named slots that memories fill."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from threadkeep.cli.output import (
    DEFAULT_USER,
    CommandGroup,
    DataDir,
    Json,
    Tenant,
    User,
    Yes,
    confirm,
    emit,
    location_of,
    named,
    plain,
    read,
    run,
)
from threadkeep.identity import owner_of_user

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep
    from threadkeep.recall.profile.schema import Profile

app = typer.Typer(
    cls=CommandGroup, help="See and edit the named slots that memories fill, such as diet.", no_args_is_help=True
)

Slot = Annotated[str, typer.Argument(help="The slot's name, as `show` prints it.")]


@app.command("show")
def show(user: User = DEFAULT_USER, tenant: Tenant = "", data_dir: DataDir = None, *, json: Json = False) -> None:
    """Show the profile of a user."""
    owner = owner_of_user(user, tenant)
    profile = read(lambda tk: tk.profile.get(owner=owner), data_dir)
    emit(profile, _profile_lines(profile), json=json)


@app.command("set")
def set_(
    slot: Slot,
    text: str,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    memory_id: Annotated[
        str | None, typer.Option(help="The value to replace in a slot with several.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Make a slot say a text: the memory that fills it is corrected, or a new one kept."""
    owner = owner_of_user(user, tenant)
    result = run(lambda tk: tk.profile.set(slot, text, owner=owner, memory_id=memory_id), data_dir, creates=True)
    kept = f"{slot} is kept as {result.memory_id}"
    proposed = f"Proposed as {result.proposal_id}; threadkeep proposals approve lets it be remembered"
    messages = {"proposed": proposed, "rejected": f"Not remembered: {result.reason}"}
    emit(result, [messages.get(result.status, kept)], json=json)


@app.command("clear")
def clear(
    slot: Slot,
    user: User = DEFAULT_USER,
    tenant: Tenant = "",
    data_dir: DataDir = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Forget all memories that fill a slot. It cannot be undone."""
    owner = owner_of_user(user, tenant)

    async def clear_confirmed(tk: Threadkeep) -> tuple[str, ...]:
        values = (await tk.profile.get(owner=owner)).slots.get(slot, ())
        if values:
            texts = ", ".join(f"“{plain(one.text)}”" for one in values)
            confirm(f"Forget {texts} of {named(owner)} in {location_of(tk)}?", yes=yes)
        return await tk.profile.clear(slot, owner=owner)

    forgotten = run(clear_confirmed, data_dir)
    emit(forgotten, [f"Removed {len(forgotten)}: {', '.join(forgotten)}" if forgotten else "It was empty."], json=json)


def _profile_lines(profile: Profile) -> Iterator[str]:
    width = max(map(len, profile.slots), default=0)
    for name, values in profile.slots.items():
        texts = [f"{plain(one.text)}{' (earlier)' if one.earlier else ''}  [{one.memory_id[:8]}]" for one in values]
        for number, text in enumerate(texts or ["–"]):
            yield f"{name if number == 0 else '':<{width}}  {text}"
