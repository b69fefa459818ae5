"""Rows in Dask collections: everything that knows Dask is here, and imports it only when used.

`rows` says what X and y are, `passes` holds the work that goes over all partitions once, `lazy`
what is computed later, `ranking` the work of evaluation. Each runs on whatever scheduler Dask has:
threads, processes, or the cluster of a ``distributed.Client``.
"""
