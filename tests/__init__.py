"""Tests, and the support code they import as `tests.support...`.

A regular package on purpose: a stray top-level `tests` in site-packages would win over a namespace package.
"""
