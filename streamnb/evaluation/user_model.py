"""A classifier of the user's own, as ``evaluate --model MODULE:NAME`` names it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from river import base, compose

from streamnb.errors import ConfigError
from streamnb.models.interface.river_classifier import answer_of, teach_one
from streamnb.models.interface.river_stream_model import RiverStreamModel
from streamnb.values.parameter_checks import did_you_mean


def given_model(named: str) -> RiverStreamModel:
    """Return the classifier NAME, or the result of NAME(), of the module MODULE as a model of the engine.

    Modules in the working directory are found, too. The classifier has River's interface; it needs no state,
    because it is not saved. A binary classifier of River takes any two labels. Raises ConfigError if it
    fails.
    """
    module_name, _, name = named.partition(":")
    if not module_name or not name.isidentifier():
        raise _refused(named, "MODULE:NAME")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # it is there, and lacks something itself
        raise _refused(named, f"a module that can be imported from {here}") from error
    if not hasattr(module, name):
        raise _refused(
            named,
            f"a name in {module_name}{did_you_mean(name, {*dir(module), *getattr(module, '__all__', ())})}",
        )
    found = getattr(module, name)
    if isinstance(found, type) or not hasattr(found, "learn_one"):
        try:
            found = found() if callable(found) else found
        except TypeError as error:
            raise _refused(named, f"what can be made without arguments: {error}; name a function") from error
    for method in ("learn_one", "predict_one"):
        if not hasattr(found, method):
            raise _refused(named, f"a classifier: a {type(found).__name__} has no {method}")
    kind = type(found).__name__
    is_binary, is_of_river = _is_binary(found), type(found).__module__.partition(".")[0] == "river"
    found = _StringErrors(found) if is_binary or is_of_river else found
    return RiverStreamModel(_TwoLabels(found, kind) if is_binary else found, kind)


def _is_binary(classifier: Any) -> bool:
    """Return True if it takes only True and False as labels, as binary classifiers of River do.

    Classifiers of streamnb, and classifiers that are made with their classes, take labels of their own.
    """
    last = classifier
    while isinstance(last, compose.Pipeline):
        last = next(reversed(last.steps.values()))
    has_labels = type(last).__module__.partition(".")[0] == "streamnb" or hasattr(last, "classes")
    return isinstance(last, base.Classifier) and not last._multiclass and not has_labels  # noqa: SLF001


class _StringErrors:
    """A classifier that raises ConfigError, with the attribute, if it fails at a string.

    Args:
        classifier: of River's interface.
    """

    def __init__(self, classifier: Any) -> None:
        self._classifier = classifier

    def learn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Learn an event."""
        with self._takes(x):
            teach_one(self._classifier, x, y, w)

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Return P(label | x)."""
        with self._takes(x):
            return answer_of(self._classifier, x)

    def predict_one(self, x: Any) -> Any:
        """Return the most probable label; None before any was learned."""
        return _best(self.predict_proba_one(x))

    @contextmanager
    def _takes(self, x: Any) -> Iterator[None]:
        try:
            yield
        except TypeError as error:
            name = next((name for name, value in x.items() if isinstance(value, str)), None)
            if name is None:
                raise
            kind = type(self._classifier).__name__
            raise ConfigError(
                f"--model: a {kind} takes no strings ({error}), and attribute {name!r} is {x[name]!r}; name "
                "a function that returns a pipeline, such as compose.SelectType(float) | "
                "linear_model.LogisticRegression()"
            ) from error


class _TwoLabels:
    """A classifier of True and False, as one of two labels: the first label learned is False.

    Args:
        classifier: of River's interface.
        kind: its name.
    """

    def __init__(self, classifier: _StringErrors, kind: str) -> None:
        self._classifier, self._kind = classifier, kind
        self._labels: list[Any] = []

    def learn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Learn an event. Raises ConfigError for a third label."""
        if y not in self._labels:
            if len(self._labels) == 2:
                told = ", ".join(map(repr, [*self._labels, y]))
                raise ConfigError(
                    f"--model: a {self._kind} distinguishes two classes, and there are more labels ({told}); "
                    "name a function that returns it in a river.multiclass.OneVsRestClassifier"
                )
            self._labels.append(y)
        self._classifier.learn_one(x, self._labels.index(y) == 1, w)

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Return P(label | x) of the labels learned so far."""
        found = self._classifier.predict_proba_one(x)
        return {label: found.get(k == 1, 0.0) for k, label in enumerate(self._labels)}

    def predict_one(self, x: Any) -> Any:
        """Return the most probable label; None before any was learned."""
        return _best(self.predict_proba_one(x))


def _best(found: dict[Any, float]) -> Any:
    return max(found, key=found.__getitem__, default=None)


def _refused(named: str, expected: str) -> ConfigError:
    return ConfigError(f"--model is {named!r}; expected {expected}")
