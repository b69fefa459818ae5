"""The page inside a notebook: the same server, in a thread."""

import html
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..metric import Metric
from .content import make_content
from .server import HOST, Teaching, make_app, open_port
from .session import Session


class Page:
    """A running page; a notebook shows it in a frame."""

    def __init__(self, teaching: Teaching, port: int = 0) -> None:
        import uvicorn

        self.teaching = teaching
        self._socket = open_port(port)
        port = self._socket.getsockname()[1]
        self.address = f"http://{HOST}:{port}/?token={teaching.token}"
        app = make_app(teaching, port, framed=True)
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )
        self._thread.start()

    def _repr_html_(self) -> str:
        """Show the page in a frame."""
        address = html.escape(self.address, quote=True)
        return f'<iframe src="{address}" width="100%" height="800" title="Teach"></iframe>'

    def __repr__(self) -> str:
        return f"<teaching on {self.address}>"

    def metric(self) -> Metric:
        """The metric taught so far."""
        return self.teaching.finish(self.teaching.session.metric())

    def stop(self) -> None:
        """Stop the server; the metric is saved where a file was named."""
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()
        if self.teaching.session.log is not None:
            self.teaching.session.log.close()
        if self.teaching.failure is not None:
            raise self.teaching.failure


def show(
    metric: Metric,
    X: Any,
    texts: Sequence[str] | None = None,
    *,
    judgements: Any = None,
    out: Any = None,
    images: Any = None,
    image_shape: Any = None,
    port: int = 0,
) -> Page:
    """See `Metric.teach`."""
    rows = metric.open_rows(X).take()
    weighted, idf = metric.first.weighted(rows), metric.first.idf
    names = metric.feature_names
    folder = None if images is None else Path(images)
    content = make_content(weighted, names, texts, folder, image_shape)
    path = None if judgements is None else Path(judgements)
    kind = metric.first.kind if metric.before is not None else metric.kind
    session = Session(weighted, distance=kind, path=path, feature_names=names)
    own = metric
    if idf is not None:  # rows are weighted already
        first = metric.first.replaced(idf=None)
        own = first if metric.before is None else metric.replaced(before=first)
    plain = metric.factor is None and metric.before is None
    return Page(
        Teaching(
            session,
            content,
            out=None if out is None else Path(out),
            beside={} if plain else {"this metric": own},
            names=names,
            finish=(lambda taught: taught) if idf is None else lambda taught: taught.with_idf(idf),
        ),
        port,
    )
