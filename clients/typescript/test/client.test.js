import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { afterEach, beforeEach, mock, test } from 'node:test'

import { Client, CloseError, EventError } from '../src/index.js'
import { backoff, grown } from '../src/wait.js'

// Gateway is a script: it is told of each connection and of each frame of the client.
class Gateway {
  sockets = []
  frames = []

  constructor(script) {
    const gateway = this
    this.WebSocket = class {
      constructor(address, protocols) {
        assert.equal(address, 'wss://gateway/v1/stream')
        assert.equal(protocols[0], 'afterbay.v1')
        this.protocols = protocols
        this.number = gateway.sockets.push(this) - 1
        this.at = Date.now()
        setTimeout(() => (gateway.refuses?.(this) ? this.close(1006) : this.onopen?.()), 0)
      }

      send(text) {
        const frame = JSON.parse(text)
        gateway.frames.push(frame)
        queueMicrotask(() => script(this, frame))
      }

      tell(...frames) {
        for (const frame of frames) this.onmessage?.({ data: JSON.stringify(frame) })
      }

      hello(more) {
        this.tell({ type: 'connected', id: 1, cursor: 'c0', pingMs: 15000, pongTimeoutMs: 10000, pendingLimit: 2, maxMessageBytes: 1000, ...more })
      }

      close(code, reason = '') {
        this.closed = Date.now()
        this.onclose?.({ code, reason })
      }
    }
  }

  client(options) {
    return new Client('https://gateway', { token: 'secret', WebSocket: this.WebSocket, ...options })
  }
}

const settle = () => new Promise((resolve) => setImmediate(resolve))

// Lets virtual time pass.
async function pass(ms) {
  for (const end = Date.now() + ms; Date.now() < end; ) {
    await settle()
    mock.timers.tick(Math.min(20, end - Date.now()))
  }
  await settle()
}

async function connected(client) {
  const connecting = client.connect()
  await pass(20)
  await connecting
  return client
}

async function taken(client, n) {
  const items = []
  while (items.length < n) items.push(await client.next())
  return items
}

const result = (seq, eventId, status = 'ok', attempt) => ({ type: 'result', seq, cursor: `c${seq}`, eventId, status, attempt })

beforeEach(() => mock.timers.enable({ apis: ['setTimeout', 'Date'] }))
afterEach(() => mock.timers.reset())

test('an event is accepted, and its result comes', async () => {
  const gateway = new Gateway((socket, frame) => {
    if (frame.type === 'connect') socket.hello()
    if (frame.type === 'event') socket.tell({ type: 'accepted', eventId: frame.eventId }, result(1, frame.eventId))
  })
  const client = await connected(gateway.client())
  await client.send({ eventId: 'e', payload: { a: 1 }, sequence: 3, timestamp: new Date(0), unknown: 1 })
  assert.deepEqual(await client.next(), { type: 'result', seq: 1, cursor: 'c1', eventId: 'e', status: 'ok' })
  const waiting = client.next()
  await client.close()
  assert.equal(await waiting, undefined)
  assert.equal(await client.next(), undefined)
  await assert.rejects(client.send({ eventId: 'late', payload: 1 }), CloseError)
  assert.deepEqual(gateway.frames, [
    { type: 'connect', id: 1, ackEvery: 32 },
    { type: 'event', eventId: 'e', sequence: 3, timestamp: '1970-01-01T00:00:00.000Z', payload: { a: 1 } },
  ])
})

test('events are sent again where a connection is cut', async () => {
  const gateway = new Gateway((socket, frame) => {
    if (frame.type === 'connect') socket.hello()
    if (frame.type === 'event' && socket.number < 2) socket.close(1006)
    else if (frame.type === 'event') socket.tell({ type: 'accepted', eventId: frame.eventId })
  })
  const client = await connected(gateway.client())
  const sending = ['a', 'b', 'c'].map((eventId) => client.send({ eventId, payload: 1 }))
  await pass(2000)
  await Promise.all(sending)
  assert.equal(client.metrics.connects, 3)
  assert.deepEqual(gateway.frames.filter((f) => f.type === 'connect').map((f) => f.resume?.cursor), [undefined, 'c0', 'c0'])
  await client.close()
})

