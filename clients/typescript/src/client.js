import { CloseError, EventError } from './errors.js'
import { encode, encodeCancel } from './event.js'
import { Link } from './link.js'
import { abortable, backoff, grown } from './wait.js'

const stable = 10_000 // ms; a connection that lasted this long resets the count of failures
const handshakes = /^[-!#$%&'*+.^_`|~0-9A-Za-z]+$/ // tokens that a browser can send in the handshake
const attemptsMost = 4096 // most events with a known attempt of partial results

/**
 * A connection to a gateway that reconnects by itself. After a connection breaks, the client
 * continues where it stopped.
 */
export class Client {
  metrics = { connects: 0, resent: 0, backpressure: 0, results: 0, repeats: 0, gaps: 0, behind: 0, renewals: 0, errors: 0 }
  #address
  #options
  #life = new AbortController()
  #running
  #link // the current connection, if any
  #connected = false // the connection is ready
  #shows = true // the handshake carries the token
  #waiters = [] // calls that wait for a connection
  #failed = false
  #failure
  #sending = new Set() // ids of events
  #pauses = new Set() // waits before events are sent again and before reconnecting
  #items = [] // results and gaps for the application
  #takers = [] // calls of next that wait
  #behind = false // results were dropped
  #cursor
  #seq
  #attempts = new Map() // newest attempt of partial results, by event

  constructor(address, options) {
    const url = new URL(address)
    url.protocol = url.protocol.replace(/^http/, 'ws')
    if (url.protocol !== 'ws:' && url.protocol !== 'wss:') throw new TypeError(`address ${address}: use ws:// or wss://`)
    if (url.pathname === '/') url.pathname = '/v1/stream'
    this.#address = url.href
    this.#options = { buffer: 10_000, WebSocket: globalThis.WebSocket, ...options }
    const { token, WebSocket, buffer, cursor, seq, earliest } = this.#options
    if (typeof token !== 'function' && typeof token !== 'string') throw new TypeError('token is missing: give a text, or a function that returns one')
    if (!WebSocket) throw new TypeError('WebSocket is missing: this platform has none, pass that of the package ws as an option: { token, WebSocket }')
    if (!(buffer >= 1)) throw new TypeError(`buffer ${buffer}: use 1 or more`)
    if (seq && !cursor) throw new TypeError('seq is given without a cursor: keep both of a result')
    if (cursor && earliest) throw new TypeError('earliest and cursor are both given: leave one out')
    this.#cursor = cursor
    this.#seq = seq ?? 0
  }

  /** Connects. Resolves when the client is connected, and rejects on a permanent error or when the signal is aborted. */
  async connect({ signal } = {}) {
    this.#running ??= this.#run()
    await abortable(this.#ready(), signal)
  }

  /** Closes the client. Pending calls of send, cancel and connect reject, and results end. */
  async close() {
    this.#life.abort(new CloseError(1000, 'by the client'))
    for (const { reject } of this.#pauses) reject(this.#life.signal.reason)
    this.#link?.end(this.#life.signal.reason)
    if (this.#running) await this.#running
    else this.#finish(undefined)
  }

  /**
   * Sends an event, and resolves when it is durable in the log; it will then have exactly one
   * result. If the connection breaks or the gateway applies backpressure, the client sends the
   * event again with the same id.
   */
  async send(event, { signal } = {}) {
    await this.#deliver(event.eventId, encode(event), signal)
  }

  /**
   * Withdraws an event that was sent, and resolves when the cancel is durable. An event without a
   * result ends as rejected, code cancelled. Call it only after send has resolved.
   */
  async cancel(eventId, { signal } = {}) {
    await this.#deliver(eventId, encodeCancel(eventId), signal)
  }

  /** Sends a message about an event, repeatedly, until the gateway answers it. */
  async #deliver(id, message, signal) {
    if (this.#sending.has(id)) throw new EventError({ code: 'bad_event', message: 'it is being sent: wait for that, or give each event its own id', eventId: id })
    this.#sending.add(id)
    try {
      for (let tries = 0; ; tries++) {
        const link = await abortable(this.#ready(), signal)
        const answer = await abortable(link.submit(id, message), signal).finally(() => link.forget(id))
        if (answer.error) throw answer.error
        if (!answer.again) return
        if (answer.sent) this.metrics.resent++
        await this.#pause(grown(answer.after, tries), signal)
      }
    } finally {
      this.#sending.delete(id)
    }
  }

  /** Waits for the next result or gap. Resolves with undefined after close, and rejects after a permanent error. */
  async next() {
    if (this.#items.length > 0) {
      const item = this.#items.shift()
      this.#taken()
      return item
    }
    if (!this.#failed) return new Promise((resolve, reject) => this.#takers.push({ resolve, reject }))
    if (this.#failure) throw this.#failure
  }

  /** Yields results and gaps until the client is closed. */
  async *[Symbol.asyncIterator]() {
    for (let item; (item = await this.next()) !== undefined; ) yield item
  }

  async #run() {
    for (let failures = 0; !this.#life.signal.aborted; failures++) {
      const link = (this.#link = new Link(this, this.#behind))
      this.#dial(link)
      const why = await link.lost
      this.#link = undefined
      if (this.#connected) this.#tell(false)
      this.#connected = false
      // A browser does not report why a handshake failed. The next one omits the token, so that it
      // succeeds and the gateway can report the error in a frame.
      this.#shows = link.opened || !this.#shows
      if (this.#life.signal.aborted) break
      if (why instanceof EventError || why.final) return this.#finish(why)
      if (link.held >= stable) failures = 0
      let wait = Math.max(link.retryAfter, backoff(failures))
      if (link.reopened) wait = failures = 0
      await this.#pause(wait).catch(() => {})
    }
    this.#finish(undefined)
  }

  /** Waits for a number of ms. Rejects when the signal is aborted or the client is closed. */
  #pause(ms, signal) {
    const pause = {}
    const over = new Promise((resolve, reject) => Object.assign(pause, { timer: setTimeout(resolve, ms), reject }))
    this.#pauses.add(pause)
    return abortable(over, signal).finally(() => {
      clearTimeout(pause.timer)
      this.#pauses.delete(pause)
    })
  }

  async #dial(link) {
    const { WebSocket, earliest, sessionId } = this.#options
    try {
      const text = await this.#token()
      const bearer = this.#shows && handshakes.test(text) ? text : undefined
      const resume = this.#cursor ? { cursor: this.#cursor } : earliest ? { from: 'earliest' } : undefined
      link.open(WebSocket, this.#address, bearer, { token: bearer ? undefined : text, sessionId, resume: link.dropping ? undefined : resume })
    } catch (error) {
      link.end(error instanceof Error ? error : new Error(String(error)))
    }
  }

  async #token() {
    const { token } = this.#options
    return typeof token === 'function' ? abortable(token(), this.#life.signal) : token
  }

  /** Called by a link before its token expires. Returns a new token, or undefined if the token is fixed. */
  async renewed() {
    if (typeof this.#options.token !== 'function') return undefined
    const token = await this.#token()
    this.metrics.renewals++
    return token
  }

  #tell(connected) {
    queueMicrotask(() => this.#options.onConnection?.(connected)) // an exception in it is reported to the application, not to the client
  }

  /** Waits for a connection. */
  #ready() {
    if (this.#failed) return Promise.reject(this.#failure ?? this.#life.signal.reason)
    if (this.#connected) return Promise.resolve(this.#link)
    return new Promise((resolve, reject) => this.#waiters.push({ resolve, reject }))
  }

  #finish(failure) {
    if (this.#failed) return
    this.#failed = true
    this.#failure = failure
    for (const { reject } of this.#waiters.splice(0)) reject(failure ?? this.#life.signal.reason)
    for (const { resolve, reject } of this.#takers.splice(0)) failure ? reject(failure) : resolve(undefined)
  }

  /** Called by a link when it is connected. */
  ready(link, cursor) {
    this.metrics.connects++
    this.#cursor ||= cursor
    this.#connected = true
    this.#tell(true)
    for (const { resolve } of this.#waiters.splice(0)) resolve(link)
  }

  /** Called by a link with a result. Passes it to the application, unless the application already has it. */
  take(link, result) {
    const { seq, cursor, eventId } = result
    if (this.#seq && seq <= this.#seq) {
      this.metrics.repeats++
      return true
    }
    if (this.#seq && seq > this.#seq + 1) {
      if (!this.#push(link, { type: 'gap', after: this.#seq, next: seq })) return false
      this.metrics.gaps++
      this.#seq = seq - 1
    }
    const partial = result.status === 'partial'
    const { attempt } = result // undefined if partial results are produced only once
    const known = this.#attempts.get(eventId) ?? 0
    if (!(partial && attempt < known) && !this.#push(link, result)) return false
    if (!partial) this.#attempts.delete(eventId)
    else if (attempt > known) this.#attempt(eventId, attempt)
    this.#seq = seq
    this.#cursor = cursor
    this.metrics.results++
    return true
  }

  #attempt(eventId, attempt) {
    if (this.#attempts.size >= attemptsMost && !this.#attempts.has(eventId)) this.#attempts.delete(this.#attempts.keys().next().value)
    this.#attempts.set(eventId, attempt)
  }

  /** Called by a link with a gap that the gateway reports. */
  skip(link, gap) {
    if (!this.#push(link, { type: 'gap', after: this.#seq, next: 0 })) return false
    this.metrics.gaps++
    this.#seq = 0
    this.#cursor = gap.earliest
    this.#attempts.clear()
    return true
  }

  #push(link, item) {
    const taker = this.#takers.shift()
    if (taker) {
      taker.resolve(item)
      return true
    }
    if (this.#items.length >= this.#options.buffer) {
      this.metrics.behind++
      this.#behind = link.dropping = true
      return false
    }
    this.#items.push(item)
    return true
  }

  // If results were dropped and there is room again, the next connection receives them.
  #taken() {
    if (this.#behind && this.#items.length <= this.#options.buffer / 2) {
      this.#behind = false
      this.#link?.reopen()
    }
  }
}
