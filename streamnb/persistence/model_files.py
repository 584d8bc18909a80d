"""Classifiers from files: the snapshots of a service, and what `classifier.save` writes.

Both are of one format (docs/snapshot-format.md), and no part of it is code: classes are found by their names
in a closed list, and made by their constructors, which check what they are given.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamnb import config as configuration
from streamnb.config.model_factory import model as configured
from streamnb.engine.journal.checkpoint import origin_of
from streamnb.errors import SnapshotError, StreamnbError
from streamnb.formats.snapshot_container import Snapshot, SnapshotPart, decode, encode, part_digest
from streamnb.models.interface.river_stream_model import RiverStreamModel
from streamnb.models.naive_bayes.naive_bayes_classifier import NaiveBayes
from streamnb.models.naive_bayes.partials import Partial
from streamnb.persistence.platform_fingerprint import fingerprint
from streamnb.persistence.snapshot_folder import Damaged, SnapshotFolder, read_file, save_file
from streamnb.values.hooks import Hooks
from streamnb.values.savable import Savable
from streamnb.values.state_validation import plain, state_errors

_MODEL, _CLASSIFIER, _PARTIAL = "model", "classifier", "partial"
_VALUES = (
    "ByteSoftmax",
    "Conjunction",
    "Conjunctions",
    "Continuous",
    "Hypothesis",
    "MondrianForest",
    "Nominal",
    "OneDependence",
    "Pool",
    "RecentGaussian",
    "SmoothedPrior",
    "Softmax",
    "Text",
)
"""Components that parameters may contain, in addition to classifiers and JSON values."""


class LoadedModel(NamedTuple):
    """A classifier or engine's model from a file; `config` is None for a classifier's own file."""

    model: Any
    config: configuration.Config | None
    snapshot: Snapshot
    path: Path

    @property
    def classifier(self) -> Any:
        """The model as the Python class that it is."""
        return self.model.classifier if isinstance(self.model, RiverStreamModel) else self.model


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """See `Savable.save`."""
    parts = {_MODEL: SnapshotPart(*model.state()), _CLASSIFIER: SnapshotPart({"made": _form(model)}, {})}
    save_file(Snapshot(-1, "", {}, "", fingerprint(), parts), Path(path))


def digest(model: Any) -> str:
    """See `Savable.digest`."""
    return part_digest(*model.state())


def partial_bytes(partial: Partial) -> bytes:
    """See `Partial.to_bytes`."""
    return encode(_partial_snapshot(partial))


def save_partial(partial: Partial, path: Path) -> None:
    """Write the bytes of a partial, durably and atomically; raise SnapshotError."""
    save_file(_partial_snapshot(partial), path, None)


def _partial_snapshot(partial: Partial) -> Snapshot:
    parts = {
        _PARTIAL: SnapshotPart(*partial.state()),
        _CLASSIFIER: SnapshotPart({"made": _form(partial.model)}, {}),
    }
    return Snapshot(-1, "", {}, "", {}, parts)


def partial_of(encoded: bytes) -> Partial:
    """See `Partial.from_bytes`."""
    parts = decode(encoded).parts
    if parts.keys() != {_PARTIAL, _CLASSIFIER}:
        names = ", ".join(sorted(parts))
        raise SnapshotError(f"a snapshot of {names} is not a partial: load it by streamnb.load")
    with state_errors("a partial", ValueError):
        model = _value(parts[_CLASSIFIER].meta["made"])
        if not isinstance(model, NaiveBayes):
            raise SnapshotError(f"a {type(model).__name__} makes no partials")
    return Partial.from_state(model, *parts[_PARTIAL])


def load(where: str | os.PathLike[str], config: str | os.PathLike[str] | None = None) -> Any:
    """Load a classifier from a file; its predictions are bit-identical, and it can continue to learn.

    Args:
        where: a file from `save`; a snapshot of a service; a folder of snapshots, for the newest; or the URL
            of a log, ``sqlite:///mails.db``, for its folder of snapshots.
        config: TOML file with the snapshot folder of that log, if it is not the default. Environment
            variables apply, too. The schema and the model's configuration are in the snapshot.

    Raises:
        SnapshotError: the file is missing, damaged, of a later version, or without a classifier; the
            message has the file, the cause and the remedy.

    Examples:
        >>> import os, tempfile
        >>> import streamnb
        >>> model = streamnb.MultinomialNB(alpha=0.5)
        >>> model.learn_one("free entry", "spam")
        >>> path = os.path.join(tempfile.mkdtemp(), "words.snb")
        >>> model.save(path)
        >>> again = streamnb.load(path)
        >>> again.predict_one("free"), again.digest() == model.digest()
        ('spam', True)
    """
    place = os.fspath(where)
    if "://" in place:
        file = None if config is None else Path(config)
        place = str(configuration.load(file, os.environ, [f"log.url={place}"]).snapshot_folder)
        return newest(Path(place), _warn).classifier
    return found(Path(place), _warn).classifier


def newest(folder: Path, report: Callable[[Damaged], None]) -> LoadedModel:
    """Return the newest model of a folder; report and skip unreadable snapshots.

    Raises SnapshotError if there is none.
    """
    found = SnapshotFolder(folder, report=report, whole=False).newest()
    if found is None:
        raise SnapshotError(
            f"there is no snapshot in {folder}: `streamnb run` keeps one as it learns, and when it stops; "
            "`--log` and `--config` select the log, and `streamnb snapshot list` lists its snapshots"
        )
    return _loaded(found.snapshot, found.path)


def found(place: Path, report: Callable[[Damaged], None]) -> LoadedModel:
    """Return the model of one file, or the newest of a folder of snapshots; raise SnapshotError."""
    if place.is_dir():
        return newest(place, report)
    try:
        snapshot = read_file(place)
    except FileNotFoundError as error:
        raise SnapshotError(
            f"{place}: there is no such file or folder; give a file that `save` has written, or a snapshot "
            "of a service (`streamnb snapshot list` shows which there are)"
        ) from error
    except (SnapshotError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise SnapshotError(
            f"{place}: {why}; take another snapshot (`streamnb snapshot list` shows which there are), "
            "or save the classifier again"
        ) from error
    return _loaded(snapshot, place)


def _loaded(snapshot: Snapshot, path: Path) -> LoadedModel:
    parts = snapshot.parts
    try:
        with state_errors("a classifier", ValueError):
            if _CLASSIFIER in parts:
                config, model = None, _value(parts[_CLASSIFIER].meta["made"])
                if not isinstance(model, Savable):
                    raise SnapshotError(f"a {type(model).__name__} is not a classifier")
            else:
                config = configuration.restored(origin_of(snapshot).config)
                model = configured(config)
            model.load_state(*parts[_MODEL])
    except StreamnbError as error:
        wrote = snapshot.fingerprint.get("streamnb", "another version")
        raise SnapshotError(
            f"{path}: {error}; streamnb {wrote} has written it: load it with that version or a later one"
        ) from error
    return LoadedModel(model, config, snapshot, path)


def _warn(damaged: Damaged) -> None:
    warnings.warn(str(damaged.message), stacklevel=4)


# -- parameters as JSON -------------------------------------------------------------------------------------


def _form(value: Any) -> Any:
    """Return a parameter as JSON: itself, a list, or an object whose only key is its type."""
    if value is None or isinstance(value, (str, bool, int, float, np.generic)):
        return None if value is None else plain(value)
    if isinstance(value, list):
        return [_form(one) for one in value]
    if isinstance(value, tuple):
        return {"tuple": [_form(one) for one in value]}
    if isinstance(value, Mapping):  # preserve order and keys of any type
        return {"mapping": [[_form(key), _form(one)] for key, one in value.items()]}
    kind = type(value).__name__
    if _class(kind) is not type(value):
        raise SnapshotError(f"a {kind} cannot be saved: only streamnb classifiers and their components can")
    return {kind: {name: _form(one) for name, one in _made_with(value).items()}}


def _value(form: Any) -> Any:
    if isinstance(form, list):
        return [_value(one) for one in form]
    if not isinstance(form, dict):
        return form
    ((kind, inside),) = form.items()
    if kind == "tuple":
        return tuple(map(_value, inside))
    if kind == "mapping":
        return {_value(key): _value(one) for key, one in inside}
    made = _class(kind)
    if made is None:
        raise SnapshotError(f"{kind!r} is nothing that this program makes of a file")
    return made(**{name: _value(one) for name, one in inside.items()})


def _class(name: str) -> Any:
    found = Hooks.public(name)
    return found if name in _VALUES or (isinstance(found, type) and issubclass(found, Savable)) else None


def _made_with(value: Any) -> Mapping[str, Any]:
    names = inspect.signature(type(value)).parameters
    found = getattr(value, "made_with", None)
    return {name: getattr(value, name) for name in names} if found is None else found
