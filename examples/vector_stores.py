"""Vector stores: a learned metric in FAISS, SQLite and PostgreSQL.

The documents are vectors of length one, as sentence encoders give them: 20 Newsgroups (512 numbers
per message) if they are in DUALMETRIC_DATA, synthetic vectors otherwise. Labels of the documents
are known, and those of the queries only tell how good the search is. PostgreSQL takes part where
DATABASE_URL is set, for example to postgresql://me@localhost/mine.
"""

import os

import numpy as np
from sklearn.preprocessing import normalize

from dualmetric import MetricCV
from dualmetric.datasets import Dataset, available, load_dataset

K = 10


def search_faiss(documents, queries, measure):
    """Numbers of the K nearest documents of each query, from memory."""
    import faiss

    make = {"L2": faiss.IndexFlatL2, "inner product": faiss.IndexFlatIP}[measure]
    index = make(documents.shape[1])
    index.add(documents)
    return index.search(queries, K)[1]


def search_sqlite(documents, queries, measure):
    """The same from SQLite with the extension sqlite-vec: in memory, or in a file of any name."""
    import apsw  # Python's own sqlite3 will do if it was built to load extensions
    import sqlite_vec

    # there is no inner product, but documents of length one have the same order by the cosine
    name = {"L2": "L2", "inner product": "cosine"}[measure]
    db = apsw.Connection(":memory:")
    db.enable_load_extension(True)
    db.load_extension(sqlite_vec.loadable_path())
    column = f"vector float[{documents.shape[1]}] distance_metric={name}"
    db.execute(f"CREATE VIRTUAL TABLE documents USING vec0({column})")
    with db:
        rows = ((number, row.tobytes()) for number, row in enumerate(documents))
        db.executemany("INSERT INTO documents (rowid, vector) VALUES (?, ?)", rows)
    ask = f"SELECT rowid FROM documents WHERE vector MATCH ? AND k = {K} ORDER BY distance"
    return [[number for (number,) in db.execute(ask, (row.tobytes(),))] for row in queries]


def search_postgresql(documents, queries, measure):
    """The same from PostgreSQL with the extension pgvector."""
    import psycopg

    operator = {"L2": "<->", "inner product": "<#>"}[measure]
    with psycopg.connect(os.environ["DATABASE_URL"]) as db:
        db.execute("CREATE EXTENSION IF NOT EXISTS vector")
        columns = f"number integer PRIMARY KEY, vector vector({documents.shape[1]})"
        db.execute(f"CREATE TEMPORARY TABLE documents ({columns})")
        with db.cursor().copy("COPY documents FROM STDIN") as copy:
            for number, row in enumerate(documents):
                copy.write_row((number, str(row.tolist())))
        ask = f"SELECT number FROM documents ORDER BY vector {operator} %s::vector LIMIT {K}"
        found = [db.execute(ask, [str(row.tolist())]).fetchall() for row in queries]
    return [[number for (number,) in rows] for rows in found]


def made_vectors():
    """1,300 vectors of 20 classes: noise, and a centre that moves 16 of 128 numbers."""
    rng = np.random.default_rng(0)
    y = np.arange(1300) % 20
    vectors = 0.8 * rng.standard_normal((1300, 128), dtype=np.float32)
    vectors[:, :16] += rng.standard_normal((20, 16))[y]
    return Dataset("synthetic vectors", vectors[:1000], y[:1000], vectors[1000:], y[1000:])


data = load_dataset("20news_use512") if available("20news_use512") else made_vectors()
documents, labels = normalize(data.X_train), data.y_train
asked = np.random.default_rng(0).choice(len(data.y_test), 300, replace=False)
queries, answers = normalize(data.X_test[asked]), data.y_test[asked]
print(f"{data.name}: {len(documents):,} documents, {len(queries)} queries, precision at {K}")

# a linear metric can be used in both ways
metric = MetricCV(require="linear", random_state=0).fit(documents, labels).metric_
adapter = metric.query_adapter(documents)

stores = {"FAISS": search_faiss, "SQLite": search_sqlite}
if "DATABASE_URL" in os.environ:
    stores["PostgreSQL"] = search_postgresql
for name, search in stores.items():
    found = {
        "plain distance": search(documents, queries, "L2"),
        # the documents are mapped, and indexed again
        "documents changed": search(metric.transform(documents), metric.transform(queries), "L2"),
        # the index holds the documents as they are
        "queries changed": search(documents, adapter.transform(queries), "inner product"),
    }
    for way, numbers in found.items():
        print(
            f"{name:>10}, {way:>17}: {(labels[np.array(numbers)] == answers[:, None]).mean():.3f}"
        )
print(f"agreement of both ways: {adapter.agreement(queries, documents, k=K)}")
