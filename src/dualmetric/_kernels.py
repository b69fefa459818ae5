"""The compiled loops: plain functions over arrays.

Nothing else in the package imports Numba, and this module is imported only when something is
learned or scored. Every kernel has a slow NumPy twin in ``tests/`` that it must equal.

Rules kept here: no jitclass, no functions as arguments (they defeat the disk cache), losses chosen
by an integer code, fast-math limited to reassociation and contraction so that NaN stays NaN, and
no parallel region: callers split the work over threads (`_system.run_blocks`), each thread writing
to its own part of the output, so that results never depend on timing.
"""

import math

import numpy as np
from numba import njit


def _compile(function):
    options = {"nogil": True, "fastmath": {"reassoc", "contract"}}
    try:
        return njit(function, cache=True, **options)
    except RuntimeError:  # no folder to keep the cache in: compile in every process
        return njit(function, **options)


@_compile
def _logistic_dual(beta, margin, curvature):
    """Solve log((1−b)/b) = margin + (b − beta)·curvature for b ∈ (0, 1).

    With b = 1/(1+eᵗ) the equation is g(t) = margin + (b(t) − beta)·curvature − t = 0. g falls with
    a slope of at least one, so its root lies within |g| of any t: Newton's method, kept inside
    that bracket. Between two flat stretches of g it would go to and fro for ever: where a step has
    not halved |g|, the bracket is halved instead.
    """
    low = margin - beta * curvature
    high = margin + (1.0 - beta) * curvature
    t = min(max(math.log((1.0 - beta) / beta) if 0.0 < beta < 1.0 else 0.0, low), high)
    before = np.inf
    for _ in range(100):
        b = 1.0 / (1.0 + math.exp(t)) if t < 0.0 else math.exp(-t) / (1.0 + math.exp(-t))
        g = margin + (b - beta) * curvature - t
        if g > 0.0:
            low = t
        else:
            high = t
        step = t + g / (1.0 + curvature * b * (1.0 - b))
        if not low <= step <= high or abs(g) > 0.5 * before:
            step = 0.5 * (low + high)
        before = abs(g)
        if abs(step - t) <= 1e-14 * max(1.0, abs(t)):
            break
        t = step
    return b


@_compile
def _dual_value(beta, margin, curvature, logistic, smoothing, upper):
    """Best value of one dual variable (see `dualmetric.losses`).

    Every loss but the logistic has the dual β − smoothing·β²/2 on [0, upper].
    """
    if logistic:
        return _logistic_dual(beta, margin, curvature)
    bend = smoothing + curvature
    # bend = 0: A_t = 0 under the hinge, whose dual is then linear
    if bend <= 0.0:
        return upper
    return min(max(beta + (1.0 - margin - smoothing * beta) / bend, 0.0), upper)


@_compile
def dual_epoch(Z, triplets, beta, V, reg_n, reg_step, logistic, smoothing, upper):
    """One pass of dual coordinate ascent; updates ``beta`` and ``V`` = Σ β_t A_t in place.

    ``reg_n + s·reg_step`` is the λN of step s = 0, 1, …: λN and 0 for SDCA; λ and λ for the first
    epoch of CSDCA, in which the s-th example is treated as if the problem had s examples.
    """
    m = Z.shape[1]
    half = Z.dtype.type(0.5)
    zero = Z.dtype.type(0)
    u = np.empty(m, Z.dtype)
    v = np.empty(m, Z.dtype)
    A2 = np.empty(m * m, Z.dtype)  # 2·A_t, flat: its long loops are what the compiler vectorises
    flat = V.ravel()
    for s in range(triplets.shape[0]):
        i = triplets[s, 0]
        j = triplets[s, 1]
        k = triplets[s, 2]
        for a in range(m):
            zi = Z[i, a]
            u[a] = Z[j, a] - Z[k, a]
            v[a] = zi - Z[j, a] + (zi - Z[k, a])
        # a loop of its own: one that also stored would be compiled twice, and which version runs,
        # and so in which order it adds, would depend on where the arrays lie in memory
        uu = zero
        vv = zero
        uv = zero
        for a in range(m):
            uu += u[a] * u[a]
            vv += v[a] * v[a]
            uv += u[a] * v[a]
        for a in range(m):
            ua = u[a]
            va = v[a]
            for b in range(m):
                A2[a * m + b] = ua * v[b] + va * u[b]
        product = zero
        for c in range(m * m):
            product += A2[c] * flat[c]
        lam = reg_n + s * reg_step
        margin = 0.5 * np.float64(product) / lam
        curvature = 0.5 * (np.float64(uu) * vv + np.float64(uv) * uv) / lam
        old = beta[s]
        beta[s] = _dual_value(np.float64(old), margin, curvature, logistic, smoothing, upper)
        delta = beta[s] - old
        if delta != zero:
            h = half * delta
            for c in range(m * m):
                flat[c] += h * A2[c]


