"""Access to the server: tokens with roles, and the rate of each client.

A file of tokens has a line for each client: its name, its roles, and the SHA-256 of its token in hex. The
token itself is random and is kept by the client, so a plain digest suffices, and the file holds no secret.

    dashboard   ask         5f2b...
    shop        send,ask    9c1d...
    ann         ask,label   07aa...
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from streamnb.errors import ConfigError, told_as

Role = Literal["send", "ask", "label", "admin"]
"""send: write events, and wait for their predictions. ask: read and query. label: write labels. admin: all,
withdraw the labels of a source, resend dead letters, and reload the configuration."""
ROLES: frozenset[Role] = frozenset(get_args(Role))

_LINE = re.compile(r"(\S{1,100})\s+([a-z]+(?:,[a-z]+)*)\s+([0-9a-fA-F]{64})")
_LIKE_A_LINE = re.compile(r"\S+\s+[a-z,]+\s+[0-9a-fA-F]{32,}")  # right or mistyped, and no plain token
_SHORTEST_TOKEN = 16
_WRITES: Mapping[tuple[str, str], Role] = {
    ("POST", "/events"): "send",
    ("POST", "/labels"): "label",
    ("POST", "/labels/undo"): "label",
    ("POST", "/labels/withdraw"): "admin",
    ("POST", "/page/label"): "label",
    ("POST", "/page/undo"): "label",
    ("POST", "/page/replay"): "admin",
    ("POST", "/reload"): "admin",
    ("POST", "/page/dead-letters/correct"): "admin",
    ("POST", "/page/dead-letters/skip"): "admin",
}
"""Requests that write, and the role that each needs; all other requests need `ask`."""
_MOST_CLIENTS = 10_000


class KnownClient(NamedTuple):
    """A client with a token."""

    name: str
    roles: frozenset[Role]

    def may(self, role: Role) -> bool:
        """Return whether the client has a role."""
        return role in self.roles or "admin" in self.roles


def name_of(scope: Mapping[str, Any]) -> str:
    """Return the name of the client that sent a request; empty if no token is required."""
    return str(scope.get("state", {}).get("client", ""))


EVERYBODY = KnownClient("", ROLES)
"""The client of a server without tokens."""


def role_of(method: str, path: str) -> Role:
    """Return the role that a request needs."""
    return _WRITES.get((method, path), "ask")


class Tokens:
    """The clients of a server by the digests of their tokens.

    Args:
        clients: SHA-256 of the token, as bytes -> client. Empty: no token is required.
    """

    def __init__(self, clients: Mapping[bytes, KnownClient]) -> None:
        self._clients = dict(clients)

    def __bool__(self) -> bool:
        return bool(self._clients)

    def client(self, token: bytes) -> KnownClient | None:
        """Return the client with a token; None if there is none."""
        digest = hashlib.sha256(token).digest()
        found = None
        for known, client in self._clients.items():  # all: the time is the same for each
            if hmac.compare_digest(known, digest):
                found = client
        return found

    @classmethod
    def of_one(cls, token: str) -> Tokens:
        """Return the tokens of a server whose only token has all roles; an empty one requires none."""
        return cls({hashlib.sha256(token.encode()).digest(): KnownClient("token", ROLES)} if token else {})

    @classmethod
    def of_file(cls, file: str) -> Tokens:
        """Read one plain token with all roles, or a line for each client.

        Raises ConfigError if the file cannot be read, or a line is neither.
        """
        with told_as(ConfigError, f"--token-file: {file} cannot be read", OSError, UnicodeDecodeError):
            lines = Path(file).read_text(encoding="utf-8").splitlines()
        given = [(n, line) for n, raw in enumerate(lines, 1) if (line := raw.strip()) and line[0] != "#"]
        if len(given) == 1 and _LIKE_A_LINE.fullmatch(given[0][1]) is None:
            token = given[0][1]
            if not (token.isascii() and token.isprintable()) or len(token) < _SHORTEST_TOKEN:
                raise ConfigError(
                    f"--token-file: {file}: expected one line of at least {_SHORTEST_TOKEN} ASCII characters"
                )
            return cls.of_one(token)
        clients: dict[bytes, KnownClient] = {}
        for n, line in given:
            place = f"--token-file: {file}:{n}"
            found = _LINE.fullmatch(line)
            if found is None:
                raise ConfigError(f"{place}: expected NAME ROLE[,ROLE] SHA256, such as shop send,ask 5f2b...")
            name, roles, digest = found[1], set(found[2].split(",")), bytes.fromhex(found[3])
            if unknown := roles - ROLES:
                raise ConfigError(f"{place}: role {min(unknown)!r}: expected {', '.join(get_args(Role))}")
            if digest in clients or name in {client.name for client in clients.values()}:
                raise ConfigError(f"{place}: the name or the token stands on an earlier line, too")
            clients[digest] = KnownClient(name, frozenset(role for role in ROLES if role in roles))
        if not clients:
            raise ConfigError(f"--token-file: {file} has no token")
        return cls(clients)


class ClientRates:
    """A token bucket for each client: `burst` requests at once, then `rate` a second.

    Args:
        rate: requests a second.
        burst: requests that may come at once.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # client -> left, at that time

    def admits(self, client: str) -> bool:
        """Count a request; return False if it is one too many."""
        now = time.monotonic()
        left, at = self._left.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        is_admitted = left >= 1.0
        self._left[client] = left - is_admitted, now
        if len(self._left) > _MOST_CLIENTS:  # the client that has been silent longest
            self._left.popitem(last=False)
        return is_admitted
