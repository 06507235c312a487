"""Every error that Threadkeep raises.

::

    ThreadkeepError
    ├── SettingsError            a setting is wrong; start-up stops
    ├── InvalidInputError        what was given cannot be kept or looked up
    │   ├── TooLargeError
    │   │   └── ContextTooLargeError
    │   ├── FileUnreadableError
    │   ├── FileTypeUnsupportedError
    │   ├── ThreadNotFoundError
    │   └── InvalidNamespaceError (also LangGraph's, when that is imported)
    ├── OwnerRequiredError       no owner is named
    │   └── OwnerConflictError
    ├── OwnerMismatchError       another owner's thread or namespace
    ├── ScopeRequiredError       the token may not do this
    ├── RoleRequiredError        the user's role in a shared scope does not allow this
    ├── ScopeNotFoundError
    ├── OptedOutError            the owner opted out of memory
    ├── MemoryNotFoundError
    ├── SlotNotFoundError
    ├── ProposalNotFoundError
    ├── CollectionNotFoundError
    ├── DocumentNotFoundError
    ├── RunNotFoundError
    ├── ApprovalRequiredError    a statement needs an approval
    ├── ConflictError            another writer was first
    │   ├── ProposalDecidedError
    │   ├── RevisionConflictError
    │   ├── ThreadBusyError      another run is at work on the thread
    │   ├── ThreadMovedOnError   another run continued it first
    │   ├── RunCancelledError    the run was stopped before its end
    │   ├── NothingToResumeError no question of the job is open
    │   └── PartitionErasedError
    ├── RunUnfinishedError       a job has neither ended nor asked anything
    ├── StorageError             the storage cannot be used as it is
    │   ├── StorageUnavailableError
    │   ├── StorageFullError
    │   ├── StorageDeniedError
    │   ├── StorageReadOnlyError
    │   ├── OverloadedError      too many calls wait for a connection; try again later
    │   ├── StorageVersionError
    │   ├── NotAStorageError
    │   ├── SealError            it is sealed and the keys do not fit, or the other way round
    │   └── DamagedItemError
    ├── VectorEngineError        the vector engine cannot be used; words are compared
    ├── EmbedderUnavailableError
    ├── RerankerUnavailableError
    ├── StaleVectorsError        another model made the vectors that are stored
    ├── ModelUnavailableError
    ├── AgentUnavailableError    a declared sub-agent's server or credential is missing
    ├── CredentialRequiredError  the user must connect an MCP server, for the first time or again
    ├── ExtractionError          a model extractor gave nothing that can be used
    ├── RestartingError          the server is stopping; try again
    └── ClosedError
"""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager
from typing import ClassVar, Final


class ThreadkeepError(Exception):
    """Root of all errors of this package; catch it to catch them all.

    Attributes:
        code: Stable snake_case name, the same in Python, HTTP and the command line.
        details: The ids involved; never a secret and never a memory's text.
    """

    code: ClassVar[str] = "threadkeep_error"

    def __init__(self, message: str, /, **details: object) -> None:
        super().__init__(message)
        self.details = details


class SettingsError(ThreadkeepError):
    """A setting is missing or cannot be understood. Correct the variable that the message names."""

    code = "settings_invalid"


class InvalidInputError(ThreadkeepError, ValueError):
    """What was given cannot be kept or looked up. The message says which rule it breaks."""

    code = "input_invalid"


class TooLargeError(InvalidInputError):
    """A text, value, key or batch is over its limit. Split it, or store a reference to it."""

    code = "too_large"


class ContextTooLargeError(TooLargeError):
    """What must be sent to the model takes more than it reads. Shorten the message that is named."""

    code = "context_too_large"


class FileUnreadableError(InvalidInputError):
    """A file is damaged, encrypted or too complex. Save it again without a password, or as text."""

    code = "file_unreadable"


class FileTypeUnsupportedError(InvalidInputError):
    """No parser reads files of this type, or it is not installed. Install ``threadkeep[documents]``, or convert it."""

    code = "file_type_unsupported"


