"""Arrays of every kind: the only package that knows which library or format an array has.

`namespace` tells where an array lives and brings it there and back, `ops` holds the dense
operations (array API), `sparse` the same for CSR matrices, `kernels` the compiled loops, `eigen`
decompositions, `ranking` neighbours and average precisions, `system` threads and memory.
"""
