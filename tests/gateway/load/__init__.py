"""Measure ``threadkeep serve`` beside a bare FastAPI application: ``python -m tests.gateway.load``."""