test('an event is given up, again where the connection is cut', async () => {
  const cancels = []
  const gateway = new Gateway((socket, frame) => {
    if (frame.type === 'connect') socket.hello()
    if (frame.type === 'event') socket.tell({ type: 'accepted', eventId: frame.eventId })
    if (frame.type !== 'cancel') return
    cancels.push(frame)
    if (cancels.length === 1) socket.tell({ type: 'backpressure', reason: 'overload', eventId: frame.eventId, retryAfterMs: 100 })
    else socket.tell({ type: 'accepted', eventId: frame.eventId })
  })
  const client = await connected(gateway.client())
  await client.send({ eventId: 'e', payload: 1 })
  const giving = client.cancel('e')
  await pass(2000)
  await giving
  assert.deepEqual(cancels, [{ type: 'cancel', eventId: 'e' }, { type: 'cancel', eventId: 'e' }])
  await assert.rejects(client.cancel('no id'), { code: 'bad_event' })
  await client.close()
})

test('backpressure is waited for', async () => {
  const times = []
  const gateway = new Gateway((socket, frame) => {
    if (frame.type === 'connect') socket.hello()
    if (frame.type !== 'event') return
    times.push(Date.now())
    const { eventId } = frame
    if (times.length < 4) socket.tell({ type: 'backpressure', reason: 'pending_limit', eventId, retryAfterMs: 100 })
    else socket.tell({ type: 'accepted', eventId })
  })
  const client = await connected(gateway.client())
  const sending = client.send({ eventId: 'e', payload: 1 })
  await pass(5000)
  await sending
  const waits = times.slice(1).map((time, i) => time - times[i])
  for (const [i, wait] of waits.entries()) assert.ok(wait >= 100 * 2 ** i && wait <= 200 * 2 ** i + 40, `wait ${i} is ${wait} ms`)
  assert.equal(client.metrics.backpressure, 3)
  await client.close()
})

test('no more events are on their way than the gateway takes', async () => {
  const gateway = new Gateway((socket, frame) => frame.type === 'connect' && socket.hello())
  const client = await connected(gateway.client())
  const events = () => gateway.frames.filter((f) => f.type === 'event').map((f) => f.eventId)
  const stop = new AbortController()
  const sending = ['a', 'b', 'c'].map((eventId) => client.send({ eventId, payload: 1 }, { signal: stop.signal }))
  const ended = Promise.allSettled(sending)
  await pass(100)
  assert.deepEqual(events(), ['a', 'b'])
  gateway.sockets[0].tell({ type: 'accepted', eventId: 'b' })
  await pass(100)
  assert.deepEqual(events(), ['a', 'b', 'c'])
  await assert.rejects(client.send({ eventId: 'c', payload: 1 }), /being sent/)
  stop.abort(new Error('enough'))
  assert.deepEqual((await ended).map((s) => s.status), ['rejected', 'fulfilled', 'rejected'])
  await client.close()
})

test('what is wrong with an event is said before it is sent', async () => {
  const gateway = new Gateway((socket, frame) => frame.type === 'connect' && socket.hello())
  const client = await connected(gateway.client())
  const bad = [
    {}, { eventId: 'a/b', payload: 1 }, { eventId: 'e' }, { eventId: 'e', payload: 1, sequence: 0 }, { eventId: 'e', payload: 1, priority: 10 },
    { eventId: 'e', payload: 1, timestamp: 'noon' }, { eventId: 'e', payload: 1, causalId: '' }, { eventId: 'e', payload: 1, traceparent: 'x' },
    { payload: 1 }, { eventId: 7, payload: 1 }, { eventId: ['e'], payload: 1 }, { eventId: 'e', payload: 1, causalId: 7 }, { eventId: 'e', payload: 1, correlationId: 7 },
    { eventId: 'e', payload: 1, correlationId: 'é' }, { eventId: 'e', payload: 'x'.repeat(1000) },
  ]
  for (const event of bad) await assert.rejects(client.send(event), EventError, JSON.stringify(event))
  assert.equal(gateway.frames.length, 1)
  await client.close()
})

