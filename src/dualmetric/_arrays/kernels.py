"""The compiled loops: plain functions over arrays.

Nothing else in the package imports Numba, and this module is imported only when something is
learned or scored. Every kernel has a slow NumPy twin in ``tests/`` that it must equal.

Rules kept here: no jitclass, no functions as arguments (they defeat the disk cache), fast-math
limited to reassociation and contraction so that NaN stays NaN, and no parallel region: callers
split the work over threads (`system.run_blocks`), and each thread writes to its own part of the
output, so that results never depend on timing.

A comparison is a row (a, b, c, d) of ``index``: "a and b are closer than c and d". See `ops`.
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
    a slope of at least one, so its root lies within |g| of any t. The root is found by Newton's
    method, kept inside that bracket. Between two flat stretches of g Newton's method could
    alternate forever, so if a step has not halved |g|, the bracket is halved instead.
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
    """Best value of one dual variable: the steps that `dualmetric.losses` gives."""
    if logistic:
        return _logistic_dual(beta, margin, curvature)
    bend = smoothing + curvature
    # bend = 0: A_t = 0 under the hinge, whose dual is then linear with slope 1 − margin
    if bend <= 0.0:
        return upper if margin < 1.0 else 0.0
    return min(max(beta + (1.0 - margin - smoothing * beta) / bend, 0.0), upper)


@_compile
def _weighted_step(beta, margin, curvature, weight, logistic, smoothing, upper):
    """Best dual variable of the loss weight·ℓ: weight times that of ℓ, for weight·curvature."""
    scaled = np.float64(beta) / weight
    return weight * _dual_value(scaled, margin, weight * curvature, logistic, smoothing, upper)


@_compile
def dual_epoch(Z, index, shift, weight, beta, V, reg_n, reg_step, logistic, smoothing, upper):
    """One pass of dual coordinate ascent; updates ``beta`` and ``V`` = Σ β_t A_t in place.

    ``shift`` is added to each margin: one minus the target. ``reg_n + s·reg_step`` is the λN of
    step s = 0, 1, …: λN and 0 for SDCA; λ and λ for the first epoch of CSDCA, in which the s-th
    comparison is treated as if the problem had s comparisons.
    """
    m = Z.shape[1]
    half = Z.dtype.type(0.5)
    zero = Z.dtype.type(0)
    u = np.empty(m, Z.dtype)
    v = np.empty(m, Z.dtype)
    A2 = np.empty(m * m, Z.dtype)  # 2·A_t, flat: its long loops are what the compiler vectorises
    flat = V.ravel()
    for s in range(index.shape[0]):
        a, b, c, d = index[s, 0], index[s, 1], index[s, 2], index[s, 3]
        for e in range(m):
            u[e] = Z[b, e] - Z[d, e]
            v[e] = (Z[a, e] - Z[b, e]) + (Z[c, e] - Z[d, e])
        if a != c:  # of a triplet, the anchor cancels exactly
            for e in range(m):
                u[e] += Z[c, e] - Z[a, e]
        # a loop of its own: one that also stored would be compiled twice, and which version runs,
        # and so in which order it adds, would depend on where the arrays lie in memory
        uu = vv = uv = zero
        for e in range(m):
            uu += u[e] * u[e]
            vv += v[e] * v[e]
            uv += u[e] * v[e]
        for e in range(m):
            ue = u[e]
            ve = v[e]
            for f in range(m):
                A2[e * m + f] = ue * v[f] + ve * u[f]
        product = zero
        for e in range(m * m):
            product += A2[e] * flat[e]
        lam = reg_n + s * reg_step
        margin = 0.5 * np.float64(product) / lam + shift[s]
        curvature = 0.5 * (np.float64(uu) * vv + np.float64(uv) * uv) / lam
        old = beta[s]
        beta[s] = _weighted_step(old, margin, curvature, weight[s], logistic, smoothing, upper)
        delta = beta[s] - old
        if delta != zero:
            h = half * delta
            for e in range(m * m):
                flat[e] += h * A2[e]


@_compile
def dual_block(
    products, G, shift, weight, beta, delta, reg_n, reg_step, logistic, smoothing, upper
):
    """The same steps for one block of comparisons, given ⟨V, A_t⟩ at its start and G = ⟨A_s, A_t⟩.

    Fills ``delta`` with the change of each dual variable; the caller updates V.
    """
    for t in range(beta.shape[0]):
        product = np.float64(products[t])
        for s in range(t):
            product += np.float64(delta[s]) * G[t, s]
        lam = reg_n + t * reg_step
        old = beta[t]
        beta[t] = _weighted_step(
            old, product / lam + shift[t], G[t, t] / lam, weight[t], logistic, smoothing, upper
        )
        delta[t] = beta[t] - old


@_compile
def dual_gram(G, products, shift, weight, beta, order, reg_n, logistic, smoothing, upper):
    """The same steps for all comparisons in the given order; keeps ``products`` = Gβ up to date.

    A step that changes nothing costs nothing: cheap where few dual variables still move.
    """
    for t in order:
        old = beta[t]
        beta[t] = _weighted_step(
            old, products[t] / reg_n + shift[t], G[t, t] / reg_n, weight[t],
            logistic, smoothing, upper,
        )  # fmt: skip
        delta = beta[t] - old
        if delta != 0.0:
            for s in range(beta.shape[0]):
                products[s] += delta * G[t, s]


@_compile
def graph_dot(index, beta, Y, start, stop, out):
    """Add C·Y to ``out`` in columns start to stop, with C as in `ops.comparison_graph`."""
    for t in range(index.shape[0]):
        weight = beta[t]
        if weight != 0:
            a, b, c, d = index[t, 0], index[t, 1], index[t, 2], index[t, 3]
            if a == c:  # a triplet: three rows change, and no digits cancel in the anchor's
                for e in range(start, stop):
                    ya = Y[a, e]
                    yb = Y[b, e]
                    yd = Y[d, e]
                    out[a, e] += weight * (yb - yd)
                    out[b, e] += weight * (ya - yb)
                    out[d, e] += weight * (yd - ya)
            else:
                for e in range(start, stop):
                    near = weight * (Y[a, e] - Y[b, e])
                    far = weight * (Y[c, e] - Y[d, e])
                    out[a, e] -= near
                    out[b, e] += near
                    out[c, e] += far
                    out[d, e] -= far


@_compile
def rows_of_triplets(anchor, near, far, label, size, first, order, place, out):
    """Fill ``out`` with triplets of row numbers, given their anchors.

    ``order`` holds the rows sorted by class, and ``place`` their places there; the rows of class c
    start at ``first[c]``. ``near``, from 0 to below 1, is the place of the positive among the rows
    of the anchor's class without the anchor, divided by their number, and ``far`` that of the
    negative among the rows of other classes.
    """
    n = label.shape[0]
    for t in range(anchor.shape[0]):
        i = anchor[t]
        n_same = size[label[i]]
        begin = first[label[i]]
        positive = begin + np.int64(near[t] * (n_same - 1))
        negative = np.int64(far[t] * (n - n_same))
        if positive >= place[i]:
            positive += 1
        if negative >= begin:
            negative += n_same
        out[t, 0] = i
        out[t, 1] = order[positive]
        out[t, 2] = order[negative]


@_compile
def row_dots(Z, columns, start, stop, out):
    """Products of rows start to stop with each of a few vectors: one pass over the rows."""
    d = Z.shape[1]
    for r in range(start, stop):
        for c in range(columns.shape[0]):
            total = Z.dtype.type(0)
            for e in range(d):
                total += Z[r, e] * columns[c, e]
            out[r, c] = total


@_compile
def dots_by_parts(A, B, size, start, stop, out):
    """Inner products of the columns of A and B, added up for ``size`` rows at a time."""
    for part in range(start, stop):
        row = out[part]
        for r in range(part * size, min((part + 1) * size, A.shape[0])):
            for c in range(A.shape[1]):
                row[c] += np.float64(A[r, c]) * np.float64(B[r, c])


@_compile
def combine(A, a, B, b, start, stop):
    """Rows start to stop of A become A·a + B·b, column by column."""
    for r in range(start, stop):
        for c in range(A.shape[1]):
            A[r, c] = a[c] * A[r, c] + b[c] * B[r, c]


@_compile
def csr_dot(data, indices, indptr, B, start, stop, out):
    """Rows start to stop of the product of a CSR matrix and a dense one.

    Four entries at once: ``row`` is then read and written a quarter as often.
    """
    for r in range(start, stop):
        row = out[r]
        row[:] = 0
        p, end = indptr[r], indptr[r + 1]
        while p + 4 <= end:
            v0, v1, v2, v3 = data[p], data[p + 1], data[p + 2], data[p + 3]
            b0, b1, b2, b3 = (
                B[indices[p]], B[indices[p + 1]], B[indices[p + 2]], B[indices[p + 3]]
            )  # fmt: skip
            for c in range(row.shape[0]):
                row[c] += (v0 * b0[c] + v1 * b1[c]) + (v2 * b2[c] + v3 * b3[c])
            p += 4
        while p < end:
            value = data[p]
            other = B[indices[p]]
            for c in range(row.shape[0]):
                row[c] += value * other[c]
            p += 1


@_compile
def margins(Z, W, index, start, stop, out):
    """uᵀMv for comparisons or triplets start to stop, given W = ZM: see `ops.margins`."""
    m = Z.shape[1]
    third, fourth = (2, 3) if index.shape[1] == 4 else (0, 2)
    for t in range(start, stop):
        a, b, c, d = index[t, 0], index[t, 1], index[t, third], index[t, fourth]
        total = Z.dtype.type(0)
        if a == c:
            for e in range(m):
                total += (Z[b, e] - Z[d, e]) * ((W[a, e] - W[b, e]) + (W[a, e] - W[d, e]))
        else:
            for e in range(m):
                u = (Z[c, e] - Z[a, e]) + (Z[b, e] - Z[d, e])
                total += u * ((W[a, e] - W[b, e]) + (W[c, e] - W[d, e]))
        out[t] = total


@_compile
def margins_to(Z, index, places, start, stop, out):
    """‖z_i − z_k‖² − ‖z_i − z_j‖² of triplets (i, j, k) start to stop, each to its place."""
    d = Z.shape[1]
    for t in range(start, stop):
        i, j, k = index[t, 0], index[t, 1], index[t, 2]
        total = Z.dtype.type(0)
        for e in range(d):
            total += (Z[j, e] - Z[k, e]) * ((Z[i, e] - Z[j, e]) + (Z[i, e] - Z[k, e]))
        out[places[t]] = total


@_compile
def sort_by_parts(index, part, n_parts, ends, ordered, places):
    """Sort triplets by the part of the anchor, and then by that of the negative, by counting.

    ``part`` is that of each row, and ``ends`` holds a zero for each pair of parts. Fills
    ``ordered`` with the triplets, and ``places`` with their places in ``index``.
    """
    for t in range(index.shape[0]):
        ends[part[index[t, 0]] * n_parts + part[index[t, 2]]] += 1
    total = 0
    for pair in range(ends.shape[0]):
        total += ends[pair]
        ends[pair] = total
    for t in range(index.shape[0] - 1, -1, -1):
        pair = part[index[t, 0]] * n_parts + part[index[t, 2]]
        ends[pair] -= 1
        place = ends[pair]
        ordered[place, 0] = index[t, 0]
        ordered[place, 1] = index[t, 1]
        ordered[place, 2] = index[t, 2]
        places[place] = t


@_compile
def sq_distances_dense(X, left, right, start, stop, out):
    """‖x_left − x_right‖² for pairs of rows start to stop."""
    d = X.shape[1]
    for p in range(start, stop):
        i, j = left[p], right[p]
        total = X.dtype.type(0)
        for a in range(d):
            diff = X[i, a] - X[j, a]
            total += diff * diff
        out[p] = total


@_compile
def _merged_distance(data, indices, a, a_end, b, b_end):
    """‖x − y‖² of two CSR rows, from the differences of all entries."""
    total = 0.0
    while a < a_end and b < b_end:
        if indices[a] == indices[b]:
            diff = np.float64(data[a]) - np.float64(data[b])
            a += 1
            b += 1
        elif indices[a] < indices[b]:
            diff = np.float64(data[a])
            a += 1
        else:
            diff = np.float64(data[b])
            b += 1
        total += diff * diff
    while a < a_end:
        total += np.float64(data[a]) ** 2
        a += 1
    while b < b_end:
        total += np.float64(data[b]) ** 2
        b += 1
    return total


@_compile
def sq_distances_csr(data, indices, indptr, n_features, left, right, start, stop, out):
    """The same for CSR rows with sorted indices.

    Merging two rows is slow, because no processor can predict its branches. So the left row is
    written out, and stays for the pairs after it that have the same; what it has alone is ‖x‖²
    minus the squares of what both rows have. Rows are merged where little is left of that
    difference, which would be rounding, and where the row would be too long for the few pairs.
    """
    written = n_features <= 64 * left.shape[0]
    row = np.zeros(n_features if written else 0)
    held = -1
    square = 0.0
    for p in range(start, stop):
        i, j = left[p], right[p]
        alone = 0.0
        if written:
            if i != held:
                if held >= 0:
                    for e in range(indptr[held], indptr[held + 1]):
                        row[indices[e]] = 0.0
                square = 0.0
                for e in range(indptr[i], indptr[i + 1]):
                    value = np.float64(data[e])
                    row[indices[e]] = value
                    square += value * value
                held = i
            total = 0.0
            shared = 0.0
            for e in range(indptr[j], indptr[j + 1]):
                other = row[indices[e]]
                diff = np.float64(data[e]) - other
                total += diff * diff
                shared += other * other
            alone = square - shared
        if alone > 1e-3 * square:
            out[p] = total + alone
        else:
            out[p] = _merged_distance(
                data, indices, indptr[i], indptr[i + 1], indptr[j], indptr[j + 1]
            )


@_compile
def sq_distances_csr_to_all(data, indices, indptr, columns, queries, own, norms, out):
    """‖x_q − y_c‖² for each q of ``queries`` and every row y_c, given the squared norms.

    ``columns`` are the data, indices and indptr of the rows y_c in CSC form, in which those that
    share a feature with the query are stored together. ``own`` and ``norms`` are the squared norms
    of all x and of all y.
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
            row[c] = own[query] + norms[c] - 2.0 * row[c]


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
        worst_same = worst_other = best_same[-1]
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
        for c in range(distances.shape[1]):
            value = distances[r, c]
            if value < best[-1] and c != skip[r]:
                _insert(best, nearest, value, c)
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
    one before them: they are given its distance, because BLAS does not guarantee the same result
    for equal rows.
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

    Relevant rows at one distance follow all other rows at that distance, so only the last of them
    counts all rows that are as near. The loop goes backwards and uses its precision for the others.
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
        total = precision = 0.0
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
def passive_aggressive_block(similarities, G, margins, limits, steps):
    """OASIS's steps for one block of comparisons; fills ``steps`` with each τ.

    ``similarities`` holds ⟨W, V_t⟩ at the start of the block and G the inner products of the
    updates, ⟨V_s, V_t⟩. ``limits`` are the longest steps.
    """
    for t in range(steps.shape[0]):
        value = np.float64(similarities[t])
        for s in range(t):
            value += steps[s] * G[t, s]
        loss = margins[t] - value
        if loss > 0.0 and G[t, t] > 0.0:
            steps[t] = min(limits[t], loss / G[t, t])
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
