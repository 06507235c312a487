"""The models that read two texts at once: whether one makes the other untrue, or needs it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.models.test_local import NASTY, imported_by
from threadkeep.errors import EmbedderUnavailableError
from threadkeep.models.base import NeedPair, PairModels, StatementPair
from threadkeep.models.pairs import PairModel, PairModelName, is_installed
from threadkeep.registry import create_embedder, create_pair_models
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
NEEDED = [
    NeedPair("give me a recipe for salsa verde tacos", "coriander tastes of soap to me and it always will"),
    NeedPair("Plan dinner for Friday, something quick.", "My daughter got diagnosed coeliac last spring."),
    NeedPair("Write the deploy script for the new service.", "We run everything on three old Debian boxes, no cloud."),
]
NOT_NEEDED = [
    NeedPair("How tall is Mount Kenya?", "coriander tastes of soap to me and it always will"),
    NeedPair("What is a limerick?", "My daughter got diagnosed coeliac last spring."),
    NeedPair("thanks, that worked", "We run everything on three old Debian boxes, no cloud."),
]


@pytest.fixture(scope="module")
def model() -> PairModel:
    return PairModel("changes", threads=1)


@pytest.mark.model
class TestWeigh:
    async def test_a_change_weighs_more_than_what_is_true_beside_it(self, model: PairModel):
        """By far, in more than one language."""
        changed, true = await model.weigh(CHANGES), await model.weigh(TRUE_BESIDE)

        assert all(one > other + 3 for one, other in zip(changed, true, strict=True))

    async def test_what_a_request_needs_weighs_more_than_what_it_does_not(self):
        """By far, though the request does not name it."""
        needs = PairModel("needs", threads=1)

        needed, other = await needs.weigh(NEEDED), await needs.weigh(NOT_NEEDED)

        assert all(one > 0 > other for one, other in zip(needed, other, strict=True))
        assert all(one > other + 3 for one, other in zip(needed, other, strict=True))

    async def test_a_weight_does_not_depend_on_what_is_weighed_with_it(self):
        """In whatever batches they are computed, beside a much longer pair too."""
        long = StatementPair("We moved. " * 40, "I live in Lisbon, in a flat with a view of the river. " * 10)

        together = await PairModel("changes", threads=1).weigh([*CHANGES, long])
        alone = [(await PairModel("changes", threads=1).weigh([pair]))[0] for pair in CHANGES]

        assert together[:-1] == pytest.approx(alone, abs=1e-3)

    async def test_what_was_weighed_is_known(self):
        """Without computing it again; another order of the two is another pair."""
        model, pair = PairModel("changes", threads=1), CHANGES[0]
        assert model.known(pair) is None

        weights = await model.weigh([pair, pair])

        assert weights == [model.known(pair)] * 2
        assert model.known(StatementPair(pair.older, pair.newer)) is None

    async def test_any_text_has_a_weight(self, model: PairModel):
        """Also one that holds what stands between the two."""
        pairs = [StatementPair(text, "I live in Lisbon.") for text in NASTY]
        pairs += [StatementPair("I live in Lisbon.", text) for text in NASTY]
        pairs.append(StatementPair("a\x1fb", "\x1f"))

        weights = await model.weigh(pairs)

        assert all(-50 < weight < 50 for weight in weights)


@pytest.mark.model
class TestReady:
    @pytest.mark.parametrize("name", ["changes", "needs"])
    async def test_a_broken_model_is_one_sentence(
        self,
        name: PairModelName,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        capfd: pytest.CaptureFixture[str],
    ):
        """And the engine below says nothing beside it."""
        broken = tmp_path / "model.onnx"
        broken.write_bytes(b"no model")
        monkeypatch.setattr(f"threadkeep_minilm.{name.upper()}_PATH", broken)

        with pytest.raises(EmbedderUnavailableError, match=f"model of {name} could not be loaded"):
            await PairModel(name).ready()
        assert capfd.readouterr() == ("", "")


class TestCreatePairModels:
    @pytest.mark.model
    def test_it_is_used_with_any_embedder(self):
        """Where it is installed."""
        models = create_pair_models(create_embedder(Settings()))

        assert [model and model.name for model in models] == ["changes", "needs"]

    def test_without_an_embedder_words_alone_compare(self):
        """As the user asked for."""
        assert create_pair_models(None) == PairModels()

    @pytest.mark.model
    def test_a_model_that_was_not_built_is_not_used(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        """Its package is there, its file is not."""
        monkeypatch.setattr("threadkeep_minilm.CHANGES_PATH", tmp_path / "none.onnx")

        models = create_pair_models(create_embedder(Settings()))

        assert models.changes is None
        assert models.needs is not None

    @pytest.mark.model
    def test_an_earlier_version_of_the_package_is_not_used(self, monkeypatch: pytest.MonkeyPatch):
        """It has not all of the models."""
        monkeypatch.delattr("threadkeep_minilm.NEEDS_PATH")

        assert create_pair_models(create_embedder(Settings())).needs is None

    @pytest.mark.model
    def test_a_missing_package_is_noticed(self, monkeypatch: pytest.MonkeyPatch):
        """It raises nothing, and words and cosines decide."""
        monkeypatch.setitem(sys.modules, "onnxruntime", None)

        assert not is_installed("changes")

    def test_knowing_that_it_is_there_imports_nothing_heavy(self):
        """The command line asks at every start."""
        heavy = imported_by(
            "from threadkeep.models.pairs import PairModel, is_installed; is_installed('needs'); PairModel('needs')"
        )

        assert not heavy & {"numpy", "onnxruntime", "tokenizers", "langchain_core"}
