#!/usr/bin/env python3
"""Makes the golden files of LightGBM, CatBoost and scikit-learn by ONNX: models, rows, and what the frameworks say of them.

  python3 -m venv V && V/bin/pip install lightgbm==4.7.0 catboost==1.2.10 scikit-learn==1.9.1 skl2onnx==1.20.0 \\
      onnx==1.23.2 onnxruntime==1.31.1 pandas==3.1.1 numpy==2.4.6
  V/bin/python frameworks.py                   the models of each kind here, with their rows
  V/bin/python frameworks.py numbers           lightgbm-numbers: a frame whose categories are the numbers 10, 20 and 35
  V/bin/python frameworks.py live SEED FOLDER  random models for the live comparison; nothing is written here

A .wide.gz holds little-endian uint32 rows, width, margins and scores, and float64 values: width columns of rows values
(each of them a float32, but for models whose name ends with wide), then columns of margins and of scores. What a framework calls raw is a margin, what it predicts
a score; there may be no margins. For gzip's sake the values lie in eight planes: byte 0 of all of them, then byte 1 ...
The rows lie at thresholds and one float32 beside them, at categories and beside them, and hold zeros of both signs,
denormals, extremes, infinities and missing values.
"""
import gzip, json, os, re, sys, tempfile, warnings
import numpy as np

warnings.filterwarnings("ignore")
try:
    from onnx.helper import make_attribute as MAKE
except ImportError:
    MAKE = None  # for LightGBM and CatBoost alone
HERE = os.path.dirname(os.path.abspath(__file__))


def pack(path, data):
    with open(path, "wb") as f, gzip.GzipFile("", "wb", 9, f, 0) as z:  # no name, no time: the same bytes each time
        z.write(data)


def golden(path, rows, margins, scores):
    lists = [np.asarray(v, np.float64).reshape(len(rows), -1) for v in (rows, margins, scores) if v is not None]
    if margins is None:
        lists.insert(1, np.empty((len(rows), 0)))
    values = np.concatenate([v.T.ravel() for v in lists])
    head = np.array([len(rows), *(v.shape[1] for v in lists)], "<u4").tobytes()
    pack(path, head + values.astype("<f8").view("u1").reshape(-1, 8).T.tobytes())


ODD = [-2147483648, -1, -0.99999994, -0.5, 0.5, 3.7, 31, 32, 33, 63, 64, 500, 1e6, 16777216, 2147483520, 2147483648, 1e10, 3e38, -3e38]
SPECIAL = [np.nan, 0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-36, 1e-36, 1e-35, -1e-35, 1.0000001e-35, -1.0000001e-35, 1.1754943508e-38,
           3.4028235e38, -3.4028235e38, np.inf, -np.inf, 1.0, -1.0]


def wide_rows(near, count, rng, special=SPECIAL):
    """edge_rows of float64: at thresholds, one float64 and one float32 beside them, and halfway between two."""
    lists = []
    for values in near:
        values = np.array(sorted(set(values)), np.float64)
        single = values.astype(np.float32)
        lists.append(np.concatenate([values, np.nextafter(values, -np.inf), np.nextafter(values, np.inf), (values[1:] + values[:-1]) / 2,
                                     single, np.nextafter(single, np.float32(-np.inf)), np.nextafter(single, np.float32(np.inf))]))
    return np.array([[rng.choice(v) if len(v) and rng.random() < 0.9 else rng.choice(special) for v in lists] for _ in range(count)])


def edge_rows(near, count, rng, special=SPECIAL):
    """Rows of values beside the thresholds of each input, which near lists, or of special ones."""
    lists = []
    for values in near:
        values = np.array(sorted(set(values)), np.float64).astype(np.float32)
        lists.append(np.concatenate([np.nextafter(values, np.float32(-np.inf)), values, np.nextafter(values, np.float32(np.inf))]))
    rows = np.empty((count, len(near)), np.float32)
    for i in range(count):
        for j, values in enumerate(lists):
            if len(values) and rng.random() < 0.8:
                rows[i, j] = values[i % len(values)] if rng.random() < 0.5 else rng.choice(values)
            else:
                rows[i, j] = rng.choice(special)
    return rows


