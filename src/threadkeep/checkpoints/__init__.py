"""Checkpoints: LangGraph's saver over the storage interface, one partition for each thread, with leases and fencing.

saver: the public checkpointer · codec: checkpoints and writes as items · serializer: which types are kept ·
head: the state of a thread, and which writes it admits · thread_store: reads and commits of one thread ·
leases: the right to run on a thread · directory: the threads of an owner · maintenance: listing, pruning, copying
and measuring
"""
