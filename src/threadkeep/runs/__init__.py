"""Runs: one execution of a graph on a thread; it can wait for answers, fail, be retried, cancelled and forked.

record: values · state: the state that a job's graph shares · service: what is kept of a run beside its checkpoints
"""
