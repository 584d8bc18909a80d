"""HTTP path of explanations as served: a published prediction, its evidence, and what decided."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from fastapi import FastAPI, Path, Response

from streamnb.events import Prediction
from streamnb.serving.http_labels import label_now
from streamnb.serving.http_schemas import ExplainedPrediction
from streamnb.serving.problem_details import ProblemError
from streamnb.serving.replica import Replica

_decode = msgspec.json.Decoder(Prediction).decode


def add_explanations(
    app: FastAPI,
    newest: Callable[[str], Awaitable[bytes]],
    replica: Replica,
    author: Callable[[str, str], str | None],
) -> None:
    """Add `GET /explain/ID`.

    Args:
        app: the application.
        newest: returns the newest published prediction of an id; raises ProblemError if there is none.
        replica: has the label in force.
        author: returns the author of a source's label of an event, or None.
    """

    @app.get("/explain/{id:text}", name="explain_prediction", response_model=ExplainedPrediction)
    async def explain_prediction(
        id_: Annotated[str, Path(alias="id", min_length=1, max_length=1000)],
    ) -> Response:
        """Return the newest prediction of an event as published, what decided, and the label in force now."""
        raw = await newest(id_)
        try:
            found = _decode(raw)
        except msgspec.MsgspecError as error:  # written by another program
            raise ProblemError(404, f"the newest prediction of {id_[:100]!r} has no known form") from error
        label = await label_now(replica, id_, author)
        body = {"prediction": msgspec.Raw(raw), "decided": decided(found), "label": label}
        return Response(msgspec.json.encode(body), media_type="application/json")


def decided(prediction: Prediction) -> dict[str, Any]:
    """Return what decided, by the fields of a published prediction."""
    ranked = sorted(prediction.probabilities.items(), key=lambda pair: -pair[1])
    first, second = [*ranked, (None, None), (None, None)][:2]
    more: dict[str, Any] = {"runner_up": second[0], "runner_up_probability": second[1]}
    if prediction.label is None:
        return {"rule": "nothing-known", "outcome": None, **more}
    if prediction.decision is msgspec.UNSET:
        return {"rule": "probability", "outcome": first[0], **more}
    found = {"outcome": prediction.decision, "expected_cost": prediction.expected_cost, **more}
    if prediction.rejected == "novel":
        return {"rule": "novelty", "novelty": prediction.novelty, **found}
    return {"rule": "cost", **found}
