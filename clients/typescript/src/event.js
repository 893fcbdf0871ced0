import { EventError } from './errors.js'

const id = /^[A-Za-z0-9._:@-]{1,128}$/
const ids = 'use 1 to 128 of the characters A-Z a-z 0-9 . _ : @ -'

// Only strings are valid in a frame. A regular expression alone would convert other values to strings.
const matches = (expression) => (v) => typeof v === 'string' && expression.test(v)

const rules = {
  eventId: [matches(id), ids],
  sequence: [(v) => Number.isSafeInteger(v) && v >= 1, 'use a whole number from 1 on, or leave it out'],
  causalId: [matches(id), ids],
  timestamp: [(v) => within(new Date(v)), 'use a Date or a text that it reads, from 1970 to 9999'],
  priority: [(v) => Number.isInteger(v) && v >= 0 && v <= 9, 'use 0 to 9'],
  traceparent: [matches(/^[ -~]{55}$/), "use the 55 characters of the W3C's version 00"],
  correlationId: [matches(/^[ -~]{1,128}$/), 'use at most 128 printable ASCII characters'],
}

function within(date) {
  return date >= new Date(0) && date < new Date('+010000-01-01T00:00:00Z')
}

/**
 * Returns the frame of an event as text. It throws an error if the event is not valid, because the
 * error of a gateway may not name the event.
 */
export function encode(event) {
  const frame = { type: 'event' }
  for (const [name, [valid, hint]] of Object.entries(rules)) {
    let value = event[name]
    if (value === undefined && name !== 'eventId') continue
    if (typeof value === 'symbol' || !valid(value)) throw bad(event, `${name} ${show(value)}: ${hint}`)
    if (name === 'timestamp') value = new Date(value).toISOString()
    frame[name] = value
  }
  const payload = JSON.stringify(event.payload)
  if (payload === undefined) throw bad(event, 'payload is missing: give any JSON value')
  return `${JSON.stringify(frame).slice(0, -1)},"payload":${payload}}`
}

/** Returns the frame that cancels an event, as text. It throws an error if the id is not valid. */
export function encodeCancel(eventId) {
  const [valid, hint] = rules.eventId
  if (!valid(eventId)) throw bad({ eventId }, `eventId ${show(eventId)}: ${hint}`)
  return JSON.stringify({ type: 'cancel', eventId })
}

function bad(event, message) {
  return new EventError({ code: 'bad_event', message, eventId: event.eventId })
}

function show(value) {
  return typeof value === 'string' ? JSON.stringify(value).slice(0, 160) : String(value)
}
