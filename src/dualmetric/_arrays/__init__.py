"""Arrays of every kind: the only package that knows which library or format an array has.

`namespace` tells where an array lives and brings it there and back, `ops` holds the operations on
rows, dense (array API) or CSR, `sparse` SciPy matrices on a device, `kernels` the compiled loops,
`eigen` and `krylov` decompositions, `ranking` neighbours, `system` threads and memory.
"""
