// node drive.js ADDRESS TOKEN EVENTS BUFFER: sends events e0, e1, ... and prints results, one a
// line, until its input ends. {"sent":true} is printed when all events were accepted.
import { Client } from '../src/index.js'

const [address, token, events, buffer] = process.argv.slice(2)
const client = new Client(address, { token: () => Promise.resolve(token), buffer: Number(buffer) })
const print = (value) => process.stdout.write(JSON.stringify(value) + '\n')

await client.connect()
const sending = Promise.all(Array.from({ length: Number(events) }, (_, i) => client.send({ eventId: `e${i}`, payload: i })))
sending.then(() => print({ sent: true }))
process.stdin.on('end', () => client.close()).resume()
for await (const item of client) print(item)
process.stderr.write(JSON.stringify(client.metrics) + '\n')
process.exit(0)
