#!/usr/bin/env python3
"""Packs models that are given, and what their frameworks say of the first rows, into this folder.

  python given.py FOLDER    with lightgbm 4.7.0, catboost 1.2.10, scikit-learn's forest by onnxruntime 1.31.1, and zstd

FOLDER has test.csv, the rows that rows.golden.gz holds too, and expected.csv, what LightGBM, CatBoost and scikit-learn
said of them when they trained lgb_*.txt, cat_num_300x6.json and skl_rf_200x8.onnx. What predictions do not need of the
models (gains, weights, counts) is left out, and the frameworks are asked again whether it is so.

given.margins.gz is as frameworks.py writes it, without columns of rows: the raw scores of each, then the predictions.
"""
import json, os, re, struct, subprocess, sys
import catboost
import lightgbm
import numpy as np
import onnxruntime
import pandas as pd

from golden import pack

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = 1000
LIGHTGBM = ["lgb_num_300", "lgb_cat_300", "lgb_rf_50", "lgb_zeromiss_50"]


def lean(text):
    """A LightGBM model without the lines that predictions do not need."""
    text = re.sub(r"^(split_gain|leaf_weight|leaf_count|internal_value|internal_weight|internal_count)=.*\n", "", text, flags=re.M)
    head, *trees = re.split(r"(?=^Tree=)", text, flags=re.M)
    trees[-1], tail = trees[-1].split("end of trees", 1)
    head = re.sub(r"^tree_sizes=.*$", "tree_sizes=" + " ".join(str(len(t)) for t in trees), head, flags=re.M)
    return head + "".join(trees) + "end of trees" + tail


def keep(name, data):
    subprocess.run(["zstd", "-q", "-f", "--ultra", "-22", "-o", f"{HERE}/given-{name}.zst"], input=data, check=True)


def main(folder):
    rows = pd.read_csv(f"{folder}/test.csv")[:ROWS].to_numpy(np.float64)
    expected = pd.read_csv(f"{folder}/expected.csv", dtype=str)[:ROWS].map(float)  # every digit of it
    for name in LIGHTGBM:
        text = lean(open(f"{folder}/{name}.txt").read())
        booster = lightgbm.Booster(model_str=text)
        assert (booster.predict(rows, raw_score=True) == expected[name + "_raw"]).all(), name
        keep(name + ".txt", text.encode())
    model = json.load(open(f"{folder}/cat_num_300x6.json"))
    for tree in model["oblivious_trees"]:
        del tree["leaf_weights"]
    data = (json.dumps(model, separators=(",", ":")) + "\n").encode()
    booster = catboost.CatBoostClassifier().load_model(f"{folder}/cat_num_300x6.json", format="json")
    said = booster.predict(rows.astype(np.float32), prediction_type="RawFormulaVal")
    assert abs(said - expected["cat_num_300x6_raw"]).max() < 1e-14  # it adds the leaves of a file in another order
    keep("cat_num_300x6.json", data)
    data = open(f"{folder}/skl_rf_200x8.onnx", "rb").read()
    session = onnxruntime.InferenceSession(data)
    said = session.run(None, {session.get_inputs()[0].name: np.nan_to_num(rows, nan=-999).astype(np.float32)})[1]
    assert abs(said[:, 1] - expected["skl_rf_200x8"]).max() < 1e-6
    keep("skl_rf_200x8.onnx", data)
    names = [*LIGHTGBM, "cat_num_300x6"]
    columns = [expected[n + "_raw"] for n in names] + [expected[n] for n in [*names, "skl_rf_200x8"]]
    planes = np.concatenate(columns).astype("<f8").view("u1").reshape(-1, 8).T
    pack(f"{HERE}/given.margins.gz", struct.pack("<4I", ROWS, 0, len(names), len(names) + 1) + planes.tobytes())


if __name__ == "__main__":
    main(sys.argv[1])
