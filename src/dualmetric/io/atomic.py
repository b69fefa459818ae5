"""Writing files so that an interrupted write leaves the old file unchanged."""

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
    """Open a file that replaces ``path`` at the end, as `write_atomically` does."""
    given, path = Path(path), Path(os.path.realpath(path))
    refuse_special(given)
    temporary = path.parent / f".dualmetric-{secrets.token_hex(8)}"
    try:
        # unlike with tempfile, the umask decides who may read the file
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):  # interrupted just after the replacement
                os.unlink(temporary)
            raise
    except OSError as error:
        # name the target, not the temporary file; errors about other files keep their name
        if error.errno is not None and error.filename in (None, str(temporary)):
            error.filename, error.filename2 = str(given), None
        raise


def refuse_special(path: Path, prefix: str = "") -> None:
    """Refuse a device, a pipe or a socket: it would be replaced, not written to."""
    # tested with the name as given: a link in /proc may lead to something without a name
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ValueError(f"{prefix}{path} is not a regular file (a device or a pipe); name a file")
