#!/usr/bin/env python3
"""Writes profanity.json and golden.csv again, into this folder or another.

    pip install alt-profanity-check==1.9.1 scikit-learn==1.9.1
    python examples/moderation/export.py posts.ndjson [folder]

The model is that of the package; the golden vectors are 100 posts of the file
with what scikit-learn scores them.
"""
import csv
import json
import pathlib
import sys

import joblib
import profanity_check

here = pathlib.Path(__file__).parent
sys.path.insert(0, str(here / "../../internal/models/text"))
from export import export  # noqa: E402


def texts(path):
    for line in open(path, encoding="utf-8"):
        try:
            yield json.loads(line)["text"]
        except (ValueError, KeyError):
            pass  # the generator's malformed lines


data = pathlib.Path(profanity_check.__file__).parent / "data"
vectorizer, model = (joblib.load(data / name) for name in ("vectorizer.joblib", "model.joblib"))
folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else here
(folder / "profanity.json").write_text(export(vectorizer, model) + "\n", encoding="utf-8")

every = [text for _, text in zip(range(10_000), texts(sys.argv[1]))]
scores = model.predict_proba(vectorizer.transform(every))[:, 1]
ordered = sorted(range(len(every)), key=lambda i: -scores[i])
chosen = ordered[:50] + ordered[50 :: len(every) // 50][:50]  # of the harmful ones and of all
with open(folder / "golden.csv", "w", encoding="utf-8", newline="") as file:
    out = csv.writer(file, lineterminator="\n")
    out.writerow(["text", "score"])
    out.writerows((every[i], repr(float(scores[i]))) for i in chosen)
