#!/usr/bin/env python3
"""Makes the golden files of this folder: models, rows, and what XGBoost itself says of them.

  python3 -m venv V && V/bin/pip install xgboost==3.2.0 numpy scipy pandas
  V/bin/python golden.py                   edge rows of the models here, and small models with theirs
  OLD/bin/python golden.py old             models as xgboost 1.0.2 and 1.3.3 (numpy<1.24), 1.7.6 (numpy<2), 2.1.4 and
                                           3.0.5 save them: old-VERSION-*.gz, to be run before the line above
  ANY/bin/python golden.py kinds           models of each kind and objective as those versions, 3.2.0 and 3.4.1 save
                                           them: kind-VERSION-*.gz
  V/bin/python golden.py edges             edge rows of the models of kinds, to be run after the line above for each version
  V/bin/python golden.py live SEED FOLDER  random models for the live comparison; nothing is written here

fraud, amount, categories, dart and classes.*.gz are given: models of 60 to 300 trees trained with XGBoost 3.2.0 on
simulated payments, and rows.golden.gz holds 10,000 rows with their margins and predictions by the first two. Same
versions, same bytes.

A .golden.gz holds little-endian uint32 rows, uint32 width, uint32 outputs, and float32 values: width columns of rows
values, and for each output rows margins and rows predictions. The outputs of several models may follow each other, and
the class that multi:softmax predicts stands with each of its outputs. For gzip's sake the values lie in four planes:
byte 0 of all of them, then byte 1, 2 and 3. What XGBoost 3.2.0 says of a file counts, whichever version wrote it, but
files of later versions have what those say.
"""
import glob, gzip, json, os, sys, tempfile, zlib
import numpy as np
import xgboost as xgb

HERE = os.path.dirname(os.path.abspath(__file__))


def pack(path, data):
    with open(path, "wb") as f, gzip.GzipFile("", "wb", 9, f, 0) as z:  # no name, no time: the same bytes each time
        z.write(data)