def data(rng, rows, width):
    """Values of several scales, some missing, zeros of both signs and denormals among them; a label."""
    x = (rng.normal(0, 1, (rows, width)) * 10.0 ** rng.integers(-3, 4, width)).astype(np.float32)
    x[rng.random((rows, width)) < 0.1] = np.nan
    x[rng.random((rows, width)) < 0.05] = 0.0
    x[rng.random((rows, width)) < 0.05] = -0.0
    y = (np.nan_to_num(x[:, 1 % width]) > 0) * 1.0 + (np.nan_to_num(x[:, 2 % width]) > 0) * 0.5 + rng.normal(0, 0.3, rows)
    return x, y


# LightGBM

LIGHTGBM = {
    "binary": dict(objective="binary"),
    "sigmoid": dict(objective="binary", sigmoid=2.5),
    "deep": dict(objective="regression", num_leaves=120, min_data_in_leaf=1),
    "stump": dict(objective="binary", num_leaves=2),
    "constant": dict(objective="regression", min_data_in_leaf=1000),
    "zero": dict(objective="regression", zero_as_missing=True),
    "nomissing": dict(objective="regression", use_missing=False),
    "categories": dict(objective="binary", max_cat_to_onehot=1, min_data_per_group=2, cat_smooth=1, cat_l2=1),
    "onehot": dict(objective="regression", max_cat_to_onehot=100, min_data_per_group=2),
    "frame": dict(objective="binary", max_cat_to_onehot=1, min_data_per_group=2, cat_smooth=1),
    "rf": dict(objective="binary", boosting="rf", bagging_freq=1, bagging_fraction=0.6, feature_fraction=0.6),
    "rf-classes": dict(objective="multiclass", num_class=4, boosting="rf", bagging_freq=1, bagging_fraction=0.6),
    "dart": dict(objective="regression", boosting="dart", drop_rate=0.5),
    "classes": dict(objective="multiclass", num_class=4),
    "ova": dict(objective="multiclassova", num_class=4),
    "poisson": dict(objective="poisson"), "gamma": dict(objective="gamma"), "tweedie": dict(objective="tweedie"),
    "sqrt": dict(objective="regression", reg_sqrt=True),
    "l1": dict(objective="regression_l1"), "quantile": dict(objective="quantile"), "mape": dict(objective="mape"),
    "entropy": dict(objective="cross_entropy"), "entropy-lambda": dict(objective="cross_entropy_lambda"),
    "rank": dict(objective="lambdarank"), "custom": dict(objective="none"),
    "wide": dict(objective="regression"), "zero-wide": dict(objective="regression", zero_as_missing=True),
}
CATEGORIES = (3, 12, 70)  # of the first inputs of models with categorical splits


