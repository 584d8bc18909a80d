"""Webhooks: addresses that receive alerts and predictions, as ``[[webhooks]]`` tables declare them."""

from __future__ import annotations

import binascii
from base64 import b64decode
from pathlib import Path
from typing import Annotated, Any, Literal

from streamnb.config.config_sections import Section, missing_keys, read_entries, tables
from streamnb.config.validators import HOOK_NAME, HOOK_URL, NAME, duration
from streamnb.errors import ConfigError, told_as

MOST = 20
"""Webhooks of one stream: each has a thread and a connection to the log."""
_EXAMPLE = (
    'a table such as { name = "desk", url = "https://...", send = "alerts", secret_file = "desk.secret" }'
)
_PREFIX = "whsec_"
_SECRET_BYTES = range(24, 65)


class WebhookConfig(Section, frozen=True):
    """One address that receives records as they are published.

    Attributes:
        name: names the webhook in metrics and messages, and its position in the log.
        url: the address.
        send: "alerts"; "decisions", the predictions with a decision; or "predictions", all of them.
        decision: only predictions with this decision; "none" for those without one.
        secret_file: file of the secrets that sign; each is ``whsec_`` and 24 to 64 bytes in base64.
        give_up_after: seconds after which a message that is not accepted is skipped.
    """

    name: Annotated[str, HOOK_NAME]
    url: Annotated[str, HOOK_URL]
    send: Literal["alerts", "decisions", "predictions"]
    secret_file: Annotated[str, NAME]
    decision: Annotated[str | None, NAME] = None
    give_up_after: Annotated[float, duration(above_zero=True)] = 86400.0

    def secrets(self) -> tuple[bytes, ...]:
        """Read the secrets, one a line. Raises ConfigError without quoting what the file holds."""
        where = f"webhooks {self.name!r}: secret_file {self.secret_file}"
        with told_as(ConfigError, f"{where} cannot be read", OSError):
            lines = Path(self.secret_file).read_bytes().split()
        found = []
        for n, line in enumerate(lines, 1):
            try:
                secret = b64decode(line.decode().removeprefix(_PREFIX), validate=True)
            except (binascii.Error, ValueError):
                secret = b""
            if not line.startswith(_PREFIX.encode()) or len(secret) not in _SECRET_BYTES:
                raise ConfigError(
                    f"{where}: secret {n}: expected {_PREFIX} and the base64 of 24 to 64 random bytes: "
                    f'echo "{_PREFIX}$(openssl rand -base64 32)"'
                )
            found.append(secret)
        if not found:
            raise ConfigError(f"{where} has no secret")
        return tuple(found)


def _read_one(key: str, table: object) -> WebhookConfig:
    values = read_entries(WebhookConfig, key, table, _EXAMPLE)
    if missing := missing_keys(key, values, ("name", "url", "send", "secret_file")):
        raise ConfigError(f"{missing}; expected {_EXAMPLE}")
    if values["send"] == "alerts" and "decision" in values:
        raise ConfigError(f'{key}.decision has no meaning with send = "alerts"')
    return WebhookConfig(**values)


def _check(key: str, webhooks: tuple[Any, ...]) -> None:
    if len(webhooks) > MOST:
        raise ConfigError(f"{key} has {len(webhooks)} tables; expected {MOST} at most")


WEBHOOKS = tables("webhooks", _read_one, _check)
