// Has the page of examples/chat open in Chromium, as a person would: the arguments are
// the folder of npm's packages, the browser, the page and the file of a picture, if one
// is to be made. Where the test has something to do it prints a line, and waits for one.
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const [modules, executablePath, address, picture] = process.argv.slice(2)
const { launch } = createRequire(`${modules}/`)('puppeteer-core')

const input = createInterface({ input: process.stdin })
const lines = input[Symbol.asyncIterator]()
const ask = async (what) => {
  console.log(JSON.stringify({ ask: what }))
  if ((await lines.next()).done) throw new Error('the test is gone')
}

const browser = await launch({ executablePath, timeout: 120_000, headless: true, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] })
const problems = []

async function open() {
  const page = await browser.newPage()
  page.setDefaultTimeout(120_000)
  await page.setViewport({ width: 640, height: 600 })
  page.on('pageerror', (error) => problems.push(`${error}`))
  await page.goto(address)
  await state(page, 'connected')
  return page
}

const state = (page, text) => page.waitForFunction((text) => document.querySelector('#connection').textContent === text, {}, text)
const count = (page, selector, n) => page.waitForFunction((selector, n) => document.querySelectorAll(selector).length >= n, { polling: 'mutation' }, selector, n)
const type = async (page, text) => {
  await page.bringToFront()
  await page.type('input', text)
  await page.keyboard.press('Enter')
}
const shown = (page) =>
  page.$$eval('#messages li', (list) =>
    list.map((line) => ({
      text: line.querySelector('.text').textContent,
      decisions: [...line.querySelectorAll('.decision')].map((part) => part.textContent.trim()),
      wrong: [...line.querySelectorAll('.wrong')].filter((part) => !part.classList.contains('decision')).map((part) => part.textContent),
      words: line.querySelector('.words').textContent,
      ended: line.classList.contains('ended'),
    })),
  )

// Watches how the words of each message grow.
const watch = (page) =>
  page.evaluate(() => {
    window.growth = {}
    new MutationObserver(() => {
      document.querySelectorAll('#messages li').forEach((line) => {
        const { length } = line.querySelector('.words').textContent
        const seen = (window.growth[line.querySelector('.text').textContent] ??= [])
        if (length !== (seen.at(-1) ?? 0)) seen.push(length)
      })
    }).observe(document.querySelector('#messages'), { subtree: true, childList: true, characterData: true })
  })

try {
  const page = await open()
  await watch(page)
  await type(page, 'Good morning to you')
  await count(page, 'li.ended', 1)
  await type(page, 'You stupid idiot')
  await type(page, 'This answer is cut in the middle')
  await page.waitForFunction(() => window.growth['This answer is cut in the middle']?.length >= 1, { polling: 20 })
  await ask('kill')
  await state(page, 'connecting')
  await type(page, 'Is anybody there?') // nobody is
  await ask('start')
  await state(page, 'connected')
  await type(page, 'And so it goes on')
  if (picture) {
    await page.waitForFunction(() => window.growth['And so it goes on']?.length >= 5, { polling: 20 })
    await page.screenshot({ path: picture })
  }
  await count(page, 'li.ended', 5)
  const first = await shown(page)
  const growth = await page.evaluate(() => window.growth)

  const tab = await open() // comes in the middle of a conversation
  await count(tab, 'li.ended', 5)
  const second = await shown(tab)
  await type(tab, 'From another tab')
  await Promise.all([page, tab].map((p) => count(p, 'li.ended', 6)))
  const event = { eventId: 'late', payload: { room: 'late', text: 'Written before the page was left' } }
  await page.evaluate((event) => { localStorage.outbox = JSON.stringify([['late', event]]) }, event)
  await page.reload()
  await Promise.all([page, tab].map((p) => count(p, 'li.ended', 7)))
  await page.waitForFunction(() => localStorage.outbox === '[]')
  const session = await page.evaluate(async () => (await fetch('/session', { method: 'POST' })).json())
  console.log(JSON.stringify({ first, growth, second, tab: await shown(tab), again: await shown(page), session, problems }))
} finally {
  input.close()
  await browser.close()
}
