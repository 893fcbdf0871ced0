"""Scores for Afterbay with a function of Python: python3 worker.py model.py

model.py defines predict and, if it likes, inputs: the names of its inputs, in order, which Afterbay then compares.
predict gets values, the numbers, as a memoryview of rows and columns of float32 where NaN is missing (numpy.asarray(values)
copies nothing, values.tolist() makes lists), and each text by the name of its input, as a list of bytes. It returns the
scores of each row, as lists or as an array of numpy, or the text of each, as a list of str or bytes, or a dict of those by
name of output. What it raises refuses the rows. What it prints goes to stderr. Needs Python 3.9 and nothing else. To do without model.py, import this file first
and call serve.
"""
import array, faulthandler, os, runpy, sys

answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # nobody else may write between answers
sys.stdout = sys.stderr
faulthandler.enable()  # even a crash has last words

def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

def field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value

def take(data):  # a varint, and what is behind it
    size = next(i for i, byte in enumerate(data) if byte < 128) + 1
    return sum((byte & 127) << 7 * i for i, byte in enumerate(data[:size])), data[size:]

def fields(data):  # all fields of Afterbay's requests have a length
    while data:
        tag, data = take(data)
        size, data = take(data)
        yield tag >> 3, data[:size]
        data = data[size:]

def texts(data):
    while data:
        end = 4 + int.from_bytes(data[:4], "little")
        yield bytes(data[4:end])
        data = data[end:]

def flat(value):
    return [x for item in value for x in flat(item)] if hasattr(value, "__iter__") and not isinstance(value, (str, bytes)) else [value]

def tensor(value):  # its type, its content and how many elements that has
    if hasattr(value, "astype"):
        raw = value.astype("f").tobytes()
        return b"FP32", raw, len(raw) // 4
    list = flat(value)
    if list and isinstance(list[0], (str, bytes)):
        list = [x.encode() if isinstance(x, str) else x for x in list]
        return b"BYTES", b"".join(len(x).to_bytes(4, "little") + x for x in list), len(list)
    return b"FP32", array.array("f", list).tobytes(), len(list)

def answer(request, predict):
    inputs, raws, heads, contents = {}, [value for number, value in request if number == 7], b"", b""
    for head, raw in zip((dict(fields(value)) for number, value in request if number == 5), raws):
        rows, columns = take(head[3])
        inputs[str(head[1], "utf8")] = list(texts(raw)) if head[2] == b"BYTES" else raw.cast("f", [rows, take(columns)[0]])
    outputs = predict(**inputs)
    for name, value in (outputs if isinstance(outputs, dict) else {"scores": outputs}).items():
        kind, raw, count = tensor(value)
        columns, rest = divmod(count, rows)
        if rest:
            raise ValueError(f"output {name} has {count} values for {rows} rows")
        heads += field(5, field(1, name.encode()) + field(2, kind) + field(3, varint(rows) + varint(columns)))
        contents += field(6, raw)
    return heads + contents

def serve(predict, inputs=()):
    def send(message):
        answers.write(len(message).to_bytes(4, "little") + message)
        answers.flush()

    send(b"".join(field(4, field(1, name.encode())) for name in inputs))
    while len(head := sys.stdin.buffer.read(4)) == 4:
        size = int.from_bytes(head, "little")
        data = sys.stdin.buffer.read(size)
        if len(data) < size:
            return  # Afterbay died while it wrote
        request = list(fields(memoryview(data)))
        id = field(3, dict(request)[3])
        try:
            result = answer(request, predict)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"[:1000].encode()
            result = field(4, field(1, b"error") + field(2, field(3, why)))
        send(id + result)

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[1])))
    model = runpy.run_path(sys.argv[1])
    serve(model["predict"], model.get("inputs", ()))