def lightgbm(rng, name, **more):
    import lightgbm as lgb
    width = int(rng.integers(4, 12))
    x, y = data(rng, 500, width)
    names = "auto"
    settings = dict(LIGHTGBM[name], verbose=-1, num_threads=1, seed=int(rng.integers(1000)), min_data_in_leaf=5, **more)
    settings.update(LIGHTGBM[name])
    given = dict(categorical_feature="auto")
    categorical = name in ("categories", "onehot", "frame")
    if categorical:
        for i, count in enumerate(CATEGORIES):
            codes = rng.zipf(1.3, len(x)) % count
            x[:, i] = np.where(rng.random(len(x)) < 0.06, np.nan, codes)
            y += np.isin(codes, [1, 5, 7, 40]) * 1.5 + (codes % 3 == 2)
        given["categorical_feature"] = [0, 1, 2]
        names = ["color", "size", "shop"] + [f"n{i}" for i in range(3, width)]
    if name.endswith("wide"):  # Unix seconds, ids, cents, and numbers that float32 cannot tell from each other
        x = x.astype(np.float64)
        x[:, 0] = 1.7e9 + rng.integers(0, 3000, len(x))
        x[:, 1] = 2.0**26 + rng.integers(0, 40, len(x))
        x[:, 2] = np.round(rng.lognormal(3, 2, len(x)), 2)
        x[:, 3] = 0.1 + rng.integers(-9, 10, len(x)) * 1e-12
        x[rng.random(x.shape) < 0.05] = 0.0
        y += (x[:, 0] % 7 > 3) + (x[:, 1] % 5 > 2) + (x[:, 2] > 9.87) + (x[:, 3] > 0.1)
    objective = settings["objective"]
    label = np.abs(y) + 0.01
    if objective in ("binary", "cross_entropy", "cross_entropy_lambda", "none"):
        label = (y > 0.7).astype(float)
    elif objective.startswith("multiclass"):
        label = (np.abs(y) * 2).astype(int) % 4
    elif objective == "lambdarank":
        label, given["group"] = (y > 0.7).astype(int), [25] * 20
    matrix = x.astype(np.float64)
    if name == "frame":
        import pandas as pd
        matrix = pd.DataFrame(matrix, columns=names)
        for column, values in zip(names, (["blau", "gr\u00fcn", "rot"], [10 * i + 5 for i in range(12)], [f"shop {i}" for i in range(70)])):
            matrix[column] = pd.Categorical.from_codes(matrix[column].fillna(-1).astype(int), values)
        given["categorical_feature"] = "auto"
    if objective == "none":
        settings["objective"] = lambda p, d: (p - d.get_label(), np.ones(len(p)))
    d = lgb.Dataset(matrix, label, feature_name=names, params=dict(min_data_in_leaf=1, verbose=-1), **given)
    b = lgb.train(settings, d, int(rng.integers(3, 25)))
    text = b.model_to_string(num_iteration=-1)
    near = [[] for _ in range(width)]
    for tree in text.split("\nTree=")[1:]:
        value = dict(line.split("=", 1) for line in tree.split("\n") if "=" in line)
        inputs, thresholds, kinds = value["split_feature"].split(), value["threshold"].split(), value["decision_type"].split()
        for i, t, kind in zip(inputs, thresholds, kinds):
            near[int(i)] += [-0.5, 1, 2, 3, 5, 7, 40, 69, 70, *ODD] if int(kind) & 1 else [float(t)]
    rows = (wide_rows if name.endswith("wide") else edge_rows)(near, 250, rng)
    # Codes of a frame are codes for a booster that reads its file, which a frame would be turned into.
    text_only = re.sub(r"pandas_categorical:.*", "pandas_categorical:[]", text)
    b = lgb.Booster(model_str=text_only)
    raw = b.predict(rows.astype(np.float64), raw_score=True, num_iteration=-1)
    return text.encode(), rows, raw, b.predict(rows.astype(np.float64), num_iteration=-1)


def lightgbm_numbers():
    """A model of a frame. Its rows hold what the frame holds, categories and no codes: the frame says what LightGBM predicts."""
    import lightgbm as lgb
    import pandas as pd
    rng = np.random.default_rng(20261126)
    plan, amount = rng.choice([10, 20, 35], 600), np.round(rng.lognormal(3, 1, 600), 2)
    label = np.array([0.3, 0.8, 0.0])[np.searchsorted([10, 20, 35], plan)] + 0.01 * (amount > 30) + rng.normal(0, 0.02, 600)
    frame = lambda plan, amount: pd.DataFrame(dict(plan=pd.Categorical(plan, [10, 20, 35]), amount=amount))
    settings = dict(objective="regression", verbose=-1, num_threads=1, min_data_in_leaf=5, max_cat_to_onehot=1, cat_smooth=1, num_leaves=7)
    b = lgb.train(settings, lgb.Dataset(frame(plan, amount), label), 12)
    rows = np.array([[p, a] for p in (10, 20, 35, np.nan) for a in (1, 29.5, 30.01, 500, np.nan)])
    asked = frame(rows[:, 0], rows[:, 1])
    assert np.isnan(b.predict(frame([15], [1]))).sum() == 0 and b.predict(frame([15], [1])) == b.predict(frame([np.nan], [1]))
    pack(f"{HERE}/lightgbm-numbers.txt.gz", b.model_to_string(num_iteration=-1).encode())
    golden(f"{HERE}/lightgbm-numbers.frame.gz", rows, b.predict(asked, raw_score=True), b.predict(asked))


# CatBoost

