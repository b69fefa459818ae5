"""The command line of the benchmark."""

import argparse
import signal
from pathlib import Path

from . import environments, objectives, runner, store


def main(arguments: list[str] | None = None) -> None:
    """Run, report or install."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description="This library beside its peers."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run what has not been run yet")
    run.add_argument("--quick", action="store_true", help="three sets, fast methods: minutes")
    for name, known in (
        ("objective", ", ".join(objectives.ALL)),
        ("dataset", "usps, digits, made_dense_n10000_d100 ..."),
        ("solver", "LDA, 'DuRP*' ..."),
    ):
        run.add_argument(
            f"--{name}",
            action="append",
            metavar="PATTERN",
            help=f"only these, as shell patterns; may be given more than once: {known}",
        )
    run.add_argument("--seeds", type=int, help="how often each run is made; else the objective's")
    run.add_argument("--limit", type=float, default=600.0, help="seconds a run may take (600)")
    run.add_argument("--threads", type=int, help="threads of BLAS and OpenMP; else every core")
    run.add_argument("--again", action="store_true", help="run even what is stored")
    run.add_argument(
        "--busy", action="store_true", help="others use this machine: mark times as unreliable"
    )
    report = commands.add_parser("report", help="make the tables and the figure")
    for command in (run, report):
        command.add_argument("--results", type=Path, default=store.RESULTS, help="JSON lines")
    report.add_argument("--page", type=Path, help="the page to fill in, made where it is not there")
    commands.add_parser("install", help="environments for metric-learn, umap-learn and torch")
    given = parser.parse_args(arguments)

    if given.command == "install":
        environments.install()
    elif given.command == "report":
        from . import report as reporting

        reporting.write(given.results, given.page or reporting.PAGE)
    else:
        choice = runner.Choice(
            quick=given.quick,
            objectives=tuple(given.objective or ["*"]),
            datasets=tuple(given.dataset or ["*"]),
            solvers=tuple(given.solver or ["*"]),
            seeds=given.seeds,
            limit=given.limit,
            threads=given.threads,
            again=given.again,
            busy=given.busy,
            results=given.results,
        )
        try:
            made = runner.run_all(choice)
        except KeyboardInterrupt:
            raise SystemExit("\nstopped; the same command goes on from here") from None
        print(f"{made} runs made")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a worker is ended too
    main()
