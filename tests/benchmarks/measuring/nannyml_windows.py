"""What NannyML's confidence-based estimate says of windows: run by an interpreter that has its package.

The window whose labels are known is its reference, the next one is analysed; its bounds are three standard errors of
sampling away. Where a class is missing in the reference it may refuse: then nan.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

PLACES = "value", "lower_confidence_boundary", "upper_confidence_boundary"


def frame_of(P, truths=None):
    frame = pd.DataFrame({f"p{k}": column for k, column in enumerate(P.T)})
    frame["predicted"] = P.argmax(axis=1) if P.shape[1] == 2 else [f"c{k}" for k in P.argmax(axis=1)]
    if truths is not None:
        frame["truth"] = truths if P.shape[1] == 2 else [f"c{k}" for k in truths]
    return frame


def estimated(P, truths, Q):
    """Accuracy of Q's predictions, and its bounds."""
    from nannyml import CBPE  # which those that collect tests do not have

    columns = "p1" if P.shape[1] == 2 else {f"c{k}": f"p{k}" for k in range(P.shape[1])}
    kind = "classification_binary" if P.shape[1] == 2 else "classification_multiclass"
    made = CBPE(
        metrics=["accuracy"],
        y_pred_proba=columns,
        y_true="truth",
        problem_type=kind,
        y_pred="predicted",
        chunk_size=len(Q),
    )
    told = made.fit(frame_of(P, truths)).estimate(frame_of(Q)).filter(period="analysis").to_df()
    return [float(told["accuracy"][place].iloc[0]) for place in PLACES]


def main(folder, count):
    warnings.simplefilter("ignore")
    rows = []
    for i in range(int(count)):
        with np.load(Path(folder) / f"{i}.npz") as given:
            P, Q = given["P"], given["Q"][:, : given["P"].shape[1]]
            try:
                rows.append(estimated(P, given["truths"], Q))
            except Exception as error:  # noqa: BLE001  whatever it refuses by
                print(f"{i}: {error}", file=sys.stderr)
                rows.append([float("nan")] * 3)
    print(json.dumps(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
