"""What the client does with the turns of a thread: recall before the model is called, and learn from them after it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from threadkeep.arguments import check_string, check_timeout
from threadkeep.capture.models import Receipt
from threadkeep.errors import InvalidInputError, SettingsError
from threadkeep.ids import ThreadId, TurnId
from threadkeep.observability import CAPTURE, STATUS, TENANT, THREAD, TURNS, USER, span
from threadkeep.recall.models import Recall

if TYPE_CHECKING:
    from langchain_core.messages import MessageLikeRepresentation

    from threadkeep.container import Container, Services
    from threadkeep.identity import Owner, OwnerScope
    from threadkeep.transfer.conversation_exports import ConversationImport, DateOrder, ExportFormat, ImportProgress

Messages: TypeAlias = "Sequence[MessageLikeRepresentation]"
"""A thread's messages, oldest first, in any form that LangChain reads."""

SETTLE: Final = timedelta(seconds=30)
"""How long ``capture(wait=True)`` waits until what was said can be recalled."""


class TurnOperations:
    """The operations of a client on turns; the client sets the services and the owners that they may be about."""

    _app: Container
    _scope: OwnerScope

    async def recall(
        self,
        question: str | Messages,
        *,
        owner: str | Owner | None = None,
        thread_id: str | None = None,
        budget_tokens: int | None = None,
        max_facts: int | None = None,
        max_episodes: int | None = None,
        timeout: timedelta | None = None,
        read_scopes: Sequence[Owner] = (),
    ) -> Recall:
        """Find the memories that matter for *question* and render them within the budget.

        Args:
            question: The latest user message, or the messages up to it as the model gets them. The messages also name
                the branch of the thread: memories of other branches, and episodes of turns among the messages, are
                left out. Without text, such as a picture alone, the newest memories are found.
            owner: The owner of the memories; no other user's are read.
            thread_id: The thread of the question.
            budget_tokens: Upper bound of the rendered text; ``None``: the setting.
            max_facts: Upper bound of memories other than episodes.
            max_episodes: Upper bound of episodes.
            timeout: How long to wait; ``None``: the setting. Loading the embedder is not counted.
            read_scopes: Shared scopes that are read, too.

        Returns:
            The memories, best first, and the text. ``degraded`` names what failed or took too long; a failing storage
            or model raises no error.

        Raises:
            ScopeNotFoundError: A scope does not exist.
        """
        from threadkeep.recall.service import RecallRequest

        if timeout is not None:
            check_timeout(timeout)
        if isinstance(question, str):
            text, shown = question, []
        else:
            from threadkeep.models.langchain import question_and_messages

            text, shown = question_and_messages(question)
        settings, thread = self._app.settings, None if thread_id is None else ThreadId(thread_id)
        request = RecallRequest(
            text,
            self._scope.resolve(owner),
            thread,
            shown if thread is not None else (),
            budget_tokens=settings.recall_budget_tokens if budget_tokens is None else budget_tokens,
            max_facts=max_facts,
            max_episodes=max_episodes,
            timeout=timeout,
            read_scopes=tuple(dict.fromkeys(read_scopes)),
        )
        recall = self._app.try_recall(request)
        return await self._app.event_loop.run(self._app.recall(request)) if recall is None else recall

    def attachment(self, text: str, *, name: str) -> str:
        """Return the text of a file for a user's message, marked as data: nothing in it is learnt as the user's word.

        Args:
            text: What the file says.
            name: What the file is called; at most 200 characters are kept.
        """
        from threadkeep.text.quoted import quoted_attachment

        check_string(text, "text")
        check_string(name, "name")
        return quoted_attachment(text, name=name)

    async def capture(
        self,
        messages: Messages,
        *,
        owner: str | Owner | None = None,
        thread_id: str | None,
        recalled: Sequence[str] = (),
        wait: bool = False,
    ) -> Receipt:
        """Record the turns of *messages* that are not recorded yet, and learn from them in the background.

        In a run with ``memory=False``, the newest turn is only marked as seen, so that nothing is learnt from it later.

        Args:
            messages: The thread's messages so far, the reply included. A text, or a message alone, is one message.
            owner: The user who wrote them.
            thread_id: The thread.
            recalled: Texts that recall had inserted; nothing is learnt from a reply that repeats them.
            wait: Return only when the new memories can be recalled.

        Raises:
            StorageError: Nothing was recorded; the next turn records it.
        """
        from threadkeep.checkpoints.head import thread_id_from
        from threadkeep.models.langchain import is_run_without_memory, plain_messages

        resolved, plain, off = self._scope.resolve(owner), plain_messages(messages), is_run_without_memory()
        if not self._app.capturing:
            return Receipt("nothing")
        thread = None if thread_id in (None, "") else thread_id_from(thread_id)

        async def record(services: Services) -> Receipt:
            receipt = await services.record(
                plain, owner=resolved, thread_id=thread, recalled=recalled, without_memory=off
            )
            if off and receipt.status != "queued":
                return Receipt("nothing")
            return await services.captures.settle(receipt, owner=resolved, timeout=SETTLE) if wait else receipt

        with span(CAPTURE, {USER: resolved.user_id, TENANT: resolved.tenant or None, THREAD: thread}) as recorded:
            receipt = await self._app.call(record)
            recorded.set({STATUS: receipt.status, TURNS: len(receipt.turn_ids)})
        return receipt

    async def capture_participants(
        self,
        messages: Messages,
        *,
        participants: Mapping[str, str | Owner],
        thread_id: str | None,
        wait: bool = False,
    ) -> dict[str, Receipt]:
        """Record a thread of several people: each is learnt about from the turns that they began, and from no others.

        Args:
            messages: The thread's messages so far, the reply included; messages of people carry a ``name``.
            participants: The owner of each name; nothing is learnt from messages under other names, or under none.
            thread_id: The thread.
            wait: Return only when the new memories can be recalled.

        Returns:
            The receipt of each name.

        Raises:
            OwnerMismatchError: This client is locked to another owner than one of *participants*.
        """
        from threadkeep.models.langchain import messages_by_participant

        for owner in participants.values():
            self._scope.resolve(owner)
        return {
            name: await self.capture(turns, owner=participants[name], thread_id=thread_id, wait=wait)
            for name, turns in messages_by_participant(messages, participants).items()
        }

    async def import_conversations(
        self,
        path: str | Path,
        *,
        owner: str | Owner | None = None,
        program: ExportFormat | None = None,
        me: str | None = None,
        dates: DateOrder | None = None,
        accept: bool = False,
        progress: ImportProgress | None = None,
    ) -> ConversationImport:
        """Learn from an export of earlier conversations: the user's own words, as of when they were written.

        Nothing of what an assistant or another person wrote is read. Repeating an import changes nothing, and goes on
        where an earlier one ended.

        Args:
            path: The file, ZIP or folder of an export of ChatGPT, Claude, Slack or WhatsApp, or JSON.
            owner: The user who wrote the messages.
            program: ``chatgpt``, ``claude``, ``slack``, ``whatsapp`` or ``json``; ``None``: recognised by its content.
            me: The user's name or id in the export; needed for Slack and WhatsApp.
            dates: ``dmy`` or ``mdy``, where a WhatsApp chat does not tell day and month apart.
            accept: Keep what the policy keeps, with episodes; otherwise every statement is proposed.
            progress: Called with how many conversations are done and how many there are.

        Raises:
            InvalidInputError: The export is of no known format or version, or *me* or *dates* is missing.
            OptedOutError: The owner opted out of memory.
            SettingsError: Capture is off.
            StorageError: The storage failed; the import can be repeated.
        """
        from threadkeep.transfer.conversation_exports import learn_from_export, read_export

        if not isinstance(path, str | Path):
            msg = f"path must be a string or a Path, got {type(path).__name__}."
            raise InvalidInputError(msg)
        resolved = self._scope.resolve(owner)
        if not self._app.capturing:
            msg = "Capture is off, so nothing can be imported; set THREADKEEP_CAPTURE to local or another extractor."
            raise SettingsError(msg)

        export = await asyncio.to_thread(read_export, Path(path), program=program, me=me, dates=dates)
        return await self._app.call(
            lambda services: learn_from_export(services, export, owner=resolved, accept=accept, progress=progress)
        )

    async def drain(self, *, timeout: timedelta = SETTLE) -> bool:
        """Learn from every recorded turn that waits, *timeout* at most.

        A turn of an agent is learnt when its run is over: in the middle of its own stream this waits in vain.

        Returns:
            Whether no turn is left; those that failed are tried again later.
        """
        check_timeout(timeout)

        async def drained(services: Services) -> bool:
            await self._app.timeout_budget.settle(timeout)  # turns that are still being recorded
            return await services.captures.drain(timeout, others=True)

        return await self._app.call(drained)

    async def settle(
        self, turn_ids: Sequence[str], *, owner: str | Owner | None = None, timeout: timedelta = SETTLE
    ) -> Receipt:
        """Wait until recorded turns are learnt from, *timeout* at most; the receipt names the memories."""
        check_timeout(timeout)
        resolved = self._scope.resolve(owner)
        recorded = Receipt("queued", tuple(TurnId(turn_id) for turn_id in turn_ids))
        return await self._app.call(
            lambda services: services.captures.settle(recorded, owner=resolved, timeout=timeout)
        )