test('an event that the gateway refuses', async () => {
  let tries = 0
  const gateway = new Gateway((socket, frame) => {
    if (frame.type === 'connect') socket.hello()
    if (frame.type !== 'event') return
    const { eventId } = frame
    if (eventId === 'bad') socket.tell({ type: 'error', error: { code: 'bad_event', message: 'no', eventId, retryable: false } })
    else if (++tries < 3) socket.tell({ type: 'error', error: { code: 'internal', message: 'the log', eventId, retryable: true } })
    else socket.tell({ type: 'accepted', eventId })
  })
  const client = await connected(gateway.client())
  await assert.rejects(client.send({ eventId: 'bad', payload: 1 }), { code: 'bad_event', eventId: 'bad' })
  const sending = client.send({ eventId: 'again', payload: 1 })
  await pass(10_000)
  await sending
  assert.equal(tries, 3)
  await client.close()
})

for (const code of [4000, 4001, 4009, 4499, 1009]) {
  test(`close code ${code} ends the client`, async () => {
    const gateway = new Gateway((socket) => {
      if (code !== 4001) socket.hello()
      socket.close(code, 'why')
    })
    const client = gateway.client()
    const connecting = client.connect().catch((error) => error)
    await pass(60_000)
    if (code === 4001) assert.equal((await connecting).code, code)
    await assert.rejects(client.next(), { code, reason: 'why' })
    await assert.rejects(client.send({ eventId: 'e', payload: 1 }), { code })
    assert.equal(gateway.sockets.length, 1)
  })
}

for (const code of [4500, 4501, 4507, 4999, 1000, 1001, 1006, 1011]) {
  test(`the client comes again after close code ${code}`, async () => {
    const gateway = new Gateway((socket) => {
      socket.hello()
      if (socket.number === 0) socket.close(code)
    })
    const client = await connected(gateway.client())
    await pass(1000)
    assert.equal(client.metrics.connects, 2)
    await client.close()
  })
}

test('a cursor of another client ends it', async () => {
  const gateway = new Gateway((socket) => socket.tell({ type: 'error', id: 1, error: { code: 'bad_cursor', message: 'no', retryable: false } }))
  const client = gateway.client({ cursor: 'foreign' })
  const connecting = assert.rejects(client.connect(), { code: 'bad_cursor' })
  await pass(100)
  await connecting
})

test('failures are followed by waits that grow', async () => {
  const held = 40
  const gateway = new Gateway((socket) => {
    socket.hello()
    if (socket.number === held) setTimeout(() => socket.close(4507), 11_000)
    else if (socket.number === held + 1) {
      socket.tell({ type: 'disconnect', code: 4501, reason: 'drain', reconnect: true, retryAfterMs: 7000 })
      socket.close(4501)
    } else if (socket.number < held) socket.close(4507)
  })
  const client = await connected(gateway.client())
  await pass(1_000_000)
  const { sockets } = gateway
  assert.ok(sockets.length >= held + 3) // the last one is silent
  for (let i = 0; i < held + 2; i++) {
    const wait = sockets[i + 1].at - sockets[i].closed
    const most = i === held ? 500 : i === held + 1 ? 7000 : Math.min(20_000, 500 * 2 ** i)
    assert.ok(wait <= most + 40, `after connection ${i} it waits ${wait} ms, at most ${most}`)
    if (i === held + 1) assert.ok(wait >= 7000 - 40)
  }
  await client.close()
})

test('waits have their bounds', () => {
  const one = () => 0.999999
  assert.deepEqual([0, 1, 5, 6, 50].map((n) => Math.round(backoff(n, one))), [500, 1000, 16000, 20000, 20000])
  assert.equal(backoff(50, () => 0), 0)
  assert.deepEqual([0, 1, 9].map((n) => grown(40, n, () => 0)), [40, 80, 1000])
  assert.equal(grown(5000, 3, () => 0), 5000)
  assert.equal(grown(0, 3), 0)
})

