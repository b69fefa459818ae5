"""Run the examples on the data sets, and store what they print for the documentation.

DUALMETRIC_DATA=... python docs/store_outputs.py
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    """Write docs/outputs/<example>.txt for each example."""
    if "DUALMETRIC_DATA" not in os.environ:
        sys.exit("set DUALMETRIC_DATA to the folder of the data sets")
    for script in sorted((HERE.parent / "examples").glob("*.py")):
        command = [sys.executable, "-W", "error", str(script)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        target = HERE / "outputs" / f"{script.stem}.txt"
        target.write_text(done.stdout, encoding="utf-8")
        print(f"{target}\n{done.stdout}")


if __name__ == "__main__":
    main()
