"""Hostile input and faults: generators, what must come of them, and campaigns of any length.

A case is drawn from a ``random.Random``: of a seed in a campaign, of Hypothesis in the tests.
"""
