"""Trains fraud.ubj, the model of pipeline.yaml, on rows that `afterbay dataset` wrote.

    train.py train ROWS LABELS MODEL    trains on the first 70 % of the rows
    train.py test ROWS LABELS           says how good the scores in the last 30 % are

ROWS is CSV of `afterbay dataset`: the names of the pipeline, computed by the code that serves
it. Nothing is computed again here. Where past.* is empty, since the pipeline had no model yet,
the model is the first one: small, and without the past. It needs xgboost 3.2.0 and numpy.
"""
import csv, os, sys
import numpy as np
import xgboost as xgb

# What pipeline.yaml gives the model, in its order.
INPUTS = ["spend.*", "usual.*", "amount", "ratio", "where", "moved", "how", "machine", "gap", "past.*"]


def read(rows, labels):
    """Returns names and values of the inputs, the pattern of each row's fraud or "", and its score or NaN."""
    pattern = {r["tx"]: r["pattern"] if r["fraud"] == "1" else "" for r in csv.DictReader(open(labels, newline=""))}
    reader = csv.reader(open(rows, newline=""))
    header = next(reader)
    names = [name for i in INPUTS for name in header if name == i or i.endswith("*") and name.startswith(i[:-1])]
    columns = [header.index(name) for name in names]
    tx, score = header.index("tx"), header.index("fraud.score") if "fraud.score" in header else None
    x, kind, scores = [], [], []
    for row in reader:
        x.append(np.array([float(row[c] or "nan") for c in columns], np.float32))  # rounded as the engine does
        kind.append(pattern[row[tx]])
        scores.append(np.nan if score is None else float(row[score]))
    return names, np.array(x), np.array(kind), np.array(scores)


def train(names, x, kind, path):
    past = [i for i, name in enumerate(names) if name.startswith("past.")]
    first = bool(np.isnan(x[:, past]).all())
    parameters = {"objective": "binary:logistic", "max_depth": 4 if first else 6, "eta": 0.1, "min_child_weight": 4,
                  "lambda": 2, "tree_method": "hist", "nthread": 1, "seed": 1}
    cut = len(x) * 7 // 10
    rows = xgb.DMatrix(x[:cut], (kind[:cut] != "").astype(int), feature_names=names)
    model = xgb.train(parameters, rows, 50 if first else 150)
    model.save_model(path)
    score = model.predict(xgb.DMatrix(x[cut:], feature_names=names))
    which = "first model, without past scores" if first else "model with the past scores of the one before"
    print(f"{which}: {cut} rows of {len(names)} inputs, {(kind[:cut] != '').mean():.2%} fraud; {os.path.getsize(path)} bytes")
    print(f"AUC {auc(kind[cut:] != '', score):.4f} on the {len(x) - cut} rows after them")
    gain = model.get_score(importance_type="total_gain")
    total = sum(gain.values())
    for name in sorted(gain, key=gain.get, reverse=True)[:10]:
        print(f"{gain[name] / total:7.1%} {name}")


def test(kind, score):
    cut = len(kind) * 7 // 10
    kind, score = kind[cut:], score[cut:]
    if np.isnan(score).any():
        sys.exit("the rows have no fraud.score: write them with the model beside pipeline.yaml")
    print(f"{len(kind)} rows, {(kind != '').mean():.2%} fraud: AUC {auc(kind != '', score):.4f} of the pipeline's own scores")
    print(f"{'':10} {'allow':>8} {'review':>8} {'block':>8}")
    for name in ("", "burst", "terminal", "takeover"):
        s = score[kind == name]
        print(f"{name or 'honest':10} {(s < .5).sum():8} {((s >= .5) & (s < .9)).sum():8} {(s >= .9).sum():8}")


def auc(fraud, score):
    """Returns the area under the curve; ties count a half."""
    _, rank, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[rank]
    n = fraud.sum()
    return (rank[fraud].sum() - n * (n + 1) / 2) / (n * (len(fraud) - n))


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "train":
        names, x, kind, _ = read(*sys.argv[2:4])
        train(names, x, kind, sys.argv[4])
    elif len(sys.argv) == 4 and sys.argv[1] == "test":
        _, _, kind, score = read(*sys.argv[2:4])
        test(kind, score)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
