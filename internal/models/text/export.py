#!/usr/bin/env python3
"""Writes a fitted scikit-learn model as a file that Afterbay scores.

    python export.py pipeline.joblib > model.json
    python export.py vectorizer.joblib classifier.joblib > model.json

Several files are the steps of one pipeline. In Python, export(model) returns
the file as text. What the format cannot express is refused by name. Nothing
but scikit-learn is needed; loading a file of joblib or pickle runs code in it,
so load your own only. The format: docs/format/text-model.md.
"""
import base64
import functools
import json
import platform
import sys
import unicodedata

import numpy as np
import sklearn

# By name, so that a class that one version lacks is no obstacle.
IDENTITY = {"LinearSVC", "RidgeClassifier", "RidgeClassifierCV", "Perceptron", "PassiveAggressiveClassifier"}
BAYES = {"MultinomialNB", "ComplementNB", "BernoulliNB"}
LOGISTIC = {"LogisticRegression", "LogisticRegressionCV"}
REGRESSORS = {"LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "ElasticNet", "ElasticNetCV", "SGDRegressor",
              "LinearSVR", "HuberRegressor", "BayesianRidge"}
SELECTORS = {"SelectKBest", "SelectPercentile", "SelectFpr", "SelectFdr", "SelectFwe", "GenericUnivariateSelect",
             "SelectFromModel", "VarianceThreshold", "RFE", "RFECV"}


class Unsupported(ValueError):
    """The model has something that the format cannot express."""


def refuse(thing, why):
    raise Unsupported(f"{thing if isinstance(thing, str) else name(thing)}: {why}")


def name(thing):
    kind = type(thing)
    return kind.__name__ if kind.__module__.startswith("sklearn.") else f"{kind.__module__}.{kind.__name__}"


def floats(values):
    """Numbers: a few as JSON, many as base64 of little-endian 64-bit floats."""
    values = np.asarray(values, dtype="<f8").ravel()
    if not np.isfinite(values).all():
        raise Unsupported("a number of the model is NaN or infinite")
    if len(values) <= 8:
        return values.tolist()
    return base64.b64encode(values.tobytes()).decode()


class Raw:
    """Columns as they come in, and steps of arithmetic on them."""

    def __init__(self, inputs, steps=()):
        self.inputs, self.steps = list(inputs), list(steps)

    def then(self, do, values):
        values = np.broadcast_to(np.asarray(values, dtype=float), (len(self.inputs),))
        return Raw(self.inputs, self.steps + [(do, values)])

    def norm(self, norm):
        return Raw(self.inputs, self.steps + [("norm", norm)])

    def take(self, indices):
        if any(do == "norm" for do, _ in self.steps):
            refuse("feature selection", "it stands behind Normalizer")
        return Raw([self.inputs[i] for i in indices], [(do, values[indices]) for do, values in self.steps])


class Columns:
    """Blocks, steps on all of their columns, and which are kept in the end."""

    def __init__(self, blocks, steps=(), mask=None):
        self.blocks, self.steps, self.mask = list(blocks), list(steps), mask

    def width(self):
        return sum(width for _, width in self.blocks)

    def then(self, do, values):
        self.whole(do)
        return Columns(self.blocks, self.steps + [(do, np.broadcast_to(np.asarray(values, dtype=float), (self.width(),)))])

    def norm(self, norm):
        self.whole("Normalizer")
        return Columns(self.blocks, self.steps + [("norm", norm)])

    def whole(self, what):
        if self.mask is not None:
            refuse(what, "it stands behind feature selection")


def step_json(do, values):
    return {"do": "norm", "norm": values} if do == "norm" else {"do": do, "values": floats(values)}


