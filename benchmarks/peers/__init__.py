"""dualmetric beside what people would use instead: quality, time and memory.

    python -m benchmarks.peers run [--quick]     # run what has not been run yet
    python -m benchmarks.peers report            # tables and figure from the stored results
    python -m benchmarks.peers install           # the peers that need environments of their own

The shape is that of benchopt's benchmarks: ``datasets``, ``objectives`` and ``solvers`` are folders
of short files. A solver only learns from rows and labels and returns a transformation of rows; it
does so in a fresh process (``worker``), whose time and memory are recorded, and which may belong to
another Python environment. The runner scores the transformed rows, the same way for every solver,
and appends one line of JSON a run to ``benchmarks/results/peers.jsonl``.

benchopt itself draws curves of an objective over iterations of solvers in one environment; here a
run is one fit, with its peak memory, and some peers need packages that exclude each other's.
"""
