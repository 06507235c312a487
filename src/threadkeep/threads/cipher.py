"""AES-256-GCM over checkpoints, with a key for each thread that is derived from the one that was set."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from threadkeep.errors import SettingsError, StorageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

VARIABLE: Final = "THREADKEEP_CHECKPOINT_KEY"
SHORTEST_KEY: Final = 32

_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32
_ID_BYTES: Final = 4
_THREADS_KEPT: Final = 1024


class Cipher:
    """Seals and opens bytes of a thread; what was sealed for one place cannot be opened at another.

    A key of its own for each thread keeps the number of random nonces under one key small.

    Args:
        keys: One or more keys, of 32 or more characters each, parted by commas or blanks. The first
            seals and all of them open, so a key can be replaced: put the new one in front.

    Raises:
        SettingsError: A key is too short, or ``cryptography`` is not installed.
    """

    def __init__(self, keys: str) -> None:
        parts = keys.replace(",", " ").split()
        if not parts or any(len(part) < SHORTEST_KEY for part in parts):
            msg = (
                f"{VARIABLE} needs keys of {SHORTEST_KEY} or more characters, parted by commas; "
                "make one with: openssl rand -base64 32"
            )
            raise SettingsError(msg, variable=VARIABLE)
        if find_spec("cryptography") is None:
            msg = f"{VARIABLE} is set, and cryptography is not installed; run: pip install threadkeep[encryption]"
            raise SettingsError(msg, variable=VARIABLE)
        secrets = [part.encode("utf-8", "surrogatepass") for part in parts]
        self._ids = [_derived(secret, _ID_BYTES, "id") for secret in secrets]
        self._secret_of = dict(zip(reversed(self._ids), reversed(secrets), strict=True))
        self._of_thread = lru_cache(_THREADS_KEPT)(self._aead)

    def seal(self, plain: bytes, *, thread: str, place: str) -> bytes:
        """Return *plain* sealed: the key's id (4 bytes), a nonce (12 bytes), the text and its tag (16 bytes).

        Args:
            plain: Anything.
            thread: The name of the thread that it is of.
            place: Where in the thread it is kept; has to be said again to open it.
        """
        nonce = os.urandom(_NONCE_BYTES)
        return self._ids[0] + nonce + self._of_thread(self._ids[0], thread).encrypt(nonce, plain, place.encode())

    def open(self, sealed: bytes, *, thread: str, place: str) -> bytes:
        """Return what :meth:`seal` sealed.

        Raises:
            StorageError: It was sealed with another key, for another place, or is damaged.
        """
        from cryptography.exceptions import InvalidTag

        key_id, nonce = sealed[:_ID_BYTES], sealed[_ID_BYTES : _ID_BYTES + _NONCE_BYTES]
        if key_id not in self._secret_of:
            msg = f"A checkpoint was encrypted with another key; add that key to {VARIABLE}, behind the present one."
            raise StorageError(msg, variable=VARIABLE)
        try:
            return self._of_thread(key_id, thread).decrypt(nonce, sealed[_ID_BYTES + _NONCE_BYTES :], place.encode())
        except (InvalidTag, ValueError) as error:
            msg = "An encrypted checkpoint is damaged, or was moved to another place; restore it from a backup."
            raise StorageError(msg) from error

    def _aead(self, key_id: bytes, thread: str) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(_derived(self._secret_of[key_id], _KEY_BYTES, f"thread {thread}"))


def _derived(secret: bytes, length: int, what: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = f"threadkeep checkpoints: {what}".encode()
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(secret)
