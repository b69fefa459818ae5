"""Virtual environments of the peers whose packages exclude others' or are large."""

import os
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).parent / "requirements"
FOLDER = Path(
    os.environ.get("DUALMETRIC_PEERS") or Path(__file__).parents[2] / ".venv" / "peers"
).absolute()
"""Where they are: the environment variable DUALMETRIC_PEERS names another place."""


def interpreter(name: str) -> str | None:
    """Python of an environment; this one where it has no name, None where it is not there."""
    if not name:
        return sys.executable
    python = FOLDER / name / "bin" / "python"
    return str(python) if (FOLDER / name / ".ready").exists() else None


def install() -> None:
    """Make each environment that is not there; one that cannot be made does not stop the others."""
    for path in sorted(REQUIREMENTS.glob("*.txt")):
        folder = FOLDER / path.stem
        if (folder / ".ready").exists():
            print(f"{path.stem}: is there")
            continue
        print(f"{path.stem}: installing to {folder}", flush=True)
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", folder]).returncode == 0
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
        pip += ["--disable-pip-version-check", "--requirement", path]
        if made and subprocess.run(pip).returncode == 0:
            (folder / ".ready").touch()
        else:
            print(f"{path.stem}: could not be installed; its methods are recorded as missing")
