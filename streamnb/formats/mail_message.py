"""One mail as named texts: headers, subject, sender and body, decoded by MIME, charset and HTML.

Every function takes any bytes. What a mail declares wrongly, such as a charset, is read by a fallback.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message as Mail
from email.utils import parseaddr, parsedate_to_datetime
from html import unescape
from string import ascii_uppercase

MAX_MAIL = 16 << 20
"""The longest mail, in bytes."""

_SUPERSETS = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "ks_c_5601-1987": "cp949",
    "us-ascii": "utf-8",
    "ascii": "utf-8",
}
_UNKNOWN = (LookupError, UnicodeError, ValueError)  # an unknown charset, or bytes that it lacks
_TAG = r"""(/?)([a-z][a-z0-9:-]*)(?>[^>"']+|"[^"]*"|'[^']*')*+>"""
_MARKUP = re.compile(rf"<(?:{_TAG}|(!--)|([a-z/!?]))")
_LOWER = {ord(letter): letter.lower() for letter in ascii_uppercase}
_UNSHOWN = {"script", "style", "title"}
_BLOCKS = {
    "address", "article", "blockquote", "br", "center", "dd", "div", "dl", "dt", "footer", "form", "h1", "h2",
    "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "option", "p", "pre", "section",
    "table", "td", "th", "tr", "ul",
}  # fmt: skip
_BLANKS = re.compile(r"[ \t\f\v\u00a0]+")
_LINES = re.compile(r" ?(?:\n ?)+")


class MailText:
    """The texts of a mail.

    Args:
        raw: its bytes: headers, an empty line, and the body.

    Raises:
        ValueError: parts are nested too deeply.
    """

    def __init__(self, raw: bytes) -> None:
        try:
            self._mail = message_from_bytes(raw)
            self._parts = list(_text_parts(self._mail))
        except RecursionError:
            raise ValueError("its parts are nested too deeply") from None

    def header(self, name: str) -> str:
        """Return the first header of this name, decoded and on one line; "" without it."""
        wanted = name.lower()
        found = next((value for key, value in self._mail.raw_items() if key.lower() == wanted), "")
        return " ".join(_decoded_header(str(found)).split())

    @property
    def headers(self) -> list[str]:
        """The names of the headers, in their order."""
        return list(dict.fromkeys(name for name, _ in self._mail.raw_items()))

    @property
    def sender(self) -> str:
        """The address in the header ``From``, in lower case."""
        written = self.header("From")
        return (parseaddr(written)[1] or written).lower()

    @property
    def date(self) -> str:
        """The time in the header ``Date`` as RFC 3339; "" for none."""
        try:
            moment = parsedate_to_datetime(self.header("Date"))
        except (ValueError, TypeError, IndexError, OverflowError):
            return ""
        return moment.isoformat() + ("+00:00" if moment.tzinfo is None else "")

    @property
    def body(self) -> str:
        """The text of its text parts: plain ones, or else the text of HTML."""
        return "\n".join(filter(None, map(_text_of, self._parts)))

    @property
    def text(self) -> str:
        """The subject and the body."""
        return "\n\n".join(filter(None, (self.header("Subject"), self.body)))


def _text_parts(mail: Mail) -> Iterator[Mail]:
    """Yield the parts that are read: of alternatives the first plain text, or else the HTML."""
    if mail.get_content_disposition() == "attachment":
        return
    kind = mail.get_content_type()
    if not mail.is_multipart():
        if kind in {"text/plain", "text/html"}:
            yield mail
        return
    payload = mail.get_payload()
    parts = [part for part in payload if isinstance(part, Mail)] if isinstance(payload, list) else []
    if kind != "multipart/alternative":
        for part in parts:
            yield from _text_parts(part)
        return
    options = (list(_text_parts(part)) for part in parts)
    found = [texts for texts in options if any(_text_of(one).strip() for one in texts)]
    plain = (texts for texts in found if all(one.get_content_type() == "text/plain" for one in texts))
    yield from next(plain, found[0] if found else [])


def _text_of(part: Mail) -> str:
    payload = part.get_payload(decode=True)
    raw = payload if isinstance(payload, bytes) else b""
    text = decoded(raw, part.get_content_charset("")).replace("\r\n", "\n").replace("\r", "\n")
    return html_text(text) if part.get_content_type() == "text/html" else text.strip("\n")


def decoded(raw: bytes, charset: str) -> str:
    """Return bytes as text by a charset, else as UTF-8, else as cp1252 with unknown bytes replaced."""
    for name in filter(None, (_SUPERSETS.get(charset.lower(), charset), "utf-8")):
        try:
            text = raw.decode(name)
        except _UNKNOWN:
            continue
        if isinstance(text, str):
            return text.removeprefix("\ufeff")
    return raw.decode("cp1252", "replace")


def _decoded_header(value: str) -> str:
    """Return a header's value with its encoded words decoded."""
    plain = decoded(value.encode("ascii", "surrogateescape"), "utf-8") if not value.isascii() else value
    if "=?" not in plain:
        return plain
    try:
        parts = decode_header(plain)
    except (HeaderParseError, binascii.Error, ValueError):
        return plain
    return "".join(
        part
        if isinstance(part, str)
        else decoded(part, charset if charset and charset != "unknown-8bit" else "")
        for part, charset in parts
    )


def html_text(html: str) -> str:
    r"""Return the text that HTML shows, in time that is linear in its length.

    Examples:
        >>> html_text("<style>p {}</style><p>Free&nbsp;<b>en</b>try<br>now &lt;3")
        'Free entry\nnow <3'
    """
    lowered = html.lower()
    if len(lowered) != len(html):  # a few letters become longer
        lowered = html.translate(_LOWER)
    shown, position = [], 0
    while found := _MARKUP.search(lowered, position):
        start, (end_mark, name, comment, _) = found.start(), found.groups()
        shown.append(html[position:start])
        position = found.end()
        if comment:
            position = html.find("-->", position) + 3
        elif not name:
            position = html.find(">", start) + 1
        elif name in _UNSHOWN and not end_mark:
            position = lowered.find(f"</{name}", position)
        elif name in _BLOCKS:
            shown.append("\n")
        if position < (3 if comment else 1):
            position = len(html)
    shown.append(html[position:])
    text = _BLANKS.sub(" ", unescape("".join(shown)).replace("\r", "\n"))
    return _LINES.sub("\n", text).strip()
