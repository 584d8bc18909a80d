"""Reload of the configuration of a running service, by SIGHUP or over HTTP: all of it or nothing.

    request -> read -> compare -> prepare each part -> apply each part

Reading, comparing and preparing may fail, and then nothing has changed. Applying assigns values that are
valid already, so it does not fail.
"""

from __future__ import annotations

import os
import signal
from argparse import Namespace
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Lock, Thread
from types import FrameType

from streamnb.config import Config, SettingChange, reloadable_changes
from streamnb.errors import ConfigError, RestartRequired
from streamnb.formats.terminal_text import emit
from streamnb.runtime.next_commands import commands_in, repeated
from streamnb.telemetry.log_output import OUTPUT
from streamnb.values.messages import Message

Preparation = Callable[[Config], Callable[[], object]]
"""Check a part of a configuration, which may raise ConfigError; return what applies it."""
_NOTHING = "nothing was reloaded"


class Reload:
    """Reload of one process, serialised; each attempt is logged.

    Args:
        running: the configuration in force.
        read: return the configuration that the sources have now; raise ConfigError.
        options: of the process, which commands in messages repeat.
    """

    def __init__(self, running: Config, read: Callable[[], Config], options: Namespace) -> None:
        self._running, self._read, self._options = running, read, options
        self._parts: list[Preparation] = [lambda config: lambda: OUTPUT.configure(config.log_output)]
        self._reloads = Lock()

    def add(self, part: Preparation) -> None:
        """Prepare and apply another part from the next reload on."""
        self._parts.append(part)

    def __call__(self) -> Sequence[SettingChange]:
        """Reload; return the changed keys. Raises ConfigError if nothing was changed."""
        with self._reloads:
            try:
                config = self._read()
                changes = reloadable_changes(self._running, config)
                ready = [part(config) for part in list(self._parts)]
            except ConfigError as error:
                error.args = (repeated(str(error), self._options),)
                self._report_refusal(error)
                raise
            for apply in ready:
                apply()
            self._running = config
        each = ", ".join(f"{key} {before} -> {after}" for key, before, after in changes)
        text = f"reloaded the configuration: {each or 'no key has another value'}"
        emit(Message("configuration-reloaded", text, changes=[change._asdict() for change in changes]))
        return changes

    def _report_refusal(self, error: ConfigError) -> None:
        keys = list(error.keys) if isinstance(error, RestartRequired) else []
        command = next(iter(commands_in(str(error))), repeated("streamnb config lint", self._options))
        text = f"{_NOTHING}: {error}"
        emit(Message("reload-refused", text, reason=str(error), keys=keys, command=command))


class HangUpSignal:
    """SIGHUP as a request to reload, or to stop if the terminal of the process is gone.

    It queues requests from construction on. `begin` starts the thread that answers them, because a process
    that still starts has not all parts.
    """

    def __init__(self) -> None:
        self._asked: SimpleQueue[None] = SimpleQueue()  # its `put` may be called in a signal handler
        self._had_terminal = _has_terminal()
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # set by nohup
            signal.signal(signal.SIGHUP, self._note)

    def begin(self, reload: Reload) -> None:
        """Answer requests from now on, also those that came before."""
        Thread(target=self._answer, args=(reload,), name="reload", daemon=True).start()

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if self._had_terminal and not _has_terminal():
            signal.raise_signal(signal.SIGTERM)
        else:
            self._asked.put(None)

    def _answer(self, reload: Reload) -> None:
        while True:
            self._asked.get()
            try:
                reload()
            except ConfigError:  # it is logged
                continue


def _has_terminal() -> bool:
    """Return whether the process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