class ThreadNotFoundError(InvalidInputError):
    """The owner has no thread with this id. List the owner's threads."""

    code = "thread_not_found"


class OwnerRequiredError(ThreadkeepError, RuntimeError):
    """No owner is named. Pass ``owner=``, ``context.user_id`` or ``configurable.user_id``."""

    code = "owner_required"


class OwnerConflictError(OwnerRequiredError):
    """Two sources of identity disagree. Give the owner once, or give the same one everywhere."""

    code = "owner_conflict"


class OwnerMismatchError(ThreadkeepError, PermissionError, RuntimeError):
    """The thread or namespace belongs to another owner. Open it as the owner it belongs to."""

    code = "not_yours"


class ScopeRequiredError(ThreadkeepError, PermissionError):
    """The request lacks the scope that the message names. Get a token with it."""

    code = "scope_required"


class RoleRequiredError(ThreadkeepError, PermissionError):
    """The user lacks the role in a shared scope that the message names. Let the application grant it."""

    code = "role_required"


class ScopeNotFoundError(ThreadkeepError, LookupError):
    """The shared scope that the message names does not exist. Create it, or correct its name."""

    code = "scope_not_found"


class OptedOutError(ThreadkeepError):
    """The owner opted out of memory, at all or in this thread. Ask them, and let them opt in."""

    code = "opted_out"


class MemoryNotFoundError(ThreadkeepError, LookupError):
    """The owner has no memory with this id. List the owner's memories."""

    code = "memory_not_found"


class SlotNotFoundError(ThreadkeepError, LookupError):
    """The schema of profiles has no slot with this name. Read the profile to see its slots."""

    code = "slot_not_found"


class ProposalNotFoundError(ThreadkeepError, LookupError):
    """The owner has no proposal with this id. List the owner's proposals."""

    code = "proposal_not_found"


class CollectionNotFoundError(ThreadkeepError, LookupError):
    """The tenant has no collection of this name, or it was deleted meanwhile. List the names of its collections."""

    code = "collection_not_found"


class DocumentNotFoundError(ThreadkeepError, LookupError):
    """The collection has no document with this id. List its documents."""

    code = "document_not_found"


class RunNotFoundError(ThreadkeepError, LookupError):
    """The owner has no run with this id, or it ended too long ago. Read the thread instead."""

    code = "run_not_found"


class ApprovalRequiredError(ThreadkeepError):
    """Only an assistant, a tool or a document stands behind the statement. Propose it, and have it approved."""

    code = "approval_required"


class ConflictError(ThreadkeepError):
    """Another writer was first, so nothing was written. Read again and decide again."""

    code = "conflict"


class RevisionConflictError(ConflictError):
    """An item is not at the revision that the batch expects. Read it again and repeat the change."""

    code = "revision_conflict"


class ProposalDecidedError(ConflictError):
    """The proposal was decided before; the message says how and by whom. The first decision stands."""

    code = "proposal_decided"


class PartitionErasedError(ConflictError):
    """The owner was erased while this work was in flight. Drop the work; it must not be written."""

    code = "partition_erased"


class NothingToResumeError(ConflictError):
    """No question of the job is open, or the one that is answered was answered. Look at what ``get()`` says."""

    code = "nothing_to_resume"


class RunUnfinishedError(ThreadkeepError):
    """The job is not done. Answer what it asks, or retry it."""

    code = "run_unfinished"


class ThreadBusyError(ConflictError):
    """Another run is at work on the thread, so nothing was written. Wait for it, or try again later."""

    code = "thread_busy"


class ThreadMovedOnError(ConflictError):
    """Another run continued the thread first, so nothing was written over it. Give the input again."""

    code = "thread_moved_on"


class RunCancelledError(ConflictError):
    """The run was stopped before its end. The thread has what the run finished; give the input again if needed."""

    code = "run_cancelled"


class StorageError(ThreadkeepError):
    """The storage cannot be used as it is. The message says what is wrong with it."""

    code = "storage_error"


