#!/usr/bin/env python3
"""Writes models, rows and the scores that scikit-learn gives them.

    golden.py commit golden.json.gz             the file of the tests: seed 7
    golden.py live golden.json.gz SEED SHARE    more rows, the models of seed SEED
    golden.py moderation out.json.gz golden.json
        texts with their known scores by alt-profanity-check; the model itself is in examples/moderation
    golden.py moderation-live out.json.gz SEED SHARE
        all of it, with random texts
    golden.py refusals out.json.gz              checks what the exporter refuses, and its command line
    golden.py characters out.json.gz [SEED SHARE]
        digests of tokens of every code point, as scikit-learn finds them

SHARE has a SHARE-th of the rows, texts or code points made.
"""
import gzip
import hashlib
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings

import joblib
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron, Ridge, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, ComplementNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer, MaxAbsScaler, MinMaxScaler, Normalizer, OneHotEncoder, RobustScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from export import Unsupported, characters, export  # noqa: E402

warnings.filterwarnings("ignore")
CHARACTERS = characters(frozenset({"unicode", "ascii"}))
WORDS = """the a is not good bad awful great refund please stream kafka event money free click naïve café résumé Ñandú
straße STRASSE İstanbul ıI ΣΊΣΥΦΟΣ ΟΔΟΣ. Α.Σ. ΑΣ’ हिन्दी 漢字かな 한국어 don't it's x_1 ①② ½ ǅ ﬁne ẞ ᾳ µ K Å https://x.y/z?a=1
@user #tag 3.14 ١٢٣ e\u0301 \u200bzero soft\u00adhyphen 𝔘𝔫𝔦 👍🏽 \ufdfa \u1e9b\u0323""".split()
SPACES = " \t\n\r\u00a0\u2003\u3000\u0085\x1c"


def text(r):
    parts = []
    for _ in range(r.choice([0, 1, 2, 5, 8, 12, 20])):
        kind = r.random()
        if kind < 0.75:
            word = r.choice(WORDS)
            parts.append(r.choice([word, word.upper(), word.lower(), word + r.choice(".,!Σ")]))
        elif kind < 0.9:
            parts.append("".join(chr(r.choice([r.randint(0, 0x24F), r.randint(0x250, 0xD7FF), r.randint(0xE000, 0x10FFFF), r.randint(0x300, 0x3FF)]))
                                 for _ in range(r.randint(1, 6))))
        else:
            parts.append(r.choice("aΣéx") * r.randint(1, 40))
    return "".join(p + r.choice(SPACES) * r.choice([1, 1, 1, 2, 3]) for p in parts)


def score(model, rows):
    """What the format calls scores: of two classes the second, decisions where there are no probabilities."""
    if hasattr(model, "predict_proba"):
        p = model.predict_proba(rows)
        return p[:, 1:] if p.shape[1] == 2 else p
    p = model.decision_function(rows) if hasattr(model, "decision_function") else model.predict(rows)
    return np.asarray(p).reshape(len(p), -1)


def case(name, model, columns, frame, *steps):
    """columns: (kind, values) of each input in the order of the file."""
    file = json.loads(export(*(steps or [model])))
    if "characters" in file:
        assert all(CHARACTERS[k] == v for k, v in file["characters"].items()), "characters"
        file["characters"] = True  # once for all models
    assert len(file["inputs"]) == len(columns)
    out = []
    for kind, values in columns:
        if kind == "number":
            out.append({"numbers": [None if v != v else v for v in map(float, values)]})
        else:
            missing = [not isinstance(v, str) for v in values]
            out.append({"texts": [v if isinstance(v, str) else "" for v in values], **({"missing": missing} if any(missing) else {})})
    return {"name": name, "model": json.dumps(file, ensure_ascii=False), "columns": out, "scores": score(model, frame).tolist()}


