"""``threadkeep eval``: how well memories are captured and recalled, beside others in the same run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from threadkeep.cli.output import Json, progress
from threadkeep.errors import InvalidInputError
from threadkeep_evals.tables import Format, Plot, Style, draw
from threadkeep_evals.tables import show as print_figures

if TYPE_CHECKING:
    from threadkeep_evals.conversation import DataSet

app = typer.Typer(
    help="Measure capture and recall on real and generated conversations.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


class Resampled(Enum):
    """What a resample draws for an interval; see ``threadkeep_evals.report.RESAMPLED``."""

    QUESTION = "question"
    CONVERSATION = "conversation"


class Questions(Enum):
    """Data sets with questions and reference answers."""

    LOCOMO = "locomo"
    LONGMEMEVAL = "longmemeval"
    BEAM = "beam"


def _loader(kind: Questions) -> Callable[[Path], DataSet]:
    from threadkeep_evals.beam import load_beam
    from threadkeep_evals.locomo import load_locomo
    from threadkeep_evals.longmemeval import load_longmemeval

    return {Questions.LOCOMO: load_locomo, Questions.LONGMEMEVAL: load_longmemeval, Questions.BEAM: load_beam}[kind]


_SIZES: Final = "10,100,1000"
_CHANGES: Final = "1,2,3,5,8"


Peers = Annotated[
    list[str] | None,
    typer.Option(
        "--peers",
        help="langgraph-memory, langgraph-sqlite, langgraph-postgres, mem0, no-memory, everything or all, beside BM25 "
        "and dense; may be repeated. A missing peer is installed into an environment of its own.",
        show_default=False,
    ),
]
Budgets = Annotated[
    list[int] | None,
    typer.Option("--budget", help="Tokens of the block; may be repeated. Unset: 300.", min=1, show_default=False),
]
ByConversation = Annotated[
    bool, typer.Option("--by-conversation", help="Show the difference on each conversation, too.")
]
Resample = Annotated[Resampled, typer.Option("--resample", help="What resamples draw for the intervals.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The options of every comparison on conversations."""

    peers: Peers = None
    budget: Budgets = None
    resample: Resample = Resampled.QUESTION
    plot: Plot = None
    style: Format = Style.TABLE
    by_conversation: ByConversation = False
    json: Json = False


def _comparison(load: Callable[..., DataSet]) -> Callable[..., None]:
    """Return a command that compares the methods on the data of *load*, with the options of both."""
    common = signature(_Options, eval_str=True).parameters

    def command(**values: Any) -> None:
        options = _Options(**{name: values.pop(name) for name in common})
        _compare(load(**values), options)

    typed = signature(load, eval_str=True, locals={"DataSet": object})  # which is imported when it is needed
    own = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in typed.parameters.values()]
    command.__name__, command.__doc__ = load.__name__, load.__doc__
    cast("Any", command).__signature__ = Signature([*own, *common.values()])
    return command


@app.command()
@_comparison
def locomo(data: Annotated[Path, typer.Option(help="A file in LoCoMo's own format.")]) -> DataSet:
    """Recall of the evidence of LoCoMo's questions, beside BM25 alone and dense alone."""
    from threadkeep_evals.locomo import load_locomo

    return load_locomo(data)


@app.command()
@_comparison
def beam(data: Annotated[Path, typer.Option(help="A list of BEAM's chats, each {cid, msgs, qs}.")]) -> DataSet:
    """Recall of the evidence of BEAM's questions, beside BM25 alone and dense alone."""
    from threadkeep_evals.beam import load_beam

    return load_beam(data)


@app.command("locomo-plus")
@_comparison
def locomo_plus(
    data: Annotated[Path, typer.Option(help="LoCoMo-Plus's locomo_plus.json.")],
    locomo: Annotated[Path, typer.Option(help="The file of LoCoMo with the conversations for the cues.")],
) -> DataSet:
    """Recall of what explains a later remark that shares few words with it, beside BM25 alone and dense alone."""
    from threadkeep_evals.locomo_plus import load_locomo_plus

    return load_locomo_plus(data, locomo)


@app.command()
@_comparison
def longmemeval(data: Annotated[Path, typer.Option(help="A file in LongMemEval's own format.")]) -> DataSet:
    """Recall of the evidence of LongMemEval's questions, each in its own history, beside BM25 and dense alone."""
    from threadkeep_evals.longmemeval import load_longmemeval

    return load_longmemeval(data)


@app.command()
def capture(
    data: Annotated[Path, typer.Option(help="A file in LoCoMo's own format.")],
    budget: Budgets = None,
    conversation: Annotated[
        list[str] | None, typer.Option(help="Only this one; may be repeated. Unset: all.", show_default=False)
    ] = None,
    plot: Plot = None,
    style: Format = Style.TABLE,
    *,
    show: Annotated[bool, typer.Option("--show", help="With --json: the memories, too.")] = False,
    json: Json = False,
) -> None:
    """What capture keeps of replayed conversations, and what recall brings, beside every turn kept verbatim."""
    from threadkeep_evals.capture import chart, render_table, run_capture

    budgets = _budgets(budget, plot)
    with progress("Capture") as bar:
        report = run_capture(data, budgets=budgets, conversations=conversation or (), show=show, progress=bar)
    if plot:
        draw(chart(report), plot)
    print_figures(report, lambda: [render_table(report)], style, json=json)