class Exporter:
    def __init__(self):
        self.inputs = {}  # name to kind, in order
        self.strips = set()
        self.has_text = False

    # Inputs

    def use(self, column, kind):
        old = self.inputs.setdefault(column, kind)
        if {old, kind} == {"text", "category"}:
            self.inputs[column] = "text"
        elif old != kind:
            refuse(f"input {column!r}", f"it is used as {old} and as {kind}")
        return column

    def blocks(self, value):
        if isinstance(value, Columns):
            return value
        if not value.inputs:
            return Columns([])
        inputs = [self.use(column, "number") for column in value.inputs]
        steps = [step_json(do, values) for do, values in value.steps]
        return Columns([({"numbers": {"inputs": inputs, "steps": steps}}, len(inputs))])

    # Transformers

    def apply(self, t, value):
        """What a transformer makes of columns."""
        if t is None or isinstance(t, str) and t == "passthrough":
            return value
        kind = name(t)
        method = getattr(self, "do_" + kind, None)
        if kind in SELECTORS:
            return self.select(t, value)
        if method is None:
            refuse(t, "this transformer is not supported")
        return method(t, value)

    def do_Pipeline(self, t, value):
        for _, step in t.steps:
            value = self.apply(step, value)
        return value

    def do_CountVectorizer(self, t, value):
        return self.vectorize(t, value, {})

    def do_TfidfVectorizer(self, t, value):
        return self.vectorize(t, value, self.weigh(t))

    def do_HashingVectorizer(self, t, value):
        return self.vectorize(t, value, {"norm": t.norm or ""})

    def vectorize(self, t, value, weights):
        if not isinstance(value, Raw) or len(value.inputs) != 1 or value.steps:
            refuse(t, "it takes one column of texts as they come")
        for option, want in (("tokenizer", None), ("preprocessor", None), ("input", "content")):
            if getattr(t, option) != want:
                refuse(t, f"{option}={getattr(t, option)!r} is not supported")
        if t.analyzer not in ("word", "char", "char_wb") or t.strip_accents not in (None, "unicode", "ascii"):
            refuse(t, f"analyzer={t.analyzer!r} with strip_accents={t.strip_accents!r} is not supported")
        if np.dtype(t.dtype).kind == "f" and np.dtype(t.dtype) != np.float64 or np.dtype(t.dtype).itemsize < 4:
            refuse(t, f"dtype={t.dtype!r} is not supported")
        self.has_text = True
        if t.strip_accents:
            self.strips.add(t.strip_accents)
        block = {"input": self.use(value.inputs[0], "text"), "analyzer": t.analyzer, "lowercase": bool(t.lowercase),
                 "strip_accents": t.strip_accents or "", "ngram_range": [int(n) for n in t.ngram_range],
                 "binary": bool(t.binary), **weights}
        if t.analyzer == "word":
            block["token_pattern"] = t.token_pattern
            block["stop_words"] = sorted(t.get_stop_words() or [])
        if hasattr(t, "n_features"):
            block["hash"] = {"columns": int(t.n_features), "alternate_sign": bool(t.alternate_sign)}
            return Columns([({"text": block}, int(t.n_features))])
        if not hasattr(t, "vocabulary_"):
            refuse(t, "it is not fitted")
        block["vocabulary"] = sorted(t.vocabulary_, key=t.vocabulary_.get)
        return Columns([({"text": block}, len(block["vocabulary"]))])

    def weigh(self, t):
        weights = {"sublinear_tf": bool(t.sublinear_tf), "norm": t.norm or ""}
        if t.use_idf:
            weights["idf"] = floats(t.idf_)
        return weights

    def do_TfidfTransformer(self, t, value):
        block = value.blocks[0][0].get("text") if isinstance(value, Columns) and len(value.blocks) == 1 else None
        if not block or value.steps or value.mask is not None or block.get("norm") or "sublinear_tf" in block:
            refuse(t, "it stands elsewhere than behind one CountVectorizer, or HashingVectorizer(norm=None)")
        return Columns([({"text": {**block, **self.weigh(t)}}, value.width())])

    def do_SimpleImputer(self, t, value):
        if not isinstance(value, Raw) or not (isinstance(t.missing_values, float) and np.isnan(t.missing_values)):
            refuse(t, "it fills other things than NaN in columns as they come")
        if t.add_indicator:
            refuse(t, "add_indicator=True is not supported")
        fills = np.asarray(t.statistics_)
        if fills.dtype.kind in "fiu":
            if np.isnan(fills.astype(float)).any():
                refuse(t, "it drops a column that was empty when it was fitted")
            return value.then("fill", fills)
        if value.steps:
            refuse(t, "it fills texts behind arithmetic")
        return Raw(value.inputs, [("fill", fills)])

    def do_StandardScaler(self, t, value):
        if t.with_mean:
            value = self.raw(t, value).then("subtract", t.mean_)
        return value.then("divide", t.scale_) if t.with_std else value

    def do_MinMaxScaler(self, t, value):
        value = self.raw(t, value).then("multiply", t.scale_).then("add", t.min_)
        if t.clip:
            value = value.then("at_least", t.feature_range[0]).then("at_most", t.feature_range[1])
        return value

    def do_MaxAbsScaler(self, t, value):
        value = value.then("divide", t.scale_)
        if getattr(t, "clip", False):
            value = value.then("at_least", -1.0).then("at_most", 1.0)
        return value

    def do_RobustScaler(self, t, value):
        if t.with_centering:
            value = self.raw(t, value).then("subtract", t.center_)
        return value.then("divide", t.scale_) if t.with_scaling else value

    def do_Binarizer(self, t, value):
        if t.threshold < 0:
            value = self.raw(t, value)
        return value.then("above", t.threshold)

    def do_Normalizer(self, t, value):
        return value.norm(t.norm)

    def raw(self, t, value):
        if not isinstance(value, Raw):
            refuse(t, "it moves zeros of columns that are mostly zero: put it into the part of ColumnTransformer that has the numbers")
        return value

    def do_OneHotEncoder(self, t, value):
        if not isinstance(value, Raw) or any(do != "fill" for do, _ in value.steps) or len(value.steps) > 1:
            refuse(t, "it takes columns as they come, or behind SimpleImputer")
        infrequent = getattr(t, "infrequent_categories_", None) if getattr(t, "_infrequent_enabled", False) else None
        if infrequent is not None and any(c is not None for c in infrequent):
            refuse(t, "infrequent categories are not supported")
        blocks = []
        for i, column in enumerate(value.inputs):
            dropped = None if t.drop_idx_ is None else t.drop_idx_[i]
            fill = value.steps[0][1][i] if value.steps else None
            blocks.append(self.category(t, column, t.categories_[i], dropped, fill))
        return Columns(blocks)

    def category(self, t, column, categories, dropped, fill):
        values = [None if c is None or isinstance(c, float) and np.isnan(c) else c for c in categories.tolist()]
        if sum(v is None for v in values) > 1:
            refuse(t, f"input {column!r} has both None and NaN for a category")
        present = [v for v in values if v is not None]
        if all(isinstance(v, str) for v in present):
            kind = "category"
        elif all(type(v) in (int, float) and float(v) == v for v in present):
            kind = "number"
        else:
            refuse(t, f"input {column!r} has categories that are neither texts nor numbers")
        columns, width = [], 0
        for i in range(len(values)):
            columns.append(-1 if i == dropped else width)
            width += i != dropped
        block = {"input": self.use(column, kind), "values": values, "columns": columns, "width": width,
                 "unknown": "error" if t.handle_unknown == "error" else "ignore"}
        if fill is not None:
            block["fill"] = fill.item() if hasattr(fill, "item") else fill
        return {"category": block}, width

    def do_ColumnTransformer(self, t, value):
        if not isinstance(value, Raw) or value.steps:
            refuse(t, "it takes columns as they come")
        merged = []
        for _, part, columns in t.transformers_:
            if isinstance(part, str) and part == "drop":
                continue
            indices = self.indices(t, columns, value.inputs)
            if not indices:
                continue
            merged += self.plain(t, self.apply(part, Raw([value.inputs[i] for i in indices])))
        return Columns(merged)

    def indices(self, t, columns, inputs):
        if isinstance(columns, (str, int, np.integer)):
            columns = [columns]
        if isinstance(columns, slice):
            if isinstance(columns.start, str) or isinstance(columns.stop, str):
                refuse(t, "slices of names are not supported: list the columns")
            columns = range(len(inputs))[columns]
        columns = list(columns)
        if columns and all(isinstance(c, (bool, np.bool_)) for c in columns):
            columns = [i for i, taken in enumerate(columns) if taken]
        return [inputs.index(c) if isinstance(c, str) else int(c) for c in columns]

    def plain(self, t, value):
        value = self.blocks(value)
        if value.steps or value.mask is not None:
            refuse(t, "a part of it scales, normalizes or selects columns of text or categories")
        return value.blocks

    def do_FeatureUnion(self, t, value):
        if t.transformer_weights:
            refuse(t, "transformer_weights are not supported")
        merged = []
        for _, part in t.transformer_list:
            if not (isinstance(part, str) and part == "drop"):
                merged += self.plain(t, self.apply(part, value))
        return Columns(merged)

    def do_FunctionTransformer(self, t, value):
        if t.func is not None:
            refuse(t, "a function of Python is not supported")
        return value

    def select(self, t, value):
        if isinstance(value, Raw):
            return value.take(t.get_support(indices=True))
        value.whole(name(t))
        return Columns(value.blocks, value.steps, t.get_support())

    # Predictors

    def predict(self, p, row):
        """Outputs, members and steps of the predictor of a row."""
        kind = name(p)
        if kind in REGRESSORS:
            coef = np.atleast_2d(p.coef_)
            outputs = ["prediction"] if len(coef) == 1 else [f"prediction{i}" for i in range(len(coef))]
            return outputs, [self.member(row, coef, np.broadcast_to(p.intercept_, (len(coef),)), "identity")], []
        classes = [str(c) for c in getattr(p, "classes_", [])]
        if len(classes) < 2:
            refuse(p, "this predictor is not supported" if not classes else "it knows one class only")
        outputs = classes if len(classes) > 2 else classes[1:]
        if kind == "CalibratedClassifierCV":
            parts = [self.calibrated(c, p, row) for c in p.calibrated_classifiers_]
            return outputs, [member for member, _ in parts], parts[0][1]
        coef, intercept, link, steps = self.decide(p, row)
        return outputs, [self.member(row, coef, intercept, link)], steps

    def decide(self, p, row):
        """Coefficients, intercepts, link and steps of a linear classifier."""
        kind, binary, steps = name(p), len(p.classes_) == 2, []
        if kind in BAYES:
            return (*self.bayes(p, row, steps), "softmax", steps)
        if kind in LOGISTIC:
            ways = getattr(p, "multi_class", "auto")
            if ways == "multinomial" and binary:
                refuse(p, "multi_class='multinomial' of two classes is not supported")
            one = ways == "ovr" or p.solver == "liblinear"
            link = "sigmoid" if binary else "ovr" if one else "softmax"
        elif kind == "SGDClassifier":
            link = {"log_loss": "sigmoid" if binary else "ovr", "log": "sigmoid" if binary else "ovr",
                    "modified_huber": "huber"}.get(p.loss, "identity")
        elif kind in IDENTITY:
            link = "identity"
        else:
            refuse(p, "this predictor is not supported")
        coef = p.coef_.toarray() if hasattr(p.coef_, "toarray") else np.asarray(p.coef_)
        if coef.ndim == 1:
            coef = coef.reshape(1, -1)
        return coef, np.broadcast_to(p.intercept_, (len(coef),)), link, steps

    def bayes(self, p, row, steps):
        coef, intercept = p.feature_log_prob_, p.class_log_prior_
        if name(p) == "ComplementNB":
            intercept = np.zeros(len(coef))
        if name(p) == "BernoulliNB":
            negative = np.log(1 - np.exp(coef))
            coef, intercept = coef - negative, intercept + negative.sum(axis=1)
            if p.binarize is not None:
                if p.binarize < 0:
                    refuse(p, "binarize below zero is not supported")
                steps.append(("above", np.full(row.width(), float(p.binarize))))
        return coef, intercept

    def calibrated(self, c, p, row):
        base = c.estimator
        if name(base) == "FrozenEstimator":
            base = base.estimator
        if name(base) in ("Pipeline", "GridSearchCV"):
            refuse(p, "it calibrates a whole pipeline; put the vectorizer in front of it")
        # For a temperature the classes of the parts are codes of those of the whole.
        if len(base.classes_) != len(p.classes_) or c.method != "temperature" and list(base.classes_) != list(p.classes_):
            refuse(p, f"one of its parts has the classes {base.classes_}")
        coef, intercept, link, steps = self.decide(base, row)
        if hasattr(base, "decision_function"):
            link = "identity"
        member = self.member(row, coef, intercept, link)
        if c.method == "sigmoid":
            calibration = {"a": floats([k.a_ for k in c.calibrators]), "b": floats([k.b_ for k in c.calibrators])}
        elif c.method == "isotonic":
            calibration = {"x": [floats(k.X_thresholds_) for k in c.calibrators],
                           "y": [floats(k.y_thresholds_) for k in c.calibrators]}
        elif c.method == "temperature" and link == "identity":
            calibration = {"beta": float(c.calibrators[0].beta_)}
        else:
            refuse(p, f"method={c.method!r} of {name(base)} is not supported")
        member["calibration"] = {"method": c.method, **calibration}
        return member, steps

    def member(self, row, coef, intercept, link):
        coef = np.asarray(coef, dtype=float)
        if row.mask is not None:
            full = np.zeros((len(coef), row.width()))
            full[:, np.flatnonzero(row.mask)] = coef
            coef = full
        return {"coef": [floats(c) for c in coef], "intercept": floats(intercept), "link": link}


