"""Data of the explorer and the maps: a sample of queries, their nearest rows, and why."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import spaces
from .._arrays import ops
from .._arrays.system import single_blas_thread
from .._explain import split
from .._types import Array, Matrix
from ..metric import Metric
from . import _pictures
from ._material import Material, clean

N_QUERIES = 300
N_ON_MAP = 3000
MAP_SIZE = 1000  # places on a map are whole numbers from 0 to this
_BYTES_OF_ROWS = 1_500_000  # of texts, or of pixels, so that a page stays under 5 MB
_SNIPPET = 240  # characters
_PARTS = {"before": 4, "after": 6}  # features that an explanation names
_PICTURE_SIDE = 32
_HEAT_SIDE = 16


def explorer_data(
    material: Material,
    name_of: Callable[[int], str],
    texts: Sequence[str] | None,
    image_shape: tuple[int, int, int] | None,
) -> dict[str, Any]:
    """Build the data for the script of the page; ``explorer.js`` describes each entry."""
    snippets = None if texts is None else _snippets(texts, material.n_rows)
    sizes = None if snippets is None else np.array([len(text.encode()) for text in snippets])
    if image_shape is not None:
        height, width = (min(side, _PICTURE_SIDE) for side in image_shape[:2])
        sizes = np.full(material.n_rows, height * width * image_shape[2])
    queries = _choose_queries(material, sizes)
    shown = _found_by(queries, material)
    on_map = _sample_for_map(queries, material.n_rows)
    # rows are named by their place here: those with texts or pictures come first
    rows = np.concatenate([shown, np.setdiff1d(on_map, shown)])
    place = np.full(material.n_rows, -1)
    place[rows] = np.arange(len(rows))
    plain = material.rows if material.before == "euclidean" else ops.unit_rows(material.rows)
    before, after = map_places(plain, material.after_rows)
    scores = dict(zip(("before", "after"), material.both, strict=True))
    data: dict[str, Any] = {
        "classes": material.class_names,
        "rows": rows.tolist(),
        "labels": material.codes[rows].tolist(),
        "map": {"before": before[rows].ravel().tolist(), "after": after[rows].ravel().tolist()},
        "onMap": place[on_map].tolist(),
        "texts": None if snippets is None else [snippets[row] for row in shown],
        "pictures": None
        if image_shape is None
        else _sheet_of_rows(ops.take_rows(material.rows, shown), image_shape),
        "queries": [
            {
                "row": int(place[query]),
                "precision": [_short(s.average_precision[query]) for s in scores.values()],
                **{when: place[s.neighbors[query]].tolist() for when, s in scores.items()},
            }
            for query in queries
        ],
    }
    with single_blas_thread():  # threads would slow down hundreds of small products
        return data | _explained(material, queries, place, name_of, image_shape)


def _choose_queries(material: Material, sizes: Array | None) -> Array:
    """Choose rows that share their class, evenly over classes, until the page is full."""
    score = material.scores["learned"].average_precision
    order = np.random.default_rng(0).permutation(np.flatnonzero(~np.isnan(score)))
    turn = np.empty(len(order), dtype=np.int64)  # place of a row among those of its class
    for code in range(len(material.class_names)):
        members = material.codes[order] == code
        turn[members] = np.arange(members.sum())
    order = order[np.argsort(turn, kind="stable")][:N_QUERIES]
    if sizes is None:
        return np.sort(order)
    left = sizes.copy()  # bytes of the rows that are not on the page yet
    used = np.empty(len(order))
    for number, query in enumerate(order):
        new = _found_by([query], material)
        used[number] = left[new].sum()
        left[new] = 0
    fits = int(np.searchsorted(np.cumsum(used), _BYTES_OF_ROWS, side="right"))
    return np.sort(order[: max(1, fits)])


def _found_by(queries: Any, material: Material) -> Array:
    """The queries and all their neighbours."""
    found = [scores.neighbors[queries].ravel() for scores in material.both]
    return np.unique(np.concatenate([queries, *found]))


def _sample_for_map(queries: Array, n_rows: int) -> Array:
    """The queries and other rows, drawn at random."""
    others = np.setdiff1d(np.arange(n_rows), queries)
    rng = np.random.default_rng(0)
    drawn = rng.choice(others, size=min(len(others), N_ON_MAP - len(queries)), replace=False)
    return np.sort(np.concatenate([queries, drawn]))


def _snippets(texts: Sequence[str], n_rows: int) -> list[str]:
    """The beginning of each text, on one line."""
    if isinstance(texts, str) or len(texts) != n_rows:
        raise ValueError(f"{len(texts)} texts were given for {n_rows} rows: give one text per row")
    result = []
    for text in texts:
        line = " ".join(clean(text)[: 4 * _SNIPPET].split())
        result.append(line if len(line) <= _SNIPPET else line[:_SNIPPET].rstrip() + "…")
    return result


def _explained(
    material: Material,
    queries: Array,
    place: Array,
    name_of: Callable[[int], str],
    image_shape: tuple[int, int, int] | None,
) -> dict[str, Any]:
    """For each query and row found: both distances, and the parts of features, or their picture."""
    learned = material.metric
    metrics = {"before": Metric(None, learned.n_features, distance=material.before)}
    if learned.first.lift is None:
        metrics["after"] = learned
    names: dict[int, int] = {}
    pictures: list[Array] = []
    why = []
    for query in queries:
        others = np.union1d(*(scores.neighbors[query] for scores in material.both))
        entry: dict[int, dict[str, list[Any]]] = {int(place[row]): {} for row in others}
        if learned.first.lift is not None:  # its distances are not split
            apart = material.after_rows[others] - material.after_rows[query]
            for row, distance in zip(entry.values(), np.linalg.norm(apart, axis=1), strict=True):
                row["after"] = [_short(distance)]
        for when, metric in metrics.items():
            distances, features, parts = contributions(metric, material.rows, query, others)
            first = len(pictures)
            if image_shape is not None:
                pixels = np.zeros((len(parts), learned.n_features))
                pixels[:, features[:-1]] = parts[:, :-1]
                pictures.extend(heat_pictures(pixels, image_shape))
            for number, row in enumerate(entry.values()):
                row[when] = [_short(distances[number])]
                if image_shape is not None:
                    row[when].append(first + number)
                    continue
                values = parts[number]
                largest = _largest(values, _PARTS[when])
                row[when].append(_short(distances[number] - values[largest].sum()))
                for feature, value in zip(features[largest], values[largest], strict=True):
                    row[when] += [names.setdefault(int(feature), len(names)), _short(value)]
        why.append(entry)
    if image_shape is not None:
        return {"heat": _pictures.sheet(np.array(pictures)), "why": why}
    centre = learned.n_features
    shown = ["(centre)" if feature == centre else clean(name_of(feature)) for feature in names]
    return {"features": shown, "why": why}


def contributions(metric: Metric, rows: Matrix, query: int, others: Array) -> tuple[Array, ...]:
    """Distances from one row to others, the numbers of features, and their parts in each distance.

    The number after the last feature stands for the centre of the metric. Features that are zero
    in all of these rows may be left out.
    """
    chosen = ops.take_rows(rows, np.append(query, others))
    n_features = metric.n_features
    features = np.arange(n_features)
    is_linear = not metric.outside and metric.before is None and metric.blocks is None
    if is_linear and (metric.factor is not None or metric.centre is None):
        chosen = sp.csr_matrix(chosen)
        features = np.unique(np.append(chosen.indices, 0))  # a metric needs at least one
        chosen = chosen[:, features]
        factor = None if metric.factor is None else metric.factor[features]
        metric = Metric(factor, len(features), centre=metric.centre, distance=metric.kind)
    x = ops.to_dense(chosen).astype(np.float64)
    found = [split(metric, x[0], other) for other in x[1:]]
    distances, parts = (np.array(values) for values in zip(*found, strict=True))
    return distances, np.append(features, n_features), parts


def _largest(parts: Array, top: int) -> Array:
    """Places of the largest parts by absolute value, the largest first; zeros are left out."""
    size = np.abs(parts)
    top = min(top, len(size))
    places = np.sort(np.argpartition(-size, top - 1)[:top])
    places = places[size[places] > 0]
    return places[np.argsort(-size[places], kind="stable")]


def heat_pictures(values: Array, image_shape: tuple[int, int, int]) -> Array:
    """Signed values of pixels as grey pictures: 128 is zero, the strongest is 1 or 255."""
    regions = _pictures.shrunk(values.reshape(-1, *image_shape), _HEAT_SIDE)
    regions = regions.sum(axis=3, keepdims=True)
    peak = np.abs(regions).max(axis=(1, 2, 3), keepdims=True)
    return np.rint(128 + 127 * regions / np.where(peak > 0, peak, 1.0)).astype(np.uint8)


def _sheet_of_rows(rows: Any, image_shape: tuple[int, int, int]) -> dict[str, Any]:
    """Rows as pictures, from black for the smallest value to white for the largest."""
    values = ops.to_dense(rows)
    pictures = _pictures.shrunk(values.reshape(-1, *image_shape), _PICTURE_SIDE)
    low, high = pictures.min(), pictures.max()
    scaled = (pictures - low) / (high - low or 1.0)
    return _pictures.sheet(np.rint(255 * scaled).astype(np.uint8))


def _short(value: float) -> float:
    """Round to three digits, which are enough to show."""
    return float(f"{value:.3g}")


def map_places(before: Matrix, after: Matrix) -> tuple[Array, Array]:
    """Put the rows on two maps: their first two principal components, as whole numbers."""
    first, second = _plane(before), _plane(after)
    # rotated, and mirrored if necessary, to keep rows close to their places on the first map
    left, _, right = np.linalg.svd(second.T @ first)
    return _on_grid(first), _on_grid(second @ (left @ right))


def _plane(rows: Matrix) -> Array:
    """Coordinates along the two directions in which the rows vary most (n × 2)."""
    result = np.zeros((rows.shape[0], 2))
    if ops.all_rows_equal(rows):
        return result
    components = spaces.principal_components(rows, 2, seed=0)
    result[:, : components.shape[1]] = spaces.mapped(rows, components)
    return result


def _on_grid(plane: Array) -> Array:
    """Scale both axes by the same factor, so that the rows fill the map along the longer one."""
    low, high = np.quantile(plane, [0.01, 0.99], axis=0)
    reach = (high - low).max() / 2 or 1.0
    places = (plane - (low + high) / 2) / reach
    # the outermost 2 % are moved inwards: a few distant rows would leave others little space
    beyond = np.maximum(np.abs(places) - 1.0, 0.0)
    places = np.sign(places) * (np.minimum(np.abs(places), 1.0) + beyond / (1.0 + 3.0 * beyond))
    places /= np.abs(places).max() or 1.0
    return np.rint((places + 1.0) * MAP_SIZE / 2).astype(np.int64)
