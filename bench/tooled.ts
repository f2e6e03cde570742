import { readFileSync } from 'node:fs'
import { createApp } from '../src/app.ts'
import { loadConfig } from '../src/config.ts'
import type { Tool } from '../src/core/tool.ts'
import { createLogger } from '../src/observe/log.ts'

/** The service with one tool of the deployment's own that costs nothing: what is left is the tool path itself. */
const add: Tool = {
  definition: {
    name: 'add',
    description: 'Adds two numbers',
    inputSchema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] }
  },
  executor: 'service',
  idempotent: true,
  validate: () => [],
  async execute (input) {
    const { a, b } = input as { a: number, b: number }
    return { content: [{ type: 'text', text: String(a + b) }], isError: false }
  }
}

const config = loadConfig(process.env, (path) => readFileSync(path, 'utf8'))
const app = await createApp({ config, log: createLogger({ level: config.logLevel, pretty: false }), tools: [add] })
process.once('SIGTERM', () => {
  app.stop(AbortSignal.abort()).catch((error: unknown) => {
    console.error(error)
    process.exitCode = 1
  })
})
await app.listen()
