import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AtEnd } from '../support/service.ts'

/** Servers that tell all they were told, and what a secret looks like once it got out. */

/** A secret that stands in no word list, with what JSON and URLs escape. It begins with a letter that is no digit in any base. */
export const canary = (name: string): string => `${random()}/${random()}"${name}+${random()}${random()}`
/** The same for where no quotes can stand. */
export const plainCanary = (name: string): string => `${random()}${random()}-${name}-${random()}${random()}`
const random = (): string => `z${Math.random().toString(36).slice(2, 8).padEnd(6, 'q')}`

/** A text in every form in which it is still readable: as it is, in JSON, in JSON in JSON, in a URL, in base64, and its secret half alone. */
export function formsOf (secret: string): string[] {
  const json = JSON.stringify(secret).slice(1, -1)
  const half = secret.slice(-Math.ceil(secret.length / 2))
  return [...new Set([
    secret, json, JSON.stringify(json).slice(1, -1), encodeURIComponent(secret), Buffer.from(secret).toString('base64').slice(0, -4), half,
    encodeURIComponent(half), secret.slice(0, 12)
  ])]
}

/** Which secrets stand in a text, and where about. */
export function found (where: string, text: string, secrets: Readonly<Record<string, string>>): string[] {
  return Object.entries(secrets).flatMap(([name, secret]) => {
    const form = formsOf(secret).find((one) => text.includes(one))
    const at = form === undefined ? -1 : text.indexOf(form)
    return at === -1 ? [] : [`${name} stands in ${where}: …${text.slice(Math.max(0, at - 80), at + 120)}…`]
  })
}

/** All bytes that a folder holds. */
export const bytesOf = (folder: string): string =>
  readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name)).toString('latin1')).join('\n')

export interface EchoServer { port: number, /** Bodies it was sent. */ bodies: string[] }

const ANSWERS: Record<string, (request: IncomingMessage, response: ServerResponse, said: string) => void> = {
  '/ok': (_, response, said) => { response.writeHead(200, { 'content-type': 'application/json' }).end(said) },
  '/fail': (_, response, said) => { response.writeHead(500, { 'content-type': 'text/plain' }).end(`you sent ${said}`) },
  '/reason': (request, response) => { response.writeHead(403, `denied ${String(request.headers['x-api-key'])}`).end() },
  '/redirect': (request, response) => { response.writeHead(302, { location: `/landing?h=${encodeURIComponent(String(request.headers.authorization))}` }).end() },
  '/landing': (request, response) => { response.writeHead(404, { 'content-type': 'text/plain' }).end(`no ${request.url}`) },
  '/cut': (_, response, said) => { response.writeHead(200, { 'content-type': 'text/plain' }).end(`${'x'.repeat(990)}${said}`) },
  '/broken': (_, response, said) => { response.writeHead(200, { 'content-type': 'text/plain', 'content-length': '100000' }).write(said, () => response.destroy()) },
  '/mcp401': (_, response, said) => { response.writeHead(401, { 'content-type': 'text/plain' }).end(`unauthorized: ${said}`) },
  '/mcp500': (_, response, said) => { response.writeHead(500, { 'content-type': 'text/plain' }).end(said) },
  '/mcp-garbage': (_, response, said) => { response.writeHead(200, { 'content-type': 'application/json' }).end(said) }
}

/** Answers by path, each time with every header that it was sent. */
export async function startEchoServer (atEnd: AtEnd): Promise<EchoServer> {
  const bodies: string[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => { chunks.push(chunk) })
    request.on('end', () => {
      bodies.push(Buffer.concat(chunks).toString('latin1'))
      const path = (request.url ?? '').replace(/\?.*$/, '')
      const answer = Object.hasOwn(ANSWERS, path) ? ANSWERS[path] : ANSWERS['/fail']
      answer?.(request, response, JSON.stringify(request.headers))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  atEnd(() => new Promise((resolve) => { server.close(() => resolve()); server.closeAllConnections() }))
  return { port: (server.address() as AddressInfo).port, bodies }
}