test('repeats are dropped and holes are said', async () => {
  const gateway = new Gateway((socket) => {
    socket.hello()
    socket.tell(result(7, 'a'), result(8, 'b', 'partial', 1), result(8, 'b', 'partial', 1), result(9, 'b', 'partial', 2))
    socket.tell(result(10, 'b', 'partial', 1), result(11, 'b', 'partial'), result(12, 'b', 'partial', 1)) // 11 is made once
    socket.tell(result(13, 'b'), result(3, 'x'), result(16, 'c'))
    socket.tell({ type: 'error', seq: 17, cursor: 'c17', error: { code: 'event_id_conflict', message: '', eventId: 'c', retryable: false } })
    socket.tell({ type: 'gap', requested: 'c17', earliest: 'c20' }, result(21, 'd'))
  })
  const client = await connected(gateway.client({ cursor: 'c6', seq: 6 }))
  const items = await taken(client, 10)
  assert.deepEqual(
    items.map((i) => (i.type === 'gap' ? `gap ${i.after}-${i.next}` : `${i.seq} ${i.eventId} ${i.status}`)),
    ['7 a ok', '8 b partial', '9 b partial', '11 b partial', '13 b ok', 'gap 13-16', '16 c ok', '17 c error', 'gap 17-0', '21 d ok'],
  )
  assert.equal(client.metrics.repeats, 2)
  await client.close()
})

test('results are acknowledged', async () => {
  const gateway = new Gateway((socket, frame) => {
    if (frame.type !== 'connect') return
    socket.hello()
    for (let seq = 1; seq <= 70; seq++) socket.tell(result(seq, `e${seq}`))
    socket.tell({ type: 'ping' })
  })
  const client = await connected(gateway.client())
  assert.deepEqual(gateway.frames.slice(1), [{ type: 'ack', cursor: 'c32' }, { type: 'ack', cursor: 'c64' }, { type: 'pong' }])
  await client.close()
})

test('an application that takes no results can send, and has them later', async () => {
  const log = []
  const gateway = new Gateway((socket, frame) => {
    if (frame.type === 'connect') {
      socket.hello()
      const after = frame.resume ? Number(frame.resume.cursor.slice(1)) : log.length
      socket.tell(...log.slice(after))
    }
    if (frame.type !== 'event') return
    log.push(result(log.length + 1, frame.eventId))
    socket.tell({ type: 'accepted', eventId: frame.eventId }, log.at(-1))
  })
  const client = await connected(gateway.client({ buffer: 4 }))
  for (let i = 1; i <= 50; i++) await client.send({ eventId: `e${i}`, payload: i })
  await pass(10)
  gateway.sockets[0].close(4504) // it takes no results: the next connection asks for none
  await pass(1000)
  assert.deepEqual([gateway.frames.at(-1).resume, gateway.frames.at(-1).ackEvery], [undefined, 0])
  const seqs = []
  while (seqs.length < 50) {
    const next = client.next()
    await pass(20)
    seqs.push((await next).seq)
  }
  assert.deepEqual(seqs, log.map((r) => r.seq))
  assert.ok(client.metrics.behind > 0)
  await client.close()
})

test('a gateway that is silent is left', async () => {
  const gateway = new Gateway((socket) => socket.hello())
  const client = await connected(gateway.client())
  await pass(24_000)
  assert.equal(gateway.sockets.length, 1)
  await pass(2000)
  assert.equal(gateway.sockets.length, 2)
  await client.close()
})

test('the application hears of connections', async () => {
  const heard = []
  const gateway = new Gateway((socket) => {
    socket.hello()
    if (socket.number === 0) setTimeout(() => socket.close(1006), 100)
  })
  const client = await connected(gateway.client({ onConnection: (connected) => heard.push(connected) }))
  await pass(50)
  assert.deepEqual(heard, [true])
  await pass(2000)
  assert.deepEqual(heard, [true, false, true])
  await client.close()
  await settle()
  assert.deepEqual(heard, [true, false, true, false])
})

test('tokens that cannot be had are asked for again', async () => {
  let asked = 0
  const gateway = new Gateway((socket) => socket.hello())
  const token = () => {
    if (++asked < 3) throw new Error('no tokens today')
    return `t${asked}`
  }
  const client = gateway.client({ token })
  const connecting = client.connect()
  await pass(5000)
  await connecting
  assert.equal(gateway.sockets[0].protocols[1], 'bearer.t3')
  await client.close()
})

