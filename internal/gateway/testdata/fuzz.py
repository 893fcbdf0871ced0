"""Requests that schemathesis makes up of the gateway's OpenAPI document: fuzz.py URL EXAMPLES SEED. As its hooks it is imported."""

import json
import os
import re
import subprocess
import sys
import tempfile

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    """Has results come at once: server-sent events and long polls are for other tests."""
    if case.operation.path == "/v1/results":
        query = dict(case.query or {})
        if "wait" not in query or re.fullmatch("[0-9]+s", str(query["wait"])):
            query["wait"] = "0s"
        case.query = query


@schemathesis.serializer("application/x-ndjson")
def write_lines(context, value):
    return value if isinstance(value, (str, bytes)) else json.dumps(value)


@schemathesis.deserializer("application/x-ndjson")
def read_lines(context, response):
    return response.content.decode()


if __name__ == "__main__":
    url, examples, seed = sys.argv[1:]
    command = os.path.join(os.path.dirname(sys.executable), "schemathesis")
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance"
    with tempfile.TemporaryDirectory() as folder:  # for what it keeps
        subprocess.run([command, "run", "--max-examples", examples, "--seed", seed, "--suppress-health-check", "all", "--checks", checks, "-H", "Authorization: Bearer acme.fuzz", "--request-timeout", "30", url + "/v1/openapi.json"],
                       check=True, cwd=folder, env={**os.environ, "SCHEMATHESIS_HOOKS": "fuzz", "PYTHONPATH": os.path.dirname(os.path.abspath(__file__))})