def text_models(r):
    three = lambda: LogisticRegression(C=30)
    yield "words, two classes", TfidfVectorizer(), LogisticRegression(C=10), 2
    yield "bigrams, stop words, sublinear, l1", TfidfVectorizer(ngram_range=(1, 2), stop_words="english", sublinear_tf=True, norm="l1"), LinearSVC(), 3
    yield "bigrams and trigrams only", TfidfVectorizer(ngram_range=(2, 3), stop_words=["the", "café"], norm=None), three(), 3
    yield "characters", TfidfVectorizer(analyzer="char", ngram_range=(1, 4), max_features=3000), SGDClassifier(loss="log_loss", random_state=1), 3
    yield "characters of words, accents", TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), strip_accents="unicode", max_features=3000), three(), 3
    yield "characters of words, short", CountVectorizer(analyzer="char_wb", ngram_range=(6, 8), lowercase=False), three(), 2
    yield "binary, ASCII", CountVectorizer(binary=True, strip_accents="ascii"), MultinomialNB(), 3
    yield "binary, sublinear", TfidfVectorizer(binary=True, sublinear_tf=True, use_idf=False), three(), 2
    yield "case kept, accents", TfidfVectorizer(lowercase=False, strip_accents="unicode"), ComplementNB(), 2
    yield "hashes", HashingVectorizer(n_features=512), SGDClassifier(loss="modified_huber", random_state=1), 2
    yield "hashes of bigrams", HashingVectorizer(n_features=300, ngram_range=(1, 2), alternate_sign=False, norm="l1", stop_words=["the"]), SGDClassifier(loss="modified_huber", random_state=1), 3
    yield "binary hashes", HashingVectorizer(n_features=64, binary=True, norm="l2", analyzer="char", ngram_range=(1, 3)), RidgeClassifier(), 3
    yield "counts then idf", Pipeline([("c", CountVectorizer(max_features=200)), ("t", TfidfTransformer(sublinear_tf=True))]), Perceptron(), 3
    yield "hashes then idf", Pipeline([("c", HashingVectorizer(n_features=256, norm=None, alternate_sign=False)), ("t", TfidfTransformer())]), LinearSVC(), 2
    yield "Bernoulli", TfidfVectorizer(max_features=100), BernoulliNB(), 2
    yield "Bernoulli above a tenth", TfidfVectorizer(max_features=100), BernoulliNB(binarize=0.1), 3
    yield "calibrated", TfidfVectorizer(), CalibratedClassifierCV(LinearSVC()), 2
    yield "calibrated, three classes, isotonic", TfidfVectorizer(), CalibratedClassifierCV(LinearSVC(), method="isotonic", cv=3), 3
    yield "calibrated, isotonic", CountVectorizer(), CalibratedClassifierCV(LogisticRegression(), method="isotonic", cv=3, ensemble=False), 2
    yield "calibrated naive Bayes", CountVectorizer(), CalibratedClassifierCV(MultinomialNB(), cv=3), 3
    yield "calibrated naive Bayes, two classes", CountVectorizer(), CalibratedClassifierCV(BernoulliNB(), cv=3), 2
    yield "temperature", TfidfVectorizer(), CalibratedClassifierCV(LogisticRegression(), method="temperature", cv=3), 3
    yield "temperature, two classes", TfidfVectorizer(), CalibratedClassifierCV(LinearSVC(), method="temperature", cv=3), 2
    union = FeatureUnion([("w", TfidfVectorizer()), ("c", TfidfVectorizer(analyzer="char", ngram_range=(2, 3), max_features=500))])
    yield "union", union, three(), 3
    yield "union, largest of each column, norm", Pipeline([("u", FeatureUnion([("w", CountVectorizer()), ("h", HashingVectorizer(n_features=64))])), ("m", MaxAbsScaler()), ("n", Normalizer("max"))]), LinearSVC(), 3
    yield "selected", Pipeline([("v", TfidfVectorizer()), ("s", SelectKBest(chi2, k=50)), ]), three(), 3
    yield "scaled", Pipeline([("v", CountVectorizer()), ("s", StandardScaler(with_mean=False)), ("n", Normalizer("l1"))]), three(), 2
    yield "Normalizer, Binarizer", Pipeline([("v", CountVectorizer()), ("n", Normalizer()), ("b", Binarizer(threshold=0.3))]), three(), 3
    for pattern in (r"(?u)\b\w+\b", r"\w{3,}", r"[a-z]+", r"(?u)\b[a-zA-Z]{2,}\b", r"\S+", r"[^\s.]+", r"[\w']+", r"\b\w\w\w+\b", r"(?u)\b[^\W\d_]{2,}\b",
                    r"(?:@|#)?\w+", r"\w+|[^\w\s]", r"[a-z]+'?[a-z]*", r"\d+\.\d+|\w\w+?", r".{3}", r"[à-ÿ\]\-x]+"):
        yield "pattern " + pattern, CountVectorizer(token_pattern=pattern), three(), 2


