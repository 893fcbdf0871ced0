/** An error in an event, a token or a cursor. */
export class EventError extends Error {
  constructor({ code, message, eventId, retryable = false }) {
    super(`${code}: ${message}`)
    this.name = 'EventError'
    this.code = code
    this.eventId = eventId
    this.retryable = retryable
  }
}

/** The close code of a connection. Codes 4000 to 4499 and 1009 end the client; after any other code it reconnects. */
export class CloseError extends Error {
  constructor(code, reason) {
    super(`the connection was closed: ${code} ${reason}`.trimEnd())
    this.name = 'CloseError'
    this.code = code
    this.reason = reason
  }

  /** Whether the next connection would end for the same reason. Code 1009 means that a message is too big. */
  get final() {
    return (this.code >= 4000 && this.code < 4500) || this.code === 1009
  }
}
