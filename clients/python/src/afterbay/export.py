"""Trained models to files that the engine verifies and scores."""

from __future__ import annotations

import csv
import importlib
import inspect
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from . import _program
from .errors import AfterbayError
from .models import Model, ModelError

ROWS_MAX = 1000  # golden vectors
TREES = ("RandomForest", "ExtraTrees", "DecisionTree", "ExtraTree", "GradientBoosting", "HistGradientBoosting")


def export_model(
    model: Any,
    path: str | os.PathLike[str] = "models",
    *,
    name: str,
    rows: Any,
    version: int = 1,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
) -> Path:
    """Write a model, its manifest and golden vectors to the folder path/name/version. Return the path of the manifest.

    `model` is a Booster or scikit-learn estimator of XGBoost or LightGBM; a tree, forest or gradient boosting of
    scikit-learn (needs skl2onnx); a linear model, a text model or a Pipeline of scikit-learn; or a function with
    @afterbay.model in a file of its own.

    `rows` are inputs as the model takes them: a DataFrame or array of shape [rows, inputs], or a list of texts for a text
    model. Of these at most 1,000 become golden vectors, evenly chosen, with the scores of the framework. The engine
    scores them too, and compares: margins of XGBoost and LightGBM to the bit, text models to 1e-12, others to 1e-5.

    `inputs` names the inputs of a model that was trained without names, `outputs` the scores.
    Raise ModelError for a model that the engine does not score, AfterbayError if the golden vectors do not hold, or if the
    version exists: a version is never replaced.
    """
    rows = chosen(rows)
    if isinstance(model, Model):
        return program(model, Path(path), name, version, rows)
    with tempfile.TemporaryDirectory() as folder:
        library = type(model).__module__.partition(".")[0]
        if library == "xgboost":
            file, names, scores = xgboost(model, Path(folder), rows, inputs)
        elif library == "lightgbm":
            file, names, scores = lightgbm(model, Path(folder), rows, inputs)
        elif library == "sklearn" and type(model).__name__.removesuffix("Classifier").removesuffix("Regressor") in TREES:
            file, names, scores = trees(model, Path(folder), rows, inputs)
        elif library == "sklearn":
            file, names, scores = text(model, Path(folder), rows)
        else:
            raise ModelError(
                f"{type(model).__module__}.{type(model).__name__} is not exported: give a model of scikit-learn, XGBoost "
                "or LightGBM, or a function with @afterbay.model"
            )
        golden = Path(folder, "golden.csv")
        write(golden, names, records(rows, names), scores)
        flags = [f"--golden={golden}", f"--name={name}", f"--version={version}", f"--dir={os.fspath(path)}"]
        if library != "sklearn" or file.suffix == ".onnx":
            flags.append(f"--inputs={','.join(names)}")
        if outputs:
            flags.append(f"--outputs={','.join(outputs)}")
        _program.run(["model", "add", str(file), *flags])
    return Path(path, name, str(version), "model.yaml")


def chosen(rows: Any) -> Any:
    """Return at most ROWS_MAX rows, evenly chosen."""
    count = len(rows)
    if count == 0:
        raise ValueError("rows has no rows: give inputs, for the golden vectors")
    step = math.ceil(count / ROWS_MAX)
    return rows.iloc[::step] if hasattr(rows, "iloc") else rows[::step]


def named(rows: Any, inputs: Sequence[str], known: Sequence[str] | None) -> list[str]:
    """Return the names of the inputs: those that the model knows, that the caller gives, or f0, f1 and so on."""
    width = len(rows.columns) if hasattr(rows, "columns") else len(rows[0])
    names = list(known or inputs or getattr(rows, "columns", None) or [])
    names = [str(name) for name in names] or [f"f{i}" for i in range(width)]
    if len(names) != width:
        raise ValueError(f"rows has {width} columns, the model {len(names)} inputs: give the columns that it was trained with")
    return names


