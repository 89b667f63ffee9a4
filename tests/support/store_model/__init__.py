"""A model test of the store: random operations on it and on plain dictionaries, and every reader asked for the same.

`operations` makes the steps from a seed, `oracle` is the truth, `readers` compare, `driver` runs and shrinks.
"""
