"""The command line as on a terminal, with its bars and colours."""

import os
import subprocess
import sys


def shown_on_terminal(*arguments):
    """What a command that succeeds writes to a terminal."""
    import pty

    screen, terminal = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", "from dualmetric.cli import main; main()", *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(terminal)
    shown = b""
    try:
        while part := os.read(screen, 65536):
            shown += part
    except OSError:  # how Linux says that the other side is closed
        pass
    finally:
        os.close(screen)
    assert child.wait(60) == 0
    return shown