@app.command()
def redaction(
    data: Annotated[Path, typer.Option(help="A file of conversations.")],
    kind: Annotated[Questions, typer.Option("--dataset", help="What the file is.")] = Questions.LOCOMO,
    region: Annotated[str | None, typer.Option(help="Where telephone numbers without a + are from.")] = None,
    style: Format = Style.TABLE,
    *,
    json: Json = False,
) -> None:
    """Share of turns with a recognised secret or personal datum, to look for false ones; none is printed."""
    from threadkeep_evals.redaction import render_table, run_redaction

    report = run_redaction(data, region=region, load=_loader(kind))
    print_figures(report, lambda: [render_table(report)], style, json=json)


@app.command()
def facts(
    sizes: Annotated[str, typer.Option(help="How many facts about one user, separated by commas.")] = _SIZES,
    seed: Annotated[int, typer.Option(help="Of the generator.")] = 1,
    team: Annotated[int, typer.Option(help="How many facts a team knows that the user reads, too.")] = 0,
    style: Format = Style.TABLE,
    *,
    json: Json = False,
) -> None:
    """Share of generated facts that recall brings into the 300-token block for a question about each."""
    from threadkeep_evals.facts import render_table, run_facts

    numbers = _numbers(sizes, "--sizes", _SIZES)
    with progress("Facts") as bar:
        report = run_facts(numbers, seed=seed, team=team, progress=bar)
    print_figures(report, lambda: [render_table(report)], style, json=json)


@app.command()
def personal(
    data: Annotated[Path, typer.Option(help="A file of personal statements and questions; docs/evaluation.md.")],
    part: Annotated[
        list[str] | None,
        typer.Option(
            help="Only facts, unrelated, updates, several, pastes, dialogues or memories; may be repeated.",
            show_default=False,
        ),
    ] = None,
    style: Format = Style.TABLE,
    *,
    show: Annotated[bool, typer.Option("--show", help="With --json: the items that did not pass, too.")] = False,
    json: Json = False,
) -> None:
    """Personal statements in passing: what capture keeps, and what the block shows for a question about them."""
    from threadkeep_evals.personal import PARTS, render_table, run_personal

    with progress("Personal") as bar:
        report = run_personal(data, parts=part or PARTS, show=show, progress=bar)
    print_figures(report, lambda: [render_table(report)], style, json=json)


@app.command()
def sentences(
    style: Format = Style.TABLE,
    *,
    show: Annotated[bool, typer.Option("--show", help="With --json: the sentences judged wrongly, too.")] = False,
    json: Json = False,
) -> None:
    """Labelled sentences that nothing was learnt from: which of them capture keeps, and how many of those rightly."""
    from threadkeep_evals.sentences import render_table, run_sentences

    with progress("Sentences") as bar:
        report = run_sentences(show=show, progress=bar)
    print_figures(report, lambda: [render_table(report)], style, json=json)


@app.command()
def profile(
    half: Annotated[
        list[str] | None, typer.Option(help="Only dev or held_out; may be repeated.", show_default=False)
    ] = None,
    style: Format = Style.TABLE,
    *,
    words: Annotated[bool, typer.Option("--words", help="Without an embedder.")] = False,
    show: Annotated[bool, typer.Option("--show", help="With --json: the requests that did not pass, too.")] = False,
    json: Json = False,
) -> None:
    """Task requests that resemble no memory: how often the block has the fact that they need."""
    from threadkeep_evals.profile import HALVES, render_table, run_profile

    with progress("Profile") as bar:
        report = run_profile(half or HALVES, embedder="none" if words else None, show=show, progress=bar)
    print_figures(report, lambda: [render_table(report)], style, json=json)


@app.command()
def documents(
    style: Format = Style.TABLE,
    *,
    show: Annotated[bool, typer.Option("--show", help="With --json: the questions that did not pass, too.")] = False,
    json: Json = False,
) -> None:
    """Questions about 40 files of eight kinds: whether the first passages answer, and are cited rightly."""
    from threadkeep_evals.documents import render_table, run_documents

    with progress("Documents") as bar:
        report = run_documents(show=show, progress=bar)
    print_figures(report, lambda: [render_table(report)], style, json=json)


@app.command()
def staleness(
    changes: Annotated[str, typer.Option(help="How often each fact changes, separated by commas.")] = _CHANGES,
    seed: Annotated[int, typer.Option(help="Of the generator.")] = 1,
    style: Format = Style.TABLE,
    *,
    json: Json = False,
) -> None:
    """Facts that change k times: how often recall shows the current value, and an old one as current."""
    from threadkeep_evals.changes import render_staleness, run_staleness

    with progress("Staleness") as bar:
        report = run_staleness(_numbers(changes, "--changes", _CHANGES), seed=seed, progress=bar)
    print_figures(report, lambda: [render_staleness(report)], style, json=json)


