"""The settings of kafka-python that ``[kafka.client]`` may give, each with its kind.

Names and kinds are copied from kafka-python 3.0, so that a configuration is read without importing it; a test
compares them with the library. Settings that are Python objects cannot stand in a file and are left out.
"""

from __future__ import annotations

from typing import Any

from streamnb.config.config_sections import unknown
from streamnb.config.validators import BOOLEAN, NAME, PROXY_URL, Validator, choice, whole
from streamnb.errors import ConfigError

_INT32 = whole(1, (1 << 31) - 1)

SETTINGS: dict[str, Validator[Any]] = {
    **dict.fromkeys("bootstrap_timeout_ms connections_max_idle_ms metrics_sample_window_ms".split(), _INT32),
    **dict.fromkeys("receive_buffer_bytes receive_message_max_bytes send_buffer_bytes".split(), _INT32),
    **dict.fromkeys("reconnect_backoff_max_ms reconnect_backoff_ms request_timeout_ms".split(), _INT32),
    **dict.fromkeys("ssl_cafile ssl_certfile ssl_crlfile ssl_keyfile sasl_kerberos_name".split(), NAME),
    **dict.fromkeys("sasl_kerberos_domain_name sasl_kerberos_service_name".split(), NAME),
    "client_dns_lookup": choice("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    "metrics_num_samples": whole(1, 1000),
    "proxy_url": PROXY_URL,
    "sasl_mechanism": choice(*"PLAIN SCRAM-SHA-256 SCRAM-SHA-512 GSSAPI AWS_MSK_IAM OAUTHBEARER".split()),
    "security_protocol": choice("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "ssl_check_hostname": BOOLEAN,
}
"""Setting -> kind. Every client of kafka-python takes it, whether it reads, writes or administers."""

ELSEWHERE = {
    "bootstrap_servers": "log.url",
    "group_id": "model.name",
    "sasl_oauth_token_provider": "kafka.token_file",
    "sasl_plain_password": "kafka.password_file",
    "sasl_plain_username": "kafka.username",
    "session_timeout_ms": "log.session_timeout",
    "ssl_password": "kafka.key_password_file",
    "transaction_timeout_ms": "kafka.transaction_timeout",
    "transactional_id": "model.name",
}
"""Setting -> what stands in its place; secrets among them."""

OWN = frozenset(
    """acks allow_auto_create_topics auto_commit_interval_ms auto_offset_reset batch_size client_id
    compression_type delivery_timeout_ms enable_auto_commit enable_idempotence fetch_max_wait_ms
    group_instance_id heartbeat_interval_ms isolation_level linger_ms max_block_ms
    max_in_flight_requests_per_connection max_partition_fetch_bytes max_poll_interval_ms max_poll_records
    max_request_size metadata_max_age_ms partition_assignment_strategy retries retry_backoff_ms""".split()
)
"""Settings that streamnb gives by itself, client by client: what it promises rests on them."""


class _Client(Validator[Any], frozen=True):
    """A table of settings. A value without a place in it may be a secret, so errors name only the key."""

    def read(self, key: str, value: object) -> dict[str, Any]:
        """Return the settings, each of its kind; errors name the setting: ``kafka.client.ssl_cafile``."""
        if not isinstance(value, dict):
            raise ConfigError(f"{key} is not a table; expected {self.expected}")
        return {name: _read_setting(key, name, item) for name, item in value.items()}


def _read_setting(key: str, name: str, value: object) -> Any:
    setting = f"{key}.{name}"
    if name in ELSEWHERE:
        raise ConfigError(f"{setting} has no place here; expected {ELSEWHERE[name]}")
    if name in OWN:
        raise ConfigError(f"{setting} has no place here; expected to be left to streamnb")
    if name not in SETTINGS:
        raise ConfigError(f"{key}.{unknown(name, SETTINGS)}")
    return SETTINGS[name].read(setting, value)


CLIENT = _Client(
    "table of setting = value",
    "settings of kafka-python = strings, integers or booleans",
    lambda value: value,
)