@functools.cache
def characters(strips):
    """The tables of this Python: what \\w, \\s, \\d, str.lower and the accent strippers do."""
    every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    tables = {
        "word": ranges(c for c in every if c.isalnum() or c == "_"),
        "space": ranges(c for c in every if c.isspace()),
        "decimal": ranges(c for c in every if c.isdecimal()),
        # Both decide which small sigma a capital one becomes, which shows them.
        "ignorable": ranges(c for c in every if (c + "\u03a3").lower()[-1] == "\u03c3" and ("A" + c + "\u03a3").lower()[-1] == "\u03c2"),
        "cased": ranges(c for c in every if (c + "\u03a3").lower()[-1] == "\u03c2"),
    }
    runs, texts = [], {}
    for c in every:
        lower = c.lower()
        if len(lower) > 1:
            texts[c] = lower
        elif lower != c:
            code, difference = ord(c), ord(lower) - ord(c)
            run = runs[-1] if runs else None
            if run and run[3] == difference and (code - run[1] == run[2] or run[0] == run[1] and code - run[1] <= 2):
                run[1], run[2] = code, code - run[1]
            else:
                runs.append([code, code, 1, difference])
    tables["lower"], tables["lower_text"] = runs, texts
    for strip in sorted(strips):
        tables["strip_" + strip] = accents(every, strip)
    return tables


