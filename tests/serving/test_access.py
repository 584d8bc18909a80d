"""Tokens with roles, and the rate of each client."""

from __future__ import annotations

import hashlib
from itertools import product

import pytest

from streamnb.cli.commands import serve
from streamnb.errors import ConfigError
from streamnb.serving import access
from streamnb.serving.access import ROLES, ClientRates, KnownClient, Tokens, role_of

TOKENS = {"shop": "shop-token-0123456789", "ann": "ann-token-0123456789", "op": "op-token-0123456789"}
GIVEN = {"shop": "send,ask", "ann": "label", "op": "admin"}


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


@pytest.fixture
def file(tmp_path):
    def write(*lines):
        path = tmp_path / "tokens"
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    return write


def test_each_token_has_its_roles_and_no_other_token_is_known(file):
    lines = [f"{name}\t{GIVEN[name]}  {digest(token).upper()}" for name, token in TOKENS.items()]
    tokens = Tokens.of_file(file("# name, roles, digest", "", *lines))
    for name, token in TOKENS.items():
        client = tokens.client(token.encode())
        assert client.name == name
        given = GIVEN[name].split(",")
        assert {role for role in ROLES if client.may(role)} == (ROLES if "admin" in given else set(given))
    for wrong in (b"", b"shop", digest(TOKENS["shop"]).encode(), TOKENS["shop"].encode() + b" "):
        assert tokens.client(wrong) is None
    assert not Tokens({})
    assert Tokens.of_one("x" * 16).client(b"x" * 16) == KnownClient("token", ROLES)


def test_a_file_of_one_plain_token_gives_all_roles(file):
    tokens = Tokens.of_file(file("  a-token-of-some-length  "))
    assert tokens.client(b"a-token-of-some-length").roles == ROLES
    assert tokens.client(b"a-token-of-some-length2") is None
    assert Tokens.of_file(file("a token of some words")).client(b"a token of some words").roles == ROLES


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["short"], "at least 16"),
        (["ümlaut-token-of-some-length"], "ASCII"),
        (["a-token-of-some-length", "another-token-of-length"], ":1: expected NAME"),
        (["shop send"], "at least 16"),
        ([f"shop send {'0' * 65}"], ":1: expected NAME"),
        ([f"shop send {'0' * 63}"], ":1: expected NAME"),
        ([f"shop sends {'0' * 64}"], "role 'sends': expected send, ask, label, admin"),
        ([f"shop send {'0' * 64}", f"shop ask {'1' * 64}"], ":2: the name or the token"),
        ([f"shop send {'0' * 64}", f"ann ask {'0' * 64}"], ":2: the name or the token"),
        (["# nothing"], "has no token"),
    ],
)
def test_a_file_that_is_no_list_of_tokens_is_refused_with_its_line(file, lines, told):
    with pytest.raises(ConfigError, match="--token-file") as refused:
        Tokens.of_file(file(*lines))
    assert told in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        Tokens.of_file(str(tmp_path / "none"))


def test_every_write_needs_a_role_of_its_own():
    paths = ["/events", "/labels", "/labels/undo", "/page/label", "/page/replay", "/labels/withdraw"]
    assert [role_of("POST", path) for path in paths] == ["send", *["label"] * 3, "admin", "admin"]
    reads = [
        "/events",
        "/predictions",
        "/predict",
        "/labels/a",
        "/explain/a",
        "/page/try",
        "/",
        "/metrics",
        "/model",
    ]
    assert {role_of(method, path) for method, path in product(["GET"], reads)} == {"ask"}
    assert {role_of("POST", path) for path in ("/predict", "/explain", "/page/try")} == {"ask"}


def test_each_client_has_a_burst_and_a_rate_of_its_own(monkeypatch):
    now = 100.0
    monkeypatch.setattr(access.time, "monotonic", lambda: now)
    rates = ClientRates(2.0, 3.0)
    assert [rates.admits("a") for _ in range(5)] == [True, True, True, False, False]
    assert rates.admits("b")
    now += 1.0
    assert [rates.admits("a") for _ in range(3)] == [True, True, False]
    now += 1000.0
    assert [rates.admits("a") for _ in range(4)] == [True, True, True, False]


def test_many_clients_are_bounded_and_the_most_recent_are_remembered(monkeypatch):
    monkeypatch.setattr(access, "_MOST_CLIENTS", 10)
    rates = ClientRates(1e-9, 1.0)
    for i in range(1000):
        rates.admits(f"client{i}")
    assert len(rates._left) == 10
    assert not rates.admits("client999")
    assert rates.admits("client0")


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://Shop.Example", "https://shop.example"),
        ("https://shop.example:443", "https://shop.example"),
        ("http://shop.example:80", "http://shop.example"),
        ("http://shop.example:443", "http://shop.example:443"),
    ],
)
def test_an_origin_is_compared_as_browsers_send_it(text, origin):
    """Browsers send lower case, and no default port."""
    assert serve._origin(text) == origin
