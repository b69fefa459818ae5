"""Arrays of all kinds. Only this package knows the library or format of an array.

`namespace` finds the library and the device of an array and converts arrays. `ops` has operations
on rows, dense (array API) or CSR, and `sparse` has SciPy matrices on a device. `kernels` has the
compiled loops, `eigen` and `krylov` have decompositions, `ranking` has neighbours, and `system` is
about threads and memory.
"""
