"""``streamnb serve``: the model of a running learner, over HTTP."""

from __future__ import annotations

import argparse
import ipaddress
import os
import re
import signal
from contextlib import closing

from streamnb.cli.commands.dlq import Selection, send_again
from streamnb.cli.commands.label import writing
from streamnb.config import Config
from streamnb.config.config_literals import parse_address
from streamnb.errors import ConfigError
from streamnb.formats.terminal_text import emit
from streamnb.queries.answers import rehearse_answers
from streamnb.runtime import context, factories
from streamnb.runtime.next_commands import repeated
from streamnb.runtime.reloading import HangUpSignal, Reload
from streamnb.runtime.resent_dead_letters import ResendResult
from streamnb.serving.access import Tokens
from streamnb.telemetry.worker_observers import OutageReporter

_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?|https?://\[[0-9a-fA-F:]+\](:\d{1,5})?")
_LETTERS, _LETTER_SECONDS = 5000, 15.0
"""Limits of one request to send dead letters: number, and seconds."""


def run(options: argparse.Namespace, *, rests: bool = False) -> int:
    """Answer until SIGTERM or SIGINT; with `rests`, the model is loaded only for requests that need it."""
    config = context.load_config(options)
    if any(one.partition("=")[0].strip() == "http.listen" for one in options.set):
        raise ConfigError("--set http.listen: this is the address of `run`; --listen is the address of serve")
    address = parse_address(options.listen)
    if address is None:
        raise ConfigError(f"--listen: expected HOST:PORT, got {options.listen!r}")
    is_local = _is_local(address[0])
    _check_open(options, is_local=is_local)
    origins = tuple(map(_origin, options.allow_origin))
    try:
        from streamnb.serving import http_server  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigError(
            f"{options.module} needs FastAPI and uvicorn ({error}); pip install 'streamnb[web]'"
        ) from error
    http_server.check_certificate(options.certificate, options.private_key)
    waiting = OutageReporter(config.kafka.give_up_after)
    tokens = Tokens.of_one("") if options.token_file is None else Tokens.of_file(options.token_file)
    context.existing_log(config, waiting).close()  # errors of the log show before kernels are compiled
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # until the server installs its own handler
    reload, hang_up = Reload(config, lambda: context.read_config(options), options), HangUpSignal()
    if not rests:
        factories.warm_up(config, rehearse_answers)
    factories.tune_interpreter()
    hang_up.begin(reload)
    return http_server.serve(
        config,
        http_server.Listening(
            address,
            tokens,
            origins,
            options.certificate,
            options.private_key,
            options.rate,
            is_local,
            options.token_file,
        ),
        (lambda verdicts: max(writing(config, verdicts, _refuse))) if config.topics.labels else None,
        lambda places, dry_run: _replayed(config, places, dry_run=dry_run),
        lambda message: emit(message.reworded(repeated(message, options))),
        rests=rests,
        reload=reload,
    )


def _refuse(why: str) -> None:
    raise ConfigError(f"{why} first")


def _origin(text: str) -> str:
    """Return an origin as browsers send it. Raises ConfigError."""
    if _ORIGIN.fullmatch(text) is None:
        raise ConfigError(
            f"--allow-origin {text}: expected SCHEME://HOST[:PORT], such as https://shop.example"
        )
    origin = text.lower()
    return origin.removesuffix(":443" if origin.startswith("https:") else ":80")


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_open(options: argparse.Namespace, *, is_local: bool) -> None:
    """Raise ConfigError for a public address without token or TLS."""
    if (options.certificate is None) != (options.private_key is None):
        raise ConfigError("--certificate and --private-key belong together")
    if is_local:
        return
    if options.token_file is None:
        raise ConfigError(f"--listen {options.listen}: others can reach it; give --token-file, too")
    if options.certificate is None and not options.behind_proxy:
        raise ConfigError(
            f"--listen {options.listen}: the token would go over the network as it is; give --certificate "
            "and --private-key, or --behind-proxy where a proxy does TLS"
        )


def _replayed(config: Config, places: frozenset[str], *, dry_run: bool) -> ResendResult:
    """Send dead letters again; a log serves one thread, so this opens its own."""
    with closing(context.existing_log(config)) as log:
        selected = Selection(places)
        return send_again(config, log, selected, dry_run=dry_run, most=_LETTERS, seconds=_LETTER_SECONDS)
