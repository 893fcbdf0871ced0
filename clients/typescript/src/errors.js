/** What a gateway says is wrong with an event, a token or a cursor. */
export class EventError extends Error {
  constructor({ code, message, eventId, retryable = false }) {
    super(`${code}: ${message}`)
    this.name = 'EventError'
    this.code = code
    this.eventId = eventId
    this.retryable = retryable
  }
}

/** How a connection ended. Codes 4000 to 4499 end the client; it comes again after others. */
export class CloseError extends Error {
  constructor(code, reason) {
    super(`the connection was closed: ${code} ${reason}`.trimEnd())
    this.name = 'CloseError'
    this.code = code
    this.reason = reason
  }

  /** Whether a connection after this one would end likewise; 1009 is of a message that is too big. */
  get final() {
    return (this.code >= 4000 && this.code < 4500) || this.code === 1009
  }
}
