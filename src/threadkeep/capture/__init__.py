"""Capture: learning from a turn after it is over.

A turn's new messages are committed, redacted, as a *turn record*: the outbox. A worker takes it, asks
the *extractor* for *candidates*, *reconciles* them with what is known, and commits the memories and the
record's end in one batch. Callers use :class:`~threadkeep.capture.service.CaptureService`. ``reconcile`` and
``provenance`` are pure rules.
"""
