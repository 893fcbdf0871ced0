"""Speaks afterbay.v1 with the client of PyPI's websockets.

usage: peers.py ws://HOST; fails where a client does not get what it should.
"""
import json
import sys

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

URL = sys.argv[1] + "/v1/stream"
BATCH, BATCHES = 40, 5


class Client:
    def __init__(self, bearer, **first):
        headers = {"Authorization": "Bearer " + bearer} if bearer else {}
        self.ws = connect(URL, subprotocols=["afterbay.v1"], additional_headers=headers, proxy=None, legacy=True)
        assert self.ws.subprotocol == "afterbay.v1", self.ws.subprotocol
        self.send(type="connect", **first)

    def send(self, **frame):
        self.ws.send(json.dumps(frame))

    def receive(self, *types):
        """Returns the next frame that is no ping, of one of these types."""
        while True:
            frame = json.loads(self.ws.recv(timeout=60))
            if frame["type"] != "ping":
                assert frame["type"] in types, frame
                return frame
            self.send(type="pong")

    def results(self, n):
        """Returns n results and the ids of events that were accepted meanwhile."""
        results, accepted = [], []
        while len(results) < n:
            frame = self.receive("result", "accepted")
            if frame["type"] == "result":
                results.append(frame)
            else:
                accepted.append(frame["eventId"])
        return results, accepted


def ends(client, code):
    """Reads to the end, and returns the last frame."""
    last = None
    try:
        while True:
            last = json.loads(client.ws.recv(timeout=60))
    except ConnectionClosed as e:
        assert e.rcvd is not None and e.rcvd.code == code, e
    return last


def conversation():
    a = Client("acme.python")
    a.receive("connected")
    results, accepted = [], []
    for batch in range(BATCHES):
        for i in range(BATCH):
            a.send(type="event", eventId=f"e{batch}.{i}", payload={"text": "grüße", "n": i})
        got, said = a.results(BATCH)
        results += got
        accepted += said
    while len(accepted) < BATCH * BATCHES:
        accepted.append(a.receive("accepted")["eventId"])
    ids = [f"e{b}.{i}" for b in range(BATCHES) for i in range(BATCH)]
    assert accepted == ids, accepted
    assert [r["eventId"] for r in results] == ids
    assert [r["seq"] for r in results] == list(range(1, len(ids) + 1))
    assert results[7]["payload"] == {"of": {"text": "grüße", "n": 7}}, results[7]
    a.ws.close()

    b = Client("acme.python", resume={"cursor": results[99]["cursor"]})
    assert b.receive("connected")["recovered"]
    again, _ = b.results(len(ids) - 100)
    assert again == results[100:]
    message = json.dumps({"type": "event", "eventId": "parts", "payload": "ü" * 1000}, ensure_ascii=False)
    b.ws.send(iter([message[:50], message[50:700], message[700:]]))  # a frame each
    assert b.ws.ping().wait(60)
    last, _ = b.results(1)
    assert last[0]["seq"] == len(ids) + 1 and last[0]["payload"]["of"] == "ü" * 1000
    return results[99]["cursor"]


def refusals(cursor):
    eve = Client("acme.eve", resume={"cursor": cursor})
    assert eve.receive("error")["error"]["code"] == "bad_cursor"
    eve.send(type="connect")
    eve.receive("connected")
    eve.ws.close()

    nobody = ends(Client(None, token="nobody"), 4001)
    assert nobody["type"] == "disconnect" and not nobody["reconnect"], nobody
    try:
        connect(URL, subprotocols=["afterbay.v9"], proxy=None, legacy=True)
        raise AssertionError("afterbay.v9 is served")
    except InvalidStatus as e:
        assert e.response.status_code == 400, e


refusals(conversation())
