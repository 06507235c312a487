"""Cursors are signed with a secret that all processes share, and that can be replaced while they run."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import threadkeep
from threadkeep.errors import InvalidInputError
from threadkeep.gateway.pagination import Cursors
from threadkeep.gateway.shared_secret import SharedSecret

ANA = threadkeep.Owner("ana")


@pytest.fixture
async def tk() -> AsyncIterator[threadkeep.Threadkeep]:
    """A memory in RAM."""
    async with threadkeep.open("memory:", embedder="none") as opened:
        yield opened


async def test_a_new_secret_leaves_the_cursors_of_the_one_before(tk: threadkeep.Threadkeep):
    """Also those of a process that has not noticed it; the rotation after it ends them."""
    here, elsewhere = Cursors(tk.store), Cursors(tk.store)
    before = await here.seal("7", ANA, "threads")
    assert await elsewhere.open(before, ANA, "threads") == "7"

    await SharedSecret(tk.store).rotate()

    unaware = await elsewhere.seal("a", ANA, "threads")
    assert await here.open(before, ANA, "threads") == "7"
    assert await here.open(unaware, ANA, "threads") == "a"
    after = await Cursors(tk.store).seal("8", ANA, "threads")
    assert after.partition(".")[2] != (await elsewhere.seal("8", ANA, "threads")).partition(".")[2]
    assert await elsewhere.open(after, ANA, "threads") == "8"
    await SharedSecret(tk.store).rotate()
    with pytest.raises(InvalidInputError):
        await Cursors(tk.store).open(before, ANA, "threads")


async def test_another_owner_or_route_cannot_use_it(tk: threadkeep.Threadkeep):
    cursors = Cursors(tk.store)
    sealed = await cursors.seal("7", ANA, "threads")

    for owner, route in ((threadkeep.Owner("bob"), "threads"), (ANA, "memories")):
        with pytest.raises(InvalidInputError):
            await cursors.open(sealed, owner, route)
