"""Writing files so that an interrupted write leaves the old file unchanged."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

try:
    import fcntl
except ImportError:  # Windows, where leftovers of killed processes stay
    fcntl = None  # type: ignore[assignment]

_PREFIX, _SUFFIX = ".dualmetric-", ".part"


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write to a temporary file beside ``path``, and replace ``path`` by it atomically.

    A link stays a link: the file it points to is replaced. Errors of the system name ``path``.
    """
    with replacing(path) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that replaces ``path`` at the end, as `write_atomically` does.

    Files that killed processes left in the same folder are removed.
    """
    given, path = Path(path), Path(os.path.realpath(path))
    refuse_special(given)
    temporary: Path | None = None
    try:
        handle, temporary = _create(path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                _remove_leftovers(path.parent)
                yield file
                file.flush()
                os.fsync(file.fileno())
                if fcntl is None:
                    file.close()  # Windows does not rename open files
                os.replace(temporary, path)  # while it is locked: else it looks like a leftover
        except BaseException:
            with contextlib.suppress(FileNotFoundError):  # interrupted just after the replacement
                os.unlink(temporary)
            raise
    except OSError as error:
        # name the target, not the temporary file; errors about other files keep their name
        if error.errno is not None and error.filename in (None, str(temporary)):
            raise type(error)(error.errno, error.strerror, str(given)) from None
        raise


def lock(file: Any, wait: bool = True) -> bool:
    """Lock an open file; closing it ends the lock. False where another process has locked it.

    With ``wait``, wait until no other has.
    """
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        except OSError:  # some file systems have no locks
            pass
    return True


def _create(folder: Path) -> tuple[int, Path]:
    """A new file that is locked for as long as this process has it open."""
    while True:
        path = folder / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
        try:
            # unlike with tempfile, the umask decides who may read the file
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except OSError as error:
            error.filename = None  # of no use to the caller
            raise
        if fcntl is not None:
            lock(handle)
            if os.fstat(handle).st_nlink == 0:  # taken for a leftover before it was locked
                os.close(handle)
                continue
        return handle, path


def _remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of processes that were killed: those that nobody has locked."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not (entry.name.startswith(_PREFIX) and entry.name.endswith(_SUFFIX)):
                continue
            with contextlib.suppress(OSError):
                handle = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(entry.path)
                finally:
                    os.close(handle)


def refuse_special(path: Path, prefix: str = "") -> None:
    """Refuse a device, a pipe or a socket: it would be replaced, not written to."""
    # tested with the name as given: a link in /proc may lead to something without a name
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ValueError(
            f"{prefix}{path} is not a regular file but a device or a pipe: give the name of a file"
        )
