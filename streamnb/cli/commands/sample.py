"""``streamnb sample``: write a file of synthetic events."""

from __future__ import annotations

import argparse
import csv
import json
import random
import shlex
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from streamnb.errors import ConfigError

_SAID = {
    "billing": (
        "I was charged twice, the invoice is wrong, please refund my last payment, my card was declined"
    ),
    "technical": "the app crashes at start, I get error 500, pages load very slowly, the export is empty",
    "account": "I cannot log in, please reset my password, how do I change my email, close my account",
}
_BY_ANY = (
    "since this morning, it worked last week, please help, this is urgent, thank you, I tried it twice, "
    "on my phone, see my last message, for the whole team"
)
_PLANS = {"billing": "free pro pro team", "technical": "pro team team team", "account": "free free pro team"}
_MINUTES = {"billing": 45.0, "technical": 15.0, "account": 30.0}
_WRONG = 0.04
"""Share of tickets with a wrong label."""


def run(options: argparse.Namespace) -> int:
    """Write the file; the same options give the same bytes."""
    rows = tickets(options.events, options.seed)
    plain = options.file == "-"
    path = Path(options.file)
    if not plain and path.exists():
        name = shlex.quote(options.file)
        raise ConfigError(f"{name} is there: `streamnb evaluate {name}` reads it; or name another file")
    with nullcontext(sys.stdout) if plain else path.open("x", encoding="utf-8", newline="") as file:
        if options.file.lower().endswith(".csv"):
            written = csv.writer(file, lineterminator="\n")
            written.writerow(["id", "text", "plan", "minutes", "label"])
            written.writerows(
                [row["id"], row["text"], *row["features"].values(), row["label"]] for row in rows
            )
        else:
            file.writelines(f"{json.dumps(row)}\n" for row in rows)
    if not plain:
        text = f"{options.events:,} made-up support tickets in {options.file}"
        print(json.dumps({"file": options.file, "events": options.events}) if options.json else text)
    return 0


def tickets(n: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield tickets of three classes: a text, a nominal value and a number, with a few wrong labels."""
    draw = random.Random(seed)  # noqa: S311  no secret
    classes = sorted(_SAID)
    for i in range(n):
        about = draw.choice(classes)
        parts = [draw.choice(_SAID[about].split(", ")), *draw.sample(_BY_ANY.split(", "), draw.randint(1, 3))]
        draw.shuffle(parts)
        yield {
            "id": f"t-{i}",
            "text": ", ".join(parts),
            "features": {
                "plan": draw.choice(_PLANS[about].split()),
                "minutes": round(draw.gauss(_MINUTES[about], 10.0), 1),
            },
            "label": draw.choice(classes) if draw.random() < _WRONG else about,
        }
