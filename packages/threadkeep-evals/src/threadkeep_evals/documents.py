"""Search in documents of eight kinds: whether the first passages answer, and whether each is cited rightly."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import threadkeep
from threadkeep_evals.document_files import CODE, SampleDocument, SampleQuestion, Section, read_bank, write_document
from threadkeep_evals.metrics import share_interval, told_interval
from threadkeep_evals.progress import Progress, Steps, silent

if TYPE_CHECKING:
    from rich.table import Table

    from threadkeep.client import Threadkeep
    from threadkeep.collections.models import Passage
    from threadkeep.models.base import Embedder

COLLECTION: Final = "library"
_FIRST: Final = 5
_COMPARED_CHARACTERS: Final = 60


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a question brought.

    Attributes:
        document: The document that it is about; ``None``: none of them.
        rank: The place of the first passage that answers, from 0; ``None``: none of the first five.
        found: How many passages there were, at most five.
        cited: How many of them stand where their citation says.
        question: What was asked.
    """

    document: SampleDocument | None
    rank: int | None
    found: int
    cited: int
    question: str


def run_documents(
    *,
    documents: int | None = None,
    embedder: Embedder | str | None = None,
    show: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Ingest the files of the bank, ask its questions, and return the figures as JSON.

    Args:
        documents: How many of the documents, from all over the bank; ``None``: all.
        embedder: As of :func:`threadkeep.open`; ``None``: the one of the settings.
        show: Whether the questions that brought no right passage are returned, too.
        progress: Counts the questions.
    """
    bank, unrelated = read_bank()
    if documents is not None:
        bank = bank[:: max(len(bank) // documents, 1)][:documents]
    options: dict[str, Any] = {} if embedder is None else {"embedder": embedder}
    with tempfile.TemporaryDirectory() as folder, threadkeep.open("memory://", **options) as tk:
        for document in bank:
            tk.sync.collections.ingest_file(
                COLLECTION, write_document(document, Path(folder)), document_id=document.file_name
            )
        questions = [(document, question) for document in bank for question in document.questions]
        steps = Steps(2 * len(questions) + len(unrelated), progress)
        outcomes = [_ask(tk, bank, document, question, question.text, steps) for document, question in questions]
        bare = [_ask(tk, bank, document, question, question.bare, steps) for document, question in questions]
        strangers = [_ask(tk, bank, None, None, text, steps) for text in unrelated]
    groups: dict[str, Callable[[SampleDocument], bool]] = {
        "all": lambda _: True,
        "development": lambda one: not one.held_out,
        "held out": lambda one: one.held_out,
        **{kind: _is_kind(kind) for kind in dict.fromkeys(document.kind for document in bank)},
    }
    rows = [
        _figures(name, [one for one in outcomes if one.document and belongs(one.document)])
        for name, belongs in groups.items()
    ]
    rows.append(_figures("subject not named", bare))
    nothing = sum(one.found == 0 for one in strangers)
    report: dict[str, Any] = {
        "documents": len(bank),
        "results": rows,
        "unrelated": {
            "questions": len(strangers),
            "nothing": nothing,
            "share": nothing / len(strangers),
            "interval95": share_interval(nothing, len(strangers)),
        },
    }
    if show:
        report["missed"] = [{"question": one.question, "rank": one.rank} for one in outcomes if one.rank != 0]
        report["shown"] = [one.question for one in strangers if one.found]
    return report


def render_table(report: dict[str, Any]) -> Table:
    """Return the figures of :func:`run_documents` for people."""
    from rich.table import Table

    unrelated = report["unrelated"]
    silence = f"{unrelated['share']:.0%} of {unrelated['questions']} unrelated questions bring nothing"
    title = f"{report['documents']} documents; {silence}"
    table = Table(title=title, title_justify="left")
    table.add_column("documents")
    for name in ("questions", "hit@1", "95 % interval", "hit@5", "95 % interval", "passages", "cited rightly"):
        table.add_column(name, justify="right")
    for row in report["results"]:
        table.add_row(
            row["name"],
            str(row["questions"]),
            f"{row['hit_at_1']:.1%}",
            told_interval(row["interval95_at_1"]),
            f"{row['hit_at_5']:.1%}",
            told_interval(row["interval95_at_5"]),
            str(row["passages"]),
            f"{row['cited']:.1%}",
        )
    return table


def _is_kind(kind: str) -> Callable[[SampleDocument], bool]:
    return lambda document: document.kind == kind


def _figures(name: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    first = sum(one.rank == 0 for one in outcomes)
    among = sum(one.rank is not None for one in outcomes)
    passages, asked = sum(one.found for one in outcomes), max(len(outcomes), 1)
    return {
        "name": name,
        "questions": len(outcomes),
        "hit_at_1": first / asked,
        "interval95_at_1": share_interval(first, asked),
        "hit_at_5": among / asked,
        "interval95_at_5": share_interval(among, asked),
        "passages": passages,
        "cited": sum(one.cited for one in outcomes) / max(passages, 1),
    }


def _ask(
    tk: Threadkeep,
    bank: Sequence[SampleDocument],
    document: SampleDocument | None,
    question: SampleQuestion | None,
    text: str,
    steps: Steps,
) -> Outcome:
    passages = tk.sync.collections.search(COLLECTION, text, limit=_FIRST).passages
    steps.advance()
    by_name = {one.file_name: one for one in bank}
    cited = sum(_is_cited_rightly(passage, by_name[passage.document_id]) for passage in passages)
    rank = None
    if document is not None and question is not None:
        section = document.sections[question.section]
        ranks = (place for place, passage in enumerate(passages) if _answers(passage, document, section))
        rank = next(ranks, None)
    return Outcome(document, rank, len(passages), cited, text)


def _answers(passage: Passage, document: SampleDocument, section: Section) -> bool:
    """Return whether *passage* is the section, with its document, headings and page."""
    return (passage.document_id, passage.headings, passage.page) == (
        document.file_name,
        section.headings,
        section.page,
    ) and _plain(section.text)[:_COMPARED_CHARACTERS] in _plain(passage.text)


def _is_cited_rightly(passage: Passage, document: SampleDocument) -> bool:
    """Return whether all that *passage* says stands in its document under these headings, on this page."""
    texts = [one.text for one in document.sections if (one.headings, one.page) == (passage.headings, passage.page)]
    title = document.title
    if document.kind == "text":  # the title is no more than its first line
        texts, title = [title, *texts], document.file_name
    if document.kind == "ipynb":  # a cell of code follows on each heading
        texts.append(CODE)
    source = _plain(" ".join(texts))
    heading = _plain(passage.headings[-1] if passage.headings else document.title)
    said = _plain(passage.text)
    return bool(texts) and passage.title == title and (said in source or said.removeprefix(heading).strip() in source)


def _plain(text: str) -> str:
    """Return the words of *text* without marks of tables, headings and brackets, which some kinds leave out."""
    return " ".join(text.translate(str.maketrans("|#()", "    ")).split())
