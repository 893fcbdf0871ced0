import { CloseError, EventError } from './errors.js'

const connectTimeout = 10_000 // ms, until the gateway confirms the connection
const againAfterError = 1_000 // ms, before an event is sent again after a retryable error
const ackEvery = 32 // results per acknowledgement
const retryMost = 20_000
const renewLeast = 10_000 // ms, between attempts to renew the token
const timerMost = 2 ** 31 - 1 // ms, the limit of setTimeout
const refresh = 2 // id of the frame that renews the token

/**
 * One connection. `lost` resolves with the reason when the connection has ended. The link calls
 * three methods of its client: `ready(link, cursor)`, `take(link, result)` and `skip(link, gap)`.
 * The last two return false if the client has no room.
 */
export class Link {
  retryAfter = 0 // ms, requested by the gateway
  opened = false
  reopened = false
  #client
  #socket
  #end
  #timer
  #idle = connectTimeout
  #since
  #held = 0
  #limit = 0 // most events that wait for an answer; 0 before the client is connected
  #bytes = 0
  #queue = [] // unsent events
  #waiting = new Map() // sent events without an answer, by id
  #unacked = 0
  #why
  #renewal // timer
  #expires

  /** With `dropping`, the connection serves events only and drops results. */
  constructor(client, dropping) {
    this.#client = client
    this.dropping = dropping
    this.lost = new Promise((resolve) => (this.#end = resolve))
  }

  /** Connects, and asks for the results after the cursor in `connect.resume`. `bearer` is a token for the handshake, if any. */
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
    this.#socket.onerror = () => {} // onclose follows
    this.#socket.onclose = ({ code, reason }) => this.end(this.#why ?? new CloseError(code, reason))
  }

  /** Ends the connection. It does not wait for the socket to close, because that may take long. */
  end(why) {
    if (!this.#end) return
    clearTimeout(this.#timer)
    clearTimeout(this.#renewal)
    this.#held = this.#since === undefined ? 0 : Date.now() - this.#since
    if (this.#socket) {
      for (const on of ['onopen', 'onmessage', 'onclose']) this.#socket[on] = null
      try {
        this.#socket.close(1000)
      } catch {} // the socket never opened
    }
    const [sent, unsent] = [[...this.#waiting.values()], this.#queue]
    this.#waiting.clear()
    this.#queue = []
    this.#end(why)
    this.#end = undefined
    for (const event of sent) event.resolve({ again: true, sent: true })
    for (const event of unsent) event.resolve({ again: true })
  }

  /** Ends the connection, so that the next one receives the results that were dropped. */
  reopen() {
    this.reopened = true
    this.end(new CloseError(1000, 'to go on with results'))
  }

  /** How long the client was connected, in ms. */
  get held() {
    return this.#held
  }

  /**
   * Sends an event. Resolves with `{}` when the event is in the log, with `{error}`, or with `{again, sent, after}` if it
   * must be sent again after a number of ms.
   */
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

  /** Forgets an event after its caller has stopped waiting. */
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

  // A gateway sends pings, so a silent gateway is unreachable.
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

  // Renews the token when three quarters of its remaining lifetime have passed, and tries again after
  // a failure. If it keeps failing, the gateway ends the connection, and the next one has a new token.
  #renew(expires) {
    const left = new Date((this.#expires = expires)) - Date.now()
    if (Number.isNaN(left)) return // the token does not expire
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
      this.end(why) // the token or the cursor is not valid for the client
    } else if (!this.#reply(error.eventId, error.retryable ? { again: true, sent: true, after: againAfterError } : { error: why })) {
      this.#client.metrics.errors++
      if (frame.id === refresh) this.#renew(this.#expires)
    }
  }

  #result(result) {
    this.#reply(result.eventId, {}) // a result shows that the event is in the log
    if (this.dropping || !this.#client.take(this, result) || !this.#end) return
    if (++this.#unacked >= ackEvery) {
      this.#unacked = 0
      this.#send({ type: 'ack', cursor: result.cursor })
    }
  }
}