@_compile
def dual_block(products, G, beta, delta, reg_n, reg_step, logistic, smoothing, upper):
    """The same steps for one block of triplets, given ⟨V, A_t⟩ at its start and G = ⟨A_s, A_t⟩.

    Fills ``delta`` with the change of each dual variable; V is the caller's to update.
    """
    for t in range(beta.shape[0]):
        product = np.float64(products[t])
        for s in range(t):
            product += np.float64(delta[s]) * G[t, s]
        lam = reg_n + t * reg_step
        old = beta[t]
        beta[t] = _dual_value(
            np.float64(old), product / lam, G[t, t] / lam, logistic, smoothing, upper
        )
        delta[t] = beta[t] - old


@_compile
def pair_graph_dot(triplets, beta, Y, start, stop, out):
    """Add C·Y to ``out`` in columns start to stop.

    C is the pair graph: Σ β_t A_t = XᵀCX. A triplet (i, j, k) adds β(y_j − y_k) to row i,
    β(y_i − y_j) to row j and β(y_k − y_i) to row k.
    """
    for t in range(triplets.shape[0]):
        b = beta[t]
        if b != 0:
            i = triplets[t, 0]
            j = triplets[t, 1]
            k = triplets[t, 2]
            for c in range(start, stop):
                yi = Y[i, c]
                yj = Y[j, c]
                yk = Y[k, c]
                out[i, c] += b * (yj - yk)
                out[j, c] += b * (yi - yj)
                out[k, c] += b * (yk - yi)


@_compile
def csr_dot(data, indices, indptr, B, start, stop, out):
    """Rows start to stop of the product of a CSR matrix and a dense one."""
    for r in range(start, stop):
        row = out[r]
        row[:] = 0
        for p in range(indptr[r], indptr[r + 1]):
            value = data[p]
            other = B[indices[p]]
            for c in range(row.shape[0]):
                row[c] += value * other[c]


@_compile
def margins(Z, W, triplets, start, stop, out):
    """⟨M, A_t⟩ = (z_j − z_k)ᵀM(2z_i − z_j − z_k) for t in start to stop, given W = ZM."""
    m = Z.shape[1]
    for t in range(start, stop):
        i = triplets[t, 0]
        j = triplets[t, 1]
        k = triplets[t, 2]
        total = Z.dtype.type(0)
        for a in range(m):
            total += (Z[j, a] - Z[k, a]) * (W[i, a] - W[j, a] + (W[i, a] - W[k, a]))
        out[t] = total


@_compile
def sq_distances_dense(X, left, right, start, stop, out):
    """‖x_left − x_right‖² for pairs of rows start to stop."""
    d = X.shape[1]
    for p in range(start, stop):
        i = left[p]
        j = right[p]
        total = X.dtype.type(0)
        for a in range(d):
            diff = X[i, a] - X[j, a]
            total += diff * diff
        out[p] = total


@_compile
def sq_distances_csr(data, indices, indptr, left, right, start, stop, out):
    """The same for CSR rows with sorted indices, by merging the two rows."""
    for p in range(start, stop):
        a = indptr[left[p]]
        a_end = indptr[left[p] + 1]
        b = indptr[right[p]]
        b_end = indptr[right[p] + 1]
        total = data.dtype.type(0)
        while a < a_end and b < b_end:
            if indices[a] == indices[b]:
                diff = data[a] - data[b]
                a += 1
                b += 1
            elif indices[a] < indices[b]:
                diff = data[a]
                a += 1
            else:
                diff = data[b]
                b += 1
            total += diff * diff
        while a < a_end:
            total += data[a] * data[a]
            a += 1
        while b < b_end:
            total += data[b] * data[b]
            b += 1
        out[p] = total


@_compile
def sq_distances_csr_to_all(data, indices, indptr, columns, queries, norms, out):
    """‖x_q − x_c‖² for each q of ``queries`` and every row c, given the squared norms.

    ``columns`` are the data, indices and indptr of the same matrix by columns: the rows that share
    a feature with the query lie together there, and are added to where they belong.
    """
    values, rows, starts = columns
    for r in range(queries.shape[0]):
        query = queries[r]
        row = out[r]
        row[:] = 0
        for p in range(indptr[query], indptr[query + 1]):
            value = data[p]
            feature = indices[p]
            for c in range(starts[feature], starts[feature + 1]):
                row[rows[c]] += value * values[c]
        for c in range(row.shape[0]):
            row[c] = norms[query] + norms[c] - 2.0 * row[c]


@_compile
def _insert(best, ids, value, number):
    """Put ``value`` in its place among the ascending ``best``, dropping the last of them."""
    place = best.shape[0] - 1
    while place > 0 and best[place - 1] > value:
        best[place] = best[place - 1]
        ids[place] = ids[place - 1]
        place -= 1
    best[place] = value
    ids[place] = number


