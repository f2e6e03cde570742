import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import swagger from '@fastify/swagger'
import { pino } from 'pino'
import { createHttp } from '../routes/http.ts'
import type { Runs } from '../src/runs/api.ts'
import { HEADERS, INFO, SECURITY, SECURITY_SCHEMES, TAGS, finishDocument } from './document.ts'
import type { Document } from './document.ts'

const FILE = new URL('openapi.json', import.meta.url)

/** The document of the routes as they are, as the text of `openapi.json`. */
export async function generate (): Promise<string> {
  const app = createHttp({
    runs: {} as Runs, // Routes are registered here, never called.
    access: 'loopback',
    maxBodyBytes: 1,
    maxWaitSeconds: 1,
    version: INFO.version,
    ready: () => ({ ok: false }),
    closing: new AbortController().signal,
    now: () => 0,
    log: pino({ level: 'silent' })
  }, (bare) => {
    void bare.register(swagger, {
      openapi: {
        openapi: '3.1.0', info: INFO, tags: TAGS, security: SECURITY,
        components: { securitySchemes: SECURITY_SCHEMES, headers: HEADERS }
      },
      convertConstToEnum: false,
      refResolver: {
        buildLocalReference: (schema, _uri, _fragment, index) =>
          typeof schema['$id'] === 'string' ? schema['$id'] : `def-${index}`
      }
    })
  })
  try {
    await app.ready()
    return `${JSON.stringify(finishDocument(app.swagger() as unknown as Document), null, 2)}\n`
  } finally {
    await app.close()
  }
}

async function main (): Promise<void> {
  const text = await generate()
  if (!process.argv.includes('--check')) return writeFile(FILE, text)
  const committed = await readFile(FILE, 'utf8').catch(() => '')
  if (committed === text) return
  console.error('openapi/openapi.json does not match the routes. Run "npm run openapi" and commit the file.')
  process.exitCode = 1
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main()
