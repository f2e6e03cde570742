import type { ServerResponse } from 'node:http'
import { callsAll, says, type FakeFault, type FakeProtocol, type FaultName } from './fake-answers.ts'

export interface FaultScene { res: ServerResponse, protocol: FakeProtocol, model: string, n: number, authorization: string }

const STATUS: Partial<Record<FaultName, readonly [number, string]>> = {
  status400: [400, 'invalid_request_error'],
  status429: [429, 'rate_limit_error'],
  status500: [500, 'api_error'],
  status502: [502, 'api_error'],
  status503: [503, 'api_error'],
  status504: [504, 'timeout_error'],
  status529: [529, 'overloaded_error'],
  auth: [401, 'authentication_error']
}

/** Fails as told. What it does not end stays open until the client leaves. */
export async function playFault (scene: FaultScene, answer: FakeFault): Promise<void> {
  const { res, protocol, model, n } = scene
  const status = STATUS[answer.fault]
  if (status) {
    // An echoed key must not get through to a reader.
    const message = answer.message ?? (answer.fault === 'auth' ? `invalid key: ${scene.authorization}` : `fake ${answer.fault}`)
    return sendJson(res, status[0], protocol.errorBody(status[1], message), answer.headers)
  }
  switch (answer.fault) {
    case 'context-too-long': {
      const { status: code, message, code: name } = protocol.contextError
      return sendJson(res, code, protocol.errorBody('invalid_request_error', message, name))
    }
    case 'redirect': return void res.writeHead(307, answer.headers ?? { location: '/elsewhere' }).end()
    case 'reset-before': return void res.socket?.resetAndDestroy()
    case 'reset-during':
      await write(res, protocol.opening('half a', model, n))
      return void res.socket?.resetAndDestroy()
    case 'stall': return write(res, protocol.opening('half a', model, n))
    case 'bad-json':
      await write(res, protocol.opening('half a', model, n))
      return void res.end('event: content_block_delta\ndata: {"broken\n\n')
    case 'wrong-content-type': return void res.writeHead(200, { 'content-type': 'text/html' }).end('<html>a portal</html>')
    case 'broken-arguments':
      await write(res, protocol.frames(callsAll([{ id: 'call_broken', name: 'read_file', arguments: '{"path": "a' }]), model, n))
      return void res.end()
    case 'empty':
      await write(res, protocol.empty())
      return void res.end()
    case 'huge': return sendHuge(scene, answer.bytes ?? 32 * 1024 * 1024)
    case 'ends-early':
      await write(res, protocol.opening('half a', model, n))
      return void res.end()
    case 'error-event':
      await write(res, [...protocol.opening('half a', model, n), protocol.errorFrame(answer.message ?? 'Overloaded')])
      return void res.end()
    case 'ignores-stream': return sendJson(res, 200, protocol.whole(says('whole answer'), model, n))
    default: throw new Error(`no such fault: ${answer.fault}`)
  }
}

export function sendJson (res: ServerResponse, status: number, body: object, headers: Record<string, string> = {}): void {
  res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}

/** Resolves once the frames are with the kernel, or the client has gone. */
export async function write (res: ServerResponse, frames: readonly string[]): Promise<void> {
  if (!res.headersSent) res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
  res.flushHeaders()
  for (const frame of frames) {
    if (res.destroyed) return
    await new Promise<void>((resolve) => {
      res.once('close', resolve)
      res.write(frame, () => {
        res.off('close', resolve)
        resolve()
      })
    })
  }
}

async function sendHuge ({ res, protocol, model, n }: FaultScene, bytes: number): Promise<void> {
  await write(res, protocol.opening('half a', model, n))
  const piece = 'x'.repeat(64 * 1024)
  for (let sent = 0; sent < bytes && !res.destroyed; sent += piece.length) await write(res, [protocol.delta(piece)])
  res.end()
}
