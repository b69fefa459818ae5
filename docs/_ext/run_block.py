"""The directive ``run``: commands or Python code, and what they print, run as the page is built.

    ```{run}
    dualmetric info digits.safetensors
    ```

An argument ``python`` says that the block is Python code; ``:example:`` names a script of
``examples/``, of which only the output is shown. All blocks of a page run in one folder, which is
empty at first. A block that fails is a warning, and so fails the build.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)
EXAMPLES = Path(__file__).parents[2] / "examples"


def environment() -> dict[str, str]:
    """Return an environment with no data folder and no colours, and this Python's commands."""
    plain = {"COLUMNS": "88", "NO_COLOR": "1", "TERM": "dumb"}
    kept = {name: value for name, value in os.environ.items() if name != "DUALMETRIC_DATA"}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return kept | plain | {"PATH": path}


class Run(Directive):
    """Run a block, and show it with its output."""

    has_content = True
    optional_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"example": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Return the block and what it printed."""
        env = self.state.document.settings.env
        if "run_folder" not in env.temp_data:
            env.temp_data["run_folder"] = tempfile.TemporaryDirectory()
        folder = env.temp_data["run_folder"]  # of this page, and gone with it
        shown = []
        if "example" in self.options:
            script = EXAMPLES / self.options["example"]
            env.note_dependency(str(script))
            self._add(shown, "text", self._output([sys.executable, str(script)], folder.name))
        elif self.arguments == ["python"]:
            code = "\n".join(self.content)
            self._add(shown, "python", code)
            self._add(shown, "text", self._output([sys.executable, "-c", code], folder.name))
        else:
            lines = []
            for command in self.content:
                lines.append(f"$ {command}")
                lines.append(self._output(["bash", "-c", command], folder.name))
            self._add(shown, "console", "\n".join(line for line in lines if line))
        return shown

    def _output(self, command: list[str], folder: str) -> str:
        variables = environment() | {"DUALMETRIC_CACHE": str(Path(folder) / ".cache")}
        done = subprocess.run(
            command,
            cwd=folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            where = self.state_machine.get_source_and_line(self.lineno)
            logger.warning(
                "%s ended with %s:\n%s",
                command,
                done.returncode,
                done.stdout,
                location=f"{where[0]}:{where[1]}",
            )
        return "\n".join(line.rstrip() for line in done.stdout.rstrip().split("\n"))

    @staticmethod
    def _add(shown: list[nodes.Node], language: str, text: str) -> None:
        if text:
            shown.append(nodes.literal_block(text, text, language=language))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("run", Run)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
