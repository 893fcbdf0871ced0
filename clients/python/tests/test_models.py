"""Models in Python and exported models: the engine verifies their golden vectors and runs them."""

import importlib
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import Annotated, TypedDict

import numpy
import pandas

import afterbay

warnings.filterwarnings("ignore")
SOURCE = '''
from typing import TypedDict
import numpy
import afterbay

@afterbay.model
def risk(amount: float, country: str) -> float:
    """Says no to Mars."""
    if country == "Mars":
        raise ValueError("no payments from there")
    return amount / 100 if country == "US" else 0.5

class Both(TypedDict):
    double: numpy.ndarray
    label: list[str]

@afterbay.model(pure=True)
def both(amount: numpy.ndarray, country: list[str]) -> Both:
    return {"double": amount * 2, "label": [c.lower() for c in country]}
'''
PIPELINE = """
pipeline: payments
input: {topic: payments, key: country, fields: {amount: number, country: string}}
models:
  risk: {file: models/risk/1/model.yaml, version: 1, outputs: {score: number}}
  both: {file: models/both/2/model.yaml, version: 2, outputs: {double: number, label: string}}
steps:
  - score: {model: risk, inputs: [amount, country]}
  - score: {model: both, inputs: [amount, country]}
  - emit: {topic: scores, value: [risk.score, both.double, both.label]}
"""


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)


class FunctionTest(Folder):
    def test_functions_score_events_in_their_processes(self):
        (self.dir / "mine.py").write_text(SOURCE)
        sys.path.insert(0, str(self.dir))
        self.addCleanup(sys.path.remove, str(self.dir))
        mine = importlib.import_module("mine")
        self.assertEqual(mine.risk(50, country="US"), 0.5)
        self.assertEqual(mine.risk.__doc__, "Says no to Mars.")
        events = [{"amount": 25, "country": "US"}, {"amount": 3, "country": "DE"}, {"amount": 1, "country": "Mars"}]
        models = self.dir / "models"
        manifest = afterbay.export_model(mine.risk, models, name="risk", rows=events[:2])
        self.assertEqual(manifest, models / "risk" / "1" / "model.yaml")
        self.assertEqual((manifest.parent / "golden.csv").read_text(), "amount,country,prediction\n25,US,0.25\n3,DE,0.5\n")
        afterbay.export_model(mine.both, models, name="both", version=2, rows=pandas.DataFrame(events))
        with self.assertRaisesRegex(afterbay.AfterbayError, "raise version"):
            afterbay.export_model(mine.risk, models, name="risk", rows=events[:2])
        (self.dir / "p.yaml").write_text(PIPELINE)
        trial = afterbay.Engine(self.dir / "data").try_(self.dir / "p.yaml", events)
        scores = trial.outputs["scores"]
        self.assertEqual(list(scores["risk_score"]), [0.25, 0.5])
        self.assertEqual(list(scores["both_double"]), [50, 6])
        self.assertEqual(list(scores["both_label"]), ["us", "de"])
        self.assertIn("no payments from there", trial.dead_letters["error"][0])

    def test_golden_vectors_are_held(self):
        (self.dir / "drifts.py").write_text(
            "import afterbay, os\n@afterbay.model\ndef drifts(amount: float) -> float:\n    return os.getpid() + amount\n"
        )
        sys.path.insert(0, str(self.dir))
        self.addCleanup(sys.path.remove, str(self.dir))
        drifts = importlib.import_module("drifts").drifts
        with self.assertRaisesRegex(afterbay.InvalidFileError, "golden.csv"):
            afterbay.export_model(drifts, self.dir, name="drifts", rows=[{"amount": 1}])
        self.assertEqual(list(self.dir.glob("drifts/*")), [])

    def test_hints_say_inputs_and_outputs(self):
        class Two(TypedDict):
            word: str
            vector: Annotated[list[float], 2]

        def two(text: bytes, n: int) -> Two:
            return {"word": text.decode(), "vector": [n, n + 1]}

        model = afterbay.model(two)
        self.assertEqual({name: one.type for name, one in model.inputs.items()}, {"text": "bytes", "n": "number"})
        self.assertEqual(model.outputs, {"word": "string", "vector": 2})
        matrix = memoryview(numpy.array([[1], [2]], numpy.float32))
        self.assertEqual(model.predict(matrix, text=[b"a", b"b"]), {"word": ["a", "b"], "vector": [[1, 2], [2, 3]]})

        def batch(x: numpy.ndarray, y: list[float]) -> Annotated[list[list[float]], 2]:
            return [[a, b] for a, b in zip(x, y, strict=True)]

        model = afterbay.model(output="pair")(batch)
        self.assertEqual(model.outputs, {"pair": 2})
        self.assertEqual(model.predict(memoryview(numpy.array([[1, 2]], numpy.float32))), {"pair": [[1, 2]]})

    def test_hints_that_say_no_model_are_named(self):
        def none(x) -> float: ...
        def mixed(x: float, y: list[float]) -> float: ...
        def returns(x: float): ...
        def values(values: float) -> float: ...
        def empty() -> float: ...
        def listed(x: list[float]) -> float: ...
        def size(x: float) -> Annotated[list[float], "many"]: ...

        for function, why in (
            (none, "input 'x' has the hint no type: use float"), (mixed, "of a row and of a batch"), (returns, "output 'score'"),
            (values, "choose another"), (empty, "no inputs"), (listed, "a list of float"), (size, "how many numbers"),
        ):  # fmt: skip
            with self.assertRaisesRegex(afterbay.ModelError, f"{function.__name__}: .*{why}"):
                afterbay.model(function)

        @afterbay.model
        def inner(x: float) -> float:
            return x

        inner.function = eval("lambda x: x")
        with self.assertRaisesRegex(afterbay.ModelError, "%%writefile inner.py"):
            afterbay.export_model(inner, self.dir, name="inner", rows=[{"x": 1}])