@_compile
def class_neighbors(distances, labels, first, start, stop, same, other):
    """Nearest rows of the row's own class and of other classes, nearest first.

    ``distances`` is a block: its row r belongs to row first + r of the data. Rows first + start to
    first + stop of ``same`` and ``other`` are filled; places that cannot be filled stay as found.
    """
    best_same = np.empty(same.shape[1], distances.dtype)
    best_other = np.empty(other.shape[1], distances.dtype)
    for r in range(start, stop):
        row = first + r
        label = labels[row]
        best_same[:] = np.inf
        best_other[:] = np.inf
        worst_same = best_same[-1]
        worst_other = best_other[-1]
        for c in range(distances.shape[1]):
            value = distances[r, c]
            if value < max(worst_same, worst_other) and c != row:
                if labels[c] == label:
                    if value < worst_same:
                        _insert(best_same, same[row], value, c)
                        worst_same = best_same[-1]
                elif value < worst_other:
                    _insert(best_other, other[row], value, c)
                    worst_other = best_other[-1]


@_compile
def right_neighbors(distances, labels, query_labels, skip, k, out):
    """Share of the k nearest columns that have the label of the row; column skip[r] is left out."""
    best = np.empty(k, distances.dtype)
    nearest = np.zeros(k, np.int64)
    for r in range(distances.shape[0]):
        best[:] = np.inf
        worst = best[-1]
        for c in range(distances.shape[1]):
            value = distances[r, c]
            if value < worst and c != skip[r]:
                _insert(best, nearest, value, c)
                worst = best[-1]
        right = 0
        for place in range(k):
            right += labels[nearest[place]] == query_labels[r]
        out[r] = right / k


@_compile
def ranking_keys(bits, queries, labels, origin, copies):
    """Turn the distances of a block, in place, into integers that sort as the ranking does.

    ``bits`` is the int64 view of a float64 block (queries × rows). The bits of floats that are not
    negative order as the floats do and leave the sign bit free: a key is the distance shifted left
    by one, with a last bit that is set for rows of the query's class. Read as uint64, keys sort by
    distance, and within one distance the query's class comes last. The query itself becomes the
    largest key. ``origin[c]`` is the first row equal to row c and ``copies`` are the c that have
    one before them: they are given its distance, for BLAS does not promise equal rows equal bits.
    """
    for r in range(bits.shape[0]):
        query = queries[r]
        label = labels[query]
        row = bits[r]
        row[origin[query]] = 0
        for c in copies:
            row[c] = row[origin[c]]
        for c in range(row.shape[0]):
            # a sign bit is a distance that rounding took below zero, or −0
            row[c] = (max(row[c], 0) << 1) | (labels[c] == label)
        row[query] = -2


@_compile
def ranked_precisions(keys):
    """Average precision of each row of sorted keys (see `ranking_keys`).

    Relevant rows at one distance follow every other row at that distance, so only the last of
    them sees all that are as near: going backwards, its precision is that of the others too.
    """
    n = keys.shape[1]  # with the query, whose key is the last and not relevant
    ranks = np.empty(n, np.int64)
    out = np.empty(keys.shape[0])
    for r in range(keys.shape[0]):
        row = keys[r]
        relevant = 0
        for c in range(n):  # no branch: whether a row is relevant cannot be predicted
            ranks[relevant] = c + 1
            relevant += row[c] & 1
        total = 0.0
        precision = 0.0
        above = -1  # the key of no distance, only of NaN
        for p in range(relevant - 1, -1, -1):
            key = row[ranks[p] - 1]
            if key != above:
                precision = (p + 1) / ranks[p]
                above = key
            total += precision
        out[r] = total / relevant
    return out


@_compile
def passive_aggressive_block(similarities, G, aggressiveness, steps):
    """OASIS's steps for one block of triplets; fills ``steps`` with each τ.

    ``similarities`` holds p_tᵀW(q_t − r_t) at the start of the block and G the inner products of
    the updates, ⟨V_s, V_t⟩ = (p_s·p_t)(q_s − r_s)·(q_t − r_t).
    """
    for t in range(steps.shape[0]):
        value = np.float64(similarities[t])
        for s in range(t):
            value += steps[s] * G[t, s]
        loss = 1.0 - value
        if loss > 0.0 and G[t, t] > 0.0:
            steps[t] = min(aggressiveness, loss / G[t, t])
        else:
            steps[t] = 0.0


@_compile
def impostor_weights(distances, labels, thresholds, first, start, stop, counts, losses):
    """LMNN's push term for a block of rows, start to stop; ``distances`` become weights.

    Row r of the block is row first + r of the data, with ascending ``thresholds`` of one plus the
    squared distance of its target neighbours j. A row of another class at distance D adds
    Σ_j max(0, t_j − D) to ``losses`` and one to ``counts[j]`` for each t_j above D; their number
    is left in its place.
    """
    k = thresholds.shape[1]
    for r in range(start, stop):
        row = first + r
        label = labels[row]
        largest = thresholds[row, k - 1]
        total = 0.0
        for c in range(distances.shape[1]):
            value = distances[r, c]
            if value < largest and labels[c] != label:
                active = 0
                for j in range(k - 1, -1, -1):
                    slack = thresholds[row, j] - value
                    if slack <= 0.0:
                        break
                    total += slack
                    counts[row, j] += 1
                    active += 1
                distances[r, c] = active
            else:
                distances[r, c] = 0.0
        losses[row] = total
