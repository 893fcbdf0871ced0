#!/usr/bin/env python3
"""Makes the golden files of this folder: models, rows, and what XGBoost itself says of them.

  python3 -m venv V && V/bin/pip install xgboost==3.2.0 numpy scipy
  V/bin/python golden.py                   edge rows of the models here, and small models with theirs
  OLD/bin/python golden.py old             models as xgboost 1.0.2 and 1.3.3 (numpy<1.24), 1.7.6 (numpy<2), 2.1.4 and
                                           3.0.5 save them: old-VERSION-*.gz, to be run before the line above
  V/bin/python golden.py live SEED FOLDER  random models for the live comparison; nothing is written here

fraud.*.gz and amount.*.gz are given: models of 300 and 100 trees trained with XGBoost 3.2.0 on simulated payments, and
rows.golden.gz holds 10,000 rows with their margins and predictions by both. Same versions, same bytes.

A .golden.gz holds little-endian uint32 rows, uint32 width, uint32 models, and float32 values: width columns of rows
values, and for each model rows margins and rows predictions. For gzip's sake the values lie in four planes: byte 0 of
all of them, then byte 1, 2 and 3.
"""
import glob, gzip, json, os, sys, tempfile
import numpy as np
import xgboost as xgb

HERE = os.path.dirname(os.path.abspath(__file__))


def pack(path, data):
    with open(path, "wb") as f, gzip.GzipFile("", "wb", 9, f, 0) as z:  # no name, no time: the same bytes each time
        z.write(data)


def golden(path, rows, boosters):
    values = [rows.T.ravel()]
    for b in boosters:
        d = xgb.DMatrix(rows, feature_names=b.feature_names)
        values += [b.predict(d, output_margin=True), b.predict(d)]
    planes = np.concatenate(values).astype("<f4").view("u1").reshape(-1, 4).T
    pack(path, np.array([*rows.shape, len(boosters)], "<u4").tobytes() + planes.tobytes())


def load(packed):
    b = xgb.Booster()
    b.load_model(bytearray(gzip.open(packed).read()))
    return b


def edge_rows(booster, count, rng):
    """Rows at thresholds and one unit beside them, and of zeros, denormals, extremes and missing values."""
    width = booster.num_features()
    near = [[] for _ in range(width)]
    for tree in json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]["model"]["trees"]:
        for left, feature, threshold in zip(tree["left_children"], tree["split_indices"], tree["split_conditions"]):
            if left >= 0:
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


if __name__ == "__main__":
    if sys.argv[1:2] == ["live"]:
        live(int(sys.argv[2]), sys.argv[3])
    elif sys.argv[1:] == ["old"]:
        old()
    else:
        main()
