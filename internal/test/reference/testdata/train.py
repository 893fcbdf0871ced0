"""Trains fraud.json, the model of fraud.yaml, on rows that the reference wrote.

    pip install xgboost==3.2.0
    go test ./internal/reference -run TestModelComesFromTheseRows -rows /tmp/rows.csv
    python internal/reference/testdata/train.py /tmp/rows.csv

The last column of the rows is the label. Beside the model it writes margins.csv:
rows, the exact margin and the probability that XGBoost gives them.
"""
import json, os, sys
import numpy as np
import xgboost as xgb

here = os.path.dirname(os.path.abspath(__file__))
with open(sys.argv[1]) as f:
    names = f.readline().strip().split(",")[:-1]
    data = np.loadtxt(f, delimiter=",", dtype=np.float32)
x, y = data[:, :-1], data[:, -1]
train = xgb.DMatrix(x, y, feature_names=names)
booster = xgb.train(
    {"objective": "binary:logistic", "max_depth": 5, "eta": 0.25, "tree_method": "hist", "nthread": 1, "seed": 1},
    train, 40)
gain = booster.get_score(importance_type="total_gain")
path = os.path.join(here, "fraud.json")
booster.save_model(path)
with open(path) as f:
    model = json.load(f)
for tree in model["learner"]["gradient_booster"]["model"]["trees"]:
    for name in ("loss_changes", "sum_hessian"):  # of the training only
        tree[name] = [0.0] * len(tree[name])
with open(path, "w") as f:
    json.dump(model, f, separators=(",", ":"))
booster = xgb.Booster(model_file=path)

pick = np.concatenate([np.arange(100), np.argsort(-booster.predict(train))[:60]])
some = x[pick].copy()
some[::7, 20:] = np.nan
rows = xgb.DMatrix(some, feature_names=names)
margins, scores = booster.predict(rows, output_margin=True), booster.predict(rows)
with open(os.path.join(here, "margins.csv"), "w") as f:
    for row, margin, score in zip(some, margins, scores):
        f.write(",".join("%.9g" % v for v in [*row, margin, score]) + "\n")
score = booster.predict(train)
print("labels %.4f, block %.4f, review %.4f, size %d" % (
    y.mean(), (score >= .9).mean(), ((score >= .5) & (score < .9)).mean(), os.path.getsize(path)))
print({k: round(v) for k, v in sorted(gain.items(), key=lambda kv: -kv[1])[:12]})
