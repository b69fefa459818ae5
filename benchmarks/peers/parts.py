"""Sections of the page that come from other stored results: parts of a fit, and ideas tried."""

from benchmarks._common import records


def limits() -> str:
    """Each part of a fit beside its own limit (benchmarks/core.py)."""
    stored = records("core")
    if "parts" not in stored:
        return ""
    lines = ["| set | part | seconds | its limit | times the limit |", "|---|---|---:|---:|---:|"]
    for name, parts in stored["parts"]["results"].items():
        for part, row in parts.items():
            seconds, limit = row["seconds"], row["limit"]
            lines.append(
                f"| {name} | {part} | {seconds:.3f} | {limit:.4f} | {seconds / limit:.1f} |"
            )
    return (
        "## Where the time of a fit goes\n\nThese are fits of DuRP with its defaults (ten "
        "projections, 100,000 triplets, three epochs), from `python benchmarks/core.py parts`; "
        "`DuRP(verbose=2)` prints the same parts of any fit. Each part is compared with a limit. "
        "For sampling it is a copy of every row that is compared; for projection, one product of "
        "its size; for solving, the arithmetic of its steps at the speed of a large product on one "
        "core, which cannot be reached, since each step waits for the one before it; for recovery, "
        "one product of its size and the eigenvectors.\n\n" + "\n".join(lines)
    )


def ideas() -> str:
    """What ideas changed on labelled sets (benchmarks/tried.py)."""
    tables = {name: record["results"] for name, record in records("tried").items()}
    if not tables:
        return ""
    names = list(tables)
    lines = [
        "| setting | idea | " + " | ".join(names) + " |",
        "|---|---|" + "---:|" * len(names),
    ]
    titles = {"paper": "the paper's", "best": "whitened, flat, cosine"}
    for base, title in titles.items():
        for idea in tables[names[0]]:
            cells = []
            for table in tables.values():
                row, before = table[idea][base], table["as it is"][base]
                values = [
                    f"{row[key]:.1f}"
                    if idea == "as it is"
                    else f"{row[key] - before[key]:+.1f}".replace("-", "−")
                    for key in ("map", "knn")
                ]
                cells.append(" / ".join(values))
            lines.append(f"| {title} | {idea} | " + " | ".join(cells) + " |")
    return (
        "## Ideas that were tried\n\nThe table has mAP / 5-NN in percent, means of three seeds, "
        "from `python benchmarks/tried.py`: the setting as it is, and what each idea adds.\n\n"
        + "\n".join(lines)
    )