def xgboost(model: Any, folder: Path, rows: Any, inputs: Sequence[str]) -> tuple[Path, list[str], dict[str, Any]]:
    """Save a model of XGBoost."""
    library = importlib.import_module("xgboost")
    file = folder / "model.ubj"
    model.save_model(file)
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    known = booster.feature_names
    matrix = library.DMatrix(rows, feature_names=known, enable_categorical=True)
    best: dict[str, Any] = {}
    if getattr(model, "early_stopping_rounds", None) is not None:  # predict of an estimator takes the best trees
        best["iteration_range"] = (0, model.best_iteration + 1)
    scores = {
        "margin": booster.predict(matrix, output_margin=True, **best),
        "prediction": booster.predict(matrix, **best),
    }
    return file, named(rows, inputs, known), scores


def lightgbm(model: Any, folder: Path, rows: Any, inputs: Sequence[str]) -> tuple[Path, list[str], dict[str, Any]]:
    """Save a model of LightGBM, up to its best iteration."""
    booster = getattr(model, "booster_", model)
    file = folder / "model.txt"
    booster.save_model(file)
    known = booster.feature_name()
    if known == [f"Column_{i}" for i in range(len(known))] and inputs:
        known = list(inputs)
    return (
        file,
        named(rows, inputs, known),
        {"margin": booster.predict(rows, raw_score=True), "prediction": booster.predict(rows)},
    )


def trees(model: Any, folder: Path, rows: Any, inputs: Sequence[str]) -> tuple[Path, list[str], dict[str, Any]]:
    """Save a tree, forest or boosting of scikit-learn by ONNX."""
    try:
        convert = importlib.import_module("skl2onnx")
    except ImportError:
        raise ImportError("trees of scikit-learn need skl2onnx: pip install skl2onnx onnx") from None
    numpy = importlib.import_module("numpy")
    known = [str(name) for name in getattr(model, "feature_names_in_", [])]
    sample = numpy.asarray(rows, dtype=numpy.float32)
    is_classifier = hasattr(model, "predict_proba")
    with plain_attributes():
        options = {id(model): {"zipmap": False}} if is_classifier else {}
        graph = convert.to_onnx(model, sample[:1], options=options, target_opset={"": 18, "ai.onnx.ml": 3})
    file = folder / "model.onnx"
    file.write_bytes(graph.SerializeToString())
    scores = model.predict_proba(rows) if is_classifier else model.predict(rows)
    return file, named(rows, inputs, known), {"prediction": scores}


class plain_attributes:
    """Lets skl2onnx convert HistGradientBoosting: make_attribute of onnx takes no numbers of numpy."""

    def __enter__(self) -> None:
        self.helper = importlib.import_module("onnx.helper")
        self.old = vars(self.helper)["make_attribute"]

        def make(key: str, value: Any, *rest: Any, **more: Any) -> Any:
            if isinstance(value, list):
                value = [one.item() if hasattr(one, "item") else one for one in value]
                value = [int(one) if isinstance(one, bool) else one for one in value]
            return self.old(key, value, *rest, **more)

        vars(self.helper)["make_attribute"] = make

    def __exit__(self, *error: object) -> None:
        vars(self.helper)["make_attribute"] = self.old


def text(model: Any, folder: Path, rows: Any) -> tuple[Path, list[str], dict[str, Any]]:
    """Save a linear or text model of scikit-learn, or a pipeline with one."""
    _text = importlib.import_module("._text", __package__)
    try:
        content = _text.export(model)
    except _text.Unsupported as error:
        raise ModelError(f"not exported: {error}") from None
    file = folder / "model.json"
    file.write_text(content, encoding="utf-8")
    names = [one["name"] for one in json.loads(content)["inputs"]]
    if hasattr(model, "predict_proba"):
        scores = model.predict_proba(rows)
        scores = scores[:, 1] if scores.shape[1] == 2 else scores
    else:
        scores = model.decision_function(rows) if hasattr(model, "decision_function") else model.predict(rows)
    return file, names, {"score": scores}