CATBOOST = {
    "binary": dict(), "deep": dict(depth=10), "missing-high": dict(nan_mode="Max"), "classes": dict(loss_function="MultiClass"),
    "ova": dict(loss_function="MultiClassOneVsAll"), "poisson": dict(loss_function="Poisson"), "rmse": dict(loss_function="RMSE"),
    "targets": dict(loss_function="MultiRMSE"), "lossguide": dict(grow_policy="Lossguide", max_leaves=20),
    "depthwise": dict(grow_policy="Depthwise", loss_function="MultiClass"), "quantile": dict(loss_function="Quantile:alpha=0.8"),
}


def catboost(rng, name, **more):
    from catboost import CatBoostClassifier, CatBoostRegressor
    width = int(rng.integers(4, 12))
    x, y = data(rng, 500, width)
    settings = dict(iterations=int(rng.integers(3, 25)), depth=int(rng.integers(1, 7)), verbose=0, allow_writing_files=False, thread_count=1,
                    random_seed=int(rng.integers(1000)), **more)
    settings.update(CATBOOST[name])
    loss = settings.get("loss_function", "Logloss")
    classes = loss in ("Logloss", "MultiClass", "MultiClassOneVsAll")
    label = np.abs(y)
    if loss == "Logloss":
        label = y > 0.7
    elif classes:
        label = (np.abs(y) * 2).astype(int) % 4
    elif loss == "MultiRMSE":
        label = np.stack([y, -y, y * y], 1)
    columns = [f"in {i}" for i in range(width)]
    if rng.random() < 0.5:
        import pandas as pd
        x = pd.DataFrame(x, columns=columns)
    m = (CatBoostClassifier if classes else CatBoostRegressor)(**settings).fit(x, label)
    with tempfile.TemporaryDirectory() as folder:
        m.save_model(folder + "/m.json", format="json")
        text = open(folder + "/m.json", "rb").read()
    near = [f["borders"] or [] for f in json.loads(text)["features_info"]["float_features"]]
    rows = edge_rows(near, 250, rng)
    raw = m.predict(rows, prediction_type="RawFormulaVal", thread_count=1)
    if classes:
        scores = m.predict_proba(rows, thread_count=1)
        scores = scores[:, 1] if loss == "Logloss" else scores
    else:
        scores = m.predict(rows, thread_count=1)
    return text, rows, raw, scores


# scikit-learn by ONNX, and ONNX that others write

ONNX = ("forest", "forest-classes", "forest-regressor", "forest-targets", "extra", "tree", "tree-regressor", "boosting", "boosting-classes",
        "boosting-regressor", "hist", "hist-classes", "hist-regressor", "isolation", "texts", "columns", "modes", "softmax-zero", "average",
        "double", "ensemble", "ensemble-classes", "ensemble-double", "double-wide", "ensemble-double-wide")


