"""Compares internal/models/tree with XGBoost: called by trees_bench.sh with a folder and a number of rounds.

Each round times XGBoost and then the test binary, so that both meet the same noise. XGBoost gets its best batch: the
rows of rows.golden.gz at 64, 1,024 and 10,000 a call and 4 x 10,000, by inplace_predict, and by predict of a DMatrix
that was built beforehand and untimed (a new one each time: it remembers predictions). One thread each, processor time.
"""
import gzip, os, statistics, subprocess, sys, time
import numpy as np
import xgboost as xgb

sys.path.insert(0, "internal/models/tree/testdata")
from golden import golden

FOLDER, ROUNDS = sys.argv[1], int(sys.argv[2])
CATEGORIES = {"merchant_cat": 40, "country": 120, "device_type": 6, "channel": 4}


def payments(n, rng):
    """Simulated payments as in the models of testdata, with their labels."""
    d = {"amount": np.exp(rng.normal(3.5, 1.3, n)), "hour": rng.integers(0, 24, n).astype(float)}
    d["tx_1h"] = rng.poisson(1.2, n).astype(float)
    d["tx_24h"] = d["tx_1h"] + rng.poisson(6, n)
    d["sum_1h"] = d["tx_1h"] * np.exp(rng.normal(3.3, 0.9, n))
    d["sum_24h"] = d["sum_1h"] + d["tx_24h"] * np.exp(rng.normal(3.2, 0.7, n))
    d["acct_age_days"], d["secs_since_last"] = rng.exponential(400, n), rng.exponential(7200, n)
    d["km_from_last"] = rng.exponential(30, n) * (rng.random(n) < 0.4)
    d["decline_24h"] = rng.poisson(0.3, n).astype(float)
    for i in range(16):
        d[f"f{i:02d}"] = rng.normal(0, 1, n)
    for name, count in CATEGORIES.items():
        d[name] = (rng.zipf(1.4, n) % count).astype(float)
    z = (-4.2 + 0.55 * np.log1p(d["amount"] / 50) + 0.35 * d["decline_24h"] + 0.22 * d["tx_1h"]
         + 0.9 * (d["km_from_last"] > 60) + 0.6 * (d["hour"] < 6) - 0.0012 * d["acct_age_days"]
         + 0.7 * (d["merchant_cat"] % 7 == 3) + 0.8 * (d["country"] % 11 == 5) + 0.5 * (d["device_type"] == 4)
         + 0.5 * d["f00"] * d["f01"] + 0.4 * np.sin(2 * d["f02"]) + 0.3 * np.abs(d["f03"]) - 0.2 * d["f04"] * (d["channel"] == 2))
    labels = rng.random(n) < 1 / (1 + np.exp(-z))
    for name in ["km_from_last", "secs_since_last", "acct_age_days", "decline_24h"] + [f"f{i:02d}" for i in range(0, 16, 2)]:
        d[name][rng.random(n) < 0.06] = np.nan
    for name in CATEGORIES:
        d[name][rng.random(n) < 0.02] = np.nan
    return list(d), np.stack(list(d.values()), 1).astype(np.float32), labels


def per_second(count, call):
    call()
    start, scored = time.process_time(), 0
    while (took := time.process_time() - start) < 0.2:
        call()
        scored += count
    return scored / took


def best(booster, rows):
    """Rows per second of the best way to call XGBoost, and its name."""
    ways = {}
    for batch in (64, 1024, 10_000):
        part = np.ascontiguousarray(rows[:batch])
        ways[f"inplace_{batch}"] = per_second(batch, lambda: booster.inplace_predict(part, validate_features=False))
    for many in (rows, np.tile(rows, (4, 1))):
        took = []
        for _ in range(5):
            data = xgb.DMatrix(many, feature_names=booster.feature_names, nthread=1)
            start = time.process_time()
            booster.predict(data)
            took.append(time.process_time() - start)
        ways[f"dmatrix_{len(many)}"] = len(many) / min(took)
    return max((speed, way) for way, speed in ways.items())


def main():
    packed = gzip.open("internal/models/tree/testdata/rows.golden.gz").read()
    count, width = np.frombuffer(packed, "<u4", 2)
    total = (len(packed) - 12) // 4
    planes = np.frombuffer(packed, np.uint8, 4 * total, 12).reshape(4, total)
    rows = np.ascontiguousarray(np.ascontiguousarray(planes.T).view("<f4").ravel()[:count * width].reshape(width, count).T)
    with open(f"{FOLDER}/300x6.ubj", "wb") as f:
        f.write(gzip.open("internal/models/tree/testdata/fraud.ubj.gz").read())
    if not os.path.exists(f"{FOLDER}/500x8.ubj"):
        names, values, labels = payments(200_000, np.random.default_rng(20261121))
        settings = dict(objective="binary:logistic", eta=0.05, max_depth=8, subsample=0.8, colsample_bytree=0.8, tree_method="hist", seed=7)
        xgb.train(settings, xgb.DMatrix(values, labels, feature_names=names), 500).save_model(f"{FOLDER}/500x8.ubj")
    boosters = {}
    for name in ("300x6", "500x8"):
        boosters[name] = xgb.Booster({"nthread": 1}, model_file=f"{FOLDER}/{name}.ubj")
        golden(f"{FOLDER}/{name}.golden.gz", rows, [boosters[name]])

    figures, ways = {}, {}

    def note(name, value, unit):
        figures.setdefault((name, unit), []).append(float(value))

    def run(what):
        test = subprocess.run([f"{FOLDER}/tree.test", "-test.run", f"^TestSpeed$/^{what}$"], env={**os.environ, "AFTERBAY_SPEED": FOLDER, "GOMAXPROCS": "1"},
                              cwd="internal/models/tree", capture_output=True, text=True)
        if test.returncode != 0:
            sys.exit(test.stdout + test.stderr)
        return [line.split() for line in test.stdout.splitlines() if line[:1].isdigit()]

    for line in run("equal"):
        print(*line)
    for _ in range(ROUNDS):
        for name, booster in boosters.items():
            speed, ways[name] = best(booster, rows)
            note(f"{name}_xgboost_best_batch", speed, "rows/cpu-s")
        for line in run("rows"):
            note(*line)
    for name in boosters:
        print(f"# best way to call XGBoost, last round: {name} {ways[name]}")
        xgboost = figures[f"{name}_xgboost_best_batch", "rows/cpu-s"]
        for (figure, unit), values in list(figures.items()):
            if figure.startswith(f"{name}_") and unit == "rows/cpu-s" and "xgboost" not in figure:
                figures[f"{figure}_ratio", "x"] = [a / b for a, b in zip(values, xgboost)]
    for (figure, unit), values in sorted(figures.items()):
        middle = statistics.median(values)
        print(figure, round(middle, 2) if unit == "x" else round(middle), unit, f"# {min(values):.4g} to {max(values):.4g}")


if __name__ == "__main__":
    main()
