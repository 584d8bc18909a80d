"""Folders of mails, and indexes of folders: Maildir, folders of ``.eml`` files or mboxes, indexes of TREC.

Files are read in the order of their paths, compressed ones too. An index of the TREC spam track has a line
``JUDGEMENT PATH`` for each step: ``spam`` and ``ham`` are predicted and learned at once, ``Spam`` and ``Ham``
predicted only, and ``SPAM`` and ``HAM`` give the label of a mail that was predicted before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from streamnb.errors import LogError, told_as
from streamnb.formats.compressed_input import DAMAGE, compression_suffix, content_of
from streamnb.formats.event_source import PEEKED, EventSource
from streamnb.formats.mail_events import MailEvents, folder_of, is_mbox, may_be_mail, split_mbox
from streamnb.formats.mail_message import MAX_MAIL
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import pluralize

_STEP = re.compile(r"(spam|Spam|SPAM|ham|Ham|HAM|unknown)[ \t]+(\S+)(?:[ \t].*)?")
_LINE = re.compile(rb"(?:spam|Spam|SPAM|ham|Ham|HAM|unknown) [^\s,;]*/[^\s,;]*(?: [^\s]+)*\s*")
_FIRST = 20  # lines by which content is recognised
_MOST_STEPS = 10_000_000


def is_trec_index(start: bytes) -> bool:
    """Return whether the first lines of content are a judgement and a path."""
    lines = start.splitlines(keepends=True)
    return bool(lines) and all(map(_LINE.fullmatch, lines[:_FIRST]))


def mail_folder_events(source: EventSource) -> Iterator[bytes]:
    """Yield the event of each mail in a folder and its folders.

    Of several folders of a command, mails outside any folder in it are labelled by its own name.

    Raises:
        LogError: the source is not a folder, or holds no mail.
    """
    root = Path(source.name)
    if not root.is_dir():
        raise LogError("is not a folder of mails")
    name = root.resolve().name if source.columns.is_one_of_many else ""
    files = ((path.relative_to(root), _opener(path)) for path in _files(root))
    yield from mails_of_files(source, files, name)


def mails_of_files(
    source: EventSource, files: Iterable[tuple[PurePath, Callable[[], Any]]], root: str = ""
) -> Iterator[bytes]:
    """Yield the event of each mail in files that are mails or mboxes, perhaps compressed.

    Args:
        source: the folder or archive.
        files: the path of each file in it, and a function that opens it as a raw stream.
        root: the name of the folder if it is one of several; else empty.

    Raises:
        LogError: no file is a mail, or one cannot be read.
    """
    reader = MailEvents(source, "folder")
    left_out: list[str] = []
    n = 0
    for path, opener in files:
        relative = PurePosixPath(path.as_posix())
        with told_as(LogError, relative, *DAMAGE), opener() as file:
            content = content_of(file, compression_suffix(path.name.lower()))
            start = content.peek(PEEKED)
            if is_mbox(start):
                name = _label_of_mbox(PurePosixPath(root, relative))
                for raw in split_mbox(content):
                    n += 1
                    yield reader.event(raw, str(relative), name)
            elif may_be_mail(start):
                n += 1
                yield reader.event(
                    content.read(MAX_MAIL + 1), str(relative), folder_of(PurePosixPath(root, relative))
                )
            else:
                left_out.append(str(relative))
    if left_out:
        text = (
            f"{pluralize(len(left_out), 'file')} without headers of a mail, such as {left_out[0]}: left out"
        )
        source.note(Message("files-left-out", text, files=left_out[:100]))
    if not n:
        raise LogError("holds no mail")
    reader.check_label()


def _opener(path: Path) -> Callable[[], Any]:
    return lambda: path.open("rb", buffering=0)


def _label_of_mbox(path: PurePosixPath) -> str:
    """Return the file's name if it stands for a box: at the top, or with the suffix; otherwise the folder."""
    name = PurePath(path.name.removesuffix(compression_suffix(path.name)))
    folder = folder_of(path)
    return name.stem if not folder or name.suffix.lower() == ".mbox" else folder


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder in the order of their paths; hidden ones are left out."""
    with told_as(LogError, folder, OSError):
        entries = sorted(folder.iterdir())
    for path in entries:
        if path.is_dir():
            is_maildir = path.name.startswith(".") and (path / "cur").is_dir()
            if (not path.name.startswith(".") or is_maildir) and path.name != "tmp" and not path.is_symlink():
                yield from _files(path)
        elif not path.name.startswith(".") and path.is_file():
            yield path


def trec_index_events(source: EventSource) -> Iterator[bytes]:
    """Yield the event of each mail that an index predicts, in its order.

    An event has its label, and ``feedback``, which is false if the label is never learned. If the label comes
    later, ``delay`` is the number of predictions in between.

    Raises:
        LogError: a line that is not a step, or a mail that cannot be read.
    """
    if source.name == "-":
        raise LogError("an index of mails is read from a file: its paths are relative to it")
    steps, later = _steps(source)
    if n_partial := sum(judgement.istitle() for judgement, _ in steps):
        text = f"gives {pluralize(n_partial, 'label')} later or never, and each is read at once: "
        text += "`evaluate --delay '$.delay' --reveal '$.feedback'` gives them as the index does"
        source.note(Message("labels-partial", text, count=n_partial))
    reader, base = MailEvents(source, "judgement"), Path(source.name).parent
    for number, (judgement, path) in enumerate(steps):
        file = base / path
        with told_as(LogError, file, OSError, ValueError), file.open("rb") as opened:
            raw = opened.read(MAX_MAIL + 1)
        label = "" if judgement == "unknown" else judgement.lower()
        more: dict[str, object] = {}
        if path in later:
            label, more["delay"] = later[path][0], max(0, later[path][1] - number - 1)
        if label:
            more["feedback"] = judgement.islower() or path in later
        yield reader.event(raw, path, folder_of(PurePosixPath(path)), label, **more)


def _steps(source: EventSource) -> tuple[list[tuple[str, str]], dict[str, tuple[str, int]]]:
    """Return the predictions, and by path the label that comes later and how many predictions precede it."""
    steps: list[tuple[str, str]] = []
    later: dict[str, tuple[str, int]] = {}
    for line in source.text_lines("\n"):
        if not line.strip():
            continue
        found = _STEP.fullmatch(line.strip())
        if found is None:
            raise LogError(f"line {source.line} is not a judgement (spam or ham) and a path")
        if source.line > _MOST_STEPS:
            raise LogError(f"has more than {_MOST_STEPS} lines")
        if found[1].isupper():
            later[found[2]] = found[1].lower(), len(steps)
        else:
            steps.append((found[1], found[2]))
    return steps, later
