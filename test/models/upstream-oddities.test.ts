import { gzipSync } from 'node:zlib'
import type { ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { says, calls } from '../support/fake-answers.ts'
import { KINDS, play, request, type Played } from './model-call.ts'
import { PROTOCOLS, startBytes, startOdd, streamOf } from './odd-server.ts'

/** quality.md, model servers: what none should do and some do, for each protocol. */

const STREAM = { 'content-type': 'text/event-stream' }
const hello = says('Hello é😀')
const sends = (body: string | Buffer, headers: Record<string,
  string> = STREAM) => (res: ServerResponse): void => { res.writeHead(200, headers).end(body) }
const textOf = ({ deltas }: Played): string => deltas.map((delta) => delta.text).join('')
const failed = (message: RegExp, retryable: boolean): object => ({ outcome: { code: 'MODEL_ERROR', retryable,
  message: expect.stringMatching(message) as string } })
/** Each byte in a tick of its own. */
async function drip (res: ServerResponse, bytes: Buffer): Promise<void> {
  res.writeHead(200, STREAM)
  for (const byte of bytes) {
    res.write(Uint8Array.of(byte))
    await new Promise((resolve) => { setImmediate(resolve) })
  }
  res.end()
}

for (const kind of KINDS) {
  const whole = streamOf(kind, hello)
  const expected = { stop: 'end', content: [{ type: 'text', text: 'Hello é😀' }] }

  test(`${kind}: an answer that drips byte by byte, characters and frames cut in two, is read as it was meant`,
    async ({ onTestFinished }) => {
    const { model } = await startOdd(onTestFinished, kind, (res) => drip(res, Buffer.from(whole)),
      { fetchTimeouts: { idleMs: 500 } })
    const played = await play(model)
    expect(played.reply).toMatchObject(expected)
    expect(textOf(played)).toBe('Hello é😀')
  })

  test.for([['CRLF', '\r\n'], ['CR', '\r']] as const)(`${kind}: lines that end with %s`, async ([, end], { onTestFinished }) => {
    const { model } = await startOdd(onTestFinished, kind, sends(whole.replaceAll('\n', end)))
    expect((await play(model)).reply).toMatchObject(expected)
  })

  test(`${kind}: comments, empty lines, a byte order mark and fields of other names are passed over`,
    async ({ onTestFinished }) => {
    const noise = ': keep-alive\n\nretry: 5\n\nid: 7\nfoo: bar\n\n\n\n'
    const { model } = await startOdd(onTestFinished, kind, sends(`\ufeff${noise}${whole.replaceAll('\n\n', `\n\n${noise}`)}`))
    expect((await play(model)).reply).toMatchObject(expected)
  })

  test(`${kind}: events and members nobody knows are passed over`, async ({ onTestFinished }) => {
    const strange = kind === 'anthropic'
      ? 'event: brand_new\ndata: {"type":"brand_new","x":1}\n\nevent: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"new_delta","text":"x"}}\n\n' +
        'event: content_block_start\ndata: {"type":"content_block_start","index":99,"content_block":{"type":"new_block","text":"x"}}\n\n'
      : 'event: brand_new\ndata: {"choices":[],"x":1}\n\ndata: {"object":"brand.new"}\n\ndata: {"choices":[{"index":0,"delta":{"novel":"x"},"finish_reason":null}]}\n\n'
    const frames = PROTOCOLS[kind].frames(hello, 'm', 0)
    const { model } = await startOdd(onTestFinished, kind, sends(frames.flatMap((frame,
      i) => i === frames.length - 1 ? [frame] : [frame, strange]).join('')))
    expect((await play(model)).reply).toMatchObject(expected)
  })

  test(`${kind}: content after the end gives one reply all the same, and none twice`, async ({ onTestFinished }) => {
    const { model } = await startOdd(onTestFinished, kind, sends(whole + whole))
    expect((await play(model)).reply).toMatchObject({ stop: 'end' })
  })

  test.for(['garbage\n\n', 'data: {"broken\n\n', 'event: error\ndata: x\n\n', '\u0000\u0001\n\n', '{"a":1}'])(
    `${kind}: trailing garbage costs nothing of the answer: %j`, async (garbage, { onTestFinished }) => {
      const { model } = await startOdd(onTestFinished, kind, sends(whole + garbage))
      expect((await play(model)).reply).toMatchObject(expected)
    })

  test(`${kind}: a connection that breaks after the end of the message has cost nothing of it`, async ({ onTestFinished }) => {
    const { model } = await startOdd(onTestFinished, kind, (res) => {
      res.writeHead(200, STREAM)
      res.write(whole, () => { setImmediate(() => res.socket?.resetAndDestroy()) })
    })
    const { reply, failure } = await play(model)
    expect(reply ?? failure).toMatchObject(expected)
  })

  test(`${kind}: a stream that is left open after the end of the message does not hold the answer, and is closed`,
    async ({ onTestFinished }) => {
    const closed = Promise.withResolvers<void>()
    const { model } = await startOdd(onTestFinished, kind, (res) => {
      const pings = setInterval(() => { res.write(': still here\n\n') }, 5)
      res.on('close', () => {
        clearInterval(pings)
        closed.resolve()
      })
      // Nor does every server send the last line of its protocol.
      res.writeHead(200, STREAM).write(whole.replace('data: [DONE]\n\n', ''))
    }, { fetchTimeouts: { lingerMs: 40 } })
    expect((await play(model)).reply).toMatchObject(expected)
    await closed.promise
  })

  test(`${kind}: a stream that never ends its message is left when the call is aborted`, async ({ onTestFinished }) => {
    const closed = Promise.withResolvers<void>()
    const { model } = await startOdd(onTestFinished, kind, (res) => {
      res.writeHead(200, STREAM).write(PROTOCOLS[kind].opening('half', 'm', 0).join(''))
      const more = setInterval(() => { res.write(PROTOCOLS[kind].delta(' a')) }, 5)
      res.on('close', () => {
        clearInterval(more)
        closed.resolve()
      })
    })
    const abort = new AbortController()
    let seen = 0
    for await (const event of model.stream(request(), abort.signal)) {
      if (event.type === 'delta' && ++seen === 5) abort.abort()
    }
    await closed.promise
    expect(seen).toBe(5)
  })

  test(`${kind}: an endless stream of text is cut at the cap`, async ({ onTestFinished }) => {
    const { model } = await startOdd(onTestFinished, kind, (res) => {
      res.writeHead(200, STREAM).write(PROTOCOLS[kind].opening('half', 'm', 0).join(''))
      const more = (): void => { if (!res.destroyed) res.write(PROTOCOLS[kind].delta('x'.repeat(500)), more) }
      more()
    }, { maxReplyBytes: 20_000 })
    expect((await play(model)).failure).toMatchObject(failed(/sent an answer (larger than 20000 bytes|that is too large)/, false))
  })

  test(`${kind}: a gzipped answer that nobody asked for is read`, async ({ onTestFinished }) => {
    const { model } = await startOdd(onTestFinished, kind, sends(gzipSync(whole), { ...STREAM, 'content-encoding': 'gzip' }))
    expect((await play(model)).reply).toMatchObject(expected)
  })

  test(`${kind}: gzip that is cut off or is none is a failure like any broken stream`, async ({ onTestFinished }) => {
    for (const body of [gzipSync(whole).subarray(0, 40), Buffer.from(whole)]) {
      const { model } = await startOdd(onTestFinished, kind, sends(body, { ...STREAM, 'content-encoding': 'gzip' }))
      expect((await play(model)).failure).toMatchObject(failed(/^model endpoint "up" /, true))
    }
  })

  test.for([['a line', (n: number) => `data: ${'x'.repeat(n)}`], ['comments', (n: number) => ': x\n'.repeat(n / 4)], ['JSON',
    (n: number) => `"${'x'.repeat(n)}"`]] as const)(
    `${kind}: a small gzip that holds a huge answer is cut at the cap: %s`, async ([what, bomb], { onTestFinished }) => {
      const type = what === 'JSON' ? 'application/json' : 'text/event-stream'
      const body = gzipSync(bomb(8_000_000))
      expect(body.length).toBeLessThan(40_000)
      const { model } = await startOdd(onTestFinished, kind, sends(body, { 'content-type': type, 'content-encoding': 'gzip' }),
        { maxReplyBytes: 20_000 })
      expect((await play(model)).failure).toMatchObject(failed(/sent an answer that is too large/, false))
    })

  test.for([301, 302, 303, 308, 304])(`${kind}: a redirect %i is not followed, and the key goes nowhere`, async (status,
    { onTestFinished }) => {
    const elsewhere = await startOdd(onTestFinished, kind, sends(whole))
    const { model } = await startOdd(onTestFinished, kind, (res) => res.writeHead(status,
      { location: 'http://127.0.0.1:9/v1' }).end())
    expect((await play(model)).failure).toMatchObject({ status, ...failed(/a redirect, which is not followed/, false) })
    expect(elsewhere.asked()).toBe(0)
  })

  test(`${kind}: 204 and an empty 200 are empty answers, tried again`, async ({ onTestFinished }) => {
    for (const status of [200, 204]) {
      for (const headers of [{}, STREAM]) {
        const { model } = await startOdd(onTestFinished, kind, (res) => res.writeHead(status, headers).end())
        expect((await play(model)).failure).toMatchObject(failed(/sent an empty answer/, true))
      }
    }
  })

  test(`${kind}: what is no HTTP, or breaks off in the middle of it, is a failure that is tried again`,
    async ({ onTestFinished }) => {
    for (const bytes of ['', 'SSH-2.0-x\r\n', 'HTTP/1.1 200 OK\r\ncontent-le',
      'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 5000\r\n\r\ndata: ',
      'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
        `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`]) {
      const { failure } = await play(await startBytes(onTestFinished, kind, bytes))
      expect(failure, bytes.slice(0, 60)).toMatchObject(failed(/^model endpoint "up" /, true))
    }
  })

  test(`${kind}: a server that takes the request and never answers is given up after its time`, async ({ onTestFinished }) => {
    const { model } = await startOdd(onTestFinished, kind, () => {}, { fetchTimeouts: { headersMs: 50 } })
    expect((await play(model)).failure).toMatchObject(failed(/did not answer in time/, true))
  })

  test(`${kind}: bytes that are no UTF-8 become the sign for it, and a lone surrogate does no harm`,
    async ({ onTestFinished }) => {
    const body = Buffer.from(whole.replace('Hello', 'HeXlo').replace('é', '\\ud800'))
    body[body.indexOf('X')] = 0xff
    const { model } = await startOdd(onTestFinished, kind, sends(body))
    const { reply } = await play(model)
    expect(reply?.content[0]).toMatchObject({ type: 'text', text: expect.stringMatching(/^He\ufffdlo/) as string })
  })

  test(`${kind}: a tool call with a name or an id that is none is handed on, for the loop to answer`,
    async ({ onTestFinished }) => {
    for (const [name, id] of [['', ''], ['x'.repeat(5000), 'i'], ['a\u0000b', 'a b'], ['__proto__', 'constructor']] as const) {
      const { model } = await startOdd(onTestFinished, kind, sends(streamOf(kind, calls(name, {}, { id }))))
      const { reply, failure } = await play(model)
      expect(failure, name).toBeUndefined()
      expect(reply, name).toMatchObject({ stop: 'tool-calls' })
    }
  })
}
