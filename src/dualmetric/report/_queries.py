"""The page about queries and documents: what a metric changed for judged queries."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from .. import measures
from .._arrays import judged
from .._types import Array
from ..metric import Metric
from ..side_by_side import PRECISION_AT, mapped_rows
from ..supervision._judged import Judged
from . import _result
from ._material import DISTANCES, clean, row_name
from ._page import fill_page
from ._result import points
from ._sections import how_it_was_made

N_LISTED = 300  # queries in the table
_LONGEST = 160  # characters of a query
_MEASURES = {
    "nDCG@10": "How early relevant documents appear, with more weight on more relevant documents",
    "Mean average precision": "How early relevant documents appear when all are ranked",
    "Recall@10": "How many of the relevant documents are among the first ten",
}
_KEYS = ("ndcg", "map", "recall")


def build_query_report(
    metric: Metric,
    X: Any,
    judgements: Any,
    *,
    title: str,
    query_names: Sequence[Any] | None = None,
) -> str:
    """Build a page that shows what the metric changed for queries with judged documents.

    The page compares the learned distance with the plain ones, draws recall and precision at k, and
    lists the queries that changed most. It needs no network and loads nothing.

    Parameters
    ----------
    metric : Metric
        The learned metric.
    X : {array-like, sparse matrix, data frame, row source} of shape (n_documents, n_features)
        The documents: raw counts, if the metric has ``idf``.
    judgements : Positives or Relevance
        Which documents are relevant to which queries, preferably to queries that the metric was not
        learned from.
    title : str
        Title of the page: for example, the name of the data.
    query_names : sequence of str or int, optional
        What the page calls each query: its text, its id, or its number in a file. Queries are
        numbered from 0 if None.

    Returns
    -------
    str
        HTML. It lists at most 300 queries.
    """
    rows = metric.open_rows(X)
    n = rows.shape[0]
    if not isinstance(judgements, Judged):
        raise TypeError(
            f"judgements must be Positives or Relevance of dualmetric.supervision; got "
            f"{type(judgements).__name__}"
        )
    known = judgements.check(n)
    n_queries = n if known.queries is None else known.queries.shape[0]
    if query_names is not None and len(query_names) != n_queries:
        raise ValueError(
            f"{len(query_names)} query names were given for {n_queries} queries: give one for each"
        )
    right = known.grade > 0
    asked, query = np.unique(known.index[right, 0], return_inverse=True)
    grade = known.grade[right]
    ranks = _ranks(metric, rows, known)
    scores = {
        name: [measures.MEASURES[key](query, rank, grade, 10) for key in _KEYS]
        for name, rank in ranks.items()
    }
    before = max(("euclidean", "cosine"), key=lambda name: float(scores[name][0].mean()))
    values = {
        **_result.result(scores, before, _MEASURES),
        **_at_k(query, grade, ranks[before], ranks["learned"], n, before),
        **_table(asked, query, ranks, scores, before, query_names),
        "before": DISTANCES[before],
        "how": how_it_was_made(metric, ("Queries scored", f"{len(asked):,}")),
    }
    return fill_page(
        "queries.html",
        values,
        title=title,
        kind="report",
        whole="report",
        summary=f"{len(asked):,} queries · {n:,} documents · {metric.n_features:,} features",
        parts=("Result", "Curves", "Queries", "About"),
        scripts=("page.js", "queries.js"),
    )


def _ranks(metric: Metric, rows: Any, known: Any) -> dict[str, Array]:
    """Rank of each relevant document for its query, by each distance."""
    numbers, parts = np.arange(rows.shape[0]), [rows.take()]
    if known.queries is not None:
        asked = np.unique(known.index[:, 0])
        numbers = np.append(numbers, rows.shape[0] + asked)
        parts.append(known.queries.take(asked))
    taken = known.take(numbers)
    index = taken.index[taken.grade > 0]
    return {
        name: judged.ranks(mapped, rows.shape[0], index)
        for name, mapped in mapped_rows(metric, parts).items()
    }


def _at_k(
    query: Array, grade: Array, before: Array, after: Array, n: int, plain: str
) -> dict[str, str]:
    """Charts and tables of recall and precision at k."""
    ks = [k for k in PRECISION_AT if k <= n]
    found: dict[str, str] = {}
    for key, label in (
        ("recall", "Relevant documents found, %"),
        ("precision", "Documents that are relevant, %"),
    ):
        measure = measures.MEASURES[key]
        b, a = (np.array([measure(query, r, grade, k) for k in ks]) for r in (before, after))
        chart, lines = _result.at_k(key.capitalize(), label, ks, b, a, plain)
        found |= {f"{key}_at": chart, f"{key}_lines": lines}
    return found


def _table(
    asked: Array,
    query: Array,
    ranks: dict[str, Array],
    scores: dict[str, list[Array]],
    before: str,
    names: Sequence[Any] | None,
) -> dict[str, str]:
    """The queries, those that changed most first."""
    b, a = scores[before][0], scores["learned"][0]
    first = {}
    for name in (before, "learned"):
        first[name] = np.full(len(asked), np.iinfo(np.int64).max)
        np.minimum.at(first[name], query, ranks[name])
    change = a - b
    lines = []
    for place in np.argsort(-np.abs(change), kind="stable")[:N_LISTED]:
        number = int(asked[place])
        name = f"query {number}" if names is None else row_name(names[number])
        shown = clean(name) if len(name) <= _LONGEST else clean(name[:_LONGEST]) + "…"
        was, now = (first[name][place] for name in (before, "learned"))
        cells = [
            (now, f"{was:,} → {now:,}"),
            *((f"{v:.6f}", f"{100 * v:.1f}") for v in (b[place], a[place])),
            (f"{change[place]:.6f}", points(change[place])),
        ]
        numbers = "".join(f'<td class="number" data-sort="{s}">{text}</td>' for s, text in cells)
        lines.append(f'<tr><th scope="row" dir="auto">{escape(shown)}</th>{numbers}</tr>')
    better, worse = (int(np.count_nonzero(sign * change > 1e-9)) for sign in (1, -1))
    even = len(asked) - better - worse
    return {
        "query_lines": "".join(lines),
        "query_summary": f"nDCG@10 rose for {better:,} queries, fell for {worse:,} and stayed the "
        f"same for {even:,}.",
        "n_listed": f"{min(N_LISTED, len(asked)):,}",
    }
