"""What Python's users are told, and what completion shows them."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import pytest
from river import base
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import streamnb
from streamnb import BayesOptimalNB, GaussianNB, Hypothesis, NaiveBayes
from streamnb.errors import SnapshotError
from streamnb.sklearn import StreamClassifier

FRAME = pd.DataFrame({"colour": ["red", "green", "blue", "red"] * 15})
LABELS = [0, 1, 1, 0] * 15


def test_dir_lists_the_public_names_before_any_is_loaded():
    code = "import streamnb, json; print(json.dumps([dir(streamnb), streamnb.__all__]))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    listed, public = __import__("json").loads(told)
    assert set(public) | {"__version__"} <= set(listed)
    assert [name for name in listed if not name.startswith("__")] == sorted(public)


@pytest.mark.parametrize("odd", [["presence"], "presence", Hypothesis(), [3], None, [Hypothesis]])
def test_what_is_no_list_of_hypotheses_is_refused(odd):
    with pytest.raises(
        ValueError, match=r"hypotheses must be a list of Hypothesis, .* such as \[Hypothesis\("
    ):
        BayesOptimalNB(hypotheses=odd)


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(SnapshotError, match=r"model.snb: there is no such file or folder; give a file that"):
        streamnb.load(tmp_path / "model.snb")


@pytest.mark.parametrize("missing", ["pandas", "sklearn"])
def test_the_extra_is_named_where_it_is_not_installed(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; import streamnb.sklearn"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    last = done.stderr.splitlines()[-1]
    assert last == f"ImportError: streamnb.sklearn needs {missing}: pip install 'streamnb[sklearn]'"


@pytest.mark.parametrize("model", [None, NaiveBayes(prior="uniform")])
def test_a_grid_search_sets_parameters_of_the_model(model):
    found = GridSearchCV(StreamClassifier(model), {"model__alpha": [0.25, 4.0]}, cv=2).fit(FRAME, LABELS)
    chosen = found.best_estimator_
    assert chosen.model.alpha == chosen.model_.alpha == found.best_params_["model__alpha"]
    assert chosen.model.prior == ("learned" if model is None else "uniform")
    assert chosen.get_params()["model__alpha"] == chosen.model.alpha
    pipeline = make_pipeline(StreamClassifier(model)).set_params(streamclassifier__model__alpha=3.0)
    assert pipeline.get_params()["streamclassifier__model__alpha"] == 3.0


def test_set_params_leaves_the_model_that_was_given_as_it_was():
    given = NaiveBayes(alpha=2.0)
    made = StreamClassifier(given).set_params(model__alpha=0.5, texts=["colour"])
    assert (given.alpha, made.model.alpha, made.texts) == (2.0, 0.5, ["colour"])
    assert clone(made).get_params()["model__alpha"] == 0.5
    assert (
        StreamClassifier(given).set_params(model=GaussianNB(), model__prior="uniform").model.prior
        == "uniform"
    )


def test_a_parameter_that_the_model_has_not_is_refused():
    with pytest.raises(ValueError, match="a NaiveBayes has no parameter 'alpa'; did you mean alpha"):
        StreamClassifier().set_params(model__alpa=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'modle'"):
        StreamClassifier().set_params(modle=None)


def test_every_public_classifier_provides_what_checks_of_river_construct_it_with():
    kinds = [getattr(streamnb, name) for name in streamnb.__all__]
    kinds = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, base.Classifier)]
    assert len(kinds) > 10
    for kind in kinds:
        assert isinstance(kind(**next(iter(kind._unit_test_params()))), kind)
