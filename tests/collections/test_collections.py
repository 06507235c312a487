"""Tests of collections through the library: found like memories, shared within a tenant, and never anybody's word."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import threadkeep
from tests.command_line import CliRunner
from threadkeep.cli.main import app
from threadkeep.collections.models import collection
from threadkeep.collections.service import MAX_PARTS
from threadkeep.documents.reader import PART_CHARACTERS
from threadkeep.errors import (
    CollectionNotFoundError,
    DocumentNotFoundError,
    FileUnreadableError,
    InvalidInputError,
    OwnerMismatchError,
    TooLargeError,
)
from threadkeep.identity import Owner
from threadkeep.settings import Settings
from threadkeep.storage.interface import iterate_items
from threadkeep.testing.models import HashingEmbedder
from threadkeep.transfer.copying import Moving

TRAINS = "Trains leave for Lisbon at seven.\n\nThe night train has a dining car. " + "Rails are made of steel. " * 80
TEA = "Green tea is brewed at eighty degrees.\n\nBlack tea takes boiling water. " + "Leaves are dried slowly. " * 80
COFFEE = "Coffee is brewed at ninety degrees, tea at eighty.\n\nWater that boils makes it bitter."

MANUAL = """# The pump
## Use
Press the green button.
## Maintenance
### Filter
Clean it each week.
### Seal
Replace it each year.
```
# no heading
```"""


@pytest.fixture
def tk(tmp_path: Path) -> Iterator[threadkeep.Threadkeep]:
    with threadkeep.open(f"sqlite:///{tmp_path}/memory.db", embedder=HashingEmbedder()) as opened:
        yield opened


@pytest.fixture
def library(tk: threadkeep.Threadkeep) -> Any:
    door = tk.sync.collections
    door.ingest("handbook", TRAINS, document_id="trains.md", title="Trains", metadata={"by": "ops"})
    door.ingest("handbook", TEA, document_id="tea.md", title="Tea")
    door.ingest("handbook", COFFEE, document_id="coffee.md", title="Coffee")
    return door


class TestIngest:
    def test_a_long_document_is_kept_in_parts(self, library: Any):
        """Each of at most a thousand characters, all of them found."""
        (trains,) = [one for one in library.list("handbook") if one.document_id == "trains.md"]

        found = library.search("handbook", "rails of steel", limit=50).passages

        assert (trains.title, trains.metadata, trains.parts > 2) == ("Trains", {"by": "ops"}, True)
        assert {one.place for one in found if one.document_id == "trains.md"} == set(range(trains.parts))
        assert all(len(one.text) <= PART_CHARACTERS for one in found)

    def test_the_same_again_writes_nothing(self, library: Any):
        """Nothing is embedded anew either."""
        again = library.ingest("handbook", TEA, document_id="tea.md", title="Tea")

        assert not again.changed

    def test_a_new_version_takes_the_place_of_the_old(self, library: Any):
        """With fewer parts, none of the old ones stays."""
        library.ingest("handbook", "Tram lines end at midnight.", document_id="trains.md", title="Trains")

        found = library.search("handbook", "trains tram Lisbon rails", limit=50).passages

        assert [one.text for one in found if one.document_id == "trains.md"] == ["Tram lines end at midnight."]
        assert len(library.list("handbook")) == 3

    def test_only_changed_parts_are_written(self, tk: threadkeep.Threadkeep, library: Any):
        """A section in front moves the others and writes none of them; a part that is gone is gone."""
        library.ingest("handbook", MANUAL, document_id="pump.md")
        before = revisions(tk, "pump.md")

        changed = MANUAL.replace("## Use", "## Parts\nIt has two.\n## Use").replace("each year", "every second year")
        again = library.ingest("handbook", changed, document_id="pump.md")

        after = revisions(tk, "pump.md")
        assert (again.parts, again.written) == (4, 2)
        assert before.items() - after.items() == {(key, at) for key, at in before.items() if key not in after}
        assert len(before.keys() - after.keys()) == 1
        texts = [one.text for one in library.search("handbook", "pump", limit=50).passages]
        assert not any("each year" in text for text in texts)

    def test_equal_parts_are_kept_each(self, library: Any):
        """Two sections that say the same are two places."""
        twice = library.ingest("handbook", "# A\n## B\nThe same.\n## B\nThe same.\n# C\nOther.", document_id="x")

        assert twice.parts == twice.written == 2

    @pytest.mark.parametrize(("text", "document_id"), [("", "a"), ("  \n", "a"), ("text", "")])
    def test_what_is_no_document_is_refused(self, library: Any, text: str, document_id: str):
        """With what is missing."""
        with pytest.raises(InvalidInputError, match=r"text of the document is empty|A document needs an id"):
            library.ingest("handbook", text, document_id=document_id)

    @pytest.mark.slow
    @pytest.mark.parametrize("metadata", [{"tags": {1}}, {1: "one"}, {"size": float("nan")}])
    def test_metadata_that_are_not_json_are_refused(self, library: Any, metadata: Any):
        with pytest.raises(InvalidInputError):
            library.ingest("handbook", TRAINS, document_id="tags.md", metadata=metadata)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"metadata": ["a"]}, "metadata must be a mapping, got list"),
            ({"metadata": 5}, "metadata must be a mapping, got int"),
            ({"title": 5}, "title must be a text, got int"),
            ({"document_id": 5}, "document_id must be a text, got int"),
            ({"tenant": 5}, "tenant must be a text, got int"),
        ],
    )
    def test_an_argument_of_another_type_is_named(self, library: Any, wrong: dict[str, Any], message: str):
        for ingest, content in ((library.ingest, "text"), (library.ingest_file, b"text")):
            with pytest.raises(InvalidInputError, match=message):
                ingest("handbook", content, **{"document_id": "new", **wrong})

        assert len(library.list("handbook")) == 3

    @pytest.mark.parametrize("file", [5, None])
    def test_what_is_no_file_is_refused(self, library: Any, file: Any):
        with pytest.raises(InvalidInputError, match="file must be a path or bytes"):
            library.ingest_file("handbook", file, document_id="new")
        with pytest.raises(FileUnreadableError, match="check its path"):
            library.ingest_file("handbook", "a\0b")

    def test_one_that_is_too_long_is_refused(self, library: Any):
        """Before anything is embedded."""
        with pytest.raises(TooLargeError, match="split it"):
            library.ingest("handbook", "word " * (MAX_PARTS * 201), document_id="long")


class TestSearch:
    def test_it_is_ranked_as_memories_are(self, library: Any):
        """By meaning and by words."""
        found = library.search("handbook", "At how many degrees is green tea brewed?", limit=3)

        assert found.passages[0].document_id == "tea.md"
        assert found.passages[0].text.startswith("Green tea is brewed at eighty degrees.")
        assert found.degraded == ()

    def test_what_has_to_do_with_nothing_finds_nothing(self, library: Any):
        """Unless all passages are asked for."""
        assert library.search("handbook", "quantum entanglement").passages == ()
        assert library.search("handbook", "quantum entanglement", relevant_only=False).passages != ()

    @pytest.mark.parametrize("limit", ["5", None, 1.5, -1])
    def test_a_limit_that_is_no_number_is_refused(self, library: Any, limit: Any):
        with pytest.raises(InvalidInputError, match="limit is invalid: pass an int, 0 or more"):
            library.search("handbook", "tea", limit=limit)
        with pytest.raises(InvalidInputError, match="limit is invalid: pass an int, 0 or more"):
            library.similar("handbook", "tea.md", limit=limit)

    @pytest.mark.parametrize("names", [5, None, [1], [["handbook"]], {"handbook": 1}])
    def test_names_that_are_no_texts_are_refused(self, library: Any, names: Any):
        with pytest.raises(InvalidInputError, match="collection"):
            library.search(names, "tea")

    def test_a_collection_without_documents_is_an_error(self, library: Any):
        """Whether it was never there or is emptied while it is searched."""
        with pytest.raises(CollectionNotFoundError, match="'another' was not found"):
            library.search("another", "green tea")
        with pytest.raises(CollectionNotFoundError, match="'another' was not found"):
            library.search(["handbook", "another"], "green tea", where={"by": "ops"})

    def test_several_collections_are_searched_together(self, library: Any):
        """The closest passage of all is first, and each names its collection."""
        library.ingest("menu", "Green tea, brewed with lemon, costs three crowns.", document_id="drinks")

        found = library.search(["menu", "handbook"], "Is green tea brewed at eighty degrees?", limit=4).passages

        assert (found[0].collection, found[0].document_id) == ("handbook", "tea.md")
        assert {one.collection for one in found} == {"menu", "handbook"}
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        with pytest.raises(InvalidInputError, match="1 to 20 collections"):
            library.search([], "tea")

    def test_metadata_filter_documents(self, library: Any):
        """With the operators of the stores."""
        library.ingest("handbook", "Night trains of 2031.", document_id="n", metadata={"by": "ops", "year": 2031})
        where = {"by": "ops", "year": {"$gte": 2030}}

        assert {one.document_id for one in library.search("handbook", "night train", where=where).passages} == {"n"}
        assert library.search("handbook", "night train", where={"by": "nobody"}).passages == ()
        with pytest.raises(InvalidInputError, match="operator"):
            library.search("handbook", "night train", where={"year": {"$near": 1}})

    def test_a_passage_is_cited_by_its_headings(self, library: Any):
        """The title and the headings are found, too, and are no part of the text."""
        library.ingest("handbook", MANUAL, document_id="pump.md")

        (first, *_) = library.search("handbook", "pump maintenance filter", limit=3).passages

        assert (first.title, first.headings, first.page) == ("The pump", ("Maintenance", "Filter"), None)
        assert first.citation == "The pump (pump.md) › Maintenance › Filter"
        assert first.text == "### Filter\nClean it each week."

    def test_similar_documents_are_reported(self, library: Any):
        """Each once, never the document itself."""
        found = library.similar("handbook", "coffee.md")

        assert found[0].document_id == "tea.md"
        assert {one.document_id for one in found} == {"tea.md", "trains.md"}

    def test_without_an_embedder_words_are_compared(self, tmp_path: Path):
        """For both."""
        with threadkeep.open(f"sqlite:///{tmp_path}/words.db", embedder="none") as tk:
            for name, text in (("tea", TEA), ("trains", TRAINS), ("coffee", COFFEE)):
                tk.sync.collections.ingest("handbook", text, document_id=name)

            assert tk.sync.collections.search("handbook", "dining car").passages[0].document_id == "trains"
            assert tk.sync.collections.similar("handbook", "coffee")[0].document_id == "tea"

    @pytest.mark.slow
    def test_an_engine_finds_the_same(self, tmp_path: Path):
        """And loses what is erased."""
        chosen: dict[str, Any] = {
            "THREADKEEP_VECTORS": "faiss",
            "THREADKEEP_VECTORS_FROM": "1",
            "THREADKEEP_VECTORS_TIMEOUT_MS": "20000",
            "THREADKEEP_VECTORS_FOLDER": str(tmp_path / "vectors"),
        }
        settings = Settings(**chosen)
        with threadkeep.open(f"sqlite:///{tmp_path}/m.db", embedder=HashingEmbedder(), settings=settings) as tk:
            door = tk.sync.collections
            for name, text in (("tea.md", TEA), ("trains.md", TRAINS), ("coffee.md", COFFEE)):
                door.ingest("handbook", text, document_id=name)
            found = door.search("handbook", "At how many degrees is green tea brewed?", limit=3)
            assert found.passages[0].document_id == "tea.md"
            assert found.degraded == ()

            assert door.erase("handbook") == 3

            with pytest.raises(CollectionNotFoundError):
                door.search("handbook", "green tea")


class TestWriters:
    """Processes that ingest the same document at the same time: one version of it stays, and it is whole."""

    async def ingested(self, url: str, versions: list[str]) -> list[Any]:
        """Return what each of several clients was answered."""
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(threadkeep.open(url, embedder=HashingEmbedder())) for _ in versions
            ]
            for tk in clients:
                await tk.ready()
            writers = [
                tk.collections.ingest("handbook", text, document_id="new")
                for tk, text in zip(clients, versions, strict=True)
            ]
            return await asyncio.gather(*writers)

    @pytest.mark.parametrize("begun", [False, True])
    async def test_versions_that_differ(self, tmp_path: Path, begun: bool):
        url, text = f"sqlite:///{tmp_path}/m.db", "Sentence {} of version {}. " + "Rails are made of steel. " * 10
        versions = ["\n".join(f"## Part {part}\n{text.format(part, n)}" for part in range(5 + n)) for n in range(6)]
        if begun:
            await self.ingested(url, ["Before."])

        answers = await self.ingested(url, versions)

        assert [one.changed for one in answers] == [True] * len(versions)
        async with threadkeep.open(url, embedder=HashingEmbedder()) as tk:
            (document,) = await tk.collections.list("handbook")
            found = await tk.collections.search("handbook", "version", limit=1_000, relevant_only=False)
        of = {one.text.partition("of version ")[2].partition(".")[0] for one in found.passages}
        assert (len(of), len(found.passages)) == (1, document.parts)
        assert document.parts == answers[int(of.pop())].parts

    async def test_one_that_is_deleted_meanwhile_is_whole_or_gone(self, tmp_path: Path):
        url = f"sqlite:///{tmp_path}/m.db"
        async with (
            threadkeep.open(url, embedder=HashingEmbedder()) as writer,
            threadkeep.open(url, embedder=HashingEmbedder()) as other,
        ):
            for number in range(5):
                await writer.collections.ingest("handbook", f"Version {number}. {TRAINS}", document_id="new")
                await asyncio.gather(
                    *(writer.collections.ingest("handbook", f"{TEA} {n}", document_id="new") for n in range(4)),
                    other.collections.delete("handbook", "new"),
                )
                documents = await writer.collections.list("handbook")
                storage = writer.app.storage
                await storage.connect()
                parts = [one async for one in iterate_items(storage, collection("handbook", ""))]
                assert len(parts) == sum(1 + document.parts for document in documents)

    async def test_the_same_version_is_written_once(self, tmp_path: Path):
        answers = await self.ingested(f"sqlite:///{tmp_path}/m.db", [TRAINS] * 6)

        assert sorted(one.changed for one in answers) == [False] * 5 + [True]
        assert len({one.parts for one in answers}) == 1


class TestDelete:
    def test_nothing_of_a_document_stays(self, library: Any):
        """Its parts go with it, and only its."""
        library.delete("handbook", "tea.md")

        assert {one.document_id for one in library.list("handbook")} == {"trains.md", "coffee.md"}
        assert all(one.document_id != "tea.md" for one in library.search("handbook", "tea", limit=50).passages)
        with pytest.raises(DocumentNotFoundError, match="list the documents"):
            library.delete("handbook", "tea.md")

    def test_a_whole_collection_is_erased(self, library: Any):
        """And can begin anew."""
        assert library.erase("handbook") == 3
        assert library.list("handbook") == []

        library.ingest("handbook", COFFEE, document_id="coffee.md")

        assert len(library.list("handbook")) == 1

    def test_a_collection_that_is_erased_while_it_is_searched(self, tk: threadkeep.Threadkeep, library: Any):
        """A search finds all of it, or says that it is not there; it is never an answer of a part, or another error."""

        async def search() -> int | str:
            try:
                found = await tk.collections.search("handbook", "green tea at eighty degrees", limit=50)
            except CollectionNotFoundError as error:
                return error.code
            return len({one.document_id for one in found.passages})

        async def race() -> list[int | str]:
            searches = [asyncio.create_task(search()) for _ in range(20)]
            erased = asyncio.create_task(tk.collections.erase("handbook"))
            answers = await asyncio.gather(*searches)
            await erased
            return [*answers, await search()]

        whole = asyncio.run(search())
        answers = asyncio.run(race())

        assert set(answers) <= {whole, "collection_not_found"}
        assert answers[-1] == "collection_not_found"


class TestOwners:
    def test_locked_client_reads_and_writes_nothing(self, tk: threadkeep.Threadkeep, library: Any):
        """What a stranger's door may do."""
        door = tk.for_owner("ana").sync.collections

        assert door.search("handbook", "night train", relevant_only=False).passages[0].document_id == "trains.md"
        for write in (
            lambda: door.ingest("handbook", "mine", document_id="x"),
            lambda: door.delete("handbook", "tea.md"),
            lambda: door.erase("handbook"),
        ):
            with pytest.raises(OwnerMismatchError, match="for_owner"):
                write()

    def test_tenants_share_nothing(self, tk: threadkeep.Threadkeep, library: Any):
        """Not by the same name, nor by asking."""
        door = tk.for_owner(Owner("ana", "acme")).sync.collections

        with pytest.raises(CollectionNotFoundError):
            door.search("handbook", "night train")
        with pytest.raises(OwnerMismatchError, match="another tenant"):
            door.search("handbook", "night train", tenant="")
        library.ingest("handbook", "Acme's own train.", document_id="own", tenant="acme")
        assert [one.document_id for one in door.search("handbook", "train").passages] == ["own"]

    def test_document_is_not_a_memory(self, tk: threadkeep.Threadkeep, library: Any):
        """It is not recalled, not listed and not exported."""
        assert tk.sync.recall("When does the night train leave for Lisbon?", owner="ana").memories == ()
        assert tk.sync.memories.list(owner="ana") == []


