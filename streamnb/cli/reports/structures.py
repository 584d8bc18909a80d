"""What hangs on what, as `inspect` shows it: the edges of a tree, or of a network."""

from __future__ import annotations

from typing import Any

from streamnb.cli.reports.text_tables import table
from streamnb.model.bayesian_network.classifier import BayesianNetworkClassifier
from streamnb.model.interface.river_stream_model import RiverStreamModel
from streamnb.model.interface.stream_model import StreamModel
from streamnb.model.trees.tree_augmented_nb import TreeAugmentedNB


def edges(model: StreamModel) -> list[dict[str, Any]] | None:
    """Parent and child of every edge, of a tree with the information between them (nats); None of others."""
    if isinstance(model, TreeAugmentedNB):
        return [
            {"parent": str(parent), "child": str(child), "information": information}
            for parent, child, information in sorted(model.edges, key=lambda edge: -edge.information)
        ]
    if isinstance(model, RiverStreamModel) and isinstance(model.classifier, BayesianNetworkClassifier):
        return [
            {"parent": str(parent), "child": str(child)}
            for child, names in model.classifier.network.parents.items()
            for parent in names
        ]
    return None


def print_edges(described: list[dict[str, Any]]) -> None:
    """The same as text."""
    informed = bool(described) and "information" in described[0]
    print(
        "\nattributes that hang on another one"
        + (", given the class; nats that it tells" if informed else "")
    )
    header = ("parent", "child", "information")[: 3 if informed else 2]
    print(table([tuple(edge.values()) for edge in described], header))