def text_cases(r, train, count):
    texts = [text(r) for _ in range(train)]
    texts[0] = texts[1] = texts[2] = "the a is not good bad ab 3.14 naïve x_1 don't"
    rows = ["", " ", "Σ", "aΣ", "\u03a3\u0345", "a.\u03a3.", "the " * 300] + [text(r) for _ in range(count)]
    for name, vectorizer, predictor, classes in text_models(r):
        target = [["no", "yes", "maybe"][(i + (len(t) % 3 == 0)) % classes] for i, t in enumerate(texts)]
        model = Pipeline([("v", vectorizer), ("p", predictor)]).fit(texts, target)
        yield case(name, model, [("text", rows)], rows)


def frame(r, rows, odd):
    n = np.random.default_rng(r.randint(0, 1 << 30))
    f = pd.DataFrame({
        "amount": np.exp(n.normal(3, 2, rows)), "age": n.integers(18, 90, rows).astype(float), "score": n.normal(size=rows),
        "code": n.integers(0, 5, rows).astype(float) + odd, "country": n.choice(["de", "fr", "Ünited", ""], rows),
        "device": n.choice(["a", "b", "c"], rows), "text": [text(r) for _ in range(rows)]})
    f.loc[n.random(rows) < 0.2, "age"] = np.nan
    f["country"] = f["country"].astype(object)
    f["device"] = f["device"].astype(object)
    f.loc[n.random(rows) < 0.2, "device"] = np.nan
    if odd:
        f.loc[n.random(rows) < 0.3, "country"] = "unseen"
    return f


def mixed_cases(r, train, count):
    fit, rows = frame(r, train, 0), frame(r, count, 1)
    target = (fit["amount"] > 20).astype(int) + (fit["score"] > 0)
    kind = {"text": "text", "country": "category", "device": "category"}
    numbers = lambda: Pipeline([("i", SimpleImputer(strategy="median")), ("s", StandardScaler())])
    ignore = lambda **o: OneHotEncoder(handle_unknown="ignore", **o)
    parts = lambda *p: ColumnTransformer([(str(i), *q) for i, q in enumerate(p)])
    yield_of = [
        ("mixed", parts((TfidfVectorizer(), "text"), (numbers(), ["amount", "age"]), (ignore(), ["country", "device"]), ("passthrough", ["score"])),
         LogisticRegression(max_iter=300), ["text", "amount", "age", "country", "device", "score"]),
        ("numbers", parts((MinMaxScaler(clip=True), ["amount", "score"]), (RobustScaler(), ["amount"]), (Pipeline([("i", SimpleImputer(strategy="mean")), ("n", MaxAbsScaler())]), ["age"])),
         LogisticRegression(), ["amount", "score", "age"]),
        ("categories", parts((Pipeline([("i", SimpleImputer(strategy="most_frequent")), ("o", ignore(drop="first"))]), ["device"]),
                             (ignore(), ["code"]), (Binarizer(threshold=-0.5), ["score"]), (Normalizer(), ["amount", "score"])),
         RidgeClassifier(), ["device", "code", "score", "amount"]),
        ("regression", parts((StandardScaler(), ["amount", "score"]), (CountVectorizer(max_features=20), "text")), Ridge(), ["amount", "score", "text"]),
        ("two targets", parts((StandardScaler(), ["amount", "score"])), LinearRegression(), ["amount", "score"]),
    ]
    for name, transformer, predictor, inputs in yield_of:
        y = np.stack([fit["amount"], fit["score"]], axis=1) if name == "two targets" else fit["score"] if name == "regression" else target
        model = Pipeline([("t", transformer), ("p", predictor)]).fit(fit, y)
        yield case(name, model, [(kind.get(c, "number"), rows[c]) for c in inputs], rows)
    plain = fit[["amount", "score"]].to_numpy()
    model = Pipeline([("s", StandardScaler()), ("p", LogisticRegression())]).fit(plain, target)
    yield case("without names", model, [("number", rows["amount"]), ("number", rows["score"])], rows[["amount", "score"]].to_numpy())


