"""A client made of PyPI's cloudevents and requests: what that builds is taken, what it parses was sent."""

import json
import sys

import requests
from cloudevents.conversion import to_binary, to_structured
from cloudevents.http import CloudEvent, from_dict, from_http, from_json

URL = sys.argv[1]
SESSION = requests.Session()
SESSION.headers["Authorization"] = "Bearer acme.cloud"


def post(headers, data):
    return SESSION.post(URL + "/v1/events", headers=headers, data=data, timeout=60)


def poll(cursor, accept):
    where = {"cursor": cursor} if cursor else {"from": "earliest"}
    r = SESSION.get(URL + "/v1/results", params={"wait": "20s", **where}, headers={"Accept": accept}, timeout=60)
    assert r.status_code == 200 and r.headers["Content-Type"] == "application/cloudevents-batch+json", r.headers
    return [from_dict(e) for e in r.json()], r.headers["Afterbay-Cursor"]


def results(n):
    got, cursor = [], ""
    while len(got) < n:
        more, cursor = poll(cursor, "application/cloudevents-batch+json")
        got += more
    return got


def event(i, data, **more):
    attributes = {"id": f"e{i}", "source": "https://example.org/orders", "type": "org.example.order", **more}
    return CloudEvent(attributes, data)


sent = [
    (event(0, {"text": "grüße"}, correlationid="order 7", sequence="1", priority="3", causalid="e-1"), to_structured, {"text": "grüße"}),
    (event(1, {"n": 1}, source="/tenants/acme/clients/cloud", time="2026-01-02T03:04:05.678Z"), to_structured, {"n": 1}),
    (event(2, {"n": 2}, correlationid="größe", datacontenttype="application/json"), to_binary, None),
    (event(3, {"n": 3}, correlationid="order 8", datacontenttype="application/json"), to_binary, {"n": 3}),
    (event(4, b"\xff\x00", datacontenttype="image/png"), to_structured, {"base64": "/wA="}),
    (event(5, b"hello", datacontenttype="text/plain"), to_binary, "hello"),
]
want = {}
for e, build, data in sent:
    r = post(*build(e))
    if data is None:  # its correlation id is not ASCII
        assert r.status_code == 400 and r.json()["error"]["code"] == "bad_event", r.text
        continue
    assert r.status_code == 202 and r.json()["type"] == "accepted" and r.json()["eventId"] == e["id"], r.text
    want[e["id"]] = (e, data)

headers, claimed = to_structured(event(6, 1, source="/tenants/acme/clients/eve"))
r = post(headers, claimed)
assert r.status_code == 400 and "another client" in r.text, r.text

batch = json.dumps([json.loads(to_structured(event(i, i))[1]) for i in (7, 8)])
r = post({"Content-Type": "application/cloudevents-batch+json"}, batch)
assert r.status_code == 202 and [json.loads(line)["eventId"] for line in r.text.splitlines()] == ["e7", "e8"], r.text
want["e7"], want["e8"] = (event(7, 7), 7), (event(8, 8), 8)

got = results(len(want))
assert [g["subject"] for g in got] == list(want), got
assert [int(g["sequence"]) for g in got] == list(range(1, len(want) + 1)) and len({(g["source"], g["id"]) for g in got}) == len(want), got
for g in got:
    e, data = want[g["subject"]]
    assert g["type"] == "afterbay.result.v1" and g["specversion"] == "1.0" and g["source"] == "/tenants/acme/clients/cloud/results", g
    assert g["status"] == "ok" and g["causationid"] == e["id"] and g.get("causalid") == e.get("causalid"), g
    assert g.data == {"of": data}, g
    assert g["correlationid"] == e.get("correlationid", g["correlationid"]), g

stream = SESSION.get(URL + "/v1/results", params={"from": "earliest"}, headers={"Accept": "text/event-stream, application/cloudevents+json"}, stream=True, timeout=60)
events = []
for line in stream.iter_lines(decode_unicode=True):
    if line.startswith("data: "):
        events.append(from_http({"content-type": "application/cloudevents+json"}, line.removeprefix("data: ")))
        if len(events) == len(got) + 1:
            break
stream.close()
assert events[0]["type"] == "afterbay.connected.v1" and events[0].data["clientId"] == "cloud", events[0]
assert events[1:] == got, events
assert from_json(to_structured(got[0])[1]) == got[0]
