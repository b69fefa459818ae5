"""Text: learn from labelled documents which words matter, on raw word counts.

With DUALMETRIC_DATA set, the data are the messages of 20 Newsgroups (58,091 words). Otherwise they
are short synthetic documents, whose words are drawn at random: a few from their topic, most from
none.
"""

import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import train_test_split

from dualmetric import DuRP
from dualmetric.io import read_rows
from dualmetric.side_by_side import compare
from dualmetric.tfidf import fit_idf, tfidf

TOPICS = {
    "hockey": "goalie puck ice playoff team season coach referee league penalty arena skate",
    "space": "orbit shuttle launch moon satellite rocket nasa probe lunar engine mission crew",
    "cooking": "oven flour butter salt recipe pan garlic onion simmer bake dough pepper",
    "music": "guitar chord melody drum album tempo singer concert bass tune piano rhythm",
}


def synthetic_documents():
    """400 documents of 44 words: four of their topic's twelve words, forty of 2,000 others."""
    rng = np.random.default_rng(0)
    words = " ".join(TOPICS.values()).split() + [f"filler{number}" for number in range(2000)]
    popularity = 1.0 / np.arange(10, 2010)
    counts = np.zeros((400, len(words)))
    topic = np.arange(400) % len(TOPICS)
    for row, t in zip(counts, topic, strict=True):
        np.add.at(row, 12 * t + rng.choice(12, 4, replace=False), 1)
        np.add.at(row, 48 + rng.choice(2000, 40, p=popularity / popularity.sum()), 1)
    parts = train_test_split(np.arange(400), test_size=0.3, stratify=topic, random_state=0)
    return sp.csr_matrix(counts), topic, parts, words


def messages(folder):
    """20 Newsgroups by date, with the word of each column."""
    rows = read_rows(folder / "20news_bydate.npz")
    words = (folder / "20news_bydate.vocabulary.txt").read_text(encoding="utf-8").split("\n")
    return rows.X, rows.y, (rows.train_idx, rows.test_idx), words[: rows.X.shape[1]]


if "DUALMETRIC_DATA" in os.environ:
    name, data = "20 Newsgroups", messages(Path(os.environ["DUALMETRIC_DATA"]))
else:
    name, data = "synthetic documents", synthetic_documents()
X, y, (train, test), words = data
print(f"{name}: {X.shape[0]:,} documents, {X.shape[1]:,} words")

idf = fit_idf(X[train])  # rare words count more
model = DuRP(n_components=20, shrinkage=0.84, distance="cosine", random_state=0)
model.fit(tfidf(X[train], idf), y[train])
metric = model.metric_.with_idf(idf)  # from here on, the metric takes raw counts

for distance, scores in compare(metric, X[test], y[test], X[train], y[train]).items():
    print(f"{distance:>9}: mAP {scores.map:.3f}, 5-NN {scores.knn:.3f}")

print("words of the leading directions:")
for direction in range(3):
    print("  ", ", ".join(word for word, _ in metric.top_features(direction, words, top=8)))
