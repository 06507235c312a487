"""Benchmarks: how well memory is recalled, and how fast, beside baselines and peers measured in the same run.

A door like any other: what is measured goes through the public surface of the library, so the figures are
what an application would see. *Datasets* are read from files that the user has (``locomo``) or are made
from a seed (``facts``, ``bench``); *methods* are what is compared; *metrics* are pure.
"""
