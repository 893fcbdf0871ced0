/** What a client sends. */
export interface Event {
  /** Its own, 1 to 128 of A-Z a-z 0-9 . _ : @ -; an event that is sent again with the same id and payload is the same one. */
  eventId: string
  /** Any JSON value. */
  payload: unknown
  /** From 1, in the order of the client's events. */
  sequence?: number
  /** The event that this one comes of. */
  causalId?: string
  timestamp?: Date | string | number
  /** 0 to 9. */
  priority?: number
  traceparent?: string
  correlationId?: string
}

/** What came of an event. */
export interface Result {
  type: 'result'
  /** From 1, without holes among the results of a client. */
  seq: number
  /** The position after this result: keep it with what you made of the result. */
  cursor: string
  eventId: string
  /** An event ends in one of the first four, once; `error` is of an id that was used for another event. */
  status: 'ok' | 'rejected' | 'dead_lettered' | 'expired' | 'partial' | 'error'
  /** Of partial results, from 1: a later attempt replaces what came of the one before. None where it is made once. */
  attempt?: number
  /** The event was sent twice; there was a result before. */
  duplicate?: boolean
  payload?: unknown
  error?: { code: string; message: string; eventId?: string; retryable: boolean; attempts?: number; retryAfterMs?: number }
  causalId?: string
  model?: string
  timestamp?: string
  correlationId?: string
}

/** Says that results are missing: they are no longer retained, or their log was lost. */
export interface Gap {
  type: 'gap'
  /** `seq` of the newest result before it; 0 where there was none. */
  after: number
  /** `seq` of the first one after it; 0 where that is not known yet. */
  next: number
}

export interface Options {
  /** The token, or what returns one that is valid now: for the next connection, and for the one there is before its token ends. */
  token: string | (() => string | Promise<string>)
  /** Cursor and seq are those of the newest result that the application has; without them, results from now on. */
  cursor?: string
  seq?: number
  /** All results that are retained, where there is no cursor. */
  earliest?: boolean
  /** The newest connection of a session ends the others at the same gateway. */
  sessionId?: string
  /** Results that may wait for the application; 10,000. */
  buffer?: number
  /** Is called when the client is connected, and when it is no more. */
  onConnection?: (connected: boolean) => void
  /** Where the platform has none, as that of the package ws. */
  WebSocket?: new (address: string, protocols: string[]) => object
}

/** What the client counts. */
export interface Metrics {
  connects: number
  resent: number
  backpressure: number
  results: number
  repeats: number
  gaps: number
  behind: number
  renewals: number
  errors: number
}

/** Is connected to a gateway, or on its way to the next one. */
export class Client implements AsyncIterable<Result | Gap> {
  /** The address is that of a gateway, as wss://example.org; its path is /v1/stream where it has none. */
  constructor(address: string, options: Options)
  readonly metrics: Readonly<Metrics>
  /** Connects, and waits until the client is connected, or never will be. */
  connect(options?: { signal?: AbortSignal }): Promise<void>
  /**
   * Sends an event, and returns when it is durable in the log. It is sent again, with the same id, where the connection
   * is cut or the gateway takes no more events for the moment. An aborted event may be in the log or not.
   * @throws EventError what is wrong with the event
   */
  send(event: Event, options?: { signal?: AbortSignal }): Promise<void>
  /**
   * Gives up an event that was sent, and returns when that is durable. An event that has no result yet ends as
   * rejected, code cancelled; one that has keeps it. Wait for send first.
   * @throws EventError what is wrong with the id
   */
  cancel(eventId: string, options?: { signal?: AbortSignal }): Promise<void>
  /** The next result or gap; undefined when the client is closed. */
  next(): Promise<Result | Gap | undefined>
  [Symbol.asyncIterator](): AsyncGenerator<Result | Gap, void, void>
  /** Ends the client. */
  close(): Promise<void>
}

/** What a gateway says is wrong with an event, a token or a cursor. */
export class EventError extends Error {
  readonly code: string
  readonly eventId?: string
  readonly retryable: boolean
}

/** How a connection ended. Codes 4000 to 4499 end the client; it comes again after others. */
export class CloseError extends Error {
  readonly code: number
  readonly reason: string
  readonly final: boolean
}
