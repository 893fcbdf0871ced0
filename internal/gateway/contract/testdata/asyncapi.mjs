// Validates AsyncAPI documents by npm's @asyncapi/parser, a right one and a broken
// one: node asyncapi.mjs MODULES RIGHT BROKEN
import {readFileSync} from 'node:fs'
import {createRequire} from 'node:module'

const [modules, right, broken] = process.argv.slice(2)
const {Parser} = createRequire(modules + '/')('@asyncapi/parser')

async function parse(file) {
  const {document, diagnostics} = await new Parser().parse(readFileSync(file, 'utf8'))
  return {document, wrong: diagnostics.filter(d => d.severity === 0).map(d => d.path.join('.') + ': ' + d.message)}
}

const {document, wrong} = await parse(right)
const found = document && document.channels().all().length + ' channels, ' + document.messages().all().length + ' messages'
if (wrong.length || found !== '2 channels, 15 messages') throw new Error(found + '\n' + wrong.join('\n'))
if (!(await parse(broken)).wrong.length) throw new Error('it takes ' + broken)
