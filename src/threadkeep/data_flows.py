"""Who receives text of users: models, the storage, and where traces go."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadkeep.container import Container


def list_data_flows(app: Container, *, addresses: bool = True) -> list[dict[str, str]]:
    """Return who receives text (``to``), which (``gets``), and whether that leaves this machine (``leaves_machine``).

    Args:
        app: What the settings built.
        addresses: Whether ``to`` names addresses of servers and paths of files, too; users of a server need not know.
    """

    def at(name: str, address: str | None) -> str:
        return f"{name} {address}" if addresses else name

    settings, embedder = app.settings, app.embedder
    rows: list[dict[str, str]] = [
        {
            "to": f"chat model {settings.model or '(offline stand-in)'}",
            "gets": "messages and recalled memories of each turn",
            "leaves_machine": "depends on the provider" if settings.model else "no",
        },
        {
            "to": f"embedder {embedder.name if embedder else '(none)'}",
            "gets": "questions and memories" if embedder else "nothing",
            "leaves_machine": "yes" if embedder and embedder.remote else "no",
        },
        {
            "to": "LangSmith",
            "gets": "prompts and replies of each turn, recalled memories included" if settings.traced else "nothing",
            "leaves_machine": "yes" if settings.traced else "no",
        },
        {
            "to": at(f"storage {app.storage.name}", app.storage.location),
            "gets": "memories, and turns until they are learnt from",
            "leaves_machine": "no" if app.storage.name in ("memory", "sqlite") else "where its server is elsewhere",
        },
    ]
    if settings.enable_fact_extraction and settings.capture != "off":
        rows.append(
            {
                "to": f"extraction model {settings.fact_extraction_model or settings.model}",
                "gets": "each turn, redacted, memories that may be about the same, and old episodes to summarize",
                "leaves_machine": "depends on the provider",
            }
        )
    if (reranker := app.reranker) is not None:
        rows.append(
            {
                "to": f"reranker {reranker.name}",
                "gets": "questions, and the memories that were found for them",
                "leaves_machine": "yes" if reranker.remote else "no",
            }
        )
    if settings.trace_content:
        rows.append(
            {
                "to": "OpenTelemetry, where the application exports its spans to",
                "gets": "recalled memories",
                "leaves_machine": "depends on the exporter",
            }
        )
    if settings.vectors == "pinecone":
        rows.append(
            {
                "to": at(f"vectors {settings.vectors}", settings.pinecone_host),
                "gets": "vectors of large owners, keys and namespaces without the owner's id; no text",
                "leaves_machine": "yes",
            }
        )
    saver = app.checkpointer
    if saver is not None:
        rows.append(
            {
                "to": at(f"threads {saver.storage.name}", saver.storage.location),
                "gets": "whole conversations, encrypted" if app.settings.checkpoint_key else "whole conversations",
                "leaves_machine": "no" if saver.storage.name in ("memory", "sqlite") else "depends on the server",
            }
        )
    return rows
