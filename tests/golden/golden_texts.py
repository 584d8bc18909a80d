"""Texts and names by which users know the program: help, public names, configuration keys, HTTP and metrics."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import os
import re
import signal
import socket
import tempfile
import threading
import urllib.request
from functools import cache
from pathlib import Path

import msgspec
import prometheus_client
from prometheus_client.metrics import MetricWrapperBase

from tests.golden.golden_cases import EVERY_HYPOTHESIS, MONITORS, TABLE
from tests.golden.golden_classes import answers_of_classes
from tests.golden.golden_models import Life, made_up


def help_of_all():
    """The help of the program, of every command, and of every action of a command."""
    from streamnb.cli import main

    captured = []

    def capture(parser, *_, **__):
        captured.append(parser)
        raise SystemExit(0)

    parse_args, argparse.ArgumentParser.parse_args = argparse.ArgumentParser.parse_args, capture
    try:
        main(["--help"])
    except SystemExit:
        pass
    finally:
        argparse.ArgumentParser.parse_args = parse_args
    return "\n".join(_helps(captured[0]))


def _helps(parser):
    yield f"$ {parser.prog} --help\n{parser.format_help()}"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name in sorted(action.choices):
                yield from _helps(action.choices[name])


def public_names():
    """The names that `streamnb` exports, with the parameters of what can be called; types are left out."""
    import streamnb

    lines = []
    for name in dir(streamnb):
        found = getattr(streamnb, name)
        if name.startswith("__") or inspect.ismodule(found):
            continue
        lines.append(f"{name}{_parameters(found)}")
        if inspect.isclass(found):
            lines += sorted(_members(found))
    return "\n".join(lines) + "\n"


def _members(owner):
    """Public methods and properties that streamnb defines, not River."""
    for name in dir(owner):
        home = next(base for base in owner.__mro__ if name in vars(base) or base is object)
        if name.startswith("_") or not home.__module__.startswith("streamnb"):
            continue
        member = inspect.getattr_static(owner, name)
        kind = getattr(member, "__func__", member)
        yield f"  {name}{_parameters(kind) if callable(kind) else ''}"


def _parameters(found):
    """Names, kinds and plain defaults."""
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return ""
    plain = [
        one.replace(annotation=one.empty, default=one.default if _is_plain(one.default) else ...)
        for one in signature.parameters.values()
    ]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


def _is_plain(value):
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return value is inspect.Parameter.empty or value is None or type(value) in {str, bool, int, float}


def configuration():
    """What `config show` prints of the defaults, and of tables of every sort; then every key with its types."""
    from streamnb.config import Config

    tables = {"attributes": TABLE, "hypotheses": EVERY_HYPOTHESIS, "monitors": MONITORS}
    with tempfile.TemporaryDirectory() as folder:
        shown = [
            Life(Path(folder), config).command("config", "show").replace(folder, "FOLDER")
            for config in ({}, tables)
        ]
    return "\n".join([*shown, *sorted(_keys(msgspec.inspect.type_info(Config), "")), ""])


def _keys(kind, path):
    """Path, types and default of each key, without the names of Python classes."""
    if isinstance(kind, msgspec.inspect.Metadata):
        yield from _keys(kind.type, path)
    elif isinstance(kind, msgspec.inspect.StructType):
        for field in kind.fields:
            inner = f"{path}.{field.encode_name}".lstrip(".")
            nested = list(_keys(field.type, inner))
            yield from nested
            if not nested:
                default = "" if field.default is msgspec.NODEFAULT else f" = {field.default!r}"
                yield f"{inner}: {_type(field.type)}{default}"
    elif isinstance(kind, msgspec.inspect.UnionType):
        for one in kind.types:
            yield from _keys(one, path)
    elif isinstance(kind, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
        yield from _keys(kind.item_type, f"{path}[]")


def _type(kind):
    if isinstance(kind, msgspec.inspect.Metadata):
        return _type(kind.type)
    if isinstance(kind, msgspec.inspect.LiteralType):
        return " or ".join(map(repr, kind.values))
    if isinstance(kind, msgspec.inspect.UnionType):
        return " or ".join(sorted(map(_type, kind.types)))
    if isinstance(kind, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
        return f"list of {_type(kind.item_type)}"
    return type(kind).__name__.removesuffix("Type").lower()


# -- what answers over HTTP ---------------------------------------------------------------------------------


class Registered:
    """Every metric that is made meanwhile: name -> type and labels."""

    def __enter__(self):
        self.found, self._registries = {}, []
        self._init, self._registry = MetricWrapperBase.__init__, prometheus_client.CollectorRegistry.__init__
        registered = self

        def of_metric(metric, *arguments, **options):
            registered._init(metric, *arguments, **options)
            registered.found[metric._name] = metric._type, tuple(metric._labelnames)

        def of_registry(registry, *arguments, **options):
            registered._registry(registry, *arguments, **options)
            registered._registries.append(registry)

        MetricWrapperBase.__init__, prometheus_client.CollectorRegistry.__init__ = of_metric, of_registry
        return self

    def __exit__(self, *_):
        MetricWrapperBase.__init__, prometheus_client.CollectorRegistry.__init__ = self._init, self._registry
        for registry in self._registries:
            for family in registry.collect():
                labels = {label for sample in family.samples for label in sample.labels} - {"le"}
                if family.name.startswith("streamnb"):
                    self.found.setdefault(family.name, (family.type, tuple(sorted(labels))))

    def lines(self, command):
        for name, (kind, labels) in sorted(self.found.items()):
            yield f"{command}: {name} {kind} {{{', '.join(labels)}}}"


@cache
def over_http():
    """(OpenAPI of `serve`, metrics of `run` and `serve`); made once."""
    with tempfile.TemporaryDirectory() as folder:
        listen = {"listen": f"127.0.0.1:{_free_port()}"}
        life = Life(Path(folder), {"topics": {"labels": ""}, "monitors": MONITORS, "http": listen})
        life.begin()
        life.write(made_up(60))
        with Registered() as of_run:
            life.run()
        with Registered() as of_serve, Asking(_free_port()) as asking:
            life.command("serve", "--listen", f"127.0.0.1:{asking.port}")
    described = json.loads(asking.answers["/openapi.json"])
    described["info"].pop("version")
    served = set(re.findall(r"^# TYPE (streamnb\w+ \w+)", asking.answers["/metrics"].decode(), re.MULTILINE))
    lines = [
        *of_run.lines("run"),
        *of_serve.lines("serve"),
        *(f"serve answers: {name}" for name in sorted(served)),
    ]
    return _without_prose(described), "\n".join([*lines, ""])


def _without_prose(described):
    """An OpenAPI document without summaries and descriptions; a property of such a name is no text."""
    if isinstance(described, dict):
        prose = {key for key in ("summary", "description") if isinstance(described.get(key), str)}
        return {key: _without_prose(one) for key, one in described.items() if key not in prose}
    return [_without_prose(one) for one in described] if isinstance(described, list) else described


class Asking:
    """A thread that asks `serve` once it answers, then ends it as its supervisor does.

    Args:
        port: on which it answers.
    """

    def __init__(self, port):
        self.port, self.answers = port, {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join()

    def _ask(self):
        for path in ("/openapi.json", "/metrics"):
            while path not in self.answers and not self._is_over.wait(0.05):
                with (
                    contextlib.suppress(OSError),
                    urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as answer,
                ):
                    self.answers[path] = answer.read()
        if not self._is_over.is_set():
            os.kill(os.getpid(), signal.SIGTERM)


def _free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


TEXTS = {
    "help.txt": help_of_all,
    "public.txt": public_names,
    "configuration.txt": configuration,
    "classes.json": answers_of_classes,
    "openapi.json": lambda: over_http()[0],
    "metrics.txt": lambda: over_http()[1],
}
"""File -> what makes its content."""
