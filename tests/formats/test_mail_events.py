"""Mails: mailboxes written by Python keep their texts, and each mail finds its label."""

from __future__ import annotations

import gzip
import json
import mailbox
from email.message import EmailMessage
from email.policy import SMTP, compat32
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.errors import LogError
from streamnb.formats import mail_events, mail_message
from streamnb.formats.mail_message import MailText, html_text
from tests.support.read_events import read

SETS = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("mails")


def mail_of(subject, body, sender="A <Ann@X.org>", charset="utf-8", html=None, **headers):
    mail = EmailMessage()
    mail["From"], mail["Subject"] = sender, subject
    for name, value in headers.items():
        mail[name.replace("_", "-")] = value
    mail.set_content(body, charset=charset)
    if html is not None:
        mail.add_alternative(html, subtype="html")
    return mail


words = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=9)
lines = st.lists(words | st.just("From here on"), max_size=5).map(" ".join)
bodies = st.lists(lines, max_size=5).map("\n".join).map(lambda body: body.strip("\n"))
subjects = st.lists(words, max_size=3).map(" ".join)
drawn = st.lists(
    st.tuples(
        subjects, bodies, st.sampled_from(["spam", "ham"]),
        st.sampled_from(["base64", "quoted-printable", "8bit"]), st.sampled_from(["utf-8", "koi8-r", "cp1252"]),
    ),
    max_size=5,
)  # fmt: skip


def written(rows):
    for subject, body, label, transfer, declared in rows:
        charset = declared if body.encode(declared, "ignore").decode(declared) == body else "utf-8"
        mail = EmailMessage()
        mail["Subject"], mail["X-Label"], mail["From"] = subject, label, "ann@x.org"
        mail.set_content(body, charset=charset, cte=transfer)
        yield mail


def expected(rows):
    return [("\n\n".join(filter(None, (subject, body))), label) for subject, body, label, *_ in rows]


@given(rows=drawn)
def test_an_mbox_of_python_is_read_alike(place, rows):
    path = place / "e.mbox"
    path.unlink(missing_ok=True)
    box = mailbox.mbox(path)
    for mail in written(rows):
        box.add(mail)
    box.close()
    events = read(path, label="X-Label")
    assert [(event.get("text", ""), event["label"]) for event in events] == expected(rows)
    assert all(event["features"] == {"sender": "ann@x.org"} for event in events)


@given(rows=drawn)
def test_a_maildir_of_python_is_read_alike(tmp_path_factory, rows):
    root = tmp_path_factory.mktemp("maildir")
    boxes = {name: mailbox.Maildir(root / name) for name in ("spam", "ham")}
    for (_, _, label, *_), mail in zip(rows, written(rows), strict=True):
        boxes[label].add(mail)
    if not rows:
        with pytest.raises(LogError, match="holds no mail"):
            read(root)
        return
    events = read(root)
    assert sorted((event.get("text", ""), event["label"]) for event in events) == sorted(expected(rows))


def test_the_label_is_the_folder_the_file_a_header_or_missing(tmp_path):
    for folder in ("ham", "spam/cur", "spam/new", "spam/tmp", ".Junk/cur", ".hidden"):
        (tmp_path / folder).mkdir(parents=True)
    mails = {
        "ham/1.eml": "a",
        "ham/2.gz": "b",
        "spam/cur/3:2,S": "c",
        "spam/new/4": "d",
        ".Junk/cur/5": "e",
        "6": "f",
    }
    for name, subject in {**mails, "spam/tmp/7": "g", ".hidden/8": "h", "ham/.9": "i"}.items():
        content = mail_of(subject, "", X_Label=f"label {subject}").as_bytes()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    (tmp_path / "cmds").write_text("mv 1 2\n")
    notes = []
    events = read(tmp_path, notes)
    assert [(event["text"], event.get("label")) for event in events] == [
        ("e", "Junk"), ("f", None), ("a", "ham"), ("b", "ham"), ("c", "spam"), ("d", "spam"),
    ]  # fmt: skip
    assert [note.event for note in notes] == ["label-chosen", "files-left-out"]
    assert "its folder, such as 'Junk'" in notes[0]
    assert "1 file without headers of a mail, such as cmds" in notes[1]
    assert [event["label"] for event in read(tmp_path, label="X-Label")] == [f"label {c}" for c in "efabcd"]
    assert read(tmp_path, label="file", id="file")[2] == {
        "id": "ham/1.eml", "label": "ham/1.eml", "text": "a", "features": {"sender": "ann@x.org"},
    }  # fmt: skip
    with pytest.raises(
        LogError, match="no mail has a label: --label-column NAME selects folder, file or a header"
    ):
        read(tmp_path, label="X-None", must_have_label=True)