def by_hand(rng, name, width):
    """A model of random trees with each mode, as TreeEnsembleRegressor or as TreeEnsemble of ai.onnx.ml 5."""
    from onnx import TensorProto, helper, numpy_helper
    number, tensor = (np.float64, TensorProto.DOUBLE) if "double" in name else (np.float32, TensorProto.FLOAT)
    targets = 3 if "classes" in name or name == "softmax-zero" else 1
    nodes, leaves, near = [], [], [[] for _ in range(width)]  # nodes: tree, id, mode, input, threshold, yes, no, tracks

    def grow(tree, depth):
        at = len([n for n in nodes if n[0] == tree])
        node = [tree, at]
        nodes.append(node)
        if depth == 0 or rng.random() < 0.2:
            node += ["LEAF", 0, 0, 0, 0, 0]
            for target in range(targets) if "ensemble" not in name else [int(rng.integers(targets))]:
                leaves.append((tree, at, target, number(rng.normal())))
            return at
        i, mode = int(rng.integers(width)), ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT")[int(rng.integers(4))]
        limit = number(0.1 + rng.integers(-9, 10) * 1e-12 if name.endswith("wide") else rng.choice([0.0, 1e-45, np.inf, -np.inf, 3.4028235e38, *rng.normal(size=20)]))
        near[i].append(limit)
        node += [mode, i, limit, grow(tree, depth - 1), grow(tree, depth - 1), int(rng.integers(2))]
        return at

    for tree in range(int(rng.integers(3, 12))):
        grow(tree, int(rng.integers(1, 9)))
    column = lambda i: [n[i] for n in nodes]
    if "ensemble" in name:  # splits and leaves are apart; a tree that is a leaf is a split of the same leaf twice
        splits = [n for n in nodes if n[2] != "LEAF"]
        split_at, leaf_at = {(n[0], n[1]): i for i, n in enumerate(splits)}, {(l[0], l[1]): i for i, l in enumerate(leaves)}
        roots = []
        for tree in sorted({n[0] for n in nodes}):
            if (tree, 0) in leaf_at:
                splits.append([tree, 0, "BRANCH_LEQ", 0, number(0), 0, 0, 0])
                roots.append(len(splits) - 1)
            else:
                roots.append(split_at[tree, 0])
        child = lambda n, i: leaf_at.get((n[0], n[i]), split_at.get((n[0], n[i])))
        floats = lambda values: numpy_helper.from_array(np.array(values, number))
        attributes = dict(
            tree_roots=roots, n_targets=targets, nodes_featureids=[n[3] for n in splits], nodes_splits=floats([n[4] for n in splits]),
            nodes_modes=numpy_helper.from_array(np.array([["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"].index(n[2]) for n in splits], np.uint8)),
            nodes_truenodeids=[child(n, 5) for n in splits], nodes_trueleafs=[int((n[0], n[5]) in leaf_at) for n in splits],
            nodes_falsenodeids=[child(n, 6) for n in splits], nodes_falseleafs=[int((n[0], n[6]) in leaf_at) for n in splits],
            nodes_missing_value_tracks_true=[n[7] for n in splits], leaf_targetids=[l[2] for l in leaves], leaf_weights=floats([l[3] for l in leaves]),
            aggregate_function=0 if targets == 3 else 1, post_transform=3 if targets == 3 else 0)
        node = helper.make_node("TreeEnsemble", ["X"], ["Y"], domain="ai.onnx.ml", **attributes)
    else:
        attributes = dict(
            n_targets=targets, nodes_treeids=column(0), nodes_nodeids=column(1), nodes_modes=column(2), nodes_featureids=column(3),
            nodes_truenodeids=column(5), nodes_falsenodeids=column(6), nodes_missing_value_tracks_true=column(7),
            target_treeids=[l[0] for l in leaves], target_nodeids=[l[1] for l in leaves], target_ids=[l[2] for l in leaves],
            post_transform="SOFTMAX_ZERO" if targets == 3 else "NONE", aggregate_function="AVERAGE" if name == "average" else "SUM")
        for key, values in (("nodes_values", column(4)), ("target_weights", [l[3] for l in leaves]), ("base_values", [number(v) for v in rng.normal(size=targets)])):
            if number is np.float64:
                attributes[key + "_as_tensor"] = helper.make_tensor(key, tensor, [len(values)], values)
            else:
                attributes[key] = [float(v) for v in values]
        node = helper.make_node("TreeEnsembleRegressor", ["X"], ["Y"], domain="ai.onnx.ml", **attributes)
    out = tensor if "ensemble" in name else TensorProto.FLOAT
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("X", tensor, [None, width])],
                              [helper.make_tensor_value_info("Y", out, [None, targets])])
    ops = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 5 if "ensemble" in name else 3)]
    return helper.make_model(graph, opset_imports=ops, ir_version=9), near


def plain_attribute(key, value, *rest, **more):
    """make_attribute, which makes nothing of the numbers of numpy that HistGradientBoosting has."""
    if isinstance(value, list):
        value = [(int if isinstance(v, (bool, np.bool_)) else type(v.item()))(v) if isinstance(v, (bool, np.generic)) else v for v in value]
    return MAKE(key, value, *rest, **more)