class StorageUnavailableError(StorageError):
    """The storage did not answer, or is locked by another process. Try again; nothing was written."""

    code = "storage_unavailable"


FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What an operating system says of a full disk, or of a limit on the size of a file."""


class StorageFullError(StorageError):
    """The disk that holds the storage is full. Free some space; nothing was written."""

    code = "storage_full"


class StorageDeniedError(StorageError):
    """The storage refused the user, its password or a right. Correct the URL, or grant what the message names."""

    code = "storage_denied"


class StorageReadOnlyError(StorageError):
    """The storage cannot be written to. Give the process write access, or choose another place."""

    code = "storage_read_only"


class StorageVersionError(StorageError):
    """The storage was written by another version of Threadkeep. Upgrade, or choose another place."""

    code = "storage_version"


class NotAStorageError(StorageError):
    """The file or database is something else. Choose another place; it was not touched."""

    code = "not_a_storage"


class SealError(StorageError):
    """The storage is encrypted with other keys, or keys are set and it is not encrypted. Set the matching keys."""

    code = "seal_mismatch"


class OverloadedError(StorageError):
    """Too many calls wait for a connection to the storage, so the run did not begin. Try again, or add processes."""

    code = "overloaded"


class DamagedItemError(StorageError):
    """An item cannot be read or decrypted: it was damaged or changed. Restore or remove it."""

    code = "item_damaged"


class VectorEngineError(ThreadkeepError):
    """The vector engine did not answer or refused. Check that it is there; search is by words until it answers."""

    code = "vector_engine_error"


class EmbedderUnavailableError(ThreadkeepError):
    """The embedding model could not be loaded or did not answer. Search is lexical until it does."""

    code = "embedder_unavailable"


class RerankerUnavailableError(ThreadkeepError):
    """The reranking model could not be loaded or did not answer. Recall keeps its own order until it does."""

    code = "reranker_unavailable"


class StaleVectorsError(ThreadkeepError):
    """Stored vectors are of another model, or length, than the embedder's. Run ``threadkeep storage re-embed``."""

    code = "stale_vectors"


class ModelUnavailableError(ThreadkeepError):
    """The chat model could not be loaded. Check its name, its package and its key."""

    code = "model_unavailable"


class AgentUnavailableError(ThreadkeepError):
    """A declared agent's server or credential is missing. Set, install or start what the message names."""

    code = "agent_unavailable"


class CredentialRequiredError(ThreadkeepError):
    """The user has no access to an MCP server, or it expired or was revoked. Let the user connect the server."""

    code = "credential_required"


class ExtractionError(ThreadkeepError):
    """A model extractor gave nothing that can be used, or too late. Nothing was changed; the turn is tried again."""

    code = "extraction_failed"


class RestartingError(ThreadkeepError):
    """The server is stopping, so it begins no run, or ended the one in progress. Try again; another process answers."""

    code = "restarting"


class ClosedError(ThreadkeepError):
    """This Threadkeep was closed. Open a new one."""

    code = "closed"


def missing_extra(feature: str, *, extra: str, variable: str | None = None, reason: object = "") -> SettingsError:
    """Return the error for a feature that needs a package which is not installed.

    Args:
        feature: What needs it: a setting, or an operation.
        extra: The extra that installs it.
        variable: The setting, for the error's details.
        reason: The message of the failed import.
    """
    because = f" ({reason})" if reason else ""
    msg = f'{feature} needs a package that is not installed{because}; run: pip install "threadkeep[{extra}]"'
    return SettingsError(msg) if variable is None else SettingsError(msg, variable=variable)


@contextmanager
def optional_import(feature: str, *, extra: str, variable: str | None = None) -> Generator[None]:
    """Name the extra to install if an import in the block fails; the arguments are those of :func:`missing_extra`.

    Raises:
        SettingsError: A package is missing.
    """
    try:
        yield
    except ImportError as error:
        raise missing_extra(feature, extra=extra, variable=variable, reason=error) from error
