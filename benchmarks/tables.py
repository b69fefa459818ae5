"""Write the tables of the README, and numbers of the pages, from stored results.

python benchmarks/tables.py
"""

import re
import textwrap
from pathlib import Path
from statistics import mean

from _common import commits, records, results
from _peers_methods import TUNED
from chooser import DENSE, TEXT
from dualmetric.paper.cells import METHODS, Store
from dualmetric.paper.fingerprint import fingerprint
from dualmetric.paper.published import MAP
from dualmetric.paper.summary import over_trials
from dualmetric.paper.tables import papers_method
from page_numbers import collect, filled
from peers_page import best, scores_of

README = Path(__file__).parent.parent / "README.md"


def usps() -> str:
    """Every method in the paper's setting, from the stored results of `dualmetric reproduce`."""
    fits = Store(README.parent / "results", {"trials": 5}).results("fit")
    lines = ["| usps, as in the paper | mAP % | published |", "|---|---|---|"]
    for method in METHODS:
        ours, paper = over_trials(fits, "usps", method, "map"), MAP["usps"][papers_method(method)]
        theirs = f"{paper.mean}" if paper.spread is None else f"{paper.mean} ± {paper.spread}"
        lines.append(f"| {method} | {ours.show(1, 100)} | {theirs} |")
    lines += [
        "",
        "*OASIS* is tuned; *OASIS raw* learns from the rows as they are, with default settings. "
        "*LMNN* learns from all features; *LMNN on PCA* learns from principal components.",
    ]
    return "\n".join(lines)


def labels() -> str:
    """`MetricCV` beside the plain distances and tuned peers; of each kind, the best counts."""
    lines = [
        "| labels, mAP % | plain | ridge or LDA | ridge on kernel features | `MetricCV` |",
        "|---|---|---|---|---|",
    ]
    for name in (*DENSE, *TEXT):
        scores = scores_of(name, "map")
        plain = [label for label in scores if label.startswith("plain")]
        kinds = (plain, TUNED[:-1], TUNED[-1:], ["MetricCV map"])
        chosen = [best(scores, labels) for labels in kinds]
        cells = [f"{mean(scores[label]):.1f}" if label else "–" for label in chosen]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def others() -> str:
    """The same for clicks, judgements and pairs; words beside vectors are blocks."""
    lines = [
        "| clicks and pairs | score | plain | tuned peer | `MetricCV` |",
        "|---|---|---|---|---|",
    ]
    adapter = results("supervision", "torch_adapter")
    for name, found in results("supervision", "retrieval").items():
        both = adapter[name], found["default"]
        peer, ours = (mean(run["all"] for run in runs) for runs in both)
        plain = max(found[kind]["all"] for kind in ("plain", "plain, centred cosine"))
        lines.append(f"| {name} | nDCG@10 | {plain:.3f} | {peer:.3f} | {ours:.3f} |")
    for name, found in results("supervision", "blocks").items():
        plain = max(found[kind]["all"] for kind in ("MiniLM", "words"))
        ours = mean(run["all"] for run in found["MetricCV"])
        lines.append(f"| {name}, with words | nDCG@10 | {plain:.3f} | – | {ours:.3f} |")
    outside = results("supervision", "metric_learn")
    for name, found in results("supervision", "pairs").items():
        tuned = [found[kind]["ap"] for kind in ("logistic", "logistic, standardised")]
        peer = max(*tuned, *(one["test_ap"] for one in outside[name].values()))
        ours = mean(run["ap"] for run in found["MetricCV"])
        plain = max(found[kind]["ap"] for kind in ("plain", "plain, cosine"))
        lines.append(f"| {name} | average precision | {plain:.3f} | {peer:.3f} | {ours:.3f} |")
    lines += [
        "",
        "About these tables:",
        "",
        "- digits, usps and fashion_mnist_13k are images, isolet1 is speech, "
        "caltech101_top30_bovw is visual words, golub and su are gene expression, protein_val is "
        "protein sequences, and the other sets with labels are texts. scifact, cranfield and "
        "stackfaq are queries and documents, and abt_buy and amazon_google are product records of "
        "two shops each, all as sentence embeddings.",
        "- *With words*: tf-idf of the words is added as a second block of columns. A dash means "
        "that this was not measured.",
        "- For clicks, the peer is a linear adapter trained with PyTorch and tuned on held-out "
        "queries. For pairs, it is the best of logistic regression, ITML and MMC (both of "
        "metric-learn), each tuned on validation pairs.",
        "- By default, `MetricCV` also guards against losses on new documents. This matters on "
        "stackfaq, where no document that answers a test query has a click in the training data.",
        "- The [examples](docs/examples/index.md) use other settings, and some use other features, "
        "so their numbers differ.",
    ]
    return "\n".join(lines)


