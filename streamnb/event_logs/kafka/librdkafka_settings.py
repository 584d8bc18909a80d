"""Settings of librdkafka: the user's settings for kafka-python, and those that the guarantees require."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from streamnb.errors import LogError

_NAMES = {
    **{
        name: name.replace("_", ".")
        for name in """client_dns_lookup connections_max_idle_ms receive_message_max_bytes
        reconnect_backoff_max_ms reconnect_backoff_ms sasl_kerberos_service_name sasl_mechanism
        security_protocol""".split()
    },
    "receive_buffer_bytes": "socket.receive.buffer.bytes",
    "request_timeout_ms": "socket.timeout.ms",
    "sasl_plain_password": "sasl.password",
    "sasl_plain_username": "sasl.username",
    "send_buffer_bytes": "socket.send.buffer.bytes",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_crlfile": "ssl.crl.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
}
"""Settings of kafka-python -> of librdkafka, with the same values."""

_OF_KAFKA_PYTHON_ALONE = {"bootstrap_timeout_ms", "metrics_num_samples", "metrics_sample_window_ms"}
"""Settings without a counterpart in librdkafka; kafka-python still uses them for elections and requests."""

LOGGER = logging.getLogger("kafka.librdkafka")
"""Logger of librdkafka, a child of kafka-python's logger, whose handlers therefore receive its records."""

_MECHANISMS = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"}
_TOKEN_SECONDS = 60.0  # the client renews the token earlier
_ANSWER_MS = 10_000  # timeout of one request
_LARGEST_REQUEST = 64 << 20  # so that the topic's max.message.bytes is the limit


def translated_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the connection settings for librdkafka. Raises LogError if a setting has no counterpart."""
    translated: dict[str, Any] = {}
    for name, value in settings.items():
        if name == "bootstrap_servers":
            translated["bootstrap.servers"] = value if isinstance(value, str) else ",".join(value)
        elif name == "sasl_oauth_token_provider":
            translated["oauth_cb"] = partial(_token_of, value)
        elif name == "ssl_check_hostname":
            translated["ssl.endpoint.identification.algorithm"] = "https" if value else "none"
        elif name in _NAMES and (name != "sasl_mechanism" or value in _MECHANISMS):
            translated[_NAMES[name]] = value
        elif name not in _OF_KAFKA_PYTHON_ALONE:
            given = f"{name} = {value!r}" if name == "sasl_mechanism" else name
            raise LogError(
                f'kafka.client.{given} has no counterpart in librdkafka; check log.client = "librdkafka"'
            )
    return translated


def _token_of(provider: Any, _: str) -> tuple[str, float]:
    """Return the current token and its expiry, in seconds since the epoch."""
    return provider.token(), time.time() + _TOKEN_SECONDS


def _shared(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "socket.timeout.ms": _ANSWER_MS,
        "reconnect.backoff.max.ms": 1_000,
        "allow.auto.create.topics": False,
        "logger": LOGGER,
        **translated_settings(settings),
    }


def reading(settings: Mapping[str, Any], group: str) -> dict[str, Any]:
    """Return the settings of a consumer that reads committed records and never resets offsets by itself.

    The consumer never joins the group: librdkafka only requires its name.
    """
    return {
        **_shared(settings),
        "group.id": group,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,  # otherwise skipped markers are not reported
        "check.crcs": True,
        "fetch.queue.backoff.ms": 5,  # otherwise it waits a second after its queue was full
        "max.partition.fetch.bytes": 4 << 20,  # these three limit the memory of fetched records
        "fetch.max.bytes": 16 << 20,
        "queued.max.messages.kbytes": 16 << 10,
    }


def producing(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an idempotent producer that retries until a record is delivered."""
    return {
        **_shared(settings),
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": "murmur2_random",  # the same partition for a key as clients of Java or Python
        "linger.ms": 5,
        "retry.backoff.ms": 20,
        "batch.size": 1_000_000,  # accepted by every topic by default; 64 KiB costs twice the processor time
        "delivery.report.only.error": True,
        "message.max.bytes": _LARGEST_REQUEST,
        "queue.buffering.max.messages": 10_000_000,  # the caller limits the number of records
        "queue.buffering.max.kbytes": (1 << 31) - 1 >> 10,
        "message.timeout.ms": 0,
    }


def transacting(settings: Mapping[str, Any], transactional_id: str, timeout: float) -> dict[str, Any]:
    """Return the settings of a transactional producer; `timeout` in seconds limits an open transaction."""
    timeout_ms = int(timeout * 1000)
    return {
        **producing(settings),
        "transactional.id": transactional_id,
        "transaction.timeout.ms": timeout_ms,
        "message.timeout.ms": timeout_ms,
        "request.timeout.ms": min(_ANSWER_MS, timeout_ms // 2),
        "socket.timeout.ms": min(_ANSWER_MS, timeout_ms // 2),
        "retry.backoff.ms": 10,
    }
