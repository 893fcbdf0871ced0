"""Trains the models of the examples: is a payment fraud, by its amount and hour? Is a message spam?

    python train.py        with xgboost, lightgbm, catboost, scikit-learn, onnx and skl2onnx, from the root of the repository
"""
import os
import sys

import catboost
import lightgbm
import numpy as np
import onnx
import xgboost
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

sys.path.insert(0, "internal/models/text")
from export import export

FOLDER = os.path.dirname(os.path.abspath(__file__)) + "/"
amounts, hours = (a.ravel().astype("float32") for a in np.meshgrid(np.arange(5, 400, 10), np.arange(24)))
rows = np.column_stack([amounts, hours])
fraud = ((amounts > 200) | (amounts > 100) & (hours < 6)).astype(int)

trees = xgboost.DMatrix(rows, fraud, feature_names=["amount", "hour"])
xgboost.train({"max_depth": 2, "objective": "binary:logistic", "nthread": 1}, trees, 3).save_model(FOLDER + "xgboost.json")
table = lightgbm.Dataset(rows, fraud, feature_name=["amount", "hour"])
lightgbm.train({"num_leaves": 4, "objective": "binary", "num_threads": 1, "verbose": -1}, table, 3).save_model(FOLDER + "lightgbm.txt")
cats = catboost.CatBoostClassifier(iterations=3, depth=2, thread_count=1, random_seed=1, border_count=16, verbose=False, allow_writing_files=False)
cats.fit(catboost.Pool(rows, fraud, feature_names=["amount", "hour"])).save_model(FOLDER + "catboost.json", format="json")
tree = DecisionTreeClassifier(max_depth=3, random_state=1).fit(rows, fraud)
graph = convert_sklearn(tree, initial_types=[("rows", FloatTensorType([None, 2]))], options={id(tree): {"zipmap": False}}, target_opset=15)
with open(FOLDER + "onnx-trees.onnx", "wb") as file:
    file.write(graph.SerializeToString())

# A graph that is no tree: score = sigmoid(0.02 * amount - 0.1 * hour - 2).
column = lambda name: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, 1])
node = onnx.helper.make_node
weights = {"per_amount": 0.02, "per_hour": -0.1, "bias": -2.0}
graph = onnx.helper.make_graph(
    [node("Mul", ["amount", "per_amount"], ["a"]), node("Mul", ["hour", "per_hour"], ["h"]), node("Sum", ["a", "h", "bias"], ["sum"]), node("Sigmoid", ["sum"], ["score"])],
    "fraud", [column("amount"), column("hour")], [column("score")], [onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, [1], [value]) for name, value in weights.items()],
)
onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 15)], ir_version=8), FOLDER + "onnx.onnx")

messages = ["win money now", "free money offer", "claim your free prize", "meeting at noon", "lunch with ann", "notes of the meeting"]
words = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(messages, [1, 1, 1, 0, 0, 0])
with open(FOLDER + "text.json", "w") as file:
    file.write(export(words) + "\n")