@pytest.mark.slow
class TestNames:
    def test_each_collection_with_a_document_is_named(self, tk: threadkeep.Threadkeep, library: Any):
        """In order; one that was emptied is none, and neither are owners and other tenants' collections."""
        tk.sync.memories.remember("I like tea.", owner="ana")
        library.ingest("A guide", TEA, document_id="tea")
        library.ingest("emptied", TEA, document_id="tea")
        library.delete("emptied", "tea")
        library.ingest("acme's", TEA, document_id="tea", tenant="acme")

        assert library.names() == ("A guide", "handbook")
        assert library.names(tenant="acme") == ("acme's",)
        assert tk.for_owner(Owner("ana", "acme")).sync.collections.names() == ("acme's",)
        with pytest.raises(OwnerMismatchError):
            tk.for_owner(Owner("ana", "acme")).sync.collections.names(tenant="")


class TestAnotherModel:
    @pytest.mark.parametrize("engine", ["exact", "faiss"])
    def test_re_embedding_gives_new_vectors(self, tmp_path: Path, engine: str):
        """Until then words are compared; then passages and similar documents are found by the new model."""
        url = f"sqlite:///{tmp_path}/memory.db"
        settings = Settings(
            THREADKEEP_VECTORS=engine,
            THREADKEEP_VECTORS_FROM="1",
            THREADKEEP_VECTORS_TIMEOUT_MS="20000",
            THREADKEEP_VECTORS_FOLDER=str(tmp_path / "vectors"),
        )
        with threadkeep.open(url, embedder=HashingEmbedder(dims=64), settings=settings) as tk:
            for name, text in (("tea", TEA), ("trains", TRAINS), ("coffee", COFFEE)):
                tk.sync.collections.ingest("handbook", text, document_id=name)
            before = tk.sync.collections.search("handbook", "green tea brewed", limit=3)

        longer = HashingEmbedder(dims=96)
        with threadkeep.open(url, embedder=longer, settings=settings) as tk:
            stale = tk.sync.collections.search("handbook", "green tea brewed", limit=3)
            done = tk.app.event_loop.run_sync(Moving(tk.app.storage, longer, tk.app.clock).embed_anew())
            after = tk.sync.collections.search("handbook", "green tea brewed", limit=3)
            again = tk.sync.collections.similar("handbook", "coffee")
            dense = tk.app.event_loop.run_sync(cosines(tk))

        assert before.degraded == after.degraded == ()
        assert stale.passages[0].document_id == "tea"
        assert done.embedded == done.searchable > 3
        assert after.passages[0].document_id == "tea"
        assert again[0].document_id == "tea"
        assert dense == done.searchable


