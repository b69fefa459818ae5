"""What was learned, in the person's terms: features that gained or lost weight, and a map."""

from typing import Any

import numpy as np

from .._arrays import ops
from .session import Session

N_FEATURES = 12
N_ON_MAP = 400


def gained(session: Session, names: Any) -> list[list[Any]]:
    """Features whose weight M_ff changed most, relative to the plain distance.

    Each is a name and the change; +0.5 counts half as much again.
    """
    kept = session.kept
    if not len(kept) or not kept.beta.any():
        return []
    assert session.base.prior is not None
    unit = session.base.unit**4 * session.base.prior.scale
    weight = kept.beta / (session.updated.reg * len(kept) * unit)
    C = ops.comparison_graph(kept.index, weight, kept.rows.shape[0])
    rows = kept.rows
    image = C @ rows
    both = rows.multiply(image) if hasattr(rows, "multiply") else rows * image
    change = np.asarray(both.sum(axis=0)).ravel()  # diagonal of ΣβA = XᵀCX
    order = np.argsort(-np.abs(change), kind="stable")[:N_FEATURES]
    return [
        [f"feature {f}" if names is None else str(names[f]), round(float(change[f]), 4)]
        for f in order
        if round(float(change[f]), 4)
    ]


def map_of(session: Session) -> dict[str, Any]:
    """Places of some rows in the plane, before and now; judged rows are among them."""
    from ..report._explorer import map_places

    with session.lock:
        judged = sorted(session.groups.of)
        rng = np.random.default_rng(0)
        n = min(N_ON_MAP, session.n_rows)
        drawn = rng.choice(session.n_rows, size=n, replace=False)
        rows = np.unique(np.concatenate([np.array(judged[:N_ON_MAP], dtype=np.int64), drawn]))
        plain = ops.to_dense(session.base.first.apply(ops.take_rows(session.X, rows)))
        before, now = map_places(plain, session.live.mapped(rows))
        largest = sorted(session.groups.members.values(), key=len, reverse=True)[:8]
        group = {row: number for number, members in enumerate(largest) for row in members}
        return {
            "rows": rows.tolist(),
            "before": before.tolist(),
            "now": now.tolist(),
            "group": [group.get(int(row), -1) for row in rows],
        }
