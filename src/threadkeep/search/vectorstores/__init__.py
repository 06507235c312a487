"""Vector engines: where the vectors of partitions that are too large for RAM are searched.

Every engine implements the interface in ``base`` and passes ``threadkeep.testing.vectors_contract``. An engine is a
copy: only the ``Replicator`` in ``base`` writes to it, from the changes of the storage.
"""
