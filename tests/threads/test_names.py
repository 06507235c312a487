"""Thread ids as they are stored."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.identity import Owner
from threadkeep.checkpoints.thread_ids import Names, given_id, is_digest, spelled, thread_id_from

ANY_TEXT = st.text(st.characters(codec=None, categories=None) | st.sampled_from("\x00%~\ud800\udfff"), min_size=1) | (
    st.builds("~tk~".__add__, st.text(alphabet="~%0123456789abcdeftk\x00\ud800"))
)

NAMES = Names()


class TestNaming:
    @given(ANY_TEXT)
    def test_every_id_comes_back_as_given(self, thread_id: str):
        """Whatever text an id is, its stored name spells it."""
        assert given_id(spelled(thread_id)) == thread_id
        assert NAMES.of(thread_id, None) == spelled(thread_id)

    @given(ANY_TEXT)
    def test_every_name_can_be_bound_by_a_database(self, thread_id: str):
        """A stored name has no NUL and is UTF-8."""
        name = NAMES.of(thread_id, None)

        assert "\x00" not in name
        assert name.encode().decode() == name

    @given(ANY_TEXT, ANY_TEXT)
    def test_no_two_ids_share_a_name(self, one: str, other: str):
        """Names are equal only where the ids are."""
        assert (NAMES.of(one, None) == NAMES.of(other, None)) == (one == other)

    @given(ANY_TEXT)
    def test_no_id_spells_a_scoped_name(self, thread_id: str):
        """An unscoped view cannot name a thread of a scoped one, not even by its stored name."""
        scoped = NAMES.of(thread_id, Owner("ana"))

        assert not NAMES.is_unscoped(scoped)
        assert NAMES.is_unscoped(NAMES.of(thread_id, None))
        assert NAMES.of(scoped, None) != scoped

    @pytest.mark.parametrize("thread_id", ["1", "a.b@x.org", "Ünï/cødé", "50%", "a~b", "x" * 1000])
    def test_an_ordinary_id_is_stored_as_it_is(self, thread_id: str):
        """A file can be moved to and from LangGraph's stock savers."""
        assert NAMES.of(thread_id, None) == thread_id

    def test_owners_never_share_a_scoped_name(self):
        """The parts of a scoped name are framed, so that no two pairs run together."""
        owners = [Owner("ab"), Owner("a"), Owner("b", "a"), Owner("a", "b"), Owner("ba")]

        names = {NAMES.of(thread_id, owner) for owner in owners for thread_id in ("b", "bb", "1")}

        assert len(names) == len(owners) * 3


class TestDigesting:
    @given(ANY_TEXT)
    def test_a_name_is_never_longer_than_the_database_can_find(self, thread_id: str):
        """What is longer is stored as a digest, which no other id spells."""
        short = Names(longest=8)

        name = short.of(thread_id, None)

        assert len(name.encode()) <= 8 or is_digest(name)
        assert is_digest(name) == (len(spelled(thread_id).encode()) > 8)
        assert short.is_unscoped(name)
        assert NAMES.of(name, None) != name or not is_digest(name)

    @given(ANY_TEXT)
    def test_deployments_share_no_name(self, thread_id: str):
        """Neither unscoped nor scoped, and none lists another's."""
        deployments = [Names(), Names("a"), Names("b"), Names("", 0), Names("a", 0)]

        names = [one.of(thread_id, owner) for one in deployments[:3] for owner in (None, Owner("ana"))]

        assert len(set(names)) == 6
        for number, one in enumerate(deployments[:3]):
            assert [one.is_unscoped(name) for name in names] == [n == 2 * number for n in range(6)]
        assert deployments[4].of(thread_id, None) == deployments[1].of(thread_id, None)
        assert len({one.note_of(Owner("ana")) for one in deployments[:3]}) == 3


class TestReadingAnId:
    @pytest.mark.parametrize("value", [None, ""])
    def test_an_empty_id_is_refused(self, value: str | None):
        """There is no shared default thread."""
        with pytest.raises(InvalidInputError, match="thread_id"):
            thread_id_from(value)

    def test_a_long_id_is_refused_and_one_of_the_limit_is_not(self):
        """1,000 characters are allowed, one more is not."""
        assert len(thread_id_from("x" * 1000)) == 1000
        with pytest.raises(TooLargeError, match=r"1,001 characters"):
            thread_id_from("x" * 1001)

    def test_what_is_not_a_text_counts_by_its_text(self):
        """A UUID or a number names the thread that its text does."""
        assert thread_id_from(UUID(int=1)) == str(UUID(int=1))
        assert thread_id_from(7) == "7"
