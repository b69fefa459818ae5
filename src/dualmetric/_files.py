"""Writing files so that a stopped write leaves the old file whole."""

import contextlib
import os
import secrets
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write to a temporary file beside ``path`` and put it in place in one step.

    A link stays a link: the file it points to is replaced.
    """
    path = Path(os.path.realpath(path))
    temporary = path.parent / f".dualmetric-{secrets.token_hex(8)}"
    # unlike tempfile's, this mode honours the umask: others may read what they could read before
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):  # stopped just after it was put in place
            os.unlink(temporary)
        raise
