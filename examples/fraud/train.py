"""Trains fraud.ubj, the model of pipeline.yaml, on generated payments.

    pip install xgboost==3.2.0
    go run ./examples/fraud/generate -seed 1 -events 1000000 -labels labels.csv > events.ndjson
    python examples/fraud/train.py events.ndjson labels.csv examples/fraud/fraud.ubj

The features are those of the pipeline, computed in the order of arrival. The two
about past scores need scores before there is a model: a first model, which does
without them, gives the ones to train with. The test, on the last 30 % of the
time, replays the stream with the model's own scores, as the pipeline would.
"""
import json, os, sys
from collections import deque
import numpy as np
import xgboost as xgb

COUNTRIES = {"US": 0, "GB": 1, "DE": 2, "FR": 3, "BR": 4, "IN": 5, "PL": 6, "NG": 7}
CHANNELS = {"chip": 0, "contactless": 1, "online": 2, "swipe": 3}
DEVICES = {"ios": 1, "android": 2, "desktop": 3}
PANES = (("60s", 5_000, 12), ("10m", 60_000, 10))
HOUR = 3_600_000
NAMES = ([f"spend.{a}_{w}" for w in ("60s", "10m", "1h") for a in ("count", "sum", "mean", "max")]
         + ["usual.mean", "usual.max", "amount", "ratio", "where", "moved", "how", "machine", "gap",
            "past.mean", "past.max"])
BLIND = len(NAMES) - 2  # features that need no score


class Customer:
    """What the pipeline keeps of a customer, but for past scores.

    Windows also end after an hour of silence by the watermark. Nothing of that
    is needed here: it would show only at an event about as late as that.
    """
    __slots__ = ("panes", "hour", "usual", "places", "last")

    def __init__(self):
        self.panes = ({}, {})
        self.hour = []
        self.usual = deque(maxlen=20)
        self.places = deque(maxlen=10)
        self.last = None

    def features(self, ts, amount, where):
        """Takes a payment in and returns spend.*, usual.*, the place's mean and the gap."""
        cents, out = round(amount * 100), []
        for panes, (_, size, count) in zip(self.panes, PANES):
            index = ts // size
            newest = max(panes, default=index)
            if index > newest:
                newest = index
                for old in [i for i in panes if i <= newest - count]:
                    del panes[old]
            if index > newest - count:
                p = panes.get(index)
                if p is None:
                    panes[index] = [1, cents, cents]
                else:
                    p[0] += 1
                    p[1] += cents
                    p[2] = max(p[2], cents)
            aggregate(out, [p for i, p in panes.items() if i <= index])
        self.hour.append((ts, cents))
        newest = max(t for t, _ in self.hour)
        self.hour = [e for e in self.hour if e[0] > newest - HOUR]
        aggregate(out, [(1, c, c) for t, c in self.hour if ts - HOUR < t <= ts])
        self.usual.append(cents)
        self.places.append(where)
        mean = sum(self.usual) / 100 / len(self.usual)
        gap = -1.0 if self.last is None else max(0, ts - self.last) / 1000
        self.last = ts if self.last is None else max(self.last, ts)
        return out + [mean, max(self.usual) / 100], sum(self.places) / len(self.places), gap


def aggregate(out, entries):
    """Appends count, sum, mean and max of (count, cents, max) entries."""
    n = sum(e[0] for e in entries)
    total = sum(e[1] for e in entries) / 100
    out += [n, total, total / n if n else 0.0, max((e[2] for e in entries), default=0) / 100]


def read(line):
    """Returns a payment, or None where the pipeline makes it a dead letter."""
    try:
        e = json.loads(line)
    except ValueError:  # no JSON, or no UTF-8
        return None
    texts = [e.get(k) for k in ("tx", "customer", "country", "channel")]
    if not all(isinstance(t, str) for t in texts) or not isinstance(e.get("amount"), (int, float)):
        return None
    if not isinstance(e.get("ts"), int) or e["ts"] > 4e12:
        return None
    return e


