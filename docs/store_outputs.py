"""Run the examples on the data sets, and store what they print for the documentation.

DUALMETRIC_DATA=... python docs/store_outputs.py          # all examples
DUALMETRIC_DATA=... python docs/store_outputs.py text     # some of them

It needs PostgreSQL with pgvector, as found by tests/postgresql.py, for vector_stores.
"""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

import postgresql  # noqa: E402


def main() -> None:
    """Write docs/outputs/<example>.txt for each example, or for those named."""
    if "DUALMETRIC_DATA" not in os.environ:
        sys.exit("set DUALMETRIC_DATA to the folder of the data sets")
    for script in sorted((HERE.parent / "examples").glob("*.py")):
        if sys.argv[1:] and script.stem not in sys.argv[1:]:
            continue
        command = [sys.executable, "-W", "error", str(script)]
        variables = dict(os.environ)
        with ExitStack() as stack:
            if script.stem == "vector_stores":
                variables["DATABASE_URL"] = stack.enter_context(postgresql.server())
            done = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, check=True, env=variables
            )
        target = HERE / "outputs" / f"{script.stem}.txt"
        target.write_text(done.stdout, encoding="utf-8")
        print(f"{target}\n{done.stdout}")


if __name__ == "__main__":
    main()