def speed() -> str:
    low, high = results("core", "fit")["range of durp_scaled/lda"]
    made, mapped = results("wide", "made")["runs"][-1], results("wide", "memmap")
    return "\n".join(
        [
            "Time and memory:",
            "",
            f"- A `DuRP` fit on usps takes {low:.1f} to {high:.1f} times as long as scikit-learn's "
            "LDA, whose time varies from process to process.",
            f"- A `DuRP` fit of rank {made['rank']} on a sparse matrix with {made['rows']:,} rows "
            f"and 1,000,000 features takes {made['seconds']:.0f} s and {made['peak_gb']:.1f} GB of "
            "memory, including the matrix.",
            "- On a memory map of 2,000,000 × 768, a fit (which uses 50,000 of the rows) takes "
            f"{mapped['fit_seconds']:.0f} s, and a transform {mapped['transform_seconds']:.0f} s. "
            f"Both need at most {mapped['peak_anonymous_gb']:.1f} GB of memory.",
        ]
    )


def origin() -> str:
    """The commits that measured all this."""
    paper = [
        commit[:7] + ("" if code == fingerprint() else "†")
        for code, found in Store(README.parent / "results", {"trials": 5}).origins("usps").items()
        for commit in found
    ]
    scores = [part for part in records("chooser") if part.startswith("scores ")]
    peers = [name for name in (*DENSE, *TEXT) if name in records("peers")]
    measured = {
        "labels": ", ".join([commits("chooser", *scores), commits("peers", *peers)]),
        "clicks and pairs": commits(
            "supervision", "retrieval", "blocks", "pairs", "torch_adapter", "metric_learn"
        ),
        "time and memory": ", ".join([commits("core", "fit"), commits("wide", "made", "memmap")]),
        "the paper's setting": ", ".join(paper),
    }
    once = {what: ", ".join(dict.fromkeys(made.split(", "))) for what, made in measured.items()}
    text = "; ".join(f"{what}: {made_by}" for what, made_by in once.items())
    note = " (†: the code has changed since)" if "†" in text else ""
    return f"Commits at which these were measured{note}: {text}."


def section() -> str:
    """The part of the README that comes from stored results."""
    text = "\n\n".join([labels(), others(), speed(), usps(), origin()])
    return "\n".join(map(wrapped, text.split("\n")))


def wrapped(line: str) -> str:
    """Text in lines of 120 characters; a row of a table stays one line."""
    if line.startswith("|"):
        return line
    return textwrap.fill(line, 120, subsequent_indent="  " if line.startswith("- ") else "")


def main() -> None:
    parts = section()
    content = README.read_text(encoding="utf-8")
    pattern = r"(<!-- made by benchmarks/tables.py[^\n]*\n).*?(<!-- end -->)"
    content = re.sub(pattern, lambda m: f"{m[1]}\n{parts}\n\n{m[2]}", content, flags=re.S)
    README.write_text(content, encoding="utf-8")
    print(parts)
    numbers = collect()
    for page in sorted((README.parent / "docs").rglob("*.md")):
        before = page.read_text(encoding="utf-8")
        if (after := filled(before, numbers)) != before:
            page.write_text(after, encoding="utf-8")
            print(f"wrote {page.relative_to(README.parent)}")


if __name__ == "__main__":
    main()