def program(model: Model[..., Any], path: Path, name: str, version: int, rows: Any) -> Path:
    """Write the folder of a function: its file, a manifest of kind process, and golden vectors."""
    source = inspect.getsourcefile(model.function)
    if source is None or not source.endswith(".py") or not os.path.exists(source):
        raise ModelError(f"{model.__name__} is in no file: write it to one (in a notebook by %%writefile {name}.py), and import it")
    folder = path / name / str(version)
    if folder.exists():
        raise AfterbayError(f"{folder} exists: a version is never replaced: raise version")
    names = list(model.inputs)
    vectors = list(records(rows, names))
    numbers = {output: size for output, size in model.outputs.items() if isinstance(size, int)}
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{version}.") as temporary:
        made = Path(temporary, "model")
        made.mkdir()
        shutil.copy(source, made)
        golden = len(numbers) == len(model.outputs)
        if golden:
            write(made / "golden.csv", names, vectors, {"prediction": list(scored(model, vectors))})
        lines = {
            "model": name,
            "version": version,
            "kind": "process",
            "inputs": {one: kind.type for one, kind in model.inputs.items()},
            "outputs": model.outputs,
            **({"golden": "golden.csv"} if golden else {}),
            "process": {
                "command": ["python3", "-m", "afterbay.worker", os.path.basename(source), model.function.__name__],
                **({"pure": True} if model.pure else {}),
            },
        }
        text = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in lines.items())
        (made / "model.yaml").write_text(text, encoding="utf-8")
        _program.run(["model", "verify", str(made / "model.yaml")])
        made.rename(folder)
    return folder / "model.yaml"


def scored(model: Model[..., Any], vectors: Iterable[Sequence[Any]]) -> Iterator[list[float]]:
    """Yield the numbers that the function returns for each row alone, as its worker would."""
    import array

    names = list(model.inputs)
    for vector in vectors:
        values = dict(zip(names, vector, strict=True))
        floats = array.array("f", [math.nan if missing(values[n]) else values[n] for n in names if model.inputs[n].type == "number"])
        texts = {n: [coded(values[n])] for n in names if model.inputs[n].type != "number"}
        matrix = memoryview(floats).cast("B").cast("f", [1, len(floats)]) if floats else None
        outputs = model.predict(matrix, **texts)
        yield [float(x) for name in model.outputs for x in flat(outputs[name])]


def flat(value: Any) -> Iterator[Any]:
    """Yield the numbers of nested lists or of an array."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        yield value
        return
    for one in value:
        yield from flat(one)


def coded(value: Any) -> bytes:
    """Return a text as bytes."""
    return value if isinstance(value, bytes) else str(value).encode()


def missing(value: Any) -> bool:
    """Report whether a value is None, NaN or NA."""
    return value is None or value != value or type(value).__name__ in ("NAType", "NaTType")


def records(rows: Any, names: Sequence[str]) -> Iterator[list[Any]]:
    """Yield the rows as lists, in the order of the names."""
    if hasattr(rows, "columns"):
        rows = rows.rename(columns=str)
        columns = [rows[name].tolist() if name in rows else None for name in names]
        if None in columns:
            raise ValueError(f"rows has no column {names[columns.index(None)]!r}: give the columns {', '.join(names)}")
        yield from map(list, zip(*columns, strict=True))
        return
    for row in rows.tolist() if hasattr(rows, "tolist") else rows:
        if isinstance(row, dict):
            yield [row.get(name) for name in names]
        else:
            yield [row] if isinstance(row, (str, bytes)) or not hasattr(row, "__len__") else list(row)


def write(path: Path, names: Sequence[str], rows: Iterable[Sequence[Any]], scores: dict[str, Any]) -> None:
    """Write golden vectors as CSV: inputs, and scores at full precision. Several scores of a row are numbered."""
    columns = list(names)
    lists = []
    for name, values in scores.items():
        values = [list(flat(value)) for value in values]
        width = len(values[0])
        columns += [name] if width == 1 else [f"{name}_{i}" for i in range(width)]
        lists.append(values)
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(columns)
        for i, row in enumerate(rows):
            cells = [cell(value) for value in row]
            out.writerow(cells + [repr(float(score)) for values in lists for score in values[i]])


def cell(value: Any) -> str:
    """Return a value as golden vectors have it: a missing one is empty."""
    if missing(value):
        return ""
    if isinstance(value, bytes):
        import base64

        return base64.b64encode(value).decode()
    return repr(value) if isinstance(value, float) else str(int(value)) if isinstance(value, bool) else str(value)
