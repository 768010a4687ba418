"""Following files: what arrives, once and whole, whatever happens to the file."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trntop.collectors import tail as module
from trntop.collectors.tail import MAX_CHUNK, MAX_LINE, RESCAN, Lines, Tail


class TestLines:
    """From bytes to lines."""

    def test_ends(self) -> None:
        lines = Lines()
        assert lines.feed(b"a\nb\r\nc\rd\n\n\r\ne") == [b"a", b"b", b"c", b"d"]
        assert lines.feed(b"f\n") == [b"ef"]

    def test_within_a_line(self) -> None:
        assert Lines(inside=True).feed(b"half\nwhole\n") == [b"whole"]
        assert Lines(inside=True).feed(b"\nwhole\n") == [b"whole"]

    def test_a_long_line_is_cut_and_spares_the_next(self) -> None:
        lines = Lines()
        for _ in range(100):
            assert lines.feed(b"x" * 1000) == []
        assert lines.feed(b"\nnext\n") == [b"x" * MAX_LINE, b"next"]

    def test_the_newest_update_of_a_bar_needs_no_end(self) -> None:
        lines = Lines()
        assert lines.feed(b"begin\n\r 1/9\r 2/9") == [b"begin", b" 1/9"]
        assert lines.settle() == [b" 2/9"]
        assert lines.settle() == []
        assert lines.feed(b"\r 3/9\r") == [b" 3/9"]
        assert lines.settle() == []
        assert lines.feed(b" 4/") == []
        assert lines.settle() == [b" 4/"]  # it was written in two pieces
        assert lines.feed(b"9\n") == [b" 4/9"]

    def test_an_unfinished_line_waits(self) -> None:
        lines = Lines()
        assert lines.feed(b"a\nloss: 2.") == [b"a"]
        assert lines.settle() == []
        assert lines.feed(b"5\n") == [b"loss: 2.5"]

    @given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b"x" * 5000])))
    def test_chunks_make_no_difference(self, pieces: list[bytes]) -> None:
        text = b"".join(pieces)
        lines = Lines()
        whole = Lines().feed(text)
        assert [line for piece in pieces for line in lines.feed(piece)] == whole
        ends = text.replace(b"\r", b"\n").split(b"\n")[:-1]
        assert whole == [line[:MAX_LINE] for line in ends if line]


class Follower:
    """A tail whose clock is turned by hand."""

    def __init__(self, *patterns: Path, look_back: int = 0, wall: float | None = None) -> None:
        self.now = 0.0
        options = {} if wall is None else {"wall": lambda: wall}
        self.tail = Tail(
            list(map(str, patterns)),
            look_back=look_back,
            clock=lambda: self.now,
            **options,
        )

    def __call__(self, after: float = 1.0) -> list[str]:
        """New lines of all files."""
        self.now += after
        self.news = self.tail.poll()
        return [line.decode() for lines in self.news.lines.values() for line in lines]


def append(file: Path, text: str) -> None:
    with file.open("a") as out:
        out.write(text)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "train.log"


class TestTail:
    """From files to lines."""

    def test_what_is_appended(self, file: Path) -> None:
        file.write_text("old\n")
        follow = Follower(file)
        assert follow() == []
        append(file, "1\n2\nhal")
        assert follow() == ["1", "2"]
        append(file, "f\n")
        assert follow() == ["half"]
        assert follow() == []
        assert follow.news.files == 1

    def test_a_line_that_was_half_written_at_the_start_is_left_out(self, file: Path) -> None:
        file.write_text("old\nhal")
        follow = Follower(file)
        assert follow() == []
        append(file, "f\nwhole\n")
        assert follow() == ["whole"]

    def test_looking_back(self, file: Path) -> None:
        file.write_text("".join(f"{number:9}\n" for number in range(100)))
        assert Follower(file, look_back=25)() == ["       98", "       99"]
        assert Follower(file, look_back=20)() == ["       98", "       99"]
        assert Follower(file, look_back=19)() == ["       99"]
        assert len(Follower(file, look_back=10**6)()) == 100

    def test_a_log_of_yesterday_reports_nothing(self, file: Path) -> None:
        file.write_text("old\n")
        follow = Follower(file, look_back=100, wall=file.stat().st_mtime + 3600)
        assert follow() == []
        append(file, "new\n")
        assert follow() == ["new"]

    def test_a_file_that_appears_later_is_read_from_its_beginning(self, tmp_path: Path) -> None:
        follow = Follower(tmp_path / "*.log")
        assert follow() == []
        assert follow.news.files == 0
        (tmp_path / "a.log").write_text("1\n2\n")
        (tmp_path / "b.txt").write_text("x\n")
        assert follow() == []  # not searched yet
        assert follow(RESCAN) == ["1", "2"]

    def test_rename_and_create(self, file: Path) -> None:
        file.touch()
        follow = Follower(file)
        follow()
        append(file, "1\n")
        assert follow() == ["1"]
        append(file, "2\n")
        file.rename(file.with_suffix(".1"))
        file.write_text("3\n")
        assert follow() == ["3"]
        append(file, "4\n")
        assert follow(RESCAN) == ["4"]
        assert follow.news.files == 1

    def test_a_new_name_that_matches_is_no_new_file(self, file: Path, tmp_path: Path) -> None:
        file.touch()
        follow = Follower(tmp_path / "train.log*")
        follow()
        append(file, "1\n")
        assert follow() == ["1"]
        file.rename(tmp_path / "train.log.1")
        file.write_text("2\n")
        assert follow() == ["2"]
        append(tmp_path / "train.log.1", "3\n")
        assert follow(RESCAN) == ["3"]
        assert follow.news.files == 2

    def test_copy_and_truncate(self, file: Path) -> None:
        file.write_text("a long line of old\n")
        follow = Follower(file)
        follow()
        append(file, "unfinished")
        assert follow() == []
        os.truncate(file, 0)
        assert follow() == []
        append(file, "1\n")
        assert follow() == ["1"]
        file.write_text("2\n")  # as short as before: cannot be distinguished from no change
        append(file, "3\n")
        assert follow() == ["3"]
        assert follow.tail.counts["truncated"] == 1

    def test_removed_and_created(self, file: Path) -> None:
        file.touch()
        follow = Follower(file)
        follow()
        append(file, "1\n")
        file.unlink()
        assert follow() == []  # never opened: gone
        file.write_text("2\n")
        assert follow(RESCAN) == ["2"]
        file.unlink()
        follow(RESCAN)
        assert follow.news.files == 0

    def test_of_too_much_the_newest_is_read(self, file: Path) -> None:
        file.touch()
        follow = Follower(file)
        follow()
        append(file, "".join(f"{number:99}\n" for number in range(10_000)))
        lines = follow()
        assert lines[-1] == f"{9999:99}"
        assert len(lines) == MAX_CHUNK // 100
        assert follow.tail.counts["skipped_bytes"] == 10_000 * 100 - MAX_CHUNK
        assert follow() == []

    def test_too_many_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MAX_FILES", 3)
        for number in range(5):
            each = tmp_path / f"{number}.log"
            each.touch()
            os.utime(each, (number, number))
        follow = Follower(tmp_path / "*.log")
        follow()
        assert follow.news.files == 3
        assert follow.news.problem == "only the newest 3 of 5 files are followed"
        for number in range(5):
            append(tmp_path / f"{number}.log", f"{number}\n")
        assert sorted(follow()) == ["2", "3", "4"]

    def test_one_file_by_two_names_is_read_once(self, file: Path, tmp_path: Path) -> None:
        file.touch()
        (tmp_path / "latest.log").symlink_to(file)
        follow = Follower(tmp_path / "*.log", file)
        follow()
        append(file, "1\n")
        assert follow() == ["1"]

    def test_what_is_no_file_is_left_alone(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "folder").mkdir()
        (tmp_path / "nowhere").symlink_to(tmp_path / "none")
        follow = Follower(tmp_path / "*", Path("/dev/zero"))
        assert follow() == []
        assert follow.news.files == 0

    def test_a_file_that_cannot_be_read_spares_the_others(
        self, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bad = tmp_path / "bad\x1b.log"
        for each in (file, bad):
            each.touch()
        follow = Follower(tmp_path / "*.log")
        follow()
        append(file, "1\n")
        append(bad, "1\n")
        opened = os.open

        def refuse(path: str, flags: int) -> int:
            if path == str(bad):
                raise PermissionError(13, "Permission denied")
            return opened(path, flags)

        with monkeypatch.context() as context:
            context.setattr(os, "open", refuse)
            assert follow() == ["1"]
        assert follow.news.problem == f"{tmp_path}/bad\ufffd.log: Permission denied"
        assert follow.tail.counts["unreadable"] == 1
        assert follow() == ["1"]  # now it can be
        assert follow.news.problem == ""
