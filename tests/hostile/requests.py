"""Hostile requests to the page of ``dualmetric teach``.

Each case sends a few requests to a page of its own: random and damaged bodies, rows that are not
there, wrong tokens, hosts and origins, other methods, and addresses that lead out of a folder.
Every answer must be one that the page gives, with its headers. What is refused changes nothing;
what is acknowledged is in the file of judgements; and no other file is written or sent.
"""

import json
import tempfile
import warnings
from pathlib import Path
from urllib.parse import quote

from dualmetric import Metric
from dualmetric.teach import content, judgements
from dualmetric.teach.server import HOST, Teaching, make_app
from dualmetric.teach.session import Session
from makers import make_clusters

with warnings.catch_warnings():  # newer versions of Starlette prefer another client
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

PORT = 4999
OWN = f"http://{HOST}:{PORT}"
SECRET = "not for the page"
STATUSES = (200, 204, 400, 403, 404, 413)
N = 24
X, _ = make_clusters(n=N, d=4, n_classes=3)
ACTIONS = ("judge", "undo", "next", "save", "learned")


# --- parts of a request ----------------------------------------------------------------------


def _number(draw):
    numbers = (0, 1, 2, N - 1, N, -1, -(2**63), 2**31, 2**63, 2**64, 10**30, 10**4000, 1.5, -0.0)
    others = (float("nan"), float("inf"), 1.0, True, None, "1", "", [1], {"row": 1})
    return draw.choice(numbers + others)


def _word(draw):
    words = ("7", " 3 ", "9" * 18, "9" * 19, "-1", "row 5", "", " ", "<b>", "\x00", "\ud800", "ß")
    return draw.choice((*words, "٣", "\u202e", "x" * 9000, "../secret", "%2e", "{}", "' OR 1=1"))


def _value(draw, depth=0):
    """Any JSON value."""
    kind = draw.randrange(8 if depth < 4 else 6)
    if kind == 6:
        return [_value(draw, depth + 1) for _ in range(draw.randrange(4))]
    if kind == 7:
        return {_word(draw): _value(draw, depth + 1) for _ in range(draw.randrange(4))}
    return _word(draw) if kind % 2 else _number(draw)


def _body(draw, action):
    """Bytes of a body: right, nearly right, or noise."""
    row = lambda: draw.randrange(N) if draw.random() < 0.7 else _number(draw)  # noqa: E731
    right = draw.choice((True, False)) if draw.random() < 0.7 else _value(draw)
    given = {"query": row(), "row": row(), "right": right} if action == "judge" else {}
    if action == "next" and draw.random() < 0.7:
        given = {"find": _word(draw) if draw.random() < 0.7 else _value(draw)}
    if draw.random() < 0.2:
        given[_word(draw)] = _value(draw)
    if draw.random() < 0.1:
        given.pop(draw.choice(list(given)), None) if given else None
    body = json.dumps(_value(draw) if draw.random() < 0.1 else given).encode()
    if draw.random() < 0.15:
        at = draw.randrange(len(body) + 1)
        body = body[:at] + draw.choice((b"", b"\xff", b"[" * 5000, draw.randbytes(9))) + body[at:]
    if draw.random() < 0.05:
        body = draw.choice((b"", b" " * 10_001, draw.randbytes(50), b"1" * 5000, b"x" * 10**6))
    return body


def _path(draw):
    """An address: of the page, nearly so, or out of its folders."""
    row = quote(str(_number(draw))) if draw.random() < 0.8 else "1" * 5000
    up = draw.choice(("..", "%2e%2e", "..%2f..", "%252e%252e", "..%5c..", ".", "%00"))
    target = draw.choice(("secret.txt", "server.py", "j.jsonl", "etc/passwd", "teach.js"))
    place = draw.randrange(N)
    pages = ("/", "/api/state", f"/api/state?query={row}", "/favicon.ico", "//evil.example/")
    images = (f"/image/{row}", f"/image/{place}", f"/image/{place}/{up}", f"/image/{up}/{target}")
    files = (f"/static/{target}", f"/static/{up}/{target}", f"/{up}/{target}", "/" + "x" * 9000)
    actions = (f"/api/{quote(_word(draw)[:99], errors='replace')}",)
    return draw.choice(pages + images + files + actions)


def _wrong_headers(draw, token):
    """Headers that must not be served."""
    return draw.choice(
        [
            {"Host": draw.choice(("evil.example", f"evil.example:{PORT}", HOST, f"{HOST}:1", ""))},
            {"Origin": draw.choice(("http://evil.example", "null", f"{OWN}.evil", "", "ü"))},
            {"X-Token": draw.choice(("wrong", token[:-1], token + "x", token.swapcase(), "ü", ""))},
        ]
    )


