"""Writes golden.json: PYTHONPATH=evidently python3 golden.py > golden.json

It needs scipy, numpy and pandas, and Evidently without its dependencies: pip install --no-deps --target evidently
evidently==0.7.14. Of Evidently it runs three functions as they are in its source; importing them needs all of it.
"""
import ast, json, pathlib, sys
from importlib.metadata import files, version
from types import SimpleNamespace
from typing import Tuple, Union
from importlib.metadata import version
import numpy as np
import pandas as pd
import scipy.stats as st
from scipy.spatial.distance import jensenshannon

names = {"np": np, "pd": pd, "Tuple": Tuple, "Union": Union, "ColumnType": SimpleNamespace(Numerical="num", Categorical="cat")}
wanted = {"get_binned_data", "_psi", "get_unique_not_nan_values_list_from_series"}
for file in files("evidently"):
    if file.suffix == ".py" and "legacy" in file.parts:
        for node in ast.parse(pathlib.Path(file.locate()).read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name in wanted:
                node.returns = None
                for argument in node.args.args:
                    argument.annotation = None
                exec(compile(ast.Module([node], []), str(file), "exec"), names)
                wanted.discard(node.name)
assert not wanted, wanted

rng = np.random.default_rng(26)
cases = []
for i in range(40):
    bins = int(rng.integers(2, 30))
    edges = np.unique(np.round(np.sort(rng.normal(0, 50, bins - 1)), 3))
    bins = len(edges) + 1
    p, q = rng.integers(0, 400, bins), rng.integers(0, 400, bins)
    for counts in (p, q):
        counts[rng.random(bins) < 0.2] = 0
        counts[0] += 1
    if i % 4 == 0:
        p[1], q[1] = 50_000, 30_000  # the least share is below 0.0001
        p[0] = q[0] = 1
    places = np.concatenate([edges[:1], (edges[:-1] + edges[1:]) / 2, edges[-1:]])
    number = np.arange(bins)
    a, b = np.repeat(number, p), np.repeat(number, q)
    case = {"edges": edges.tolist(), "reference": p.tolist(), "current": q.tolist(),
            "ks": float(st.ks_2samp(a, b).statistic),
            "js": float(jensenshannon(p, q, base=2)),
            "w1": float(st.wasserstein_distance(places, places, p, q))}
    case["psi"] = float(names["_psi"](pd.Series(a), pd.Series(b), "cat", 0.1)[0])
    cases.append(case)
json.dump({"scipy": version("scipy"), "numpy": version("numpy"), "evidently": version("evidently"), "cases": cases}, sys.stdout)
print()