test('a token is in the handshake, or where that is refused in the first frame', async () => {
  const gateway = new Gateway((socket, frame) => {
    if (frame.type !== 'connect') return
    if (frame.token === 'expired') socket.close(4001)
    else socket.hello()
  })
  gateway.refuses = ({ number, protocols }) => number < 3 || protocols[1] === 'bearer.expired'
  let token = 'good'
  const client = gateway.client({ token: () => token })
  const connecting = client.connect()
  await pass(10_000)
  await connecting
  token = 'expired' // the gateway ends the connection, and says what is wrong with it when it can
  gateway.sockets.at(-1).close(4502)
  await pass(20_000) // two waits, of up to 4 and 8 s
  await assert.rejects(client.next(), { code: 4001 })
  const offered = gateway.sockets.map(({ protocols }) => protocols.slice(1))
  assert.deepEqual(offered, [['bearer.good'], [], ['bearer.good'], [], ['bearer.expired'], []])
  assert.deepEqual(gateway.frames.map((f) => f.token), ['good', 'expired'])
})

test('a token that no handshake can have is in the first frame', async () => {
  const gateway = new Gateway((socket) => socket.hello())
  const client = await connected(gateway.client({ token: 'ada:0123' }))
  assert.deepEqual([gateway.sockets[0].protocols, gateway.frames[0].token], [['afterbay.v1'], 'ada:0123'])
  await client.close()
})

test('another token is brought before the one there is ends', async () => {
  const [began, ends] = [Date.now(), (s) => ({ expiresAt: new Date(Date.now() + 1000 * s).toISOString() })]
  const refreshes = []
  let asked = 0
  const gateway = new Gateway((socket, frame) => {
    if (frame.type === 'connect') socket.hello({ pingMs: 1e6, ...ends(100) })
    if (frame.type !== 'refresh') return
    refreshes.push([frame.token, Math.round((Date.now() - began) / 1000)])
    if (refreshes.length === 1) socket.tell({ type: 'error', id: frame.id, error: { code: 'invalid_token', message: 'no', retryable: false } })
    else if (refreshes.length === 2) socket.tell({ type: 'refreshed', id: frame.id, ...ends(100) })
    else socket.tell({ type: 'refreshed', id: frame.id }) // it does not end
  })
  const token = async () => {
    if (++asked === 2) throw new Error('no tokens today')
    return `t${asked}`
  }
  const client = await connected(gateway.client({ token }))
  await pass(400_000)
  // At 75 s there is none; at 94 s, three quarters later, one that is refused; 10 s after that one that is not.
  assert.deepEqual(refreshes, [['t3', 94], ['t4', 104], ['t5', 179]])
  assert.deepEqual([client.metrics.connects, client.metrics.renewals], [1, 3])
  await client.close()
})

test('a token that is a text is not brought again', async () => {
  const gateway = new Gateway((socket, frame) => frame.type === 'connect' && socket.hello({ pingMs: 1e6, expiresAt: new Date(Date.now() + 20_000) }))
  const client = await connected(gateway.client())
  await pass(100_000)
  assert.equal(gateway.frames.length, 1)
  await client.close()
})

test('what is counted has its type', async () => {
  const types = await readFile(new URL('../src/index.d.ts', import.meta.url), 'utf8')
  const declared = types.match(/interface Metrics {([^}]*)}/)[1].match(/\w+(?=: number)/g)
  assert.deepEqual(declared, Object.keys(new Gateway(() => {}).client().metrics))
})

test('options that make no sense', () => {
  const { WebSocket } = new Gateway(() => {})
  for (const [address, options] of [
    ['ftp://gateway', { token: 't', WebSocket }], ['gateway', { token: 't', WebSocket }], ['ws://gateway', { WebSocket }],
    ['ws://gateway', { token: 't', WebSocket: null }], ['ws://gateway', { token: 't', WebSocket, buffer: 0 }],
    ['ws://gateway', { token: 't', WebSocket, seq: 1 }], ['ws://gateway', { token: 't', WebSocket, cursor: 'c', earliest: true }],
  ]) assert.throws(() => new Client(address, options), TypeError)
})
