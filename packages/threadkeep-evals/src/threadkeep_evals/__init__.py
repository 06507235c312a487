"""Benchmarks: how well memory is recalled, and how fast, beside baselines and peers measured in the same run.

The figures are what an application sees: the benchmarks use the public API of the library. *Data sets* are read from
files of the user (``locomo``) or are generated from a seed (``facts``, ``bench``). *Methods* are what is compared.
*Metrics* are pure functions.
"""
