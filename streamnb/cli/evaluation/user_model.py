"""A classifier of the user's own, as ``evaluate --model MODULE:NAME`` names it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from streamnb.errors import ConfigError
from streamnb.model.attributes.nearest import did_you_mean
from streamnb.model.interface.river_stream_model import RiverStreamModel


def given_model(named: str) -> RiverStreamModel:
    """The classifier NAME of the Python module MODULE, or what NAME() makes, as a model of the engine.

    Modules are looked for in the working directory, too. The classifier has River's interface; it need not
    have a state, for nothing is saved.

    Raises:
        ConfigError: if there is no such module, name or classifier.
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
    return RiverStreamModel(found, type(found).__name__)


def _refused(named: str, expected: str) -> ConfigError:
    return ConfigError(f"--model is {named!r}; expected {expected}")
