#!/usr/bin/env python3
"""The work that peers are compared on, done naively in Python by XGBoost itself.

    scripts/baseline.py N OUTDIR [--text]

writes OUTDIR/events.ndjson.gz, N events of 100,000 users (Zipf 1.0; 50 a second of
event time; up to some 3 s out of order; seed 7), and OUTDIR/scores.csv.gz, one score
an event: the model of examples/baseline called one row at a time, so that every row
sees the scores before it. internal/e2e/testdata/baseline/{events.ndjson,scores.csv}.gz are

    scripts/baseline.py 20000 internal/e2e/testdata/baseline

and need numpy 2.4.6 and xgboost 3.2.0 (make deps). --text adds the field that makes
an event 300 bytes long.
"""
import gzip
import json
import os
import sys

import numpy as np
import xgboost as xgb

COUNTRY = ["US", "GB", "DE", "FR", "BR", "IN", "NG", "PL", "JP", "ZA"]
CHANNEL = ["web", "app", "api", "partner"]
DEVICE = ["ios", "android", "desktop", "other"]
WINDOWS = ((5_000, 12), (30_000, 10), (60_000, 60))  # pane ms, panes
WORDS = ("free offer click hello thanks buy now the and great product love this is not spam account verify "
         "please today weather game team won price").split()


def generate(n, text):
    rng = np.random.default_rng(7)
    users = 100_000
    p = 1.0 / np.arange(1, users + 1)
    p /= p.sum()
    user = rng.permutation(users)[rng.choice(users, size=n, p=p)]
    ts = (1_760_000_000_000 + np.arange(n) * 20
          - rng.exponential(250, n).astype(int) * (rng.random(n) < .3)
          - (rng.random(n) < .01) * rng.integers(0, 3000, n))
    amount = np.round(np.exp(rng.normal(3.2, 1.1, n)), 2)
    c = rng.choice(10, n, p=[.35, .1, .1, .08, .1, .1, .03, .06, .05, .03])
    h = rng.choice(4, n, p=[.4, .4, .15, .05])
    d = rng.choice(4, n, p=[.35, .35, .25, .05])
    w = rng.integers(0, len(WORDS), (n, 18)) if text else None
    for i in range(n):
        event = {"event_id": f"e{i:09d}", "user_id": f"u{user[i]:06d}", "ts": int(ts[i]), "amount": float(amount[i]),
                 "country": COUNTRY[c[i]], "channel": CHANNEL[h[i]], "device": DEVICE[d[i]]}
        if text:
            event["text"] = " ".join(WORDS[j] for j in w[i])[:100]
        yield event


def window(panes, pane, n, ts, cents):
    """Adds cents to the panes of one window and returns count, sum, mean, max as of ts."""
    i = ts // pane
    newest = max([i, *panes])
    if i > newest - n:
        count, total, most = panes.get(i, (0, 0, 0))
        panes[i] = (count + 1, total + cents, max(most, cents))
        for old in [k for k in panes if k <= newest - n]:
            del panes[old]
    live = [v for k, v in panes.items() if k <= i]
    count, total, most = sum(v[0] for v in live), sum(v[1] for v in live), max((v[2] for v in live), default=0)
    return [count, total / 100.0, total / 100.0 / count if count else 0.0, most / 100.0]


def row(state, event):
    """The 16 features of an event, which its user's state then includes."""
    ts, cents = event["ts"], round(event["amount"] * 100)
    out = []
    for panes, (pane, n) in zip(state["windows"], WINDOWS):
        out += window(panes, pane, n, ts, cents)
    last, scores = state["last"], state["scores"]
    state["last"] = max(last, ts)
    code = COUNTRY.index(event["country"]) * 16 + CHANNEL.index(event["channel"]) * 4 + DEVICE.index(event["device"])
    since = -1.0 if last < 0 else max(0.0, (ts - last) / 1000.0)
    return out + [cents / 100.0, since, sum(scores) / len(scores) if scores else 0.0, code]


def main():
    n, out = int(sys.argv[1]), sys.argv[2]
    here = os.path.dirname(os.path.abspath(__file__))
    model = xgb.Booster(params={"nthread": 1})
    model.load_model(here + "/../examples/baseline/model.ubj")
    states = {}
    with gzip.open(out + "/events.ndjson.gz", "wt", compresslevel=9) as events, gzip.open(out + "/scores.csv.gz", "wt") as scores:
        for i, event in enumerate(generate(n, "--text" in sys.argv)):
            events.write(json.dumps(event) + "\n")
            state = states.setdefault(event["user_id"], {"windows": [{}, {}, {}], "last": -1, "scores": []})
            x = np.asarray([row(state, event)], np.float32)
            score = float(model.inplace_predict(x)[0])
            state["scores"] = (state["scores"] + [score])[-10:]
            scores.write(repr(score) + "\n")
            if i % 10_000 == 0:
                print(f"\r{i} of {n}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


main()
