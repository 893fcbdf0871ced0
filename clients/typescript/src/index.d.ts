/** An event to send. */
export interface Event {
  /**
   * A unique id: 1 to 128 of the characters A-Z a-z 0-9 . _ : @ -. Sending the same id and payload again does not create
   * a second event.
   */
  eventId: string
  /** Any JSON value. */
  payload: unknown
  /** Number of the event in the order of the client's events, from 1. */
  sequence?: number
  /** Id of the event that caused this one. */
  causalId?: string
  /** Time of the event, from 1970 to 9999: a Date, a text that Date reads, or milliseconds since 1970. */
  timestamp?: Date | string | number
  /** Priority, 0 to 9. */
  priority?: number
  /** W3C Trace Context, version 00: 55 characters. */
  traceparent?: string
  /** 1 to 128 printable ASCII characters. */
  correlationId?: string
}

/** The result of an event. */
export interface Result {
  type: 'result'
  /** Number of the result, from 1, without gaps among the results of a client. */
  seq: number
  /** The position after this result. Store it together with the output of your application. */
  cursor: string
  eventId: string
  /**
   * Each event ends exactly once, with one of `ok`, `rejected`, `dead_lettered` and `expired`. `partial` results come
   * before that. `error` means that the id was used for another event.
   */
  status: 'ok' | 'rejected' | 'dead_lettered' | 'expired' | 'partial' | 'error'
  /**
   * Number of the attempt that produced a partial result, from 1. Results of a later attempt replace those of earlier
   * ones. Absent if partial results are produced only once.
   */
  attempt?: number
  /** The event was sent twice and already had a result. */
  duplicate?: boolean
  payload?: unknown
  error?: { code: string; message: string; eventId?: string; retryable: boolean; attempts?: number; retryAfterMs?: number }
  causalId?: string
  model?: string
  timestamp?: string
  correlationId?: string
}

/** A gap in the results: some are missing because they are no longer retained, or because their log was lost. */
export interface Gap {
  type: 'gap'
  /** `seq` of the newest result before the gap; 0 if there was no result. */
  after: number
  /** `seq` of the first result after the gap; 0 if it is not yet known. */
  next: number
}

export interface Options {
  /**
   * The token, or a function that returns a currently valid one. The client calls the function for each connection, and
   * again before the token of the connection expires.
   */
  token: string | (() => string | Promise<string>)
  /**
   * `cursor` and `seq` are those of the newest result that the application has processed. Without them the client
   * receives only new results.
   */
  cursor?: string
  seq?: number
  /** Receive all retained results. Not allowed together with `cursor`. */
  earliest?: boolean
  /** Name of a session. A new connection of a session ends the older ones at the same gateway. */
  sessionId?: string
  /** Number of results that may wait for the application; at least 1, default 10,000. */
  buffer?: number
  /** Called with true when the client is connected, and with false when it no longer is. */
  onConnection?: (connected: boolean) => void
  /** WebSocket class, such as that of the package ws; required if the platform has none. */
  WebSocket?: new (address: string, protocols: string[]) => object
}

/** The counters of a client. */
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

/** A connection to a gateway that reconnects by itself. */
export class Client implements AsyncIterable<Result | Gap> {
  /**
   * @param address of a gateway, such as wss://example.org; without a path it gets /v1/stream
   * @throws TypeError if the address or an option is not valid
   */
  constructor(address: string, options: Options)
  readonly metrics: Readonly<Metrics>
  /** Connects. Resolves when the client is connected, and rejects on a permanent error or when the signal is aborted. */
  connect(options?: { signal?: AbortSignal }): Promise<void>
  /**
   * Sends an event, and resolves when it is durable in the log. If the connection breaks or the gateway applies
   * backpressure, the client sends the event again with the same id. After an abort the event may or may not be in the
   * log.
   * @throws EventError if the event is not valid or the gateway rejects it
   */
  send(event: Event, options?: { signal?: AbortSignal }): Promise<void>
  /**
   * Withdraws an event that was sent, and resolves when the cancel is durable. An event without a result ends as
   * rejected, code cancelled; an event with a result keeps it. Call it only after send has resolved.
   * @throws EventError if the id is not valid or the gateway rejects the cancel
   */
  cancel(eventId: string, options?: { signal?: AbortSignal }): Promise<void>
  /** Waits for the next result or gap. Resolves with undefined after close, and rejects after a permanent error. */
  next(): Promise<Result | Gap | undefined>
  [Symbol.asyncIterator](): AsyncGenerator<Result | Gap, void, void>
  /** Closes the client. Pending calls of send, cancel and connect reject, and results end. */
  close(): Promise<void>
}

/** An error in an event, a token or a cursor. */
export class EventError extends Error {
  readonly code: string
  readonly eventId?: string
  readonly retryable: boolean
}

/** The close code of a connection. Codes 4000 to 4499 and 1009 end the client; after any other code it reconnects. */
export class CloseError extends Error {
  readonly code: number
  readonly reason: string
  readonly final: boolean
}
