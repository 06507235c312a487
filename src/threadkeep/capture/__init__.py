"""Capture: learning from a turn after it is over.

A turn's new messages are committed, redacted, as a *turn record*: the outbox. A worker takes it, asks
the *extractor* for *candidates*, *reconciles* them with what is known, and commits the memories and the
record's end in one batch. Doors call :class:`~threadkeep.capture.service.CaptureService`; everything else here
but the extractors is pure.
"""
