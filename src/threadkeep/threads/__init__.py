"""Threads: one conversation or job of one owner, and where its state is kept between runs.

A thread's state lives in checkpoints, written by LangGraph's own savers behind our
:class:`~threadkeep.threads.checkpointers.ThreadkeepCheckpointer`. A thread is *bound* to the first
owner who writes to it (:mod:`~threadkeep.threads.thread_ownership`); a *scoped* view sees one owner's threads
and cannot name another's (:mod:`~threadkeep.threads.thread_access`). The checkpoint file is opened, recognised
and its errors are translated by :mod:`~threadkeep.threads.sqlite`.
"""