class Ask:
    """One request, and whether its headers are wrong."""

    def __init__(self, draw, token):
        action = draw.choice(ACTIONS) if draw.random() < 0.7 else None
        self.method, self.path, self.body = "GET", _path(draw), b""
        if action:
            self.method, self.path, self.body = "POST", f"/api/{action}", _body(draw, action)
        if draw.random() < 0.1:
            methods = ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW", "POST")
            self.method = draw.choice(methods)
        self.headers = {"X-Token": token, "Origin": OWN}
        self.is_wrong = draw.random() < 0.2
        if self.is_wrong:
            self.headers |= _wrong_headers(draw, token)
        if draw.random() < 0.1:
            kinds = ("text/plain", "multipart/form-data", "\x7f", "application/json; charset=utf-7")
            self.headers["Content-Type"] = draw.choice(kinds)

    def send(self, client):
        """The answer."""
        headers = {name: value.encode() for name, value in self.headers.items()}
        return client.request(
            self.method, self.path, content=self.body, headers=headers, follow_redirects=False
        )

    def __repr__(self):
        shown = {name: value for name, value in self.headers.items() if name != "X-Token"}
        return f"{self.method} {self.path[:200]} {shown} {self.body[:300]!r}"


# --- a case ----------------------------------------------------------------------------------


class Requests:
    """A case: a page with texts or pictures, and requests to it."""

    def __init__(self, draw):
        self.draw, self.sent = draw, []
        self.pictures = draw.random() < 0.5
        self.count = draw.randrange(1, 7)

    def __repr__(self):
        return f"{'pictures' if self.pictures else 'texts'}, {self.sent}"

    def run(self):
        """Outcome: "works", "refused", or what is wrong, and what there is to say about it."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "secret.txt").write_text(SECRET)
            (folder / "rows").mkdir()
            session = Session(X, path=folder / "j.jsonl")
            try:
                return self._run(folder, session)
            finally:
                session.log.close()

    def _shown(self, folder):
        if not self.pictures:
            return content.Texts([f"<b>row {number}</b>" for number in range(N)])
        for number in range(N):
            (folder / "rows" / f"{number:02}.png").write_bytes(b"picture")
        return content.Images(folder / "rows", N)

    def _run(self, folder, session):
        page = Teaching(session, self._shown(folder), out=folder / "m.safetensors")
        before = {path.relative_to(folder) for path in folder.rglob("*")}
        served = 0
        with TestClient(make_app(page, PORT), base_url=OWN) as client:
            for _ in range(self.count):
                ask = Ask(self.draw, page.token)
                self.sent.append(ask)
                known, file = list(session.judgements), (folder / "j.jsonl").read_bytes()
                try:
                    answer = ask.send(client)
                except Exception as error:
                    return "undocumented error", repr(error)
                if wrong := self._wrong(ask, answer):
                    return wrong, f"{answer.status_code}: {answer.text[:300]}"
                if answer.status_code < 300:
                    served += 1
                elif (known, file) != (session.judgements, (folder / "j.jsonl").read_bytes()):
                    return "a refused request changed something", ""
            state = client.get("/api/state", headers={"X-Token": page.token})
            if state.status_code != 200 or state.json()["judgements"] != len(session.judgements):
                return "the page is broken", state.text[:300]
        if judgements.read(folder / "j.jsonl", N).judgements != session.judgements:
            return "the file is not what was acknowledged", ""
        saved = folder / "m.safetensors"
        if saved.exists() and Metric.load(saved).info["judgements"] != len(session.judgements):
            return "another metric was saved", ""
        after = {path.relative_to(folder) for path in folder.rglob("*")}
        if after - before - {Path("m.safetensors")}:
            return "another file was written", str(after - before)
        return ("works" if served else "refused"), ""

    @staticmethod
    def _wrong(ask, answer):
        """What is wrong with an answer, if anything."""
        if answer.status_code not in STATUSES:
            return "another status"
        if "default-src 'none'" not in answer.headers.get("content-security-policy", ""):
            return "no policy"
        if SECRET.encode() in answer.content or b"from starlette" in answer.content:
            return "another file was sent"
        is_public = ask.path.startswith(("/static/", "/favicon.ico"))
        if ask.is_wrong and answer.status_code < 300 and not is_public:
            return "served in spite of wrong headers"
        if answer.status_code >= 400 and ask.method != "HEAD":
            try:
                said = answer.json()["error"]
            except (ValueError, KeyError, TypeError):
                return "no reason"
            if not isinstance(said, str) or len(said) < 10:
                return "no reason"
        return ""
