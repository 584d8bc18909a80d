"""A classifier of streamnb as an estimator of scikit-learn; needs the extra ``streamnb[sklearn]``."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Self

import numpy as np

from streamnb.errors import needs_extra

with needs_extra("streamnb.sklearn", "sklearn", "sklearn", "pandas"):
    import pandas as pd
    from scipy.sparse import issparse
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import column_or_1d, compute_sample_weight, shuffle
    from sklearn.utils.multiclass import check_classification_targets, unique_labels
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from streamnb.features.attributes import TEXT
from streamnb.features.column_quality import warn_of_columns, warn_of_labels
from streamnb.models.mixture.scaled_smoothing import scale_of, scaled_parameters
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.models.naive_bayes.naive_bayes_classifier import NaiveBayes
from streamnb.models.naive_bayes.naive_bayes_variants import BernoulliNB, MultinomialNB
from streamnb.values.parameter_checks import did_you_mean

_CELLS = 1 << 22  # numbers of a sparse matrix that are made dense at a time


class StreamClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of streamnb in pipelines, cross-validation and searches of scikit-learn.

    X is one of

    * a data frame, whose columns are numbers, nominal values or texts, as declared by `texts` and the model's
      attributes, else by their values; times, durations and decimals are read as in a Parquet file;
    * a list, an array or a series of strings: each is a text;
    * an array or a sparse matrix of numbers, float[n, d]. Its columns are numbers, or counts of words if the
      model has only words. A sparse matrix is equivalent to its array.

    NaN is a missing value. y is any labels that scikit-learn accepts. Weights count in steps of 1/1024; `fit`
    may multiply them by a power of two, see there.

    Args:
        model: a classifier of streamnb with `learn_many`; `fit` begins with an untrained copy. None is
            `NaiveBayes`.
        texts: the text columns, in addition to one called `text`.
        class_weight: label -> factor of its events' weights, 1 for other labels; "balanced" is
            n_samples / (n_classes * count), for `fit` only.
        shuffle: whether `fit` learns the rows in random order. A model that learns from the order, such as a
            mixture, otherwise learns of rows sorted by label that the previous label repeats.
        random_state: of that order: an integer, a numpy RandomState, or None for another order each time.

    Attributes:
        model_: the trained classifier.
        classes_: the labels, sorted.
        weight_scale_: factor of weights, and of the smoothing (alpha, m) of `model_`: the power of two that
            `fit` chose; `partial_fit` keeps it, or begins with 1.
    """

    model_: Any
    classes_: Any
    weight_scale_: float
    _columns: Any
    _warned: set[Any]

    def __init__(
        self,
        model: Any = None,
        texts: Any = (),
        class_weight: Any = None,
        shuffle: bool = True,  # noqa: FBT001, FBT002  scikit-learn sets parameters by name
        random_state: Any = 0,
    ) -> None:
        self.model, self.texts, self.class_weight = model, texts, class_weight
        self.shuffle, self.random_state = shuffle, random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002  scikit-learn's
        """Return the parameters; with `deep` also the model's parameters, such as `model__alpha`."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep and hasattr(self.model, "clone"):  # scikit-learn sets any value, and validates later
            names = inspect.signature(type(self.model)).parameters
            params |= {f"model__{name}": getattr(self.model, name) for name in names}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `model__alpha=0.5` replaces the model by one of that alpha. Raises ValueError."""
        own = {name: value for name, value in params.items() if not name.startswith("model__")}
        super().set_params(**own)
        given = {name.removeprefix("model__"): value for name, value in params.items() if name not in own}
        if given:
            model = NaiveBayes() if self.model is None else self.model
            known = list(inspect.signature(type(model)).parameters)
            for name in given:
                if name not in known:
                    kind = type(model).__name__
                    raise ValueError(f"a {kind} has no parameter {name!r}{did_you_mean(name, known)}")
            self.model = model.clone(given)
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Reset the model, and learn these events, in the order that `shuffle` sets.

        If all weights are below 1, the least above 0 is below 1/1024, or the greatest is above 2^20, all
        weights and the smoothing are multiplied by one power of two (`weight_scale_`). This does not change
        smoothed probabilities. Means and variances use the scaled weights, the greatest of which is at least
        one example. So weights of 1/n give the same variances as weights of 1.
        """
        return self._learned(X, y, None, sample_weight, anew=True, is_fit=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more events, in their order; a class not in `classes` gets a column with its first event."""
        return self._learned(X, y, classes, sample_weight, anew=not hasattr(self, "model_"))

    def predict_proba(self, X: Any) -> Any:
        """Return P(class | row), float[n, classes]; the columns are `classes_`. Raises NotFittedError."""
        check_is_fitted(self)
        events = self._events(X, anew=False)
        answer = np.zeros((events.shape[0], len(self.classes_)))
        for rows, part in self._parts(events):
            found = self.model_.predict_posteriors(part)
            answer[rows, np.searchsorted(self.classes_, np.array(found.classes))] = found.probabilities
        return answer

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row. Raises NotFittedError."""
        best = self.predict_proba(X).argmax(axis=1)  # before `classes_`, to raise NotFittedError
        return self.classes_[best]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with the model as bytes: joblib would map its arrays read-only."""
        state: dict[str, Any] = super().__getstate__()
        return {**state, "model_": pickle.dumps(self.model_)} if "model_" in state else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled state, which must be trusted like any pickle."""
        known = {"model_": pickle.loads(state["model_"])} if "model_" in state else {}  # noqa: S301  see above
        super().__setstate__(state | known)

    def __sklearn_tags__(self) -> Any:
        """Return the tags: missing values and sparse matrices are accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        return tags

    def _learned(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, *, anew: bool, is_fit: bool = False
    ) -> Self:
        events = self._events(X, y, anew=anew)
        y = column_or_1d(_labels_of(y), warn=True)
        check_classification_targets(y)
        known = [] if anew else [self.classes_]
        self.classes_ = unique_labels(*known, *([] if classes is None else [classes]), y)
        weights = self._weights(X, y, sample_weight, is_fit=is_fit)
        if anew:
            self.weight_scale_ = 1.0 if weights is None or not is_fit else scale_of(weights)
            self.model_, self._warned = self._fresh(self._columns), set()
        if self.weight_scale_ != 1.0:
            weights = self.weight_scale_ * (np.ones(len(y)) if weights is None else weights)
        if is_fit and self.shuffle:
            columns = (events, y) if weights is None else (events, y, weights)
            events, y, *rest = shuffle(*columns, random_state=self.random_state)
            weights = rest[0] if rest else None
        for rows, part in self._parts(events):
            self.model_.learn_many(part, y[rows].tolist(), None if weights is None else weights[rows])
        if issparse(events) or not isinstance(self.model_, CountingModel):  # a CountingModel warns itself
            warn_of_labels(self.classes_.tolist(), self._warned)
            if not issparse(events):
                declared = {TEXT, *(getattr(self.model_, "attributes", None) or ())}
                warn_of_columns(events, declared, self._warned)
        return self

    def _weights(self, X: Any, y: Any, sample_weight: Any, *, is_fit: bool) -> Any:
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        given = self.class_weight
        if given is None:
            return weights
        if isinstance(given, Mapping):
            labels = self.classes_.tolist()
            unknown = [label for label in given if is_fit and label not in labels]
            if unknown:
                near = did_you_mean(str(unknown[0]), list(map(str, labels)))
                raise ValueError(f"class_weight: y has no label {unknown[0]!r}{near}")
            by_class = np.array([given.get(label, 1.0) for label in y.tolist()], dtype=np.float64)
        elif not is_fit:
            raise ValueError(
                f"class_weight={given!r} needs all labels at once, and partial_fit sees a part: give a dict, "
                "label -> weight"
            )
        else:
            by_class = compute_sample_weight(given, y)  # ValueError unless "balanced"
        return by_class if weights is None else weights * by_class

    def _parts(self, events: Any) -> Iterator[tuple[slice, Any]]:
        """Yield the events in the model's format, with their rows: a sparse matrix in parts."""
        if not issparse(events):
            yield slice(0, len(events)), events
            return
        n, n_columns = events.shape
        has_words = isinstance(self.model_, MultinomialNB | BernoulliNB)
        step = n if has_words else max(1, _CELLS // n_columns)
        for first in range(0, n, step):
            rows = slice(first, min(first + step, n))
            part = events[rows]
            yield rows, self._bags(part) if has_words else pd.DataFrame(part.toarray(), columns=self._columns)

    def _bags(self, counts: Any) -> list[dict[Any, float]]:
        """Return the rows of a sparse matrix as bags of words, without zeros.

        An empty row is a text without words, like a row of zeros, not an event without a text.
        """
        words, ends = self._columns.to_numpy()[counts.indices].tolist(), counts.indptr.tolist()
        times, none = counts.data.tolist(), {self._columns[0]: 0.0}
        return [
            dict(zip(words[first:end], times[first:end], strict=True)) or none
            for first, end in pairwise(ends)
        ]

    def _fresh(self, columns: Any) -> Any:
        """Return an untrained model. Raises ValueError for texts that are not columns."""
        model = NaiveBayes() if self.model is None else self.model
        texts = [self.texts] if isinstance(self.texts, str) else self.texts
        for name in texts:
            if name not in columns:
                known = list(map(str, columns))
                raise ValueError(f"texts: X has no column {name!r}{did_you_mean(str(name), known)}")
        parameters: dict[str, Any] = {}
        if texts:
            known_attributes = getattr(model, "attributes", None) or {}
            parameters["attributes"] = {**known_attributes, **dict.fromkeys(texts, "text")}
        if self.weight_scale_ != 1.0:
            given = model._get_params() | parameters  # noqa: SLF001  as River's own `clone` does
            parameters = scaled_parameters(given, self.weight_scale_)
        return model.clone(parameters)

    def _events(self, X: Any, y: Any = "no_validation", *, anew: bool) -> Any:
        """Return validated rows as a data frame or a CSR matrix. Raises the errors of scikit-learn."""
        texts, has_names = _texts_of(X), False
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, y, reset=anew, skip_check_array=True)
            events, has_names = X, hasattr(self, "feature_names_in_")
        elif texts is not None:
            validate_data(self, texts, y, reset=anew, skip_check_array=True)
            named = [self.texts] if isinstance(self.texts, str) else list(self.texts)
            events = pd.DataFrame(texts, columns=named[:1] or ["text"])
        elif isinstance(X, pd.Series):
            raise TypeError(
                f"X is one column without strings: give a data frame, such as X.to_frame({X.name or 'x'!r})"
            )
        else:
            made = validate_data(
                self, X, y, reset=anew, accept_sparse="csr", ensure_all_finite="allow-nan", dtype=np.float64
            )
            events = made if isinstance(y, str) else made[0]
            events = events if issparse(events) else pd.DataFrame(events)
        if anew:
            self._columns = pd.RangeIndex(events.shape[1]) if issparse(events) else events.columns
        # As in all of scikit-learn: if one side has no names, columns are matched by position.
        return events if anew or has_names or issparse(events) else events.set_axis(self._columns, axis=1)


def _labels_of(y: Any) -> Any:
    """Convert nullable integers and booleans of pandas to numpy's; scikit-learn would make them doubles."""
    numpy_dtype = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    if numpy_dtype is None or numpy_dtype.kind not in "iub" or y.isna().any():
        return y
    return y.to_numpy(dtype=numpy_dtype)


def _texts_of(X: Any) -> Any:
    """Return a sequence of strings, some of which may be missing, as object[n, 1]; else None."""
    is_array = isinstance(X, np.ndarray | pd.Series) and X.ndim == 1
    if not is_array and not isinstance(X, list | tuple):
        return None
    if not {str} <= set(map(type, X)) and not any(isinstance(text, str) for text in X):
        return None
    texts = np.empty((len(X), 1), dtype=object)
    texts[:, 0] = X
    return texts
