"""Settings that a running service takes over without a restart."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

from streamnb.config.config_literals import Secret
from streamnb.config.config_rendering import semantic_config_of
from streamnb.config.config_schema import KEYS, Config
from streamnb.errors import RestartRequired

RELOADABLE = frozenset(
    {key for key in KEYS if key.startswith(("commit.", "log_output."))}
    | {"snapshots.every", "snapshots.every_events", "snapshots.max_replay", "snapshots.keep"}
    | {"kafka.give_up_after"}
)
"""Keys outside the configuration's hash that nothing but a loop or a writer reads again and again."""


class SettingChange(NamedTuple):
    """A key with its value before and after, as TOML."""

    key: str
    before: str
    after: str


def setting_changes(before: Config, after: Config) -> list[SettingChange]:
    """Return each key whose value differs, in the order of declaration; secrets are not shown."""
    return [
        SettingChange(key, _shown(key, old), _shown(key, new))
        for key in KEYS
        if (old := _value(before, key)) != (new := _value(after, key))
    ]


def reloadable_changes(before: Config, after: Config) -> list[SettingChange]:
    """Return the changes; raise RestartRequired if one of them needs a restart."""
    found = setting_changes(before, after)
    if needing := [change.key for change in found if change.key not in RELOADABLE]:
        is_learned = semantic_config_of(before) != semantic_config_of(after)
        about = "their effect on the model" if is_learned else "problems of a start with them"
        raise RestartRequired(
            f"a running process cannot change {', '.join(needing)}: restart it, or take them back; "
            f"`streamnb doctor` lists {about}",
            needing,
        )
    return found


def _value(config: Config, key: str) -> object:
    return reduce(getattr, key.split("."), config)


def _shown(key: str, value: object) -> str:
    if isinstance(value, Secret):
        return "a secret"
    return "not set" if value is None else KEYS[key].write(value)