def test_mails_at_the_top_of_several_folders_have_their_names_as_labels(tmp_path):
    for folder in ("spam", "ham/cur", "ham/.Old/cur"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "1.eml").write_bytes(mail_of("a", "b").as_bytes())
    for root, labels in (("spam", ["spam"]), ("ham", ["Old", "ham"])):
        events = read(tmp_path / root, is_one_of_many=True)
        assert [event["label"] for event in events] == labels
        assert [event["id"] for event in events] == list(map(str, range(len(labels))))
    assert "label" not in read(tmp_path / "spam")[0]


def test_mboxes_in_a_folder_have_their_names_as_labels(tmp_path):
    for label in ("ham", "spam"):
        box = mailbox.mbox(tmp_path / f"{label}.mbox")
        box.add(mail_of("s", label))
        box.close()
    assert [(event["label"], event["text"]) for event in read(tmp_path)] == [
        ("ham", "s\n\nham"),
        ("spam", "s\n\nspam"),
    ]
    assert read(tmp_path / "spam.mbox", label="file")[0]["label"] == "spam"
    (tmp_path / "good").mkdir()
    (tmp_path / "spam.mbox").rename(tmp_path / "good" / "00017")  # one mail that still has its separator
    assert [event["label"] for event in read(tmp_path)] == ["good", "ham"]
    assert read(tmp_path / "good" / "00017")[0]["text"] == "s\n\nspam"


def test_roles_take_other_columns(place):
    path = place / "one.eml"
    raw = mail_of("Hi", "Text", Date="Mon, 5 Jan 2026 10:00:00 +0100", Message_ID="<7@x>").as_bytes()
    path.write_bytes(raw)
    assert read(path) == [{"id": "0", "text": "Hi\n\nText", "features": {"sender": "ann@x.org"}}]
    (event,) = read(path, id="Message-ID", ts="date", text="body")
    assert event == {
        "id": "<7@x>", "ts": "2026-01-05T10:00:00+01:00", "text": "Text",
        "features": {"sender": "ann@x.org", "subject": "Hi"},
    }  # fmt: skip
    (event,) = read(path, text="raw")
    assert event["text"] == raw.decode()
    (event,) = read(path, strings=frozenset({"subject", "body"}))
    assert event["features"] == {"sender": "ann@x.org", "subject": "Hi", "body": "Text"}


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"Subject: =?utf-8?q?caf=C3=A9?= =?utf-8?b?w6k=?=\n\n", "caféé"),
        (b"Subject: =?gb2312?B?1tDOxA==?=\n\n", "中文"),
        (b"Subject: =?nonsense?q?a?=\n\n", "a"),
        (b"Subject: =?utf-8?b?w?=\n\n", "=?utf-8?b?w?="),
        (b"Subject: caf\xe9\n\n", "café"),
        (b"Subject: a\n folded\n\nx", "a folded\n\nx"),
        (b"Content-Type: text/plain; charset=us-ascii\n\ncaf\xe9", "café"),
        (b"Content-Type: text/plain; charset=x-none\n\ncaf\xc3\xa9", "café"),
        (b"Content-Type: text/plain; charset=hex\n\nab", "ab"),
        (b"Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\nYWI=\n!!", "ab"),
        (b"Content-Type: image/png\n\nab", ""),
        (b"Content-Type: text/html\n\n<p>a&amp;b<br>c", "a&b\nc"),
        (b"Content-Type: multipart/mixed; boundary=B\n\n--B\n\none\n--B\nContent-Disposition: attachment\n\ntwo\n--B\n\nthree\n--B--\n", "one\nthree"),
        (b"Content-Type: multipart/mixed\n\nno boundary", ""),
        (b"Content-Type: message/rfc822\n\nSubject: inner\n\nbody", "body"),
        (b"no header at all", "no header at all"),
        (b"", ""),
    ],
)  # fmt: skip
def test_what_a_mail_declares_is_decoded(raw, text):
    assert MailText(raw).text == text


@pytest.mark.parametrize("policy", [SMTP, compat32.clone(linesep="\n")])
def test_of_alternatives_the_plain_text_is_read(policy):
    mail = mail_of("s", "plain\n", html="<b>rich</b>")
    assert MailText(mail.as_bytes(policy=policy)).body == "plain"
    assert MailText(mail_of("s", " \n", html="<b>rich</b>").as_bytes(policy=policy)).body == "rich"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("a<!-- x > y -->b", "ab"),
        ("a<!-- x", "a"),
        ('<a href="x>y">link</a>', "link"),
        ("<a title='x", ""),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("<script>x<y</script>z", "z"),
        ("<script>x", ""),
        ("\u0130<SCRIPT>x</Script><P>y", "\u0130\ny"),
        ("<SCRIPT src=a>x</SCRIPT >z", "z"),
        ("<!DOCTYPE html><?xml?>a</3>", "a"),
        ("<p>a</p>\n\n<p>b</p>", "a\nb"),
        ("fr<b></b>ee &#x41;&nbsp; &copy;", "free A ©"),
    ],
)
def test_html_is_read_as_it_is_shown(html, text):
    assert html_text(html) == text


@pytest.mark.parametrize(
    "part", ["<", "<a '", '<a "', "<!--", "<script>", "<a ", "&", "</", " \n", "<a '>\"", "\x00"]
)
def test_html_takes_linear_time(part):
    assert len(html_text(part * 300_000)) < 1_000_000