def table(path):
    """Returns the blind features, and tx and customer, of each payment in a file."""
    customers, rows, ids, who = {}, [], [], []
    for line in open(path, "rb"):
        e = read(line)
        if e is None:
            continue
        where = COUNTRIES.get(e["country"], -1)
        c = customers.setdefault(e["customer"], (len(customers), Customer()))
        row, place, gap = c[1].features(e["ts"], e["amount"], where)
        mean = row[-2]
        rows.append(row + [
            e["amount"], e["amount"] / mean if mean > 0 else 1.0, where, where - place,
            CHANNELS.get(e["channel"], -1), DEVICES.get(e.get("device") or "", 0), gap])
        ids.append(e["tx"])
        who.append(c[0])
    return np.asarray(rows, np.float32), ids, np.asarray(who)


def visits(who):
    """Yields the rows of each customer's first payment, then of each second one, and so on."""
    order = np.argsort(who, kind="stable")
    first = np.r_[True, np.diff(who[order]) != 0]
    starts = np.flatnonzero(first)
    number = np.arange(len(who)) - np.repeat(starts, np.diff(np.r_[starts, len(who)]))
    by_number = np.argsort(number, kind="stable")
    yield from np.split(order[by_number], np.flatnonzero(np.diff(number[by_number])) + 1)


def replay(x, who, score):
    """Returns past.mean and past.max of each row, where score(row numbers, past) gives the scores."""
    newest = np.full((who.max() + 1, 10), np.nan)
    past, scores = np.zeros((len(x), 2), np.float32), np.zeros(len(x), np.float32)
    for rows in visits(who):
        have = newest[who[rows]]
        known = ~np.isnan(have).all(axis=1)
        past[rows[known], 0] = np.nanmean(have[known], axis=1)
        past[rows[known], 1] = np.nanmax(have[known], axis=1)
        scores[rows] = score(rows, past[rows])
        newest[who[rows]] = np.c_[have[:, 1:], scores[rows]]
    return past, scores


def train(x, y, names, trees, depth):
    parameters = {"objective": "binary:logistic", "max_depth": depth, "eta": 0.1, "min_child_weight": 4,
                  "lambda": 2, "tree_method": "hist", "nthread": 1, "seed": 1}
    return xgb.train(parameters, xgb.DMatrix(x, y, feature_names=names), trees)


def auc(y, score):
    _, rank, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[rank]
    n = y.sum()
    return (rank[y == 1].sum() - n * (n + 1) / 2) / (n * (len(y) - n))


def main():
    events, labels, out = sys.argv[1:4]
    x, ids, who = table(events)
    pattern = {}
    for line in open(labels).readlines()[1:]:
        tx, fraud, name = line.rstrip("\n").split(",")
        pattern[tx] = name if fraud == "1" else ""
    kind = np.array([pattern[i] for i in ids])
    y = (kind != "").astype(int)
    cut = len(x) * 7 // 10

    blind = train(x[:cut], y[:cut], NAMES[:BLIND], 50, 4)
    guess = blind.predict(xgb.DMatrix(x, feature_names=NAMES[:BLIND]))
    past, _ = replay(x, who, lambda rows, _: guess[rows])
    model = train(np.c_[x, past][:cut], y[:cut], NAMES, 150, 6)
    model.save_model(out)

    _, score = replay(x, who, lambda rows, past: model.inplace_predict(np.c_[x[rows], past]))
    y, score, kind, guess = y[cut:], score[cut:], kind[cut:], guess[cut:]
    print(f"{len(ids)} payments of {who.max() + 1} customers, {(kind != '').mean():.2%} fraud in the test")
    print(f"AUC {auc(y, score):.4f}, of the first model without past scores {auc(y, guess):.4f}; {os.path.getsize(out)} bytes")
    print(f"{'':10} {'allow':>8} {'review':>8} {'block':>8}")
    for name in ("", "burst", "terminal", "takeover"):
        s = score[kind == name]
        print(f"{name or 'honest':10} {(s < .5).sum():8} {((s >= .5) & (s < .9)).sum():8} {(s >= .9).sum():8}")
    gain = model.get_score(importance_type="total_gain")
    total = sum(gain.values())
    for name in sorted(gain, key=gain.get, reverse=True)[:10]:
        print(f"{gain[name] / total:7.1%} {name}")


if __name__ == "__main__":
    main()