def accents(every, strip):
    """What strip_accents makes of each character that it changes and that the reader cannot compute."""
    table = {}
    for c in every:
        parts = unicodedata.normalize("NFKD", c)
        if strip == "unicode":
            out = "".join(p for p in parts if not unicodedata.combining(p))
            if out != c and not "\uac00" <= c <= "\ud7a3":
                table[c] = out
        else:
            out = parts.encode("ASCII", "ignore").decode("ASCII")
            if out and out != c:
                table[c] = out
    return table


def ranges(chars):
    out = []
    for c in map(ord, chars):
        if out and out[-1] == c - 1:
            out[-1] = c
        else:
            out += [c, c]
    return out


def export(*steps):
    """Returns the file of a fitted model: of a pipeline, or of its steps."""
    flat = []
    for step in steps:
        step = getattr(step, "best_estimator_", step)  # of GridSearchCV and the like
        flat += [part for _, part in step.steps] if name(step) == "Pipeline" else [step]
    exporter = Exporter()
    *transformers, predictor = flat
    value = Raw(columns_in(flat[0]) if transformers or hasattr(predictor, "n_features_in_") else [])
    for t in transformers:
        value = exporter.apply(t, value)
    row = exporter.blocks(value)
    outputs, members, steps = exporter.predict(predictor, row)
    names = list(exporter.inputs)
    for block, _ in row.blocks:
        (part,) = block.values()
        for key in ("input", "inputs"):
            if key in part:
                part[key] = names.index(part[key]) if key == "input" else [names.index(i) for i in part[key]]
    file = {
        "format": "afterbay text model", "version": 1,
        "source": f"scikit-learn {sklearn.__version__}, Python {platform.python_version()}, Unicode {unicodedata.unidata_version}",
        "inputs": [{"name": str(column), "kind": kind} for column, kind in exporter.inputs.items()],
        "blocks": [block for block, _ in row.blocks],
        "steps": [step_json(do, values) for do, values in row.steps + steps],
        "outputs": outputs, "members": members,
    }
    if exporter.has_text:
        file["characters"] = characters(frozenset(exporter.strips))
    text = json.dumps(file, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unsupported("a text of the model has a surrogate, which is no character") from None
    return text


def columns_in(first):
    """The names of the columns that the first step takes."""
    if name(first) in ("CountVectorizer", "TfidfVectorizer", "HashingVectorizer"):
        return ["text"]
    if name(first) == "FeatureUnion":
        return columns_in(first.transformer_list[0][1])
    if name(first) == "Pipeline":
        return columns_in(first.steps[0][1])
    if hasattr(first, "feature_names_in_"):
        return [str(column) for column in first.feature_names_in_]
    if not hasattr(first, "n_features_in_"):
        refuse(first, "this transformer is not supported, or is not fitted")
    return [f"x{i}" for i in range(first.n_features_in_)]


def main(paths):
    if not paths or any(path.startswith("-") for path in paths):
        sys.exit(__doc__)
    import joblib
    try:
        sys.stdout.reconfigure(encoding="utf-8")
        print(export(*(joblib.load(path) for path in paths)))
    except Unsupported as problem:
        sys.exit(f"not exported: {problem}")


if __name__ == "__main__":
    main(sys.argv[1:])
