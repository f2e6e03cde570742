import { appendFileSync } from 'node:fs'
import { createApp } from '../../src/app.ts'
import { loadConfig } from '../../src/config.ts'
import { text } from '../../src/core/events.ts'
import type { Tool } from '../../src/core/tool.ts'
import { createLogger } from '../../src/observe/log.ts'

/** Run as a process: the service with two tools that note each execution in the file TOOL_LOG; STAY keeps them in it. */
const { TOOL_LOG = '', STAY } = process.env
const tool = (name: string, idempotent: boolean): Tool => ({
  definition: { name, description: name, inputSchema: { type: 'object' } },
  executor: 'service',
  idempotent,
  validate: () => [],
  async execute () {
    appendFileSync(TOOL_LOG, `${name}\n`)
    if (STAY) await new Promise(() => {})
    return { content: [text(`${name} ran`)], isError: false }
  }
})

const config = loadConfig(process.env, () => '')
const log = createLogger({ level: config.logLevel, pretty: false })
const app = await createApp({ config, log, tools: [tool('again', true), tool('once', false)] })
log.info({ url: await app.listen() }, 'listens')
