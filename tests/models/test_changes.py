"""The model that tells whether one statement makes another untrue."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.models.test_local import NASTY, imported_by
from threadkeep.errors import EmbedderUnavailableError
from threadkeep.models import changes
from threadkeep.models.base import StatementPair
from threadkeep.models.changes import ChangeModel
from threadkeep.registry import create_change_model, create_embedder
from threadkeep.settings import Settings

CHANGES = [
    StatementPair("We've remortgaged with Nationwide, fixed at 4.3.", "Our loan on the house is with Halifax at 5.1."),
    StatementPair("Moritz bekommt nur noch eine Einheit.", "Mein Kater Moritz bekommt zwei Einheiten Insulin."),
    StatementPair("Ankle rehab is the balance board and a red band.", "The exercises for my ankle are calf raises."),
]
TRUE_BESIDE = [
    StatementPair(
        "My parents' loan is with Nationwide, fixed at 4.3.", "Our loan on the house is with Halifax at 5.1."
    ),
    StatementPair("Der Hund meiner Schwester ist alt.", "Mein Kater Moritz bekommt zwei Einheiten Insulin."),
    StatementPair("My physio works with the rowing club, too.", "The exercises for my ankle are calf raises."),
]


@pytest.fixture(scope="module")
def model() -> ChangeModel:
    return ChangeModel(threads=1)


@pytest.mark.model
class TestWeigh:
    async def test_a_change_weighs_more_than_what_is_true_beside_it(self, model: ChangeModel):
        """By far, in more than one language."""
        changed, true = await model.weigh(CHANGES), await model.weigh(TRUE_BESIDE)

        assert all(one > other + 3 for one, other in zip(changed, true, strict=True))

    async def test_a_weight_does_not_depend_on_what_is_weighed_with_it(self):
        """In whatever batches they are computed, beside a much longer pair too."""
        long = StatementPair("We moved. " * 40, "I live in Lisbon, in a flat with a view of the river. " * 10)

        together = await ChangeModel(threads=1).weigh([*CHANGES, long])
        alone = [(await ChangeModel(threads=1).weigh([pair]))[0] for pair in CHANGES]

        assert together[:-1] == pytest.approx(alone, abs=1e-3)

    async def test_what_was_weighed_is_known(self):
        """Without computing it again; another order of the two is another pair."""
        model, pair = ChangeModel(threads=1), CHANGES[0]
        assert model.known(pair) is None

        weights = await model.weigh([pair, pair])

        assert weights == [model.known(pair)] * 2
        assert model.known(StatementPair(pair.older, pair.newer)) is None

    async def test_any_text_has_a_weight(self, model: ChangeModel):
        """Also one that holds what stands between the two."""
        pairs = [StatementPair(text, "I live in Lisbon.") for text in NASTY]
        pairs += [StatementPair("I live in Lisbon.", text) for text in NASTY]
        pairs.append(StatementPair("a\x1fb", "\x1f"))

        weights = await model.weigh(pairs)

        assert all(-50 < weight < 50 for weight in weights)


@pytest.mark.model
class TestReady:
    async def test_a_broken_model_is_one_sentence(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ):
        """And the engine below says nothing beside it."""
        broken = tmp_path / "changes.onnx"
        broken.write_bytes(b"no model")
        monkeypatch.setattr("threadkeep_minilm.CHANGES_PATH", broken)

        with pytest.raises(EmbedderUnavailableError, match="model of changes could not be loaded"):
            await ChangeModel().ready()
        assert capfd.readouterr() == ("", "")


class TestCreateChangeModel:
    @pytest.mark.model
    def test_it_is_used_with_any_embedder(self):
        """Where it is installed."""
        assert create_change_model(create_embedder(Settings())) is not None

    def test_without_an_embedder_words_alone_compare(self):
        """As the user asked for."""
        assert create_change_model(None) is None

    @pytest.mark.model
    def test_a_model_that_was_not_built_is_not_used(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        """Its package is there, its file is not."""
        monkeypatch.setattr("threadkeep_minilm.CHANGES_PATH", tmp_path / "none.onnx")

        assert create_change_model(create_embedder(Settings())) is None

    @pytest.mark.model
    def test_an_earlier_version_of_the_package_is_not_used(self, monkeypatch: pytest.MonkeyPatch):
        """It has the embedder alone."""
        monkeypatch.delattr("threadkeep_minilm.CHANGES_PATH")

        assert create_change_model(create_embedder(Settings())) is None

    @pytest.mark.model
    def test_a_missing_package_is_noticed(self, monkeypatch: pytest.MonkeyPatch):
        """It raises nothing, and words and cosines decide."""
        monkeypatch.setitem(sys.modules, "onnxruntime", None)

        assert not changes.is_installed()

    def test_knowing_that_it_is_there_imports_nothing_heavy(self):
        """The command line asks at every start."""
        heavy = imported_by(
            "from threadkeep.models.changes import ChangeModel, is_installed; is_installed(); ChangeModel()"
        )

        assert not heavy & {"numpy", "onnxruntime", "tokenizers", "langchain_core"}
