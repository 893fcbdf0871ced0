// Compiled by a test: what applications write, and what they must not.
import { Client, CloseError, EventError, type Event, type Gap, type Metrics, type Options, type Result } from '@afterbay/client'

const options: Options = { token: async () => 'token', cursor: 'c', seq: 1, sessionId: 'tab', buffer: 100, onConnection: (connected) => console.log(!connected), WebSocket }
const client: AsyncIterable<Result | Gap> = new Client('wss://example.org', options)
new Client('wss://example.org', { token: 'token', earliest: true })

export async function use(client: Client, stop: AbortSignal): Promise<number> {
  const event: Event = { eventId: 'e', payload: { text: 'hello' }, sequence: 1, timestamp: new Date(), priority: 9 }
  await client.connect({ signal: stop })
  try {
    await client.send(event, { signal: stop })
    await client.cancel(event.eventId, { signal: stop })
  } catch (error) {
    if (error instanceof EventError && error.retryable) throw new Error(error.code, { cause: error })
    if (error instanceof CloseError && error.final) throw new Error(`${error.code} ${error.reason}`)
  }
  for await (const item of client) {
    if (item.type === 'gap') {
      const { after, next }: Gap = item
      return after + next
    }
    const { seq, cursor, status, attempt = 0 } = item
    switch (status) {
      case 'ok': case 'partial': case 'rejected': case 'dead_lettered': case 'expired': break
      case 'error': throw new Error(item.error?.message)
      default: status satisfies never
    }
    console.log(cursor.length + seq + attempt, item.payload)
  }
  const last = await client.next()
  if (last?.type === 'result') console.log(last.eventId)
  await client.close()
  const { renewals, connects }: Readonly<Metrics> = client.metrics
  return renewals + connects
}

// @ts-expect-error a token is needed
new Client('wss://example.org', {})
// @ts-expect-error an event has an id
new Client('wss://example.org', options).send({ payload: 1 })
// @ts-expect-error and a payload
new Client('wss://example.org', options).send({ eventId: 'e' })
// @ts-expect-error only gaps say after what
new Client('wss://example.org', options).next().then((item) => item?.after)
// @ts-expect-error what is counted is read
new Client('wss://example.org', options).metrics.results = 1
console.log(client)
