import { CloseError, EventError } from './errors.js'

const connectTimeout = 10_000 // until the gateway says that the client is connected
const againAfterError = 1_000 // an event that the log did not take
const ackEvery = 32 // results
const retryMost = 20_000
const renewLeast = 10_000 // between tries to bring another token
const timerMost = 2 ** 31 - 1 // of setTimeout
const refresh = 2 // id

/**
 * One connection. `lost` is fulfilled when it is no more, with why. The client that it is
 * of gets what comes: `ready(link)`, `take(link, result)` and `skip(link, gap)`, of which the last
 * two return false where there is no room.
 */
export class Link {
  retryAfter = 0 // ms, that the gateway asks for
  opened = false
  reopened = false
  #client
  #socket
  #end
  #timer
  #idle = connectTimeout
  #since
  #held = 0
  #limit = 0 // events that wait for an answer; 0 before the client is connected
  #bytes = 0
  #queue = [] // of events that are not sent
  #waiting = new Map() // by id, those that were sent
  #unacked = 0
  #why
  #renewal // timer
  #expires

  /** `dropping` says that results are dropped: events alone are of interest. */
  constructor(client, dropping) {
    this.#client = client
    this.dropping = dropping
    this.lost = new Promise((resolve) => (this.#end = resolve))
  }

  /** Connects, with a token for the handshake if there is one, and asks for the results after the cursor in `connect.resume`. */
  open(WebSocket, address, bearer, connect) {
    this.#arm()
    try {
      this.#socket = new WebSocket(address, bearer ? ['afterbay.v1', `bearer.${bearer}`] : ['afterbay.v1'])
    } catch (error) {
      this.end(error)
      return
    }
    this.#socket.onopen = () => {
      this.opened = true
      this.#send({ type: 'connect', id: 1, ackEvery: this.dropping ? 0 : ackEvery, ...connect })
    }
    this.#socket.onmessage = (message) => this.#receive(message.data)
    this.#socket.onerror = () => {} // its close follows
    this.#socket.onclose = ({ code, reason }) => this.end(this.#why ?? new CloseError(code, reason))
  }

  /** Ends the connection. The end of the socket is not waited for: it may be long. */
  end(why) {
    if (!this.#end) return
    clearTimeout(this.#timer)
    clearTimeout(this.#renewal)
    this.#held = this.#since === undefined ? 0 : Date.now() - this.#since
    if (this.#socket) {
      for (const on of ['onopen', 'onmessage', 'onclose']) this.#socket[on] = null
      try {
        this.#socket.close(1000)
      } catch {} // it never began
    }
    const [sent, unsent] = [[...this.#waiting.values()], this.#queue]
    this.#waiting.clear()
    this.#queue = []
    this.#end(why)
    this.#end = undefined
    for (const event of sent) event.resolve({ again: true, sent: true })
    for (const event of unsent) event.resolve({ again: true })
  }

  /** Ends the connection so that another one goes on where results were dropped. */
  reopen() {
    this.reopened = true
    this.end(new CloseError(1000, 'to go on with results'))
  }

  /** For how many ms the client was connected. */
  get held() {
    return this.#held
  }

  /** Sends an event. Its answer is `{}` when it is in the log, `{error}`, or `{again, sent, after}`. */
  submit(id, message) {
    if (!this.#end) return Promise.resolve({ again: true })
    const bytes = new TextEncoder().encode(message).length
    if (bytes > this.#bytes) {
      const error = new EventError({ code: 'too_large', message: `it has ${bytes} bytes, the gateway takes ${this.#bytes}`, eventId: id })
      return Promise.resolve({ error })
    }
    return new Promise((resolve) => {
      this.#queue.push({ id, message, resolve })
      this.#flush()
    })
  }

  /** Forgets an event that nobody waits for any more. */
  forget(id) {
    this.#queue = this.#queue.filter((event) => event.id !== id)
    if (this.#waiting.delete(id)) this.#flush()
  }

  #flush() {
    while (this.#end && this.#queue.length > 0 && this.#waiting.size < this.#limit) {
      const event = this.#queue.shift()
      this.#waiting.set(event.id, event)
      this.#write(event.message)
    }
  }

  #reply(id, answer) {
    const event = this.#waiting.get(id)
    if (!event) return false
    this.#waiting.delete(id)
    event.resolve(answer)
    this.#flush()
    return true
  }

  #write(message) {
    if (!this.#end) return
    try {
      this.#socket.send(message)
    } catch (error) {
      this.end(error)
    }
  }

  #send(frame) {
    this.#write(JSON.stringify(frame))
  }

  // A gateway sends pings: one that is silent is not there.
  #arm() {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.end(new Error(`the gateway was silent for ${this.#idle} ms`)), this.#idle)
  }

  #receive(data) {
    if (this.#why) return
    let frame
    try {
      frame = JSON.parse(data)
      this.#take(frame)
    } catch (error) {
      this.end(new Error(`the gateway's frame: ${error.message}`))
    }
    if (this.#end) this.#arm()
  }

  #take(frame) {
    switch (frame.type) {
      case 'connected':
        return this.#connected(frame)
      case 'accepted':
        return this.#reply(frame.eventId, {})
      case 'backpressure':
        this.#client.metrics.backpressure++
        return this.#reply(frame.eventId, { again: true, sent: true, after: frame.retryAfterMs })
      case 'result':
        return this.#result(frame)
      case 'error':
        return this.#problem(frame)
      case 'ping':
        return this.#send({ type: 'pong' })
      case 'refreshed':
        return this.#renew(frame.expiresAt)
      case 'gap':
        return this.dropping || this.#client.skip(this, frame)
      case 'disconnect':
        this.retryAfter = Math.min(frame.retryAfterMs ?? 0, retryMost)
        this.#why = new CloseError(frame.code, frame.reason)
        return
      default:
        throw new Error(`type ${JSON.stringify(frame.type)} is not one of afterbay.v1`)
    }
  }

  #connected(frame) {
    if (this.#limit > 0) throw new Error('connected comes twice')
    this.#limit = Math.max(1, frame.pendingLimit)
    this.#bytes = frame.maxMessageBytes
    this.#idle = frame.pingMs + frame.pongTimeoutMs
    this.#since = Date.now()
    this.#renew(frame.expiresAt)
    this.#client.ready(this, frame.cursor)
  }

  // Brings another token when three quarters of the time of this one are over. Where that fails it
  // tries again, and where it goes on failing the gateway ends the connection, for the next one.
  #renew(expires) {
    const left = new Date((this.#expires = expires)) - Date.now()
    if (Number.isNaN(left)) return // the token does not end
    const wait = Math.min(Math.max(renewLeast, left * 0.75), timerMost)
    this.#renewal = setTimeout(async () => {
      try {
        const token = await this.#client.renewed()
        if (token) this.#send({ type: 'refresh', id: refresh, token })
      } catch {
        if (this.#end) this.#renew(expires)
      }
    }, wait)
  }

  #problem(frame) {
    const { error } = frame
    const why = new EventError(error)
    if (frame.seq > 0) {
      const { seq, cursor } = frame
      this.#result({ type: 'result', seq, cursor, eventId: error.eventId, status: 'error', error })
    } else if (this.#limit === 0) {
      this.end(why) // the client is not what it says, or its cursor not its own
    } else if (!this.#reply(error.eventId, error.retryable ? { again: true, sent: true, after: againAfterError } : { error: why })) {
      this.#client.metrics.errors++
      if (frame.id === refresh) this.#renew(this.#expires)
    }
  }

  #result(result) {
    this.#reply(result.eventId, {}) // it is in the log
    if (this.dropping || !this.#client.take(this, result) || !this.#end) return
    if (++this.#unacked >= ackEvery) {
      this.#unacked = 0
      this.#send({ type: 'ack', cursor: result.cursor })
    }
  }
}