def test_nested_parts_and_long_mails_are_dead_letters(place, monkeypatch):
    deep = b"".join(b"Content-Type: multipart/mixed; boundary=B%d\n\n--B%d\n" % (n, n) for n in range(3000))
    path = place / "deep.eml"
    path.write_bytes(b"Subject: x\n" + deep + b"\nx")
    (event,) = read(path)
    assert "nested too deeply" in event[0]["mail"]
    for module in (mail_message, mail_events):
        monkeypatch.setattr(module, "MAX_MAIL", 1000)
    path = place / "long.mbox"
    path.write_bytes(
        b"From a Mon Jan  5 10:00:00 2026\nSubject: x\n\n"
        + b"word " * 5000
        + b"\nFrom b Mon Jan  5 10:00:00 2026\n\nb\n"
    )
    first, second = read(path)
    assert "longer than 1000 bytes" in first[0]["mail"]
    assert second["text"] == "b"


def test_a_line_that_begins_with_from_separates_only_with_a_date(place):
    path = place / "from.mbox"
    path.write_bytes(
        b"From a@b Mon Jan  5 10:00:00 2026\n\nx\n\nFrom here\n>From there\n\nFrom a@b Mon Jan  5 10:01:00 2026\n\ny\n"
    )
    assert [event["text"] for event in read(path)] == ["x\n\nFrom here\nFrom there", "y"]
    path.write_bytes(b"From a\n\nx\n\nFrom b\n\ny\n")
    assert [event["text"] for event in read(path)] == ["x", "y"]


def test_an_index_of_trec_gives_order_labels_and_feedback(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "full").mkdir()
    for n in range(4):
        (tmp_path / "data" / f"inmail.{n}").write_bytes(mail_of(f"m{n}", "").as_bytes())
    index = tmp_path / "full" / "index"
    steps = ["spam 2", "Ham 0", "unknown 1", "ham 3", "SPAM 1"]
    index.write_text("".join(f"{step.split()[0]} ../data/inmail.{step.split()[1]}\n" for step in steps))
    rows = [(e["text"], e.get("label"), e.get("feedback"), e.get("delay")) for e in read(index)]
    assert rows == [("m2", "spam", True, None), ("m0", "ham", False, None), ("m1", "spam", True, 1), ("m3", "ham", True, None)]  # fmt: skip
    index.write_text("spam ../data/inmail.9\n")
    with pytest.raises(LogError, match=r"inmail\.9: No such file"):
        read(index)
    index.write_bytes(b"spam ../data/inmail.\0\n")
    with pytest.raises(LogError, match="embedded null byte"):
        read(index, format="trec")
    index.write_text("spam ../data/inmail.1\nperhaps ../data/inmail.2\n")
    with pytest.raises(LogError, match="line 2 is not a judgement"):
        read(index, format="trec")


@pytest.mark.skipif(not SETS.is_dir(), reason="needs the labelled streams")
def test_mails_of_a_labelled_stream_are_read_as_its_json_lines(tmp_path):
    with gzip.open(SETS / "spamassassin.jsonl.gz") as lines:
        events = [json.loads(line) for line in lines][:6000:20]
    box, folders = mailbox.mbox(tmp_path / "e.mbox"), {}
    for event in events:
        mail = EmailMessage()
        mail["X-Label"], mail["Message-ID"] = event["label"], f"<{event['id']}>"
        mail.set_content(event["text"], cte="base64")
        box.add(mail)
        folder = folders.setdefault(event["label"], mailbox.Maildir(tmp_path / "dir" / event["label"]) if (tmp_path / "dir").mkdir(exist_ok=True) is None else None)  # fmt: skip
        folder.add(mail)
    box.close()

    def plain(text):
        return text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")

    wanted = [(f"<{event['id']}>", plain(event["text"]), event["label"]) for event in events]
    found = read(tmp_path / "e.mbox", label="X-Label", id="Message-ID")
    assert [(event["id"], event.get("text", ""), event["label"]) for event in found] == wanted
    found = read(tmp_path / "dir", id="Message-ID")
    assert sorted((e["id"], e.get("text", ""), e["label"]) for e in found) == sorted(wanted)


@pytest.mark.skipif(not SETS.is_dir(), reason="needs the labelled streams")
def test_raw_mails_of_a_labelled_stream_are_decoded(tmp_path):
    with gzip.open(SETS / "spamassassin_raw.jsonl.gz") as lines:
        raws = [json.loads(line)["text"].encode() for line in lines][:6000:20]
    (tmp_path / "all.mbox").write_bytes(
        b"".join(b"From x Mon Jan  5 10:00:00 2026\n" + raw.partition(b"\n")[2] + b"\n\n" for raw in raws)
    )
    events = read(tmp_path / "all.mbox")
    assert all(type(event) is dict for event in events)
    assert sum("text" in event for event in events) > 0.95 * len(raws)
