"""Writing files so that a stopped write leaves the old file whole."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write to a temporary file beside ``path`` and put it in place in one step.

    A link stays a link: the file it points to is replaced. Errors of the system name ``path``.
    """
    with replacing(path) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that takes the place of ``path``, as `write_atomically` does, at the end."""
    given, path = Path(path), Path(os.path.realpath(path))
    refuse_special(given)
    temporary = path.parent / f".dualmetric-{secrets.token_hex(8)}"
    try:
        # unlike tempfile's, this mode honours the umask: others may read what they could before
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):  # stopped just after it was put in place
                os.unlink(temporary)
            raise
    except OSError as error:
        # the temporary file is of no interest to anyone; what was read meanwhile has its own name
        if error.errno is not None and error.filename in (None, str(temporary)):
            error.filename, error.filename2 = str(given), None
        raise


def refuse_special(path: Path, prefix: str = "") -> None:
    """Refuse a device, a pipe or a socket: it would be replaced, not written to."""
    # asked of the name as given: the end of a link in /proc has no name to be resolved to
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ValueError(f"{prefix}{path} is not a regular file (a device or a pipe); name a file")
