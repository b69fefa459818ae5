"""Files that are written in one step; see test_metric_file.py for writes that are stopped."""

import errno
import os

import pytest

from dualmetric.io.atomic import replacing, write_atomically


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes there")
@pytest.mark.parametrize("linked", [False, True])
def test_pipes_are_not_replaced(linked, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / "pipe"
    if linked:
        path = tmp_path / "link"
        path.symlink_to("pipe")
    with pytest.raises(
        ValueError, match=rf"{path.name} is not a regular file .*: give the name of a file"
    ):
        write_atomically(path, b"x")
    assert (tmp_path / "pipe").is_fifo()
    assert path.is_symlink() == linked
    assert len(os.listdir(tmp_path)) == 1 + linked


def test_pipes_that_have_no_name():
    """As standard output has, where it goes to another program."""
    reader, writer = os.pipe()
    try:
        path = f"/proc/self/fd/{writer}"
        if not os.path.exists(path):
            pytest.skip("no /proc here")
        with pytest.raises(ValueError, match="is not a regular file"):
            write_atomically(path, b"x")
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
def test_errors_name_the_target(call, tmp_path, monkeypatch):
    def full(path, *arguments):
        name = None if isinstance(path, int) else str(path)
        raise OSError(errno.ENOSPC, "No space left on device", name)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(OSError, match="No space left on device") as caught:
            write_atomically(tmp_path / "a", b"x")
    assert caught.value.filename == str(tmp_path / "a")
    assert str(caught.value).endswith(repr(str(tmp_path / "a")))
    assert os.listdir(tmp_path) == []


def test_errors_of_what_is_read_meanwhile_keep_their_name(tmp_path):
    (tmp_path / "a").write_bytes(b"before")

    def copy():
        with replacing(tmp_path / "a") as file:
            file.write(b"half")
            file.write((tmp_path / "b").read_bytes())

    with pytest.raises(FileNotFoundError) as caught:
        copy()
    assert caught.value.filename == str(tmp_path / "b")
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"before"


@pytest.mark.skipif(os.name == "nt", reason="another error there")
def test_folders_are_not_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        write_atomically(tmp_path / "folder", b"x")
    assert caught.value.filename == str(tmp_path / "folder")
    assert os.listdir(tmp_path) == ["folder"]
