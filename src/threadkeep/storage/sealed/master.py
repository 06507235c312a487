"""Master keys: given to the deployment, never stored, and used to wrap the keys that are."""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from threadkeep.errors import DamagedItemError, SealError, SettingsError

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12

_ID_CHARACTERS: Final = 12


class Wrapped(NamedTuple):
    """A key that was wrapped: by which master key, and how it is stored."""

    master_id: str
    data: str


class MasterKeys:
    """The keys of *text*: the first wraps, and all of them unwrap, so that a key can be replaced.

    A key has an id that tells nothing of it, so that what is wrapped says which key it needs.

    Args:
        text: One or more keys of 32 bytes in base64, parted by blanks, commas or lines; a line that
            begins with ``#`` is left out.
        variable: The setting that it is from, for messages.

    Raises:
        SettingsError: It is none of that. The message never quotes it.
    """

    def __init__(self, text: str, *, variable: str) -> None:
        lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
        keys = [_decoded(word, variable) for word in " ".join(lines).replace(",", " ").split()]
        if not keys:
            msg = f"{variable} holds no key; make one with: threadkeep keys new"
            raise SettingsError(msg, variable=variable)
        self._ciphers = {key_id(key): AESGCM(derived(key, b"wrap")) for key in reversed(keys)}
        self._variable = variable
        self.current: str = key_id(keys[0])

    @property
    def ids(self) -> tuple[str, ...]:
        """Every key's id, the one that wraps first."""
        return tuple(reversed(self._ciphers))

    def wrap(self, plain: bytes, *, bound_to: str) -> Wrapped:
        """Return *plain* wrapped by the current key; *bound_to* has to be said again to unwrap it."""
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._ciphers[self.current].encrypt(nonce, plain, bound_to.encode("ascii"))
        return Wrapped(self.current, base64.b64encode(nonce + sealed).decode("ascii"))

    def unwrap(self, wrapped: Wrapped, *, bound_to: str) -> bytes:
        """Undo :meth:`wrap`.

        Raises:
            SealError: It was wrapped by a key that is not among these.
            DamagedItemError: It was changed, or is something else's.
        """
        cipher = self._ciphers.get(wrapped.master_id)
        if cipher is None:
            msg = (
                f"This was sealed with the master key {wrapped.master_id[:_ID_CHARACTERS]}, which is not among those "
                f"of {self._variable} ({', '.join(self.ids)}); add it, behind the present one."
            )
            raise SealError(msg, master_id=wrapped.master_id)
        try:
            data = base64.b64decode(wrapped.data, validate=True)
            return cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound_to.encode("ascii"))
        except (InvalidTag, ValueError) as error:
            msg = "A wrapped key is damaged, or was changed outside Threadkeep; restore the keys from their backup."
            raise DamagedItemError(msg) from error


def new_master_key() -> str:
    """Return a new master key as text."""
    return base64.b64encode(os.urandom(KEY_BYTES)).decode("ascii")


def key_id(key: bytes) -> str:
    """Return a short name of *key* that tells nothing of it."""
    return hmac.digest(key, b"threadkeep: id of a key", "sha256").hex()[:_ID_CHARACTERS]


def derived(key: bytes, purpose: bytes, length: int = KEY_BYTES) -> bytes:
    """Return a key for one *purpose*, of *length* bytes, derived from *key*, which is random."""
    return HKDFExpand(algorithm=SHA256(), length=length, info=b"threadkeep sealed 1: " + purpose).derive(key)


def _decoded(word: str, variable: str) -> bytes:
    try:
        key = base64.b64decode(word.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        msg = f"{variable} holds what is no key of {KEY_BYTES} bytes in base64; make one with: threadkeep keys new"
        raise SettingsError(msg, variable=variable)
    return key
