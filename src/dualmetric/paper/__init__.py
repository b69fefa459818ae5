"""The paper's experiments: every table, figure and theorem, from stored results.

``cells`` says what there is to compute and keeps what has been computed; ``run`` computes what is
missing; ``tables``, ``figures`` and ``page`` show what is stored, and compute nothing.
"""