def refusals():
    """Each of these is refused, with these words."""
    texts, target = ["good day", "bad day", "good good", "bad bad"] * 5, ["a", "b"] * 10
    table = pd.DataFrame({"t": texts, "n": np.arange(20.0), "c": ["x", "y"] * 10})
    fit = lambda x, *steps: Pipeline([(str(i), s) for i, s in enumerate(steps)]).fit(x, target)
    one = LogisticRegression()
    for words, model in (
        ("TfidfVectorizer: tokenizer=", lambda: fit(texts, TfidfVectorizer(tokenizer=str.split, token_pattern=None), one)),
        ("CountVectorizer: preprocessor=", lambda: fit(texts, CountVectorizer(preprocessor=str.lower), one)),
        ("CountVectorizer: analyzer=", lambda: fit(texts, CountVectorizer(analyzer=str.split), one)),
        ("TfidfVectorizer: dtype=", lambda: fit(texts, TfidfVectorizer(dtype=np.float32), one)),
        ("KNeighborsClassifier: this predictor is not supported", lambda: fit(texts, CountVectorizer(), KNeighborsClassifier())),
        ("SVC: this predictor is not supported", lambda: fit(texts, CountVectorizer(), CalibratedClassifierCV(SVC(), cv=2))),
        ("TruncatedSVD: this transformer is not supported", lambda: fit(texts, CountVectorizer(), TruncatedSVD(1), one)),
        ("FunctionTransformer: a function of Python", lambda: fit(table[["n"]], FunctionTransformer(np.log1p), one)),
        ("Own: this transformer is not supported", lambda: fit(table[["n"]], Own(), one)),
        ("StandardScaler: it moves zeros", lambda: fit(table, ColumnTransformer([("a", OneHotEncoder(sparse_output=False), ["c"])], sparse_threshold=0), StandardScaler(), one)),
        ("input 'n': it is used as", lambda: fit(table.astype({"n": str}), ColumnTransformer([("a", OneHotEncoder(), ["n"]), ("b", StandardScaler(), ["n"])]), one)),
        ("SimpleImputer: add_indicator", lambda: fit(table[["n"]], SimpleImputer(add_indicator=True), one)),
        ("OneHotEncoder: infrequent", lambda: fit(table[["n"]], OneHotEncoder(min_frequency=2), one)),
        ("FeatureUnion: transformer_weights", lambda: fit(texts, FeatureUnion([("a", CountVectorizer())], transformer_weights={"a": 2}), one)),
        ("Normalizer: it stands behind feature selection", lambda: fit(texts, CountVectorizer(), SelectKBest(chi2, k=2), Normalizer(), one)),
        ("CalibratedClassifierCV: it calibrates a whole pipeline", lambda: CalibratedClassifierCV(make_pipeline(CountVectorizer(), one), cv=2).fit(texts, target)),
        ("surrogate", lambda: fit([t + " \ud800\ud801" for t in texts], CountVectorizer(token_pattern=r"\S+"), one)),
    ):
        try:
            export(model())
        except Unsupported as refusal:
            assert words in str(refusal), (words, str(refusal))
        else:
            raise AssertionError(f"not refused: {words}")
    with tempfile.TemporaryDirectory() as folder:
        vectorizer = TfidfVectorizer().fit(texts)
        steps = [vectorizer, LinearSVC().fit(vectorizer.transform(texts), target)]
        paths = [joblib.dump(step, f"{folder}/{i}.joblib")[0] for i, step in enumerate(steps)]
        command = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "export.py")]
        assert subprocess.run(command + paths, capture_output=True, check=True).stdout.decode() == export(*steps) + "\n"
        joblib.dump(KNeighborsClassifier().fit([[1]] * 5, [1, 2] * 2 + [1]), paths[1])
        failed = subprocess.run(command + paths, capture_output=True)
        assert failed.returncode == 1 and failed.stderr.decode().startswith("not exported: KNeighborsClassifier"), failed


