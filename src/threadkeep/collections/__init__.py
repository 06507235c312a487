"""Collections: documents that a tenant shares, in parts that are found like memories are.

A collection is a partition of its own. What it holds is somebody's document and nobody's word: nothing of it is
learnt, and it is never an owner's memory.
"""
