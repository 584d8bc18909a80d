"""A classifier of streamnb as an estimator of scikit-learn; needs the extra ``streamnb[sklearn]``."""

from __future__ import annotations

import pickle
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from streamnb.model.attributes.nearest import did_you_mean
from streamnb.model.mixture.scaled_smoothing import scale_of, scaled_parameters
from streamnb.model.naive_bayes.naive_bayes import NaiveBayes


class StreamClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of streamnb in pipelines, cross-validation and searches of scikit-learn.

    X is a data frame, whose columns are numbers, nominal values or texts, as `texts` and the model's
    attributes say, else by their values; or an array of numbers, float[n, d]. NaN is a missing value. y is
    any labels that scikit-learn takes. Weights count in steps of 1/1024; if `fit` gets one above 0 and
    below that, it multiplies all, and the smoothing of the model, by one power of two.

    Args:
        model: a classifier of streamnb that learns many events at once; what it has learned is left out. None
            is `NaiveBayes`.
        texts: the columns that are texts, beside one that is called `text`, which is one by its name.

    Attributes:
        model_: what has learned.
        classes_: the labels, sorted.
        weight_scale_: what weights, and the smoothing (alpha, m) of `model_`, are multiplied by: the power of
            two that `fit` chose; `partial_fit` keeps it, or begins with 1.
    """

    model_: Any
    classes_: Any
    weight_scale_: float
    _columns: Any

    def __init__(self, model: Any = None, texts: Any = ()) -> None:
        self.model, self.texts = model, texts

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget what was learned, and learn these events in order.

        If the least weight above 0 is below 1/1024, all weights and the smoothing are multiplied by one power
        of two (`weight_scale_`), so that smoothed probabilities are those of the weights given.
        """
        return self._learned(X, y, None, sample_weight, anew=True, scales=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more events; a class that `classes` did not name gets its column when it comes."""
        return self._learned(X, y, classes, sample_weight, anew=not hasattr(self, "model_"))

    def predict_proba(self, X: Any) -> Any:
        """P(class | row), float[n, classes]; the columns are `classes_`. Raises NotFittedError."""
        check_is_fitted(self)
        found = self.model_.predict_posteriors(self._events(X, anew=False))
        answer = np.zeros((len(found.probabilities), len(self.classes_)))
        answer[:, np.searchsorted(self.classes_, np.array(found.classes))] = found.probabilities
        return answer

    def predict(self, X: Any) -> Any:
        """The most probable class of each row. Raises NotFittedError."""
        best = self.predict_proba(X).argmax(axis=1)  # first: it says when nothing was learned
        return self.classes_[best]

    def __getstate__(self) -> dict[str, Any]:
        """The model as bytes: joblib would map its arrays read-only, and it could not go on learning."""
        state: dict[str, Any] = super().__getstate__()
        return {**state, "model_": pickle.dumps(self.model_)} if "model_" in state else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """What was pickled, which has to be trusted as any pickle has."""
        known = {"model_": pickle.loads(state["model_"])} if "model_" in state else {}  # noqa: S301  see above
        super().__setstate__(state | known)

    def __sklearn_tags__(self) -> Any:
        """Missing values are taken."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _learned(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, *, anew: bool, scales: bool = False
    ) -> Self:
        events = self._events(X, y, anew=anew)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        known = [] if anew else [self.classes_]
        self.classes_ = unique_labels(*known, *([] if classes is None else [classes]), y)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        if anew:
            self.weight_scale_ = 1.0 if weights is None or not scales else scale_of(weights)
            self.model_ = self._fresh(events)
        if self.weight_scale_ != 1.0:
            weights = self.weight_scale_ * (np.ones(len(events)) if weights is None else weights)
        self.model_.learn_many(events, y.tolist(), weights)
        return self

    def _fresh(self, events: pd.DataFrame) -> Any:
        """A model that has learned nothing. Raises ValueError for texts that are no columns."""
        model = NaiveBayes() if self.model is None else self.model
        texts = [self.texts] if isinstance(self.texts, str) else self.texts
        for name in texts:
            if name not in events.columns:
                known = list(map(str, events.columns))
                raise ValueError(f"texts: X has no column {name!r}{did_you_mean(str(name), known)}")
        parameters: dict[str, Any] = {}
        if texts:
            known_attributes = getattr(model, "attributes", None) or {}
            parameters["attributes"] = {**known_attributes, **dict.fromkeys(texts, "text")}
        if self.weight_scale_ != 1.0:
            given = model._get_params() | parameters  # noqa: SLF001  as River's own `clone` does
            parameters = scaled_parameters(given, self.weight_scale_)
        return model.clone(parameters)

    def _events(self, X: Any, y: Any = "no_validation", *, anew: bool) -> pd.DataFrame:
        """The rows as a data frame, checked. Raises ValueError or TypeError as scikit-learn's own would."""
        if isinstance(X, pd.Series):
            raise TypeError(f"X is one column: give a data frame, such as X.to_frame({X.name or 'text'!r})")
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, y, reset=anew, skip_check_array=True)
            events, has_names = X, hasattr(self, "feature_names_in_")
        else:
            made = validate_data(self, X, y, reset=anew, ensure_all_finite="allow-nan", dtype=np.float64)
            events, has_names = pd.DataFrame(made if isinstance(y, str) else made[0]), False
        if anew:
            self._columns = events.columns
        # As all of scikit-learn does: where one side has no names, columns go by their places.
        return events if anew or has_names else events.set_axis(self._columns, axis=1)
