"""Data of the explorer and the maps: a sample of queries, their nearest rows, and why."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .._arrays import ops
from .._arrays.system import single_blas_thread
from .._types import Array
from ..metric import Metric
from . import _explanations, _map, _pictures
from ._material import Material, clean

N_QUERIES = 300
N_ON_MAP = 3000
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
    """Build the data for the script of the page; ``explorer.js`` describes each entry.

    Rows are named by their place in ``rows``: first those that the explorer shows, with texts or
    pictures, then those that are only on the map.
    """
    snippets = None if texts is None else _snippets(texts, material.n_rows)
    sizes = None if snippets is None else np.array([len(text.encode()) for text in snippets])
    if image_shape is not None:
        height, width = (min(side, _PICTURE_SIDE) for side in image_shape[:2])
        sizes = np.full(material.n_rows, height * width * image_shape[2])
    queries = _choose_queries(material, sizes)
    shown = _found_by(queries, material)
    on_map = _sample_for_map(queries, material.n_rows)
    rows = np.concatenate([shown, np.setdiff1d(on_map, shown)])
    place = np.full(material.n_rows, -1)
    place[rows] = np.arange(len(rows))
    plain = material.rows if material.before == "euclidean" else ops.unit_rows(material.rows)
    before, after = _map.places(plain, material.after_rows)
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
        if image_shape is None:
            data |= _named_parts(material, queries, place, name_of)
        else:
            data |= _heat(material, queries, place, image_shape)
    return data


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


def _named_parts(
    material: Material, queries: Array, place: Array, name_of: Callable[[int], str]
) -> dict[str, Any]:
    """For each query and row found: both distances, and the largest contributions."""
    names: dict[int, int] = {}

    def listed(when: str, distances: Array, features: Array, parts: Array) -> Iterator[list[float]]:
        for distance, values in zip(distances, parts, strict=True):
            places = _explanations.largest(values, _PARTS[when])
            row = [_short(distance - values[places].sum())]
            for feature, value in zip(features[places], values[places], strict=True):
                row += [names.setdefault(int(feature), len(names)), _short(value)]
            yield row

    why = _why(material, queries, place, listed)
    centre = material.metric.n_features
    features = ["(centre)" if f == centre else clean(name_of(f)) for f in names]
    return {"features": features, "why": why}


def _heat(
    material: Material, queries: Array, place: Array, image_shape: tuple[int, int, int]
) -> dict[str, Any]:
    """The same for pictures: the contributions of the pixels are shown as a picture."""
    pictures: list[Array] = []

    def numbers(when: str, distances: Array, features: Array, parts: Array) -> list[list[int]]:
        full = np.zeros((len(parts), material.metric.n_features))
        full[:, features[:-1]] = parts[:, :-1]
        first = len(pictures)
        pictures.extend(heat_pictures(full, image_shape))
        return [[number] for number in range(first, len(pictures))]

    why = _why(material, queries, place, numbers)
    return {"heat": _pictures.sheet(np.array(pictures)), "why": why}


def _why(
    material: Material, queries: Array, place: Array, describe: Callable[..., Iterable[list[Any]]]
) -> list[dict[int, dict[str, list[Any]]]]:
    """For each query and row found: each distance, and how ``describe`` shows its parts."""
    learned = material.metric
    metrics = {"before": Metric(None, learned.n_features, distance=material.before)}
    if learned.first.lift is None:
        metrics["after"] = learned
    why = []
    for query in queries:
        others = np.union1d(*(scores.neighbors[query] for scores in material.both))
        entry: dict[int, dict[str, list[Any]]] = {int(place[row]): {} for row in others}
        if learned.first.lift is not None:  # its distances are not split
            apart = material.after_rows[others] - material.after_rows[query]
            for row, distance in zip(entry.values(), np.linalg.norm(apart, axis=1), strict=True):
                row["after"] = [_short(distance)]
        for when, metric in metrics.items():
            split = _explanations.contributions(metric, material.rows, query, others)
            described = describe(when, *split)
            for row, distance, parts in zip(entry.values(), split[0], described, strict=True):
                row[when] = [_short(distance), *parts]
        why.append(entry)
    return why


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
