"""The page and its requests. It listens on 127.0.0.1 only.

Every request must name this host and carry the token of this run (but for script and style, which
hold nothing of the user's); those that change something must come from the page itself. What the
page shows is sent as JSON and put there as text.
"""

import contextlib
import hmac
import re
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from importlib import resources
from pathlib import Path
from typing import Any

import anyio.to_thread
import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .._types import Array
from ..metric import Metric
from . import learned
from .content import Content
from .session import Session

HOST = "127.0.0.1"
N_SHOWN = 10
_MOST_BYTES = 10_000  # of a request
_NUMBER = r"[0-9]{1,18}"  # of a row; more digits may be too many for int
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_STATIC = {
    "teach.js": "text/javascript",
    "view.js": "text/javascript",
    "teach.css": "text/css",
}


class RefusedError(Exception):
    """A request that is answered by an error: status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Teaching:
    """What the page works on: a session, what rows look like, and the file of the metric."""

    def __init__(
        self,
        session: Session,
        content: Content,
        *,
        out: Path | None = None,
        beside: dict[str, Metric] | None = None,
        title: str = "",
        names: Any = None,
        finish: Callable[[Metric], Metric] = lambda metric: metric,
    ) -> None:
        self.session, self.content, self.out, self.title = session, content, out, title
        self.names = names
        self.finish = finish  # what is done to a metric before it is saved: tf-idf, for example
        self.token = secrets.token_urlsafe(24)
        self.query, self.asked = 0, None  # type: int, Any
        n = len(session.judgements)
        # steps of the session that are not in the saved metric; those of a file count as one each
        self.saved_version = session.version - (0 if _judgements_in(out) == n else n)
        self.failure: OSError | None = None  # of saving at the end
        self.beside = {name: metric.transform(session.X) for name, metric in (beside or {}).items()}

    # --- what the page asks for ----------------------------------------------------------------

    def state(self, query: int | None = None) -> dict[str, Any]:
        """Everything that the page shows."""
        session = self.session
        with session.lock:
            q = self.query if query is None else self._row(query)
            now, before = session.nearest(q, N_SHOWN)
            columns = {"now": now, "before": before}
            columns |= {name: self._nearest_in(Z, q) for name, Z in self.beside.items()}
            asked = None
            if self.asked is not None and self.asked.query == q:
                order = np.argsort(session.live.distances(q, self.asked.rows), kind="stable")
                asked = {
                    "rows": self.asked.rows[order].tolist(),
                    "kind": self.asked.asked,
                }
            shown = {q, *(int(row) for rows in columns.values() for row in rows)}
            shown |= set(asked["rows"]) if asked else set()
            return {
                "title": self.title,
                "kind": self.content.kind,
                "version": session.version,
                "query": q,
                "columns": [
                    {"name": name, "rows": [int(row) for row in rows]}
                    for name, rows in columns.items()
                ],
                "asked": asked,
                "marks": self._marks(q),
                "content": {str(row): self.content.of(row) for row in sorted(shown)},
                "judgements": len(session.judgements),
                "comparisons": len(session.kept),
                "contradictions": session.groups.contradictions,
                "unsaved": session.version - self.saved_version,
                "can_save": self.out is not None,
                "n_rows": session.n_rows,
                "meter": session.reading()._asdict(),
                "notes": session.notes,
            }

    def judge(self, given: dict[str, Any]) -> dict[str, Any]:
        """Mark a row as closer or farther."""
        query, row = self._row(given.get("query")), self._row(given.get("row"))
        right = given.get("right")
        if type(right) is not bool:
            raise RefusedError(400, "right must be true or false")
        asked = "own"
        if self.asked is not None and self.asked.query == query and row in self.asked.rows:
            asked = self.asked.asked
        if self._marks(query).get(str(row)) is not right:  # a second click changes nothing
            self.session.judge(query, row, right, asked)
        return self.state(query)

    def undo(self, given: dict[str, Any]) -> dict[str, Any]:
        """Take back the last judgement, and show its query."""
        last = self.session.undo()
        if last is not None:
            self.query = last.query
        return self.state()

    def next(self, given: dict[str, Any]) -> dict[str, Any]:
        """Show another query: one worth asking, a row by number, or the next with a text."""
        wanted = given.get("find")
        if wanted is None:
            self.asked = self.session.ask()
            self.query = self.asked.query
            return self.state()
        if not isinstance(wanted, str) or not wanted.strip():
            raise RefusedError(400, "type a row number or text")
        if re.fullmatch(rf"\s*{_NUMBER}\s*", wanted):
            self.query = self._row(int(wanted))
            return self.state()
        found = self.content.find(wanted.strip(), self.query + 1)
        if found is None:
            raise RefusedError(404, "no row contains this text")
        self.query = found
        return self.state()

    def save(self, given: dict[str, Any] | None = None) -> dict[str, Any]:
        """Write the metric to the file that was named at the start."""
        if self.out is None:
            raise RefusedError(400, "no file was named for the metric: start with --out")
        with self.session.lock:
            self.finish(self.session.metric()).save(self.out)
            self.saved_version = self.session.version
            return self.state()

    def close(self) -> None:
        """Save what is not saved so far; where that fails, ``failure`` says why."""
        if self.out is not None and self.session.version > self.saved_version:
            try:
                self.save()
            except OSError as error:
                self.failure = error

    def learned(self, given: dict[str, Any]) -> dict[str, Any]:
        """Features that gained or lost weight, and the map."""
        features = learned.gained(self.session, self.names)
        return {"features": features, "map": learned.map_of(self.session)}

    # --- parts ---------------------------------------------------------------------------------

    def _row(self, number: Any) -> int:
        n = self.session.n_rows
        if type(number) is not int or not 0 <= number < n:
            raise RefusedError(404, f"there is no such row: numbers go from 0 to {n - 1}")
        return number

    def _marks(self, query: int) -> dict[str, bool]:
        """Judged rows of a query; the last judgement counts."""
        found = (j for j in self.session.judgements if j.query == query)
        return {str(j.row): j.right for j in found}

    def _nearest_in(self, Z: Array, query: int) -> Array:
        squares = np.square(np.asarray(Z) - np.asarray(Z[query])).sum(axis=1)
        order = np.argsort(squares, kind="stable")
        return order[order != query][:N_SHOWN]


def _judgements_in(out: Path | None) -> int:
    """Number of judgements that the metric in a file was taught by; 0 where there is none."""
    try:
        return 0 if out is None else int(Metric.load(out).info.get("judgements", 0))
    except (OSError, ValueError, TypeError):
        return 0


def make_app(teaching: Teaching, port: int, framed: bool = False) -> Starlette:
    """The application for one run; its address is ``http://127.0.0.1:port/?token=…``.

    Where it is ``framed``, pages of this computer, such as a notebook, may show it in a frame.
    """
    answered = dict(_HEADERS)
    if framed:
        local = "frame-ancestors http://127.0.0.1:* http://localhost:*"
        answered["Content-Security-Policy"] = _POLICY.replace("frame-ancestors 'none'", local)
    hosts = {f"{HOST}:{port}", f"localhost:{port}"}

    def check(request: Request, public: bool) -> None:
        if request.headers.get("host") not in hosts:
            raise RefusedError(403, "open the address that was printed at the start")
        origin = request.headers.get("origin")
        if origin is not None and origin not in {f"http://{host}" for host in hosts}:
            raise RefusedError(403, "requests must come from the page itself")
        if request.method == "POST" and origin is None:
            raise RefusedError(403, "requests must come from the page itself")
        if public:
            return
        given = request.headers.get("x-token") or request.query_params.get("token") or ""
        if not hmac.compare_digest(given.encode(), teaching.token.encode()):
            raise RefusedError(
                403, "the token is wrong: open the address that was printed at the start"
            )

    def guarded(answer: Any, public: bool = False) -> Any:
        async def run(request: Request) -> Response:
            try:
                check(request, public)
                response: Response = await answer(request)
            except RefusedError as error:
                response = JSONResponse({"error": str(error)}, error.status)
            except (ValueError, OSError) as error:
                response = JSONResponse({"error": str(error)}, 400)
            kept = response.headers.get("cache-control")
            response.headers.update(answered)
            if kept is not None:
                response.headers["cache-control"] = kept
            return response

        return run

    def action(function: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
        async def run(request: Request) -> Response:
            body = b""
            async for part in request.stream():
                body += part
                if len(body) > _MOST_BYTES:
                    raise RefusedError(413, "the request is too long")
            given = _parsed(body)
            return JSONResponse(await anyio.to_thread.run_sync(_locked, function, given))

        return guarded(run)

    def _locked(function: Any, given: Any) -> Any:
        with teaching.session.lock:
            return function(given)

    async def page(request: Request) -> Response:
        return Response(_file("index.html"), media_type="text/html")

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _STATIC:
            raise RefusedError(404, "there is no such file")
        return Response(_file(name), media_type=_STATIC[name])

    async def icon(request: Request) -> Response:
        return Response(status_code=204)

    async def image(request: Request) -> Response:
        given = request.path_params["row"]
        number = int(given) if re.fullmatch(_NUMBER, given) else None
        found = teaching.content.image(teaching._row(number))
        if found is None:
            raise RefusedError(404, "there is no such picture")
        kept = {"Cache-Control": "private, max-age=3600"}  # a list that moves shows it again
        return Response(found[1], media_type=found[0], headers=kept)

    async def show(request: Request) -> Response:
        query = request.query_params.get("query", "")
        number = int(query) if re.fullmatch(_NUMBER, query) else None
        return JSONResponse(await anyio.to_thread.run_sync(teaching.state, number))

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        teaching.close()

    actions = {
        "judge": teaching.judge,
        "undo": teaching.undo,
        "next": teaching.next,
        "save": teaching.save,
        "learned": teaching.learned,
    }
    return Starlette(
        routes=[
            Route("/", guarded(page)),
            Route("/static/{name}", guarded(static, public=True)),
            Route("/favicon.ico", guarded(icon, public=True)),
            Route("/image/{row}", guarded(image)),
            Route("/api/state", guarded(show)),
            *(
                Route(f"/api/{name}", action(function), methods=["POST"])
                for name, function in actions.items()
            ),
        ],
        exception_handlers={404: _missing, 405: _missing},
        lifespan=lifespan,
    )


async def _missing(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "there is nothing here"}, 404, headers=_HEADERS)


def _parsed(body: bytes) -> dict[str, Any]:
    import json

    try:
        given = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise RefusedError(400, "the request must be a JSON object")
    return given


def _file(name: str) -> bytes:
    return (resources.files(__package__) / "static" / name).read_bytes()


def open_port(port: int) -> socket.socket:
    """A socket that listens on this computer only; port 0 chooses any free port."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise OSError(
            f"port {port} cannot be used ({error.strerror}): another program may be using it; "
            "choose another port, or 0 for any free one"
        ) from None
    return listening


def serve(
    teaching: Teaching, port: int = 0, started: Callable[[str], object] | None = None
) -> None:
    """Serve the page until interrupted; ``started`` is called with its address."""
    import uvicorn

    listening = open_port(port)
    port = listening.getsockname()[1]
    app = make_app(teaching, port)
    config = uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    if started is not None:
        started(f"http://{HOST}:{port}/?token={teaching.token}")
    with listening, contextlib.suppress(KeyboardInterrupt):  # the usual way to stop
        server.run(sockets=[listening])
