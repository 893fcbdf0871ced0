"""Compares internal/models/tree with LightGBM, CatBoost and ONNX Runtime: called by trees_bench.sh with a folder and a number of rounds.

Each round times a framework and then the test binary, so that both meet the same noise. A framework gets its best batch:
10,000 rows at 64, 1,024 and 10,000 a call, its raw scores, on one thread, processor time. The forest is one of
scikit-learn, which ONNX Runtime scores: scikit-learn itself is timed beside it.
"""
import os, statistics, subprocess, sys, warnings
import numpy as np

warnings.filterwarnings("ignore")
sys.path[:0] = ["internal/models/tree/testdata", "scripts"]
from frameworks import golden
from trees_bench import payments, per_second

FOLDER, ROUNDS = sys.argv[1] + "/others", int(sys.argv[2])
ROWS = 60_000  # to train on


def train(names, values, labels):
    """Trains what the folder lacks: lightgbm.txt, catboost.json and forest.onnx."""
    os.makedirs(FOLDER, exist_ok=True)
    if not os.path.exists(FOLDER + "/lightgbm.txt"):
        import lightgbm as lgb
        settings = dict(objective="binary", learning_rate=0.05, num_leaves=63, max_depth=8, verbose=-1, seed=7, num_threads=2)
        lgb.train(settings, lgb.Dataset(values, labels, feature_name=names), 300).save_model(FOLDER + "/lightgbm.txt")
    if not os.path.exists(FOLDER + "/catboost.cbm"):
        from catboost import CatBoostClassifier
        m = CatBoostClassifier(iterations=300, depth=6, learning_rate=0.1, thread_count=2, random_seed=7, verbose=0, allow_writing_files=False).fit(values, labels)
        m.save_model(FOLDER + "/catboost.json", format="json")
        m.save_model(FOLDER + "/catboost.cbm")
    if not os.path.exists(FOLDER + "/forest.pickle"):
        import pickle
        from sklearn.ensemble import RandomForestClassifier
        from skl2onnx import to_onnx
        m = RandomForestClassifier(200, max_depth=8, n_jobs=2, random_state=7).fit(np.nan_to_num(values, nan=-999), labels)
        open(FOLDER + "/forest.onnx", "wb").write(to_onnx(m, values[:1], options={id(m): dict(zipmap=False)}).SerializeToString())
        pickle.dump(m, open(FOLDER + "/forest.pickle", "wb"))


def calls(rows):
    """How each framework scores rows, by the name of its model; and the goldens."""
    import lightgbm as lgb, onnxruntime, pickle
    from catboost import CatBoostClassifier
    booster = lgb.Booster(model_file=FOLDER + "/lightgbm.txt")
    cat = CatBoostClassifier().load_model(FOLDER + "/catboost.cbm")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(FOLDER + "/forest.onnx", options, providers=["CPUExecutionProvider"])
    forest = pickle.load(open(FOLDER + "/forest.pickle", "rb"))
    forest.n_jobs = 1
    ways = {
        ("lightgbm", "lightgbm"): lambda part: booster.predict(part, raw_score=True, num_threads=1),
        ("catboost", "catboost"): lambda part: cat.predict(part, prediction_type="RawFormulaVal", thread_count=1),
        ("forest", "onnxruntime"): lambda part: session.run(["probabilities"], {"X": part})[0],
        ("forest", "scikit_learn"): forest.predict_proba,
    }
    filled = np.nan_to_num(rows, nan=-999)
    golden(FOLDER + "/lightgbm.wide.gz", rows, booster.predict(rows, raw_score=True), booster.predict(rows))
    golden(FOLDER + "/catboost.wide.gz", rows, cat.predict(rows, prediction_type="RawFormulaVal"), cat.predict_proba(rows)[:, 1])
    golden(FOLDER + "/forest.wide.gz", filled, None, ways["forest", "onnxruntime"](filled))
    return {key: (call, filled if key[0] == "forest" else rows) for key, call in ways.items()}


def run(what):
    test = subprocess.run([os.path.dirname(FOLDER) + "/tree.test", "-test.run", f"^TestSpeed$/^{what}$"], cwd="internal/models/tree", capture_output=True, text=True,
                          env={**os.environ, "AFTERBAY_SPEED": FOLDER, "GOMAXPROCS": "1"})
    if test.returncode != 0:
        sys.exit(test.stdout + test.stderr)
    return [line.split() for line in test.stdout.splitlines() if line.startswith(("lightgbm_", "catboost_", "forest_"))]


def main():
    names, values, labels = payments(ROWS + 10_000, np.random.default_rng(20261121))
    train(names, values[:ROWS], labels[:ROWS])
    ways = calls(np.ascontiguousarray(values[ROWS:]))
    figures = {}
    for line in run("equal"):
        print(*line)
    for _ in range(ROUNDS):
        for (name, framework), (call, rows) in ways.items():
            best = max(per_second(n, lambda: call(rows[:n])) for n in (64, 1024, 10_000))
            figures.setdefault((f"{name}_{framework}_best_batch", "rows/cpu-s"), []).append(best)
        for figure, value, unit in run("rows"):
            figures.setdefault((figure, unit), []).append(float(value))
    for (name, framework) in ways:
        theirs = figures[f"{name}_{framework}_best_batch", "rows/cpu-s"]
        for (figure, unit), values in list(figures.items()):
            if figure.startswith(name + "_") and figure.endswith("_batch_64"):
                figures[f"{figure}_to_{framework}", "x"] = [a / b for a, b in zip(values, theirs)]
    for (figure, unit), values in sorted(figures.items()):
        middle = statistics.median(values)
        print(figure, round(middle, 2) if unit == "x" else round(middle), unit, f"# {min(values):.4g} to {max(values):.4g}")


if __name__ == "__main__":
    main()
