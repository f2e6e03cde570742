import { createServer } from 'node:http'
import { createServer as createTcpServer, type AddressInfo, type Socket } from 'node:net'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Model } from '../../src/core/model.ts'
import { createModels, type ModelsOptions } from '../../src/models/models.ts'
import { anthropic } from '../support/fake-anthropic.ts'
import type { FakeProtocol, FakeReply } from '../support/fake-answers.ts'
import { openai } from '../support/fake-openai.ts'
import { KEY, type Finish, type Kind } from './model-call.ts'

export const PROTOCOLS: Readonly<Record<Kind, FakeProtocol>> = { 'openai-chat': openai, anthropic }
/** The whole stream of a reply, as one text. */
export const streamOf = (kind: Kind, reply: FakeReply): string => PROTOCOLS[kind].frames(reply, 'm', 0).join('')

export interface Odd { model: Model, /** How many requests came. */ asked (): number }

/** A model of this kind on a server that does as it likes with each request, which it has read. */
export async function startOdd (
  onTestFinished: Finish, kind: Kind, answer: (res: ServerResponse, req: IncomingMessage) => unknown,
    options: Partial<ModelsOptions> = {}
): Promise<Odd> {
  let asked = 0
  const server = createServer((req, res) => {
    asked++
    req.resume().on('end', () => { void answer(res, req) })
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  onTestFinished(() => new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  }))
  return { model: modelAt(onTestFinished, kind, (server.address() as AddressInfo).port, options), asked: () => asked }
}

/** A model of this kind on a server that answers each connection with these bytes, HTTP or not, and ends it. */
export async function startBytes (onTestFinished: Finish, kind: Kind, bytes: string | Buffer,
  options: Partial<ModelsOptions> = {}): Promise<Model> {
  const sockets = new Set<Socket>()
  const server = createTcpServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('data', () => socket.end(bytes))
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  onTestFinished(() => new Promise((resolve) => {
    server.close(() => resolve())
    for (const socket of sockets) socket.destroy()
  }))
  return modelAt(onTestFinished, kind, (server.address() as AddressInfo).port, options)
}

function modelAt (onTestFinished: Finish, kind: Kind, port: number, options: Partial<ModelsOptions>): Model {
  const baseUrl = `http://127.0.0.1:${port}${kind === 'anthropic' ? '' : '/v1'}`
  const models = createModels({ endpoints: [{ name: 'up', kind, baseUrl, apiKey: KEY }], ...options })
  onTestFinished(() => models.close())
  return models.resolve('up/m')
}
