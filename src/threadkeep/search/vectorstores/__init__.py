"""Vector engines: where the vectors of partitions that are too large for RAM are searched.

Every engine is behind one port (``port.py``) and passes ``threadkeep.testing.vectors_contract``. An engine is written
by one hand only, the follower (``following.py``), from what the storage says has changed; a copy.
"""
