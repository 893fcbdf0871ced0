// A conversation. What is shown comes from the log: a page that is loaded again, or in
// another tab, shows the same.
import { Client } from '@afterbay/client'

const $ = (selector) => document.querySelector(selector)
const messages = new Map() // by id of their event
const outbox = new Map(JSON.parse(localStorage.outbox ?? '[]')) // events that are not known to be in the log

const session = async () => {
  const answer = await fetch('/session', { method: 'POST' })
  if (!answer.ok) throw new Error(`no session: ${await answer.text()}`)
  return answer.json()
}

const { client: room, gateway } = await session()
const client = new Client(gateway, {
  token: async () => (await session()).token,
  earliest: true,
  onConnection(connected) {
    $('#connection').textContent = connected ? 'connected' : 'connecting'
    $('#connection').classList.toggle('connected', connected)
  },
})

// message returns what is shown of an event.
function message(id) {
  let shown = messages.get(id)
  if (!shown) {
    const line = document.createElement('li')
    const [text, said, words] = ['text', 'said', 'words'].map((name) => {
      const part = line.appendChild(document.createElement('span'))
      part.className = name
      return part
    })
    messages.set(id, (shown = { line, text, said, words }))
    $('#messages').append(line)
    line.scrollIntoView({ block: 'end' })
  }
  return shown
}

function say(shown, text, name) {
  const note = shown.said.appendChild(document.createElement('span'))
  note.className = name
  note.textContent = `${text} `
}

function keep() {
  localStorage.outbox = JSON.stringify([...outbox])
}

// An event is kept until it is in the log, so that a page which is loaded again sends it
// again: it has its id, and is the same one.
async function send(event) {
  const shown = message(event.eventId)
  shown.text.textContent = event.payload.text
  outbox.set(event.eventId, event)
  keep()
  try {
    await client.send(event)
  } catch (error) {
    if (error.name !== 'EventError') return
    say(shown, error.message, 'wrong')
  }
  outbox.delete(event.eventId)
  keep()
}

// The decision and the words so far come before the result, which has both; of the words
// the newest are all that there are. The order of messages is that of the log.
function take({ eventId, status, duplicate, payload, error }) {
  const shown = message(eventId)
  if (duplicate) return // the event was sent twice: this was its result before
  if (!shown.logged) $('#messages').append(shown.line)
  shown.logged = true
  if (payload?.action && (status === 'partial' || !shown.decided)) {
    shown.decided = true
    shown.text.textContent = payload.text
    say(shown, payload.action, `decision ${payload.action}`)
  }
  shown.words.textContent = payload?.words ?? payload?.writer_words ?? shown.words.textContent
  shown.line.scrollIntoView({ block: 'end' })
  if (status === 'partial') return
  shown.line.classList.add('ended')
  if (status !== 'ok') say(shown, error?.message ?? status, 'wrong')
}

$('form').onsubmit = (submit) => {
  submit.preventDefault()
  const { text } = submit.target.elements
  send({ eventId: crypto.randomUUID(), payload: { room, text: text.value } })
  text.value = ''
}

for (const event of outbox.values()) send(event)
client.connect().catch(() => {}) // results say it too
try {
  for await (const item of client) item.type === 'gap' ? $('#problem').append('Older messages are no longer kept. ') : take(item)
} catch (error) {
  $('#problem').append(`${error.message}: load the page again.`)
}
