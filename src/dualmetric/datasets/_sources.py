"""Finding the files of a data set: in the data folder, the cache folder, or on the web."""

import logging
import os
from pathlib import Path

from ._cache import CACHE_VARIABLE, cache_folder
from ._catalog import DATA_VARIABLE, Entry, File

_FIRST_BYTES = {".bz2": b"BZh", ".mat": b"MATLAB"}


def find_files(name: str, entry: Entry) -> list[Path]:
    """Paths of the files of a set, downloaded if necessary: ``<name>.npz``, or the public files."""
    path = stored(f"{name}.npz")
    if path is not None:
        return [path]
    if not entry.files:
        where = f"put it into {_folder_to_fill()}, or set {DATA_VARIABLE} to the folder that has it"
        remark = f" {entry.absent}" if entry.absent else ""
        raise FileNotFoundError(f"{name}.npz is needed and cannot be downloaded: {where}.{remark}")
    return [stored(file.name) or download(file) for file in entry.files]


def files_are_here(name: str, entry: Entry) -> bool:
    """Whether `find_files` would find them without a download."""
    if stored(f"{name}.npz") is not None:
        return True
    return bool(entry.files) and all(stored(file.name) is not None for file in entry.files)


def stored(file_name: str) -> Path | None:
    """Path of a file in the data folder or in the cache folder, if it is there."""
    for folder in (_data_folder(), cache_folder()):
        if folder is not None and (folder / file_name).is_file():
            return folder / file_name
    return None


def _data_folder() -> Path | None:
    named = os.environ.get(DATA_VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"{DATA_VARIABLE} names {folder}, which is not a folder")
    return folder


def _folder_to_fill() -> Path | str:
    return _data_folder() or cache_folder() or f"the folder that {DATA_VARIABLE} names"


def download(file: File) -> Path:
    """Download to the cache folder; a file appears there only when it is complete.

    Downloads never go to the data folder, which may be shared or read-only.
    """
    by_hand = f"put it into {_folder_to_fill()} by hand"
    needed = f"{file.name} is needed and is not in the data folder"
    try:
        import pooch  # type: ignore[import-untyped, import-not-found, unused-ignore]
        from tqdm import tqdm  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise ImportError(
            f"{needed}. To download it, pip install 'dualmetric[data]'; or get it from "
            f"{file.url} and {by_hand}"
        ) from None
    folder = cache_folder()
    if folder is None:
        raise FileNotFoundError(
            f"{needed}, and there is no home folder to download it to: set {CACHE_VARIABLE} to a "
            f"folder; or get it from {file.url} and {by_hand}"
        )
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)  # its remarks are for programmers
    # pooch sets the total; it fails on a bar without one, as that has no truth value
    progress = tqdm(desc=file.name, total=1, unit="B", unit_scale=True, leave=False)
    try:
        path = pooch.retrieve(
            file.url,
            known_hash=file.sha256 and f"sha256:{file.sha256}",
            fname=file.name,
            path=folder,
            downloader=pooch.HTTPDownloader(progressbar=progress),
        )
    except Exception as error:
        if isinstance(error, ValueError) and "hash" in str(error):
            raise ValueError(
                f"{file.name} as downloaded from {file.url} does not have the checksum "
                f"{file.sha256}: it came damaged or has changed there. It was not kept; try "
                f"again, or get another copy and {by_hand}"
            ) from None
        name = type(error).__name__
        # the message of requests for a missing connection is long and says no more
        reason = "no connection" if name == "ConnectionError" else f"{name}: {error}"[:200]
        raise FileNotFoundError(
            f"{needed}, and downloading {file.url} failed ({reason}): try again, or get it from "
            f"there and {by_hand}"
        ) from None
    finally:
        progress.close()
        logger.setLevel(level)
    return _checked(Path(path), file, by_hand)


def _checked(path: Path, file: File, by_hand: str) -> Path:
    """Delete what cannot be the file: a log-in page, for example, downloads without an error."""
    first = _FIRST_BYTES.get(path.suffix, b"")
    with open(path, "rb") as stream:
        good = stream.read(len(first)) == first
    if not good:
        path.unlink()
        raise ValueError(
            f"{file.url} gave something that is not {file.name}; it was not kept. Open the "
            f"address in a browser, then get the file from there and {by_hand}"
        )
    return path
