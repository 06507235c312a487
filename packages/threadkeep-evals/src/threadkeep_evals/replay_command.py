"""``threadkeep replay``: a conversation of a data set, said again to an agent with memory."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from threadkeep.cli.output import DataDir, Json, open_memory, out, plain, print_json, progress
from threadkeep.errors import InvalidInputError

if TYPE_CHECKING:
    from threadkeep_evals.conversation import Conversation
    from threadkeep_evals.progress import Progress


app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def replay(
    data: Annotated[Path, typer.Option(help="A file in LoCoMo's own format.")],
    conversation: Annotated[str, typer.Option(help="Which one: its sample_id, such as conv-26.")],
    speaker: Annotated[
        str | None, typer.Option(help="Who is the user; unset: each in turn.", show_default=False)
    ] = None,
    data_dir: DataDir = None,
    *,
    json: Json = False,
) -> None:
    """Replay a conversation to an agent, each speaker in turn as its user, and learn from every turn.

    Each session becomes a thread at its original time; the other speaker's words are the replies.
    """
    from threadkeep_evals.locomo import load_locomo

    (chosen,) = load_locomo(data).chosen([conversation])
    speakers = [speaker] if speaker is not None else list(chosen.speakers)
    with progress("Replay") as bar:
        rows = asyncio.run(_replayed(chosen, speakers, data_dir, bar))
    if json:
        print_json({"conversation": conversation, "results": rows})
        return
    for row in rows:
        out.print(
            f"{plain(row['speaker'])}: {row['turns']} turns on {row['threads']} threads taught "
            f"{row['facts']} facts and {row['episodes']} episodes; {row['proposals']} wait for approval. "
            f"threadkeep memories list --user {plain(row['user'])}",
            markup=False,
        )


async def _replayed(
    conversation: Conversation, speakers: list[str], data_dir: Path | None, bar: Progress
) -> list[dict[str, Any]]:
    from threadkeep_evals.progress import Steps
    from threadkeep_evals.replay import ReplayClock, every_memory, exchanges, replay

    steps = Steps(sum(len(exchanges(conversation, speaker)) for speaker in speakers), bar)
    rows: list[dict[str, Any]] = []
    for speaker in speakers:
        clock = ReplayClock(conversation.turns[0].at)
        user = f"{conversation.conversation_id}/{speaker}"
        async with open_memory(data_dir, clock=clock) as tk:
            await tk.ready()
            if await tk.memories.list(owner=user, limit=1):
                msg = f"{user} has memories already; erase them by threadkeep owners erase, or give another --data-dir."
                raise InvalidInputError(msg)
            said = await replay(tk, conversation, speaker, user_id=user, clock=clock, step=steps.advance)
            memories = await every_memory(tk, user)
            waiting = await tk.proposals.list(owner=user, limit=1_000)
        rows.append(
            {
                "speaker": speaker,
                "user": user,
                "turns": len(said),
                "threads": len({exchange.session for exchange in said}),
                "facts": sum(memory.kind != "episodic" for memory in memories),
                "episodes": sum(memory.kind == "episodic" for memory in memories),
                "proposals": len(waiting),
            }
        )
    return rows