def sklearn(rng, name):
    import onnx.helper
    from sklearn import ensemble, tree
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType
    onnx.helper.make_attribute = plain_attribute
    width = int(rng.integers(3, 10))
    if name in ("modes", "softmax-zero", "average", "double", "double-wide") or name.startswith("ensemble"):
        model, near = by_hand(rng, name, width)
        return model, near, SPECIAL
    x, y = data(rng, 400, width)
    if not name.startswith("hist"):
        x = np.nan_to_num(x, nan=-999)
    kind = name.split("-")[0]
    settings = dict(random_state=int(rng.integers(1000)))
    if kind.startswith("hist"):
        settings.update(max_iter=int(rng.integers(2, 20)), early_stopping=False)
    elif kind not in ("tree",):
        settings.update(n_estimators=int(rng.integers(2, 20)))
    if kind in ("forest", "extra", "tree", "texts", "columns"):
        settings.update(max_depth=int(rng.integers(1, 12)))
    label = (y > 0.7).astype(int)
    if "classes" in name:
        label = (np.abs(y) * 2).astype(int) % 4
    if name == "texts":
        label = np.array(["no", "yes", "why"])[(np.abs(y) * 2).astype(int) % 3]
    if "regressor" in name:
        label = y
    if "targets" in name:
        label = np.stack([y, -y, y * y], 1)
    regressor = "regressor" in name or "targets" in name
    choose = dict(forest=(ensemble.RandomForestRegressor, ensemble.RandomForestClassifier), extra=(None, ensemble.ExtraTreesClassifier),
                  texts=(None, ensemble.RandomForestClassifier), columns=(None, ensemble.RandomForestClassifier), isolation=(None, ensemble.IsolationForest),
                  tree=(tree.DecisionTreeRegressor, tree.DecisionTreeClassifier), boosting=(ensemble.GradientBoostingRegressor, ensemble.GradientBoostingClassifier),
                  hist=(ensemble.HistGradientBoostingRegressor, ensemble.HistGradientBoostingClassifier))
    m = choose[kind][not regressor](**settings)
    m.fit(x, label)
    if name == "columns":
        import pandas as pd
        from sklearn.compose import ColumnTransformer
        from sklearn.pipeline import make_pipeline
        from skl2onnx import convert_sklearn
        names = [f"col{i}" for i in range(width)]
        whole = make_pipeline(ColumnTransformer([("all", "passthrough", names)]), m).fit(pd.DataFrame(x, columns=names), label)
        model = convert_sklearn(whole, initial_types=[(name, FloatTensorType([None, 1])) for name in names], options={id(m): dict(zipmap=False)})
    else:
        options = {} if name in ("texts", "boosting") or regressor or kind == "isolation" else {id(m): dict(zipmap=False)}
        model = to_onnx(m, x[:1], options=options, target_opset={"": 18, "ai.onnx.ml": 3})
    near = [[] for _ in range(width)]
    for node in model.graph.node:
        a = {a.name: a for a in node.attribute}
        if "nodes_featureids" in a:
            for mode, i, t in zip(a["nodes_modes"].strings, a["nodes_featureids"].ints, a["nodes_values"].floats):
                if mode != b"LEAF":
                    near[i].append(t)
    return model, near, SPECIAL


def onnx(rng, name):
    import onnxruntime
    model, near, special = sklearn(rng, name)
    rows = (wide_rows if name.endswith("wide") else edge_rows)(near, 250, rng, special)
    data = model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # with more it adds up parts of the trees
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    inputs = session.get_inputs()
    if len(inputs) > 1:
        feed = {i.name: rows[:, [j]] for j, i in enumerate(inputs)}
    else:
        feed = {inputs[0].name: rows.astype(np.float64 if "double" in inputs[0].type else np.float32)}
    scores = session.run(None, feed)[-1]
    if isinstance(scores, list):
        scores = np.array([list(row.values()) for row in scores])
    return data, rows, None, scores


KINDS = [(onnx, "onnx", "onnx", ONNX), (lightgbm, "lightgbm", "txt", LIGHTGBM), (catboost, "catboost", "json", CATBOOST)]


def write(folder, rng, only=None):
    for make, kind, ending, names in KINDS:
        for name in names:
            if only and only not in f"{kind}-{name}":
                continue
            text, rows, raw, scores = make(rng if folder != HERE else np.random.default_rng([20261121, *f"{kind}-{name}".encode()]), name)
            pack(f"{folder}/{kind}-{name}.{ending}.gz", text)
            golden(f"{folder}/{kind}-{name}.wide.gz", rows, raw, scores)


if __name__ == "__main__":
    if sys.argv[1:2] == ["live"]:
        write(sys.argv[3], np.random.default_rng(int(sys.argv[2])))
    elif sys.argv[1:] == ["numbers"]:
        lightgbm_numbers()
    else:
        write(HERE, None, *sys.argv[1:])
