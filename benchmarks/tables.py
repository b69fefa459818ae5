"""Write the tables of the README from benchmarks/results and results/cells.jsonl.

python benchmarks/tables.py
"""

import re
from pathlib import Path

from _common import results
from dualmetric.paper.cells import METHODS, Store
from dualmetric.paper.published import MAP
from dualmetric.paper.summary import over_trials
from dualmetric.paper.tables import papers_method

README = Path(__file__).parent.parent / "README.md"


def usps() -> str:
    """Every method in the paper's setting, from the stored results of `dualmetric reproduce`."""
    fits = Store(README.parent / "results", {"trials": 5}).results("fit")
    lines = ["| usps, the paper's setting | mAP % | paper |", "|---|---|---|"]
    for method in METHODS:
        ours, paper = over_trials(fits, "usps", method, "map"), MAP["usps"][papers_method(method)]
        theirs = f"{paper.mean}" if paper.spread is None else f"{paper.mean} ± {paper.spread}"
        lines.append(f"| {method} | {ours.show(1, 100)} | {theirs} |")
    return "\n".join(lines)


def text() -> str:
    table = results("wide", "text")
    lines = [
        "| 20 Newsgroups by date, 58,091 words | mAP % | 5-NN % | fit, × TruncatedSVD(50) |",
        "|---|---|---|---|",
    ]
    for name in ("Euclid", "cosine", "ridge, cosine"):
        row = table[name]
        lines.append(f"| {name} | {row['map']:.1f} | {row['knn']:.1f} | |")
    for name, time in (("DuRP", "durp"), ("DuRP, shrinkage 0.84", "whitened")):
        for distance in ("euclidean", "cosine"):
            row = table[name][distance]
            ratio = f"{table['ratios'][time]:.1f}"
            label = name + (", cosine" if distance == "cosine" else "")
            lines.append(f"| {label} | {row['map']:.1f} | {row['knn']:.1f} | {ratio} |")
    name = "DuRP, shrinkage 0.8, 19 directions, power 0"
    row = table[name]["cosine"]
    lines.append(f"| {name}, cosine | {row['map']:.1f} | {row['knn']:.1f} | |")
    return "\n".join(lines)


def words() -> str:
    found = results("wide", "words")
    directions = "\n".join("    " + ", ".join(words) for words in found["directions"])
    explanation = "\n".join("    " + line for line in found["explanation"].split("\n"))
    return (
        "What this metric looks at can be read. The leading words of its first directions "
        "(`metric.top_features(k, vocabulary)`):\n\n" + directions + "\n\nand why a message about "
        "hockey is far from one about space (`metric.explain(a, b, vocabulary)`):\n\n" + explanation
    )


def speed() -> str:
    fit, wide = results("core", "fit")["ratios"], results("core", "wide")["ratios"]
    lda, ranking = fit["durp_scaled/lda"], results("core", "map")["ratios"]["ours/argsort"]
    made, mapped = results("wide", "made")["runs"][-1], results("wide", "memmap")
    return "\n".join(
        [
            f"- A DuRP fit on usps takes {lda:.1f} × scikit-learn's LDA; DuOri takes "
            f"{fit['duori/durp']:.0f} × DuRP. Dense 5,500 × 1,000: {wide['durp/gram_and_eigh']:.1f}"
            " × the time of XᵀX and its eigenvectors.",
            f"- mAP of 15,000 rows takes {ranking:.2f} × the time of NumPy's argsort.",
            f"- Sparse {made['rows']:,} × 1,000,000, rank {made['rank']}: {made['seconds']:.0f} s "
            f"and {made['peak_gb']:.1f} GB in all. Memory-mapped 2,000,000 × 768: fit "
            f"{mapped['fit_seconds']:.0f} s, transform {mapped['transform_seconds']:.0f} s, "
            f"{mapped['peak_anonymous_gb']:.1f} GB of memory.",
        ]
    )


def section() -> str:
    """The part of the README that comes from stored results."""
    return "\n\n".join([text(), words(), usps(), speed()])


def main() -> None:
    parts = section()
    content = README.read_text(encoding="utf-8")
    pattern = r"(<!-- made by benchmarks/tables.py[^\n]*\n).*?(<!-- end -->)"
    content = re.sub(pattern, lambda m: f"{m[1]}\n{parts}\n\n{m[2]}", content, flags=re.S)
    README.write_text(content, encoding="utf-8")
    print(parts)


if __name__ == "__main__":
    main()
