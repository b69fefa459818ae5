"""The paper's experiments: every table, figure and theorem, from stored results.

``cells`` lists the results to compute and stores them. ``run`` computes the missing ones.
``tables``, ``figures`` and ``page`` show what is stored and compute nothing.
"""
