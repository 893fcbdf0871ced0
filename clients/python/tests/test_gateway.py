"""The client of a gateway, with a real gateway behind a proxy that cuts connections."""

import asyncio
import os
import random
import secrets
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import afterbay
from afterbay import _program, gateway
from afterbay.gateway import Client, CloseError, EventError

PIPELINE = """
pipeline: chat
input: {topic: messages, partitions: 2, key: room, fields: {room: string, n: int}}
replies: [decisions]
steps:
  - emit: {topic: decisions, value: [room, n]}
"""
GATEWAY = """
gateway: chat
listen: 127.0.0.1:0
pipeline: {input: messages, outputs: [decisions, chat.ended], dead_letters: [chat.dlq]}
keys: keys.yaml
cursor_key_file: cursors.key
drain: 1s
"""


class Proxy:
    """Forwards connections, and cuts each after some bytes in either direction."""

    def __init__(self, rng):
        self.rng, self.target, self.cuts, self.cutting = rng, None, 0, True

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1")
        self.address = f"ws://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *error):
        self.server.close()

    async def serve(self, reader, writer):
        try:
            their_reader, their_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        left = [self.rng.randrange(500, 6000) if self.cutting else 1 << 30]

        async def copy(source, to):
            while data := await source.read(256):
                left[0] -= len(data)
                if left[0] < 0:
                    self.cuts += 1
                    break
                to.write(data)
                await to.drain()

        copies = [asyncio.ensure_future(copy(reader, their_writer)), asyncio.ensure_future(copy(their_reader, writer))]
        await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        for one in copies:
            one.cancel()
        await asyncio.gather(*copies, return_exceptions=True)
        for one in (writer, their_writer):
            one.transport.abort()


class GatewayTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)
        (self.dir / "chat.yaml").write_text(PIPELINE)
        (self.dir / "gateway.yaml").write_text(GATEWAY)
        (self.dir / "keys.yaml").write_text("keys: [{id: k1, secret_file: tokens.key, audience: chat}]\n")
        for name in ("tokens.key", "cursors.key"):
            (self.dir / name).write_text(secrets.token_hex(32))
        self.engine = afterbay.Engine(self.dir / "data")
        self.addCleanup(self.engine.close)
        self.seed = int(os.environ.get("SEED", random.randrange(1 << 32)))
        print(f"seed {self.seed}")

    def start(self):
        run = self.engine.run(self.dir / "chat.yaml", gateway=self.dir / "gateway.yaml")
        self.assertRegex(run.gateway, r"^ws://127.0.0.1:\d+/v1/stream$")
        return run, int(run.gateway.rpartition(":")[2].partition("/")[0])

    def token(self, client="ada"):
        flags = [f"--keys={self.dir / 'keys.yaml'}", "--key=k1", "--tenant=acme", f"--client={client}"]
        return _program.run(["token", "issue", *flags])[0].strip()

    async def collect(self, client, count):
        """Return results until `count` events have theirs. An event that was sent twice has a second one, marked duplicate."""
        results = []
        async for item in client:
            results.append(item)
            count -= not item.duplicate
            if count == 0:
                return results

    async def test_results_come_once_and_in_order_over_cut_connections(self):
        count = 300
        self.enterContext(mock.patch.object(gateway, "BACKOFF_MAX", 0.2))  # every connection is short
        run, port = await asyncio.to_thread(self.start)
        async with Proxy(random.Random(self.seed)) as proxy:
            proxy.target = port
            token = self.token()
            client = Client(proxy.address, token=lambda: token, earliest=True, buffer=16)
            async with asyncio.timeout(150), client:

                async def send(first):
                    for n in range(first, count, 10):
                        await client.send(f"e{n}", {"room": f"r{n % 7}", "n": n})

                sending = asyncio.gather(*map(send, range(10)))
                results = await self.collect(client, 100)
                await asyncio.to_thread(run.stop)  # the gateway comes back at another address
                run, proxy.target = await asyncio.to_thread(self.start)
                results += await self.collect(client, count - 150)
                cursor, seq = results[-1].cursor, results[-1].seq
                await sending
            proxy.cutting = False
            async with asyncio.timeout(60), Client(proxy.address, token=token, cursor=cursor, seq=seq) as again:
                results += await self.collect(again, 50)
        self.assertEqual([result.seq for result in results], list(range(1, len(results) + 1)))
        once = [result.event_id for result in results if not result.duplicate]
        self.assertEqual(sorted(once), sorted(f"e{n}" for n in range(count)))
        for result in results:
            self.assertEqual((result.status, f"e{result.payload['n']}"), ("ok", result.event_id))
        self.assertGreater(proxy.cuts, 5)
        self.assertGreater(client.metrics.connects, 5)
        self.assertGreater(client.metrics.behind, 0)

    async def test_repeats_are_dropped_and_gaps_are_told(self):
        client = Client("ws://gateway.example", token="t", cursor="c4", seq=4, buffer=7)
        link = gateway._Link(client, False)

        def frame(seq, status="ok", **more):
            return {"type": "result", "seq": seq, "cursor": f"c{seq}", "eventId": "e", "status": status, **more}

        for one in (
            frame(4), frame(5, "partial", attempt=2), frame(6, "partial", attempt=1), frame(7), frame(7), frame(9), frame(3),
        ):  # fmt: skip
            self.assertTrue(await client._take(link, one))
        await client._skip(link, {"earliest": "c20"})
        self.assertTrue(await client._take(link, frame(20)))
        taken = [(item.after, item.next) if isinstance(item, gateway.Gap) else item.seq for item in client._items]
        self.assertEqual(taken, [5, 7, (7, 9), 9, (9, 0), 20])  # 6 is of an attempt before that of 5
        self.assertEqual((client.metrics.repeats, client.metrics.gaps, client._cursor), (3, 2, "c20"))
        self.assertTrue(await client._take(link, frame(21)))
        self.assertFalse(await client._take(link, frame(22)))  # no room: it stays in the log
        self.assertEqual((client._cursor, link.dropping), ("c21", True))

    async def test_errors_say_what_is_wrong(self):
        _, port = await asyncio.to_thread(self.start)
        address = f"ws://127.0.0.1:{port}"
        with self.assertRaisesRegex(CloseError, "4001"):
            await Client(address, token="nobody").connect()
        with self.assertRaisesRegex(EventError, "bad_cursor"):
            await Client(address, token=self.token(), cursor="none").connect()
        with self.assertRaisesRegex(ValueError, "use ws://"):
            Client("gateway.example", token="t")
        async with asyncio.timeout(60), Client(address, token=self.token()) as client:
            with self.assertRaisesRegex(EventError, "bad_event: event_id 'a b'"):
                await client.send("a b", {})
            with self.assertRaisesRegex(EventError, "too_large"):
                await client.send("large", {"text": "x" * 10_000_000})
            await client.send("bad", {"room": 7})
            await client.send("one", {"room": "r", "n": 1})
            with self.assertRaisesRegex(EventError, "bad_event: .* has no form in JSON"):
                await client.send("object", object())
            results = {result.event_id: result for result in await self.collect(client, 2)}
            self.assertEqual(results["bad"].status, "dead_lettered")
            self.assertEqual(results["one"].status, "ok")
        with self.assertRaisesRegex(CloseError, "by the client"):
            await client.send("late", {})
        self.assertEqual([item async for item in client], [])


if __name__ == "__main__":
    unittest.main()