async def cosines(tk: threadkeep.Threadkeep) -> int:
    """Count the passages that have a cosine with a question."""
    services = await tk.app.connect()
    found = await services.search.ranking(collection("handbook", ""), "tea", ranking="dense", limit=100)
    return sum(hit.cosine is not None for hit in found.hits)


@pytest.mark.slow
def test_the_command_line_does_the_same(tmp_path: Path):
    """Ingest, search, list, similar, delete."""
    file = tmp_path / "tea.md"
    file.write_text(TEA)
    other = tmp_path / "coffee.md"
    other.write_text(COFFEE)
    where = ["--data-dir", str(tmp_path)]

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, ["collections", *words, *where])
        assert done.exit_code == 0, done.output
        return done.output

    assert "parts, 4 written" in run("ingest", "handbook", str(file), str(other))
    assert "unchanged" in run("ingest", "handbook", str(file))
    assert "tea.md" in run("search", "handbook", "green tea brewed", "-n", "1")
    assert run("names").split() == ["handbook"]
    assert "coffee.md" in run("similar", "handbook", str(file))
    assert "1 document removed." in run("delete", "handbook", str(file), "--yes")
    assert "tea.md" not in run("list", "handbook")
    assert "1 document removed." in run("delete", "handbook", "--all", "--yes")


def revisions(tk: threadkeep.Threadkeep, document_id: str) -> dict[str, int]:
    """Return the revision of each part of a document of the handbook."""

    async def read() -> dict[str, int]:
        services = await tk.app.connect()
        page = await services.storage.scan(collection("handbook", ""), prefix=("parts", document_id))
        return {item.ref.key: item.revision for item in page.items}

    return tk.app.event_loop.run_sync(read())
