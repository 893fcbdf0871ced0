"""Calls a server of the test's models with clients as people install them.

usage: clients.py URL CLIENT [RUNS]; fails where the client does not get what it should.
"""
import asyncio
import http.client
import json
import os
import subprocess
import sys
from urllib.parse import urlparse

URL = sys.argv[1]
HOST = urlparse(URL).netloc
STREAM = URL + "/v1/models/sum:predict-stream"
ROWS = 1_000_000
BODY = "".join(f"{i},0,0,0\n" for i in range(ROWS)).encode()
HEADERS = {"Content-Type": "text/csv; header=absent"}


def check(lines):
    n = 0
    last = None
    for last in lines:
        n += 1
    assert n == ROWS + 1, n
    assert json.loads(last) == {"done": True, "records": ROWS, "ok": ROWS, "errors": 0, "model": "sum@7"}, last


def stream_http_client():
    c = http.client.HTTPConnection(HOST, timeout=120)
    c.request("POST", "/v1/models/sum:predict-stream", BODY, HEADERS)
    check(c.getresponse().read().splitlines())


def stream_requests():
    import requests

    with requests.post(STREAM, data=BODY, headers=HEADERS, stream=True, timeout=120) as r:
        r.raise_for_status()
        check(r.iter_lines())


def stream_httpx():
    import httpx

    with httpx.stream("POST", STREAM, content=BODY, headers=HEADERS) as r:  # with its own time-outs
        r.raise_for_status()
        check(r.iter_lines())


def stream_aiohttp():
    import aiohttp

    async def run():
        async with aiohttp.ClientSession() as session:
            async with session.post(STREAM, data=BODY, headers=HEADERS) as r:
                r.raise_for_status()
                check((await r.read()).splitlines())

    asyncio.run(asyncio.wait_for(run(), 120))


def stream_curl():
    out = subprocess.run(
        ["curl", "-sS", "--max-time", "120", "-H", "Content-Type: text/csv; header=absent", "--data-binary", "@-", STREAM],
        input=BODY, stdout=subprocess.PIPE, check=True)
    check(out.stdout.splitlines())


NODE = """
const body = require('fs').readFileSync(0);
fetch(process.argv[1], {method: 'POST', body, headers: {'Content-Type': 'text/csv; header=absent'}})
  .then(r => r.text()).then(text => process.stdout.write(text));
"""


def stream_node():
    out = subprocess.run(["node", "-e", NODE, STREAM], input=BODY, stdout=subprocess.PIPE, check=True, timeout=120)
    check(out.stdout.splitlines())


def triton(module, address):
    import numpy as np

    c = module.InferenceServerClient(address)
    assert c.is_server_live() and c.is_server_ready() and c.is_model_ready("sum") and c.is_model_ready("sum", "7")
    assert not c.is_model_ready("none") if module.__name__.endswith("http") else True
    c.get_server_metadata()
    c.get_model_metadata("mixed")
    rows = module.InferInput("input", [2, 4], "FP32")
    rows.set_data_from_numpy(np.array([[1, 2, 3, 4], [5, 6, 7, np.nan]], np.float32))
    assert c.infer("sum", [rows]).as_numpy("total").tolist() == [[10.0], [1018.0]]
    named = c.infer("sum", [rows], outputs=[module.InferRequestedOutput("total")], request_id="x", model_version="7")
    assert named.as_numpy("total").tolist() == [[10.0], [1018.0]]
    text = module.InferInput("text", [2, 1], "BYTES")
    text.set_data_from_numpy(np.array([["!!a!".encode()], [b"a"]], dtype=np.object_))
    assert c.infer("spam", [text]).as_numpy("class").tolist() == [[0.25, 0.75], [1.0, 0.0]]
    return c


def tritonclient_http():
    import numpy as np
    import tritonclient.http as module

    c = triton(module, HOST)
    rows = module.InferInput("input", [1, 4], "FP32")
    rows.set_data_from_numpy(np.array([[1, 2, 3, 4]], np.float32), binary_data=False)
    r = c.infer("sum", [rows], outputs=[module.InferRequestedOutput("total", binary_data=False)], request_compression_algorithm="gzip")
    assert r.as_numpy("total").tolist() == [[10.0]]


def tritonclient_grpc():
    import queue

    import numpy as np
    import tritonclient.grpc as module

    c = triton(module, HOST)
    answers = queue.Queue()
    c.start_stream(lambda result, error: answers.put((result, error)))
    for i in range(10):
        rows = module.InferInput("input", [1, 4], "FP32")
        rows.set_data_from_numpy(np.array([[i, 2, 3, 4]], np.float32))
        c.async_stream_infer("sum", [rows])
    for i in range(10):
        result, error = answers.get(timeout=30)
        assert error is None and result.as_numpy("total").tolist() == [[i + 9.0]], (error, i)
    c.stop_stream()


def kserve_clients():
    from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig

    async def run():
        def request():
            rows = InferInput("input", [1, 4], "FP32")
            import numpy as np

            rows.set_data_from_numpy(np.array([[1, 2, 3, 4]], np.float32), binary_data=False)
            return InferRequest(model_name="sum", infer_inputs=[rows])

        rest = InferenceRESTClient(RESTConfig(protocol="v2"))
        assert await rest.is_server_live(URL) and await rest.is_server_ready(URL)
        r = await rest.infer(URL, request(), model_name="sum")
        assert r.outputs[0].as_numpy().tolist() == [[10.0]]
        grpc = InferenceGRPCClient(url=HOST)
        assert await grpc.is_server_live() and await grpc.is_model_ready("sum")
        r = await grpc.infer(request())
        assert r.outputs[0].as_numpy().tolist() == [[10.0]]

    asyncio.run(asyncio.wait_for(run(), 60))


def openai_client():
    import openai

    c = openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=0)
    assert [m.id for m in c.models.list()] == ["sum", "spam", "vector", "mixed"]
    assert c.models.retrieve("sum").id == "sum"
    r = c.moderations.create(model="spam", input=["!!!a", "a"])
    assert [x.flagged for x in r.results] == [True, False]
    assert r.results[0].category_scores.model_extra == {"spam": 0.75}
    assert c.embeddings.create(model="vector", input="abc").data[0].embedding == [3.0, 0.5, -1.0]
    assert c.embeddings.create(model="vector", input=["abc"], encoding_format="float").data[0].embedding == [3.0, 0.5, -1.0]
    try:
        c.models.retrieve("none")
        raise AssertionError("no model none was found")
    except openai.NotFoundError as e:
        assert e.code == "model_not_found", e


def schemathesis():
    command = os.path.join(os.path.dirname(sys.executable), "schemathesis")
    subprocess.run([command, "run", "--max-examples", sys.argv[3], "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
                    URL + "/openapi.json"], check=True)


globals()[sys.argv[2]]()