def golden(path, rows, boosters):
    values = [rows.T.ravel()]
    for b in boosters:
        d = xgb.DMatrix(rows, feature_names=b.feature_names, feature_types=b.feature_types)
        margins = b.predict(d, output_margin=True).reshape(len(rows), -1)
        predictions = b.predict(d).reshape(len(rows), -1)
        for i in range(margins.shape[1]):
            values += [margins[:, i], predictions[:, min(i, predictions.shape[1] - 1)]]
    planes = np.concatenate(values).astype("<f4").view("u1").reshape(-1, 4).T
    pack(path, np.array([*rows.shape, len(values) // 2], "<u4").tobytes() + planes.tobytes())


def load(packed):
    b = xgb.Booster()
    b.load_model(bytearray(gzip.open(packed).read()))
    return b


def content(booster):
    with tempfile.TemporaryDirectory() as folder:  # save_raw knows formats since 1.6 only
        booster.save_model(f"{folder}/model.json")
        return json.load(open(f"{folder}/model.json"))


# Values that are no category of any set, or only by their whole part.
ODD = [np.float32(v) for v in (-1, -0.5, -1e-45, -0.0, 0, 1e-45, 0.5, 3.7, 31, 32, 33, 63, 64, 500, 1e6, 16777214,
                               16777215, 16777216, 1e9, 4294967296, 3e38, -3e38, np.nan)]


def edge_rows(booster, count, rng):
    """Rows at thresholds and one unit beside them, and of zeros, denormals, extremes and missing values."""
    learner = content(booster)["learner"]
    width = int(learner["learner_model_param"]["num_feature"])
    near = [[] for _ in range(width)]
    gbtree = learner["gradient_booster"].get("gbtree", learner["gradient_booster"])
    for tree in gbtree["model"]["trees"]:
        for node, (left, feature, threshold) in enumerate(zip(tree["left_children"], tree["split_indices"], tree["split_conditions"])):
            if left >= 0 and tree.get("split_type", {node: 0})[node]:
                at = tree["categories_nodes"].index(node)
                start = tree["categories_segments"][at]
                listed = tree["categories"][start : start + tree["categories_sizes"][at]]
                near[feature] += [np.float32(c + d) for c in listed for d in (-1, -0.5, 0, 0, 0.7, 1)] + ODD
            elif left >= 0:
                t = np.float32(threshold)
                near[feature] += [np.nextafter(t, np.float32(-np.inf)), t, np.nextafter(t, np.float32(np.inf))]
    tiny = np.float32(1e-45)
    special = np.array([np.nan, 0.0, -0.0, tiny, -tiny, 1e-40, -1e-40, 1.17549435e-38, 3.4028235e38, -3.4028235e38,
                        1e30, -1e30, 1.0, -1.0], np.float32)
    rows = np.empty((count, width), np.float32)
    for i in range(count):
        for j in range(width):
            if near[j] and rng.random() < 0.8:
                rows[i, j] = near[j][i % len(near[j])] if rng.random() < 0.5 else rng.choice(near[j])
            else:
                rows[i, j] = rng.choice(special)
    rows[~np.isfinite(rows) & ~np.isnan(rows)] = 0
    return rows


def data(rng, rows, width):
    """Values of several scales, some missing, zeros of both signs and denormals among them."""
    x = (rng.normal(0, 1, (rows, width)) * 10.0 ** rng.integers(-3, 4, width)).astype(np.float32)
    x[rng.random((rows, width)) < 0.1] = np.nan
    x[rng.random((rows, width)) < 0.03] = 0.0
    x[rng.random((rows, width)) < 0.03] = -0.0
    x[:, 0] *= np.float32(1e-42)
    y = (np.nan_to_num(x[:, 1 % width]) > 0) * 1.0 + (np.nan_to_num(x[:, 2 % width]) > 0) * 0.5 + rng.normal(0, 0.3, rows)
    return x, y


def train(x, y, rounds, **parameters):
    if "logi" in parameters["objective"]:
        y = (y > 0.7).astype(np.float32)
    else:
        y = np.abs(y).astype(np.float32)
    parameters = {"tree_method": "hist", "nthread": 1, "seed": 1, **parameters}
    return xgb.train(parameters, xgb.DMatrix(x, y), rounds)


SMALL = {  # name: rounds and parameters
    "leaf": (5, dict(objective="binary:logistic", gamma=1e9)),  # trees of a single leaf
    "stump": (9, dict(objective="binary:logistic", max_depth=1)),
    "deep": (4, dict(objective="binary:logistic", max_depth=10, min_child_weight=0)),
    "uneven": (9, dict(objective="reg:squarederror", grow_policy="lossguide", max_leaves=20, max_depth=0)),
    "forest": (2, dict(objective="binary:logistic", max_depth=3, num_parallel_tree=5, subsample=0.5)),
    "base": (12, dict(objective="binary:logistic", max_depth=3, base_score=0.037)),
    "logistic": (12, dict(objective="reg:logistic", max_depth=3)),
    "logitraw": (12, dict(objective="binary:logitraw", max_depth=3, base_score=0.3)),
    "squared": (12, dict(objective="reg:squarederror", max_depth=4)),
    "squaredlog": (12, dict(objective="reg:squaredlogerror", max_depth=3)),
    "absolute": (12, dict(objective="reg:absoluteerror", max_depth=3)),
    "huber": (12, dict(objective="reg:pseudohubererror", max_depth=3)),
    "quantile": (12, dict(objective="reg:quantileerror", quantile_alpha=0.8, max_depth=3)),
    "pruned": (6, dict(objective="reg:squarederror", tree_method="exact", gamma=3.0, max_depth=5)),
}


def links(path, rng):
    """base_score to margin, and margin to prediction, by models without trees: rows of one value each."""
    one = np.zeros((1, 1), np.float32)
    bases = np.concatenate([rng.random(250), 10.0 ** -rng.uniform(1, 8, 100), 1 - 10.0 ** -rng.uniform(1, 7, 100),
                            [0.5, 0.25, 0.75, 1e-6, 1e-7, 0.999999]]).astype(np.float32)
    bases = bases[(bases > 0) & (bases < 1)]
    margins = []
    for base in bases:
        b = xgb.train({"objective": "binary:logistic", "base_score": float(base), "nthread": 1}, xgb.DMatrix(one, [1]), 0)
        margins.append(b.predict(xgb.DMatrix(one), output_margin=True)[0])
    x = np.concatenate([rng.normal(0, 5, 3000), rng.uniform(-110, 110, 1000), np.linspace(-0.01, 0.01, 41),
                        [0.0, -0.0, 88.7, -88.7, 88.8, -88.8, 3e38, -3e38, 1e-45, 104.0, -104.0]]).astype(np.float32)
    d = xgb.DMatrix(np.zeros((len(x), 1), np.float32))
    d.set_base_margin(x)
    y = b.predict(d)
    pack(path, np.array([len(bases), len(x)], "<u4").tobytes() + b"".join(np.asarray(v, "<f4").tobytes() for v in (bases, margins, x, y)))


CATEGORIES = (3, 12, 70)  # of the first inputs of models with categorical splits


def kind(rng, name):
    """Rows and labels, rounds and parameters, and whether early stopping is on, for a model of a kind."""
    x, y = data(rng, 400, 6)
    types = None
    if "categories" in name:
        types = ["c"] * len(CATEGORIES) + ["q"] * (6 - len(CATEGORIES))
        for i, count in enumerate(CATEGORIES):
            codes = rng.zipf(1.3, 400) % count
            x[:, i] = np.where(rng.random(400) < 0.06, np.nan, codes)
            y += np.isin(codes, [1, 5, 7, 40]) * 1.5 + (codes % 3 == 2)
    y = np.abs(y) + 0.01
    d = dict(label=y)
    objective, rounds, parameters = "reg:squarederror", 8, dict(max_depth=3)
    first = name.split("-")[0]
    if first in ("classes", "class"):
        objective = dict(classes="multi:softprob", **{"class": "multi:softmax"})[first]
        d["label"], parameters["num_class"] = (y * 2).astype(int) % 5, 5
    elif first in ("ndcg", "map", "pairwise"):
        objective, d["label"] = "rank:" + first, (y > 1).astype(int)
        d["group"] = [40] * 10
    elif first in ("poisson", "gamma", "tweedie", "cox", "aft"):
        objective = dict(poisson="count:poisson", cox="survival:cox", aft="survival:aft").get(first, "reg:" + first)
        d["label"] = np.floor(y * 3) if first == "poisson" else y
        if first == "aft":
            d.update(label=None, label_lower_bound=y, label_upper_bound=np.where(rng.random(400) < 0.3, np.inf, y))
        if first != "gamma":
            parameters["base_score"] = 0.7
    elif first in ("logistic", "hinge"):
        objective, d["label"] = "binary:" + first, (y > 1).astype(int)
    elif first in ("targets", "vector", "labels"):
        d["label"] = np.stack([y, -y, y * y], 1)
        if first == "labels":
            objective, d["label"] = "binary:logistic", (d["label"] > 1).astype(int)
        if first == "vector":
            parameters["multi_strategy"] = "multi_output_tree"
    elif first == "quantiles":
        objective, parameters["quantile_alpha"] = "reg:quantileerror", [0.1, 0.5, 0.9]
    elif first == "many":
        rounds, parameters = 5000, dict(max_depth=1, eta=0.01)
    elif first == "single":
        rounds = 1
    elif first == "early":
        rounds, parameters = 200, dict(max_depth=6, eta=0.5)
    for word, more in dict(dart=dict(booster="dart", rate_drop=0.4), forest=dict(num_parallel_tree=3, subsample=0.6),
                           onehot=dict(max_cat_to_onehot=1000), partition=dict(max_cat_to_onehot=1)).items():
        if word in name.split("-"):
            parameters.update(more)
    return x, d, types, rounds, dict(objective=objective, tree_method="hist", nthread=1, seed=3, **parameters), first == "early"


KINDS = {  # what each version can do, and what is worth a file
    "1.0.2": "classes poisson gamma tweedie cox ndcg pairwise hinge dart",
    "1.3.3": "classes class poisson aft map dart classes-dart",
    "1.7.6": "classes poisson categories-onehot categories-partition logistic-categories-dart targets",
    "2.1.4": "classes-categories cox quantiles targets labels",
    "3.0.5": "classes categories classes-dart-forest ndcg",
    "3.2.0": "classes class classes-forest classes-categories class-dart poisson gamma tweedie cox aft ndcg map pairwise hinge "
             "categories-onehot categories-partition logistic-categories dart logistic-dart-categories targets targets-dart labels "
             "vector quantiles many single early frame-categories",
    "3.4.1": "classes-categories poisson aft dart classes-dart vector quantiles logistic-categories",
}


def build(rng, name, **more):
    x, d, types, rounds, parameters, early = kind(rng, name)
    parameters = {**more, **parameters}
    if "frame" in name:  # codes stand for texts and numbers, which the file holds
        import pandas as pd
        names = ["color", "size", "shop", "n0", "n1", "n2"]
        texts = [["blue", "green", "red"], [10 * i + 5 for i in range(12)], [f"K\u00f6ln {i}" for i in range(70)]]
        x = pd.DataFrame(x, columns=names)
        for name, values in zip(names, texts):
            x[name] = pd.Categorical.from_codes(x[name].fillna(-1).astype(int), values)
        types = None
    options = {}
    if types or hasattr(x, "columns"):
        options = dict(feature_types=types, enable_categorical=True)
    bounds = {key: d.pop(key) for key in list(d) if key not in ("label",)}
    matrix = xgb.DMatrix(x, d["label"], **options)
    if "group" in bounds:
        matrix.set_group(bounds["group"])
    for key in ("label_lower_bound", "label_upper_bound"):
        if key in bounds:
            matrix.set_float_info(key, bounds[key])
    if early:
        held = xgb.DMatrix(x[:100], d["label"][::-1][:100])
        return xgb.train(parameters, matrix, rounds, evals=[(held, "held")], early_stopping_rounds=5, verbose_eval=False)
    return xgb.train(parameters, matrix, rounds)


def kinds():
    for number, name in enumerate(KINDS[xgb.__version__].split()):
        rng = np.random.default_rng([20261121, zlib.crc32(f"{xgb.__version__} {name}".encode())])
        b = build(rng, name)
        path = f"{HERE}/kind-{xgb.__version__}-{name}"
        ubj = (number % 2 or name == "many") and tuple(map(int, xgb.__version__.split(".")[:2])) >= (1, 6)
        save(path, b, "ubj" if ubj else "json")
        if xgb.__version__ > "3.2.0":
            golden(path + ".golden.gz", edge_rows(b, 200, rng), [b])


def edges():
    assert xgb.__version__ == "3.2.0", xgb.__version__
    for packed in sorted(glob.glob(f"{HERE}/kind-*.[ju]*.gz")):
        name = os.path.basename(packed).replace(".json.gz", "").replace(".ubj.gz", "")
        if name.split("-")[1] <= "3.2.0":
            b = load(packed)
            rng = np.random.default_rng(zlib.crc32(name.encode()))
            golden(f"{HERE}/{name}.golden.gz", edge_rows(b, 100 if "many" in name else 200, rng), [b])
    rng = np.random.default_rng(5)
    boosters = [load(f"{HERE}/{name}.ubj.gz") for name in ("categories", "dart", "classes")]
    given = gzip.open(f"{HERE}/rows.golden.gz").read()
    count, width, outputs = np.frombuffer(given[:12], "<u4")
    planes = np.frombuffer(given[12:], "u1").reshape(4, -1)[:, : count * width]
    rows = np.ascontiguousarray(planes.T).view("<f4").reshape(width, count).T[:2000]
    golden(f"{HERE}/rows-kinds.golden.gz", np.ascontiguousarray(rows), boosters)
    for name, b, count in zip(("categories", "dart", "classes"), boosters, (1000, 300, 300)):
        golden(f"{HERE}/{name}-edges.golden.gz", edge_rows(b, count, rng), [b])


def save(path, booster, kind):
    with tempfile.TemporaryDirectory() as folder:  # save_raw knows formats since 1.6 only
        booster.save_model(f"{folder}/model.{kind}")
        pack(f"{path}.{kind}.gz", open(f"{folder}/model.{kind}", "rb").read())


def main():
    rng = np.random.default_rng(20261121)
    assert xgb.__version__ == "3.2.0", xgb.__version__
    x, y = data(rng, 400, 6)
    for number, (name, (rounds, parameters)) in enumerate(SMALL.items()):
        b = train(x, y, rounds, **parameters)
        save(f"{HERE}/small-{name}", b, ("json", "ubj")[number % 2])
    links(f"{HERE}/links.gz", rng)
    for packed in sorted(glob.glob(f"{HERE}/small-*.gz") + glob.glob(f"{HERE}/old-*.gz")):
        if "golden" not in packed:
            b = load(packed)
            golden(packed.replace(".json.gz", "").replace(".ubj.gz", "") + ".golden.gz", edge_rows(b, 200, rng), [b])
    for name in ("fraud", "amount"):
        b = load(f"{HERE}/{name}.ubj.gz")
        golden(f"{HERE}/{name}-edges.golden.gz", edge_rows(b, 1000, rng), [b])


def old():
    rng = np.random.default_rng(7)
    x, y = data(rng, 400, 6)
    version = [int(part) for part in xgb.__version__.split(".")]
    for name, kind, rounds, parameters in (
        ("logistic", "json", 9, dict(objective="binary:logistic", max_depth=4, base_score=0.2)),
        ("pruned", "ubj" if version >= [1, 6] else "json", 6, dict(objective="reg:squarederror", tree_method="exact", gamma=3.0, max_depth=5)),
    ):
        if name == "pruned" and version < [1, 1]:
            continue  # such a file does not count its deleted nodes, and XGBoost 3.2 refuses it as well
        save(f"{HERE}/old-{xgb.__version__}-{name}", train(x, y, rounds, **parameters), kind)


def live(seed, folder):
    rng = np.random.default_rng(seed)
    for i in range(24):
        x, y = data(rng, 300, int(rng.integers(1, 40)))
        parameters = dict(
            objective=str(rng.choice(["binary:logistic", "reg:squarederror", "binary:logitraw", "reg:logistic", "reg:absoluteerror"])),
            max_depth=int(rng.integers(1, 9)), eta=float(rng.uniform(0.05, 1)), min_child_weight=float(rng.choice([0, 1, 5])),
            subsample=float(rng.uniform(0.5, 1)), tree_method=str(rng.choice(["hist", "exact", "approx"])),
            gamma=float(rng.choice([0, 0, 0.5])), num_parallel_tree=int(rng.choice([1, 1, 3])), seed=int(rng.integers(1 << 30)),
        )
        if rng.random() < 0.5:
            parameters["base_score"] = float(rng.uniform(0.01, 0.99))
        b = train(x, y, int(rng.integers(1, 40)), **parameters)
        save(f"{folder}/{i}", b, str(rng.choice(["json", "ubj"])))
        golden(f"{folder}/{i}.golden.gz", edge_rows(b, 150, rng), [b])
    names = [name for name in KINDS["3.2.0"].split() if name not in ("many", "frame-categories")]
    for i in range(24, 24 + len(names)):
        b = build(rng, names[i - 24], eta=float(rng.uniform(0.05, 1)), min_child_weight=float(rng.choice([0, 1, 5])),
                  subsample=float(rng.uniform(0.5, 1)), max_cat_to_onehot=int(rng.choice([1, 4, 20])))
        save(f"{folder}/{i}", b, str(rng.choice(["json", "ubj"])))
        golden(f"{folder}/{i}.golden.gz", edge_rows(b, 100, rng), [b])


if __name__ == "__main__":
    if sys.argv[1:2] == ["live"]:
        live(int(sys.argv[2]), sys.argv[3])
    elif len(sys.argv) == 2:
        dict(old=old, kinds=kinds, edges=edges)[sys.argv[1]]()
    else:
        main()
