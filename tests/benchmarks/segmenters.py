"""Accuracy of naive Bayes on messages of programs in scripts without spaces, cut by several segmenters.

``python -m tests.benchmarks.segmenters FOLDER...`` reads each folder as one language: its compiled messages
(``*.mo``, such as those of Debian's packages ``libreoffice-l10n-th``, ``-ja`` and ``-zh-cn``, unpacked), each
labelled by the name of its file. Every segmenter of `SEGMENTERS` that is installed competes. Each message is
predicted before it is learned.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import gettext
import math
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from streamnb import MultinomialNB
from streamnb.features.tokenizer import words

CLASSES, SHORTEST = 8, 12
Cut = Callable[[str], Iterable[str]]


def newmm() -> Cut:
    from pythainlp.tokenize import word_tokenize

    return lambda text: word_tokenize(text, engine="newmm")


def nlpo3() -> Cut:
    from pythainlp.tokenize import word_tokenize

    return lambda text: word_tokenize(text, engine="nlpo3")


def jieba() -> Cut:
    import jieba

    return jieba.cut


def rjieba() -> Cut:
    import rjieba

    return rjieba.cut


def fugashi() -> Cut:
    import fugashi

    tagger = fugashi.Tagger()
    return lambda text: [word.surface for word in tagger(text)]


def tinysegmenter() -> Cut:
    import tinysegmenter

    return tinysegmenter.TinySegmenter().tokenize


def budoux(language: str) -> Callable[[], Cut]:
    def load() -> Cut:
        import budoux

        return getattr(budoux, f"load_default_{language}_parser")().parse

    return load


SEGMENTERS: dict[str, dict[str, Callable[[], Cut]]] = {
    "th": {"newmm": newmm, "nlpo3": nlpo3, "BudouX": budoux("thai")},
    "ja": {"fugashi": fugashi, "TinySegmenter": tinysegmenter, "BudouX": budoux("japanese")},
    "zh": {"jieba": jieba, "rjieba": rjieba, "BudouX": budoux("simplified_chinese")},
}


def messages(folder: Path) -> list[tuple[str, str]]:
    """Return the messages of the largest files of a folder in a random order, each with its file's name."""
    rows = []
    for path in sorted(folder.rglob("*.mo")):
        with path.open("rb") as file:
            texts = {str(text).strip() for text in gettext.GNUTranslations(file)._catalog.values()}
        rows += [
            (text.replace("_", "").replace("~", ""), path.stem)
            for text in sorted(texts)
            if len(text) >= SHORTEST and not text.isascii()
        ]
    largest = {name for name, _ in Counter(name for _, name in rows).most_common(CLASSES)}
    rows = [row for row in rows if row[1] in largest]
    random.Random(1).shuffle(rows)
    return rows


def is_word(token: str) -> bool:
    return any(character.isalnum() or unicodedata.category(character)[0] == "M" for character in token)


def scores(rows: list[tuple[str, str]], cut: Cut) -> tuple[float, float]:
    """Return accuracy and log loss of predictions before learning."""
    model, right, loss = MultinomialNB(), 0, 0.0
    for text, label in rows:
        bag = Counter(token.strip().lower() for token in cut(text) if is_word(token))
        probabilities = model.predict_proba_one(bag)
        right += bool(probabilities) and max(probabilities, key=probabilities.__getitem__) == label
        loss -= math.log(max(probabilities.get(label, 0.0), 1e-9))
        model.learn_one(bag, label)
    return right / len(rows), loss / len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="named by language: th, ja, zh-cn, ...")
    for folder in parser.parse_args().folders:
        rows = messages(folder)
        print(f"{folder.name}: {len(rows):,} messages")
        cuts: dict[str, Cut] = {"streamnb": words, r"\w+": lambda text: re.findall(r"\w+", text)}
        for name, load in SEGMENTERS.get(folder.name.split("-")[0], {}).items():
            try:
                cuts[name] = load()
            except ImportError:
                print(f"  {name}: not installed")
        for name, cut in cuts.items():
            accuracy, loss = scores(rows, cut)
            print(f"  {name:16} accuracy {accuracy:.4f}, log loss {loss:.3f}")


if __name__ == "__main__":
    main()
