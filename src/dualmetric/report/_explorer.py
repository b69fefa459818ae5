"""What the explorer and the maps show: a sample of queries, their nearest rows, and why."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import products
from .._system import single_blas_thread
from .._types import Array
from ..metric import Metric
from . import _explanations, _map, _pictures
from ._material import Material, clean

N_QUERIES = 300
N_ON_MAP = 3000
_BYTES_OF_ROWS = 1_500_000  # of texts, or of pixels: a page is to stay under 5 MB
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
    """Build what the page's script reads; ``explorer.js`` says what each part is.

    Rows are named by their place in ``rows``: first those that the explorer shows, with texts or
    pictures, then those that are only on the map.
    """
    snippets = None if texts is None else _snippets(texts, material.n_rows)
    queries = _choose_queries(material, snippets, image_shape)
    scores = {"before": material.scores[material.before], "after": material.scores["learned"]}
    shown = _found_by(queries, [s.neighbors for s in scores.values()])
    on_map = _sample_for_map(queries, material.n_rows)
    rows = np.concatenate([shown, np.setdiff1d(on_map, shown)])
    place = np.full(material.n_rows, -1)
    place[rows] = np.arange(len(rows))
    before, after = _map.places(material.before_rows, material.after_rows)
    data: dict[str, Any] = {
        "classes": material.class_names,
        "rows": rows.tolist(),
        "labels": material.codes[rows].tolist(),
        "map": {"before": before[rows].ravel().tolist(), "after": after[rows].ravel().tolist()},
        "onMap": place[on_map].tolist(),
        "texts": None if snippets is None else [snippets[row] for row in shown],
        "pictures": None
        if image_shape is None
        else _sheet_of_rows(material.rows[shown], image_shape),
        "queries": [
            {
                "row": int(place[query]),
                "precision": [_short(s.average_precision[query]) for s in scores.values()],
                **{when: place[s.neighbors[query]].tolist() for when, s in scores.items()},
            }
            for query in queries
        ],
    }
    with single_blas_thread():  # hundreds of small products, which threads would only slow down
        if image_shape is None:
            data |= _named_parts(material, queries, scores, place, name_of)
        else:
            data |= _heat(material, queries, scores, place, image_shape)
    return data


def _choose_queries(
    material: Material, snippets: list[str] | None, image_shape: tuple[int, int, int] | None
) -> Array:
    """Pick rows that share their class, as many of each class, while the page has room for them."""
    score = material.scores["learned"].average_precision
    order = np.random.default_rng(0).permutation(np.flatnonzero(~np.isnan(score)))
    turn = np.empty(len(order), dtype=np.int64)  # of a row among those of its class
    for code in range(len(material.class_names)):
        members = material.codes[order] == code
        turn[members] = np.arange(members.sum())
    order = order[np.argsort(turn, kind="stable")][:N_QUERIES]
    if snippets is not None:
        size = np.array([len(text.encode()) for text in snippets])
    elif image_shape is not None:
        height, width, colours = image_shape
        side = _PICTURE_SIDE
        size = np.full(material.n_rows, min(height, side) * min(width, side) * colours)
    else:
        return np.sort(order)
    seen = np.zeros(material.n_rows, dtype=bool)
    room = _BYTES_OF_ROWS
    for count, query in enumerate(order):
        new = _found_by(
            [query], [material.scores[name].neighbors for name in (material.before, "learned")]
        )
        new = new[~seen[new]]
        seen[new] = True
        room -= size[new].sum()
        if room < 0 and count:
            return np.sort(order[:count])
    return np.sort(order)


def _found_by(queries: Any, neighbors: list[Array]) -> Array:
    """The queries and all their neighbours."""
    return np.unique(np.concatenate([queries, *(found[queries].ravel() for found in neighbors)]))


def _sample_for_map(queries: Array, n_rows: int) -> Array:
    """The queries and other rows, drawn at random."""
    others = np.setdiff1d(np.arange(n_rows), queries)
    rng = np.random.default_rng(0)
    drawn = rng.choice(others, size=min(len(others), N_ON_MAP - len(queries)), replace=False)
    return np.sort(np.concatenate([queries, drawn]))


def _snippets(texts: Sequence[str], n_rows: int) -> list[str]:
    """The beginning of each text, on one line."""
    if isinstance(texts, str) or len(texts) != n_rows:
        raise ValueError(
            f"{len(texts)} texts were given for {n_rows} rows: give one text for each row"
        )
    result = []
    for text in texts:
        line = " ".join(clean(text)[: 4 * _SNIPPET].split())
        result.append(line if len(line) <= _SNIPPET else line[:_SNIPPET].rstrip() + "…")
    return result


def _split_distances(material: Material) -> dict[str, Metric]:
    """The distances that split into features, as metrics over weighted rows."""
    learned = material.metric
    plain = Metric(None, learned.n_features, distance=material.before)
    return {"before": plain} if learned.lift is not None else {"before": plain, "after": learned}


def _entries(
    material: Material, query: int, others: Array, place: Array
) -> dict[int, dict[str, list[float]]]:
    """One for each row found, which holds the learned distance already if it does not split."""
    entries: dict[int, dict[str, list[float]]] = {int(place[row]): {} for row in others}
    if material.metric.lift is not None:
        distances = np.linalg.norm(material.after_rows[others] - material.after_rows[query], axis=1)
        for row, distance in zip(others, distances, strict=True):
            entries[int(place[row])]["after"] = [_short(distance)]
    return entries


def _named_parts(
    material: Material,
    queries: Array,
    scores: dict[str, Any],
    place: Array,
    name_of: Callable[[int], str],
) -> dict[str, Any]:
    """For each query and row found: both distances, and their largest parts by feature."""
    names: dict[int, int] = {}
    why = []
    for query in queries:
        others = np.union1d(*(s.neighbors[query] for s in scores.values()))
        entry = _entries(material, query, others, place)
        for when, metric in _split_distances(material).items():
            distances, features, parts = _explanations.contributions(
                metric, material.rows, query, others
            )
            for row, distance, values in zip(others, distances, parts, strict=True):
                places = _explanations.largest(values, _PARTS[when])
                listed = [_short(distance), _short(distance - values[places].sum())]
                for feature, value in zip(features[places], values[places], strict=True):
                    listed += [names.setdefault(int(feature), len(names)), _short(value)]
                entry[int(place[row])][when] = listed
        why.append(entry)
    centre = material.metric.n_features
    return {
        "features": ["(centre)" if f == centre else clean(name_of(f)) for f in names],
        "why": why,
    }


def _heat(
    material: Material,
    queries: Array,
    scores: dict[str, Any],
    place: Array,
    image_shape: tuple[int, int, int],
) -> dict[str, Any]:
    """The same for pictures: what each region adds to a distance is itself a picture."""
    why = []
    pictures: list[Array] = []
    for query in queries:
        others = np.union1d(*(s.neighbors[query] for s in scores.values()))
        entry = _entries(material, query, others, place)
        for when, metric in _split_distances(material).items():
            distances, features, parts = _explanations.contributions(
                metric, material.rows, query, others
            )
            full = np.zeros((len(others), metric.n_features))
            full[:, features[:-1]] = parts[:, :-1]
            heat = heat_pictures(full, image_shape)
            for number, (row, distance) in enumerate(zip(others, distances, strict=True)):
                entry[int(place[row])][when] = [_short(distance), len(pictures) + number]
            pictures.extend(heat)
        why.append(entry)
    return {"heat": _pictures.sheet(np.array(pictures)), "why": why}


def heat_pictures(values: Array, image_shape: tuple[int, int, int]) -> Array:
    """Signed values of pixels as grey pictures: 128 is zero, the strongest is 1 or 255."""
    regions = _pictures.shrunk(values.reshape(-1, *image_shape), _HEAT_SIDE)
    regions = regions.sum(axis=3, keepdims=True)
    peak = np.abs(regions).max(axis=(1, 2, 3), keepdims=True)
    return np.rint(128 + 127 * regions / np.where(peak > 0, peak, 1.0)).astype(np.uint8)


def _sheet_of_rows(rows: Any, image_shape: tuple[int, int, int]) -> _pictures.Sheet:
    """Rows as pictures, from black at the least value to white at the greatest."""
    values = products.to_dense(rows)
    pictures = _pictures.shrunk(values.reshape(-1, *image_shape), _PICTURE_SIDE)
    low, high = pictures.min(), pictures.max()
    scaled = (pictures - low) / (high - low or 1.0)
    return _pictures.sheet(np.rint(255 * scaled).astype(np.uint8))


def _short(value: float) -> float:
    """Three digits are enough to show."""
    return float(f"{value:.3g}")
