"""What the keys of a Redis storage are called, and which of them share a hash slot. Pure rules.

Every key begins with ``threadkeep:<prefix>:``, the deployment's key prefix percent-encoded. A partition
belongs to one of 256 groups, by the first byte of its digest, and the group is the hash tag of all its
keys: ``threadkeep::{4f}:heads``, ``threadkeep::{4f}:<digest>:items``. So a commit touches one hash slot, the
indexes across partitions that it keeps among them, and a cluster spreads the groups over its nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote

from threadkeep.storage.port import Partition

GROUPS: Final = tuple(f"{number:02x}" for number in range(256))


class PartitionKeys(NamedTuple):
    """The keys of one partition, in the order in which the scripts that write it take them."""

    heads: str
    partitions: str
    namespaces: str
    due: str
    expiring: str
    items: str
    order: str
    searchable: str
    removed: str


class Keys:
    """The keys of the deployment with *key_prefix*."""

    def __init__(self, key_prefix: str) -> None:
        self.beginning: str = f"threadkeep:{quote(key_prefix, safe='', errors='surrogatepass')}:"

    @property
    def storage(self) -> str:
        """The hash that says which version wrote here, and the epoch of partitions that were never erased."""
        return f"{self.beginning}storage"

    def of(self, digest: str) -> PartitionKeys:
        """Return the keys of the partition with the hexadecimal *digest*."""
        return _keys_of(self.beginning, digest)

    def of_groups(self, *kinds: str, groups: Sequence[str] = GROUPS) -> list[str]:
        """Return the keys of these *kinds* of each group, group by group."""
        return [f"{self.beginning}{{{group}}}:{kind}" for group in groups for kind in kinds]


def digest_of(partition: Partition) -> str:
    """Return the digest of *partition*: 64 hexadecimal characters."""
    return partition.digest.hex()


@lru_cache(maxsize=4096)
def _keys_of(beginning: str, digest: str) -> PartitionKeys:
    group = f"{beginning}{{{digest[:2]}}}:"
    own = f"{group}{digest}:"
    return PartitionKeys(
        heads=f"{group}heads",
        partitions=f"{group}partitions",
        namespaces=f"{group}namespaces",
        due=f"{group}due",
        expiring=f"{group}expiring",
        items=f"{own}items",
        order=f"{own}order",
        searchable=f"{own}searchable",
        removed=f"{own}removed",
    )
