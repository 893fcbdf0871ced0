// Speaks afterbay.v1 with npm's ws, and the same over HTTP with npm's eventsource.
//
// usage: node peers.mjs ws|eventsource http://HOST NODE_MODULES; fails where a
// client does not get what it should.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [, , peer, url, modules] = process.argv;
const require = createRequire(modules + "/");
const events = 40;
const ids = Array.from({ length: events }, (_, i) => `e${i}`);

// inbox is what came and was not asked for yet.
class Inbox {
  #came = [];
  #asked = [];
  put(item) {
    const next = this.#asked.shift();
    next ? next(item) : this.#came.push(item);
  }
  take() {
    return this.#came.length ? Promise.resolve(this.#came.shift()) : new Promise((next) => this.#asked.push(next));
  }
}

async function overWebSocket() {
  const WebSocket = require("ws");
  const open = async (protocols, first) => {
    const inbox = new Inbox();
    const socket = new WebSocket(url.replace("http", "ws") + "/v1/stream", protocols);
    const send = (frame) => socket.send(JSON.stringify(frame));
    socket.on("message", (data, binary) => {
      const frame = JSON.parse(data);
      assert(!binary);
      frame.type === "ping" ? send({ type: "pong" }) : inbox.put(frame);
    });
    socket.on("close", (code) => inbox.put({ type: "closed", code }));
    await new Promise((opened, failed) => socket.on("open", opened).on("error", failed));
    assert.equal(socket.protocol, "afterbay.v1");
    send({ type: "connect", ...first });
    return { inbox, socket, send };
  };
  const a = await open(["afterbay.v1", "bearer.acme.ws"]);
  const connected = await a.inbox.take();
  assert.equal(connected.clientId, "ws");
  const results = [];
  let accepted = 0;
  for (const eventId of ids) a.send({ type: "event", eventId, payload: eventId });
  while (results.length < events || accepted < events) {
    const frame = await a.inbox.take();
    if (frame.type === "accepted") accepted++;
    else results.push(frame);
  }
  assert.deepEqual(results.map((r) => [r.type, r.eventId, r.seq, r.payload.of]), ids.map((id, i) => ["result", id, i + 1, id]));
  a.socket.terminate(); // no close frame

  const b = await open(["afterbay.v1", "bearer.acme.ws"], { resume: { cursor: connected.cursor } });
  assert.equal((await b.inbox.take()).recovered, true);
  for (const result of results) assert.deepEqual(await b.inbox.take(), result);
  b.socket.ping();
  await new Promise((came) => b.socket.on("pong", came));
  b.socket.close(1000);
  assert.deepEqual(await b.inbox.take(), { type: "closed", code: 1000 });

  const nobody = await open(["afterbay.v1"], { token: "nobody" });
  assert.equal((await nobody.inbox.take()).type, "disconnect");
  assert.deepEqual(await nobody.inbox.take(), { type: "closed", code: 4001 });
}

async function overEventSource() {
  const { EventSource } = require("eventsource");
  const inbox = new Inbox();
  const headers = { Authorization: "Bearer acme.source" };
  let cut; // ends the body of the newest answer, as a broken connection would
  let asked = [];
  const source = new EventSource(url + "/v1/results", {
    fetch: async (input, init) => {
      const all = { ...init.headers, ...headers };
      asked.push(all["Last-Event-ID"]);
      const response = await fetch(input, { ...init, headers: all });
      const pass = new TransformStream({ start: (controller) => void (cut = () => controller.terminate()) });
      response.body.pipeTo(pass.writable).catch(() => {});
      return { body: pass.readable, url: response.url, status: response.status, redirected: response.redirected, headers: response.headers };
    },
  });
  for (const type of ["connected", "result"]) source.addEventListener(type, (e) => inbox.put({ id: e.lastEventId, ...JSON.parse(e.data) }));
  const post = async (some) => {
    const body = some.map((eventId) => JSON.stringify({ type: "event", eventId, payload: eventId })).join("\n");
    const response = await fetch(url + "/v1/events", { method: "POST", headers, body });
    assert.deepEqual((await response.text()).trim().split("\n").map((line) => JSON.parse(line).eventId), some);
  };
  const expect = async (some) => {
    for (const id of some) {
      const result = await inbox.take();
      assert.deepEqual([result.type, result.eventId, result.seq, result.id], ["result", id, ids.indexOf(id) + 1, result.cursor]);
    }
  };
  const half = [ids.slice(0, events / 2), ids.slice(events / 2)];
  assert.equal((await inbox.take()).type, "connected");
  await post(half[0]);
  await expect(half[0]);
  cut();
  await post(half[1]); // while nobody listens
  assert.equal((await inbox.take()).type, "connected");
  await expect(half[1]);
  assert.equal(asked.length, 2);
  assert(asked[0] === undefined && asked[1], asked);
  source.close();
}

setTimeout(() => assert.fail("it takes too long"), 180_000).unref();
await { ws: overWebSocket, eventsource: overEventSource }[peer]();
process.exit(0);
