"""A shared model as the prior of new tenants: how well their first events are predicted with it and without.

On labelled streams from the folder LABELLED_STREAMS, cut into tenants: newsgroups by sender, with the subject and the
body as text; short messages by chance into a hundred, as they are and with the labels of every second tenant the other
way round; incomes by occupation, country and work; connections by service; prices by the half hour. Each event is
predicted by one model for all, by a model for each tenant, and by those with the shared prior, before it is learned.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
from collections import Counter
from pathlib import Path

import numpy as np

from streamnb import NaiveBayes
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.scoring.prequential_scores import ESCAPE

SENDER = re.compile(r"^From: .*?([\w.+-]+@[\w.-]+)", re.MULTILINE)
SUBJECT = re.compile(r"^Subject: (.*)", re.MULTILINE)


def read(name, order=None):
    """The rows of a labelled stream, in a fixed random order where it has one of its own."""
    folder = Path(os.environ["LABELLED_STREAMS"])
    with gzip.open(folder / f"{name}.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    if order is None:
        return rows
    with gzip.open(folder / f"{name}.{order}.txt.gz", "rt") as file:
        return [rows[int(number)] for number in file]


def news():
    for row in read("20news_bydate", "shuffle7"):
        head, _, body = row["text"].partition("\n\n")
        sender, subject = SENDER.search(row["text"]), SUBJECT.search(head)
        text = f"{subject[1] if subject else ''}\n{body}"
        yield sender[1].lower() if sender else "", {"text": text}, row["label"]


def messages(*, turned=False):
    chance, other = random.Random(1), {"spam": "ham", "ham": "spam"}
    for row in read("sms_spam"):
        tenant, label = chance.randrange(100), row["label"]
        yield f"t{tenant}", {"text": row["text"]}, other[label] if turned and tenant % 2 else label


def by(name, *keys, order="shuffle7"):
    for row in read(name, order):
        features = dict(row["features"])
        yield "/".join(str(features.pop(key, "?")) for key in keys), features, row["label"]


def prices():
    for number, row in enumerate(read("elec2")):
        yield f"half hour {number % 48}", row["features"], row["label"]


STREAMS = {
    "newsgroups by sender": news,
    "short messages, 100 alike": messages,
    "the same, half with turned labels": lambda: messages(turned=True),
    "incomes by work": lambda: by("adult", "occupation", "native_country", "workclass"),
    "connections by service": lambda: by("nsl_kdd", "service"),
    "prices by half hour": prices,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=STREAMS, help="one stream")
    options = parser.parse_args()
    for name in [options.only] if options.only else STREAMS:
        tenants, events, labels = zip(*STREAMS[name](), strict=True)
        seen, place = Counter(), []
        for tenant in tenants:
            place.append(seen[tenant])
            seen[tenant] += 1
        rank = np.array(place)
        attributes = {"text": "text"} if "text" in events[0] else None
        owned = [{**x, "entity": tenant} for x, tenant in zip(events, tenants, strict=True)]
        print(f"{name}: {len(events):,} events, {len(seen):,} tenants; log loss and accuracy")
        for kind, model, xs in (
            ("one model for all", NaiveBayes(attributes), events),
            ("a model for each", TenantModels(attributes), owned),
            ("with shared prior", TenantModels(attributes, shared=True), owned),
        ):
            told = model.predict_then_learn_many(xs, labels)
            column = {label: k for k, label in enumerate(told.classes)}
            true = told.probabilities[np.arange(rank.size), [column[label] for label in labels]]
            loss = -np.log(np.maximum(true, ESCAPE))
            right = np.array([a == b for a, b in zip(told.labels(), labels, strict=True)])
            scopes = (("first", 1), ("first 10", 10), ("first 100", 100), ("all", rank.size))
            cells = [f"{of} {loss[rank < n].mean():.3f} {right[rank < n].mean():.3f}" for of, n in scopes]
            print(f"  {kind:18} {'   '.join(cells)}")


if __name__ == "__main__":
    main()