class ExportTest(Folder):
    def setUp(self):
        super().setUp()
        rng = numpy.random.default_rng(20261128)
        self.x = pandas.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "c"])
        self.y = (self.x.a + self.x.c > 0.3).astype(int)
        self.classes = (self.x.a > 0).astype(int) + (self.x.c > 0.5)

    def export(self, model, rows, **options):
        name = f"m{len(list(self.dir.iterdir()))}"
        manifest = afterbay.export_model(model, self.dir, name=name, rows=rows, **options)
        with self.subTest(type(model).__name__):
            self.assertIn("golden: golden.csv", manifest.read_text())
        return manifest.parent

    def test_xgboost(self):
        import xgboost

        missing = self.x.mask(self.x.b > 1)
        folder = self.export(xgboost.XGBClassifier(n_estimators=8).fit(missing, self.y), missing)
        self.assertIn("a,b,c,margin,prediction", (folder / "golden.csv").read_text())
        self.export(xgboost.XGBClassifier(n_estimators=4).fit(self.x, self.classes), self.x)
        early = xgboost.XGBRegressor(n_estimators=200, early_stopping_rounds=2)
        noise = numpy.random.default_rng(1).normal(size=400)
        early.fit(self.x[:200], noise[:200], eval_set=[(self.x[200:], noise[200:])], verbose=0)
        self.assertLess(early.best_iteration + 1, early.get_booster().num_boosted_rounds())
        self.export(early, self.x)
        kinds = self.x.assign(d=pandas.Categorical(["x", "y"] * 200))
        self.export(xgboost.XGBClassifier(enable_categorical=True, n_estimators=8).fit(kinds, self.y), kinds)
        booster = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(self.x.values, self.y), 5)
        folder = self.export(booster, self.x.values, inputs=["u", "v", "w"])
        self.assertIn("u: number", (folder / "model.yaml").read_text())

    def test_lightgbm(self):
        import lightgbm

        kinds = self.x.assign(d=pandas.Categorical(["x", "y"] * 200))
        for y in (self.y, self.classes):
            self.export(lightgbm.LGBMClassifier(n_estimators=8, verbose=-1).fit(kinds, y), kinds)
        folder = self.export(lightgbm.LGBMRegressor(n_estimators=8, verbose=-1).fit(self.x.values, self.x.a).booster_, self.x.values,
                             inputs=["u", "v", "w"])  # fmt: skip
        self.assertIn("u,v,w,margin", (folder / "golden.csv").read_text())

    def test_trees_of_scikit_learn(self):
        from sklearn import ensemble, tree

        for model in (ensemble.RandomForestClassifier(8), ensemble.ExtraTreesClassifier(8), tree.DecisionTreeClassifier(),
                      ensemble.GradientBoostingClassifier(n_estimators=8), ensemble.HistGradientBoostingClassifier(max_iter=8)):  # fmt: skip
            for y in (self.y, self.classes):
                self.export(model.fit(self.x, y), self.x)
        self.export(ensemble.HistGradientBoostingRegressor(max_iter=8).fit(self.x, self.x.a), self.x)

    def test_linear_and_text_models_of_scikit_learn(self):
        from sklearn import cluster, linear_model, pipeline, preprocessing
        from sklearn.feature_extraction.text import TfidfVectorizer

        scaled = pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression())
        self.export(scaled.fit(self.x, self.y), self.x)
        self.export(linear_model.Ridge().fit(self.x.values, self.x.a), self.x.values)
        texts = ["good day", "bad, day", "so good", "so bad"] * 5
        texter = pipeline.make_pipeline(TfidfVectorizer(), linear_model.LogisticRegression())
        self.export(texter.fit(texts, [0, 1, 0, 1] * 5), texts)
        with self.assertRaisesRegex(afterbay.ModelError, "not exported: KMeans"):
            afterbay.export_model(cluster.KMeans(2).fit(self.x), self.dir, name="k", rows=self.x)

    def test_what_is_no_model_is_named(self):
        with self.assertRaisesRegex(afterbay.ModelError, "builtins.dict is not exported"):
            afterbay.export_model({}, self.dir, name="d", rows=self.x)
        with self.assertRaisesRegex(ValueError, "rows has no rows"):
            afterbay.export_model({}, self.dir, name="d", rows=[])

    def test_vectors_of_another_model_do_not_hold(self):
        import lightgbm

        model = lightgbm.LGBMRegressor(n_estimators=8, verbose=-1).fit(self.x, self.x.a)
        predict = model.booster_.predict
        model.booster_.predict = lambda rows, **more: predict(rows, **more) + 0.001
        with self.assertRaisesRegex(afterbay.InvalidFileError, "row 1 of golden.csv: margin is"):
            afterbay.export_model(model, self.dir, name="wrong", rows=self.x)


if __name__ == "__main__":
    unittest.main()