@app.command()
def leakage(
    owners: Annotated[int, typer.Option(help="How many owners have nearly the same facts and ids.")] = 200,
    seed: Annotated[int, typer.Option(help="Of the generator.")] = 1,
    style: Format = Style.TABLE,
    *,
    json: Json = False,
) -> None:
    """What recall and search show an owner of others' memories, with nearly the same facts for all: nothing."""
    from threadkeep_evals.changes import render_leakage, run_leakage

    with progress("Leakage") as bar:
        report = run_leakage(owners, seed=seed, progress=bar)
    print_figures(report, lambda: [render_leakage(report)], style, json=json)


@app.command()
def tombstones(style: Format = Style.TABLE, *, json: Json = False) -> None:
    """Rejected and forgotten statements that are learnt again in other words, and others that are blocked."""
    from threadkeep_evals.tombstones import render_table, run_tombstones

    report = run_tombstones()
    print_figures(report, lambda: [render_table(report)], style, json=json)


@app.command()
def qa(
    *,
    data: Annotated[Path, typer.Option(help="A file of LoCoMo, LongMemEval or BEAM.")],
    kind: Annotated[Questions, typer.Option("--dataset", help="The form of the file.")],
    model: Annotated[str, typer.Option(help="The model that answers, as provider:name.")],
    judge: Annotated[str, typer.Option(help="The model that judges, as provider:name.")],
    answers: Annotated[Path, typer.Option(help="File of the answers; a run continues where it ends.")],
    method: Annotated[
        str, typer.Option(help="What the model is given: threadkeep, everything or no-memory.")
    ] = "threadkeep",
    budget: Annotated[int, typer.Option(help="Tokens of the block.", min=1)] = 300,
    limit: Annotated[
        int | None, typer.Option(help="Questions of each conversation at most. Unset: all.", min=1, show_default=False)
    ] = None,
    conversation: Annotated[
        list[str] | None, typer.Option(help="Only this one; may be repeated. Unset: all.", show_default=False)
    ] = None,
    parallel: Annotated[int, typer.Option(help="Questions at a time.", min=1)] = 4,
    price: Annotated[
        str | None,
        typer.Option(help="Dollars for a million tokens in and out of the model, such as 0.25,2.", show_default=False),
    ] = None,
    judge_price: Annotated[str | None, typer.Option(help="The same of the judge.", show_default=False)] = None,
    style: Format = Style.TABLE,
    json: Json = False,
) -> None:
    """Share of questions that a model answers right from the block, judged by another model; with cost."""
    from dataclasses import replace

    from threadkeep.registry import create_helper_model
    from threadkeep.settings import Settings
    from threadkeep_evals.qa import QaRun, parse_price, render_table, run_qa

    run = QaRun(
        method=method,
        budget_tokens=budget,
        limit=limit,
        parallel=parallel,
        model_price=parse_price(price, "--price"),
        judge_price=parse_price(judge_price, "--judge-price"),
    )
    loaded = _loader(kind)(data)
    loaded = replace(loaded, conversations=loaded.chosen(conversation or ()))
    settings = Settings.load()
    models = [
        create_helper_model(settings, name, variable=option)
        for name, option in ((model, "--model"), (judge, "--judge"))
    ]
    with progress("Questions") as bar:
        report = run_qa(loaded, model=models[0], judge=models[1], answers=answers, run=run, progress=bar)
    print_figures(report, lambda: [render_table(report)], style, json=json)


def _compare(data: DataSet, options: _Options) -> None:
    """Compare the methods on *data*, and print the figures as *options* say."""
    from threadkeep_evals.comparison import compare
    from threadkeep_evals.peers import chosen_peers
    from threadkeep_evals.report import Report

    peers = chosen_peers(options.peers or ())
    with progress(data.kind) as bar:
        compared = compare(data, peers=peers, budgets=_budgets(options.budget, options.plot), progress=bar)
    report = Report(compared, resample=options.resample.value)
    if options.plot:
        draw(report.chart(), options.plot)
    print_figures(
        report.as_json(),
        lambda: [report.table(), *([report.by_conversation()] if options.by_conversation else ())],
        options.style,
        json=options.json,
    )


def _budgets(budgets: list[int] | None, plot: Path | None) -> tuple[int, ...]:
    """Return the chosen budgets, each once; by default the product's own, and for a chart the curve's."""
    from threadkeep_evals.blocks import CURVE
    from threadkeep_evals.comparison import BUDGETS

    return tuple(dict.fromkeys(budgets or ((*BUDGETS, *CURVE) if plot else BUDGETS)))


def _numbers(text: str, option: str, example: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        msg = f"{option} is {text[:40]!r}; give whole numbers separated by commas, such as {example}."
        raise InvalidInputError(msg)
    return numbers
