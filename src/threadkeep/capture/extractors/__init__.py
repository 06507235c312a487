"""Extractors: what turns a turn into candidates. One Protocol, in ``port``; ``local`` needs no model."""