class Own(TransformerMixin, BaseEstimator):
    def fit(self, x, y=None):
        return self

    def transform(self, x):
        return x


def profanity():
    folder = os.path.join(os.path.dirname(importlib.util.find_spec("profanity_check").origin), "data")
    return joblib.load(folder + "/vectorizer.joblib"), joblib.load(folder + "/model.joblib")


def moderation(path, known):
    vectorizer, model = profanity()
    cases = json.load(open(known, encoding="utf-8"))
    texts = [c["t"] for c in cases]
    found = score(model, vectorizer.transform(texts))[:, 0]
    assert max(abs(found - [c["p"] for c in cases])) < 1e-14
    write(path, [{"name": "moderation", "columns": [{"texts": texts}], "scores": [[c["p"]] for c in cases]}], None)


def moderation_live(path, seed, share):
    vectorizer, model = profanity()
    r = random.Random(seed)
    terms = sorted(vectorizer.vocabulary_)
    texts = [text(r) + " ".join(r.choices(terms, k=r.randint(0, 15))).replace("i", r.choice("iİIı")) for _ in range(20000 // share)]
    write(path, [case("moderation", model, [("text", texts)], vectorizer.transform(texts), vectorizer, model)])


def code_points(path, turn=0, share=1):
    digests = {}  # by page, null where it is not its turn
    # What comes before and behind decides about sigma, and about boundaries.
    for accents in (None, "unicode", "ascii"):
        analyze = CountVectorizer(strip_accents=accents).build_analyzer()
        digest = []
        for page in range(0, 0x110000 if accents is None else 0x40000, 0x1000):  # beyond, there are no accents
            if page // 0x1000 % share != turn % share:
                digest.append(None)
                continue
            h = hashlib.sha256()
            for c in map(chr, range(page, page + 0x1000)):
                if not "\ud800" <= c < "\ue000":
                    h.update("\0".join(analyze(f"x{c}y {c} {c}{c} A{c}\u03a3 {c}\u03a3 A\u03a3{c} A\u03a3{c}B\n")).encode() + b"\n")
            digest.append(h.hexdigest()[:16])
        digests[accents or ""] = digest
    with gzip.GzipFile(path, "w", mtime=0) as out:
        out.write(json.dumps({"characters": CHARACTERS, "digests": digests}, ensure_ascii=False).encode())


def write(path, cases, characters=CHARACTERS):
    with gzip.GzipFile(path, "w", mtime=0) as out:
        out.write(json.dumps({"characters": characters, "cases": cases}, ensure_ascii=False, separators=(",", ":")).encode())


def main(mode, path, *rest):
    if mode == "commit":
        r = random.Random(7)
        write(path, [*text_cases(r, 40, 25), *mixed_cases(r, 100, 40)])
    elif mode == "live":
        seed, share = map(int, rest)
        r = random.Random(seed)
        write(path, [*text_cases(r, 200, 500 // share), *mixed_cases(r, 500, 1000 // share)])
    elif mode == "refusals":
        refusals()
        write(path, [])
    elif mode == "moderation":
        moderation(path, *rest)
    elif mode == "moderation-live":
        moderation_live(path, *map(int, rest))
    else:
        code_points(path, *map(int, rest))


if __name__ == "__main__":
    main(*sys.argv[1:])
