import { gzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { createKeyRing, sha256 } from '../../src/keys.ts'
import { startService } from '../support/service.ts'
import { assistant, init, replay, result, words } from '../providers/claude-code/play.ts'
import { eventsOf, ingest, journalOf, linesFrom, linesOf, openPiece, post, recorded, runOf, startChat, storyOf, untilAccepted } from './chats.ts'

const three = linesOf(init(), replay('u-1', 'hello'), assistant(words('hi')))

test('ingest: lines are acknowledged by number, known ones are skipped, and a gap names the line that is expected', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  expect(await runOf(service, id)).toMatchObject({ framesAccepted: 0, status: 'idle' })
  expect(await post(service, id, three)).toMatchObject({ status: 200, body: { accepted: 3 } })
  const gap = await post(service, id, linesOf(result()), { from: 4 })
  expect(gap).toMatchObject({ status: 409, body: { code: 'FRAME_GAP', expected: 3, detail: 'frames are missing: expected line 3' } })
  expect(await post(service, id, three + linesOf(result()), { from: 0 })).toMatchObject({ status: 200, body: { accepted: 4 } })
  expect(await post(service, id, three, { from: 1 })).toMatchObject({ status: 200, body: { accepted: 4 } })
  expect(await runOf(service, id)).toMatchObject({ framesAccepted: 4, status: 'idle' })
  expect((await eventsOf(service, id)).map(({ type }) => type)).toEqual(['turn/start', 'user/message', 'step/start', 'assistant/message', 'step/end', 'turn/end'])
})

test('ingest: the end settles the chat; said again it is answered as before, and a line after it is refused', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  expect(await post(service, id, three + linesOf(result()), { end: true })).toMatchObject({ status: 200, body: { accepted: 4 } })
  expect(await runOf(service, id)).toMatchObject({ status: 'settled', stopReason: 'completed', framesAccepted: 4 })
  for (const from of [0, 2, 4]) {
    const lines = (three + linesOf(result())).split('\n').slice(from, -1).map((line) => `${line}\n`).join('')
    expect(await post(service, id, lines, { from, end: true })).toMatchObject({ status: 200, body: { accepted: 4 } })
  }
  expect(await post(service, id, '', { from: 4, end: true })).toMatchObject({ status: 200, body: { accepted: 4 } })
  expect(await post(service, id, linesOf(result()), { from: 4 })).toMatchObject({ status: 409, body: { code: 'RUN_SETTLED' } })
  expect(await post(service, id, '{"torn":', { from: 4 })).toMatchObject({ status: 409, body: { code: 'RUN_SETTLED' } })
  expect(await post(service, id, three + linesOf(result(), result()))).toMatchObject({ status: 409, body: { code: 'RUN_SETTLED' } })
  expect(await post(service, id, '', { from: 5 })).toMatchObject({ status: 409, body: { code: 'RUN_SETTLED' } })
})

test('ingest: two hosts that say the end at once are both told that it is accepted', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  await post(service, id, three)
  const answers = await Promise.all(Array.from({ length: 6 }, (_, i) => post(service, id, i % 2 === 0 ? '' : linesOf(assistant(words('hi'))), { from: i % 2 === 0 ? 3 : 2, end: true })))
  expect(answers.map(({ status, body }) => [status, body.accepted])).toEqual(Array(6).fill([200, 3]))
  expect(await runOf(service, id)).toMatchObject({ status: 'settled' })
})

test('ingest: the end of fewer lines than are known is a gap, and ends nothing', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  await post(service, id, three)
  expect(await post(service, id, linesOf(init()), { end: true })).toMatchObject({ status: 409, body: { code: 'FRAME_GAP', expected: 3 } })
  expect(await runOf(service, id)).toMatchObject({ status: 'running', framesAccepted: 3 })
})

test('ingest: a gzip body, any of the three media types, no line break at the end', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  const piece = openPiece(service, id, { headers: { 'content-encoding': 'gzip', 'content-type': 'application/jsonl; charset=utf-8' } })
  await piece.send(gzipSync(three))
  piece.end()
  expect(await piece.answer).toMatchObject({ status: 200, body: { accepted: 3 } })
  expect(await post(service, id, JSON.stringify(result()), { from: 3, headers: { 'content-type': 'application/ndjson' } })).toMatchObject({ body: { accepted: 4 } })
  expect(await journalOf(service, id)).toHaveLength(4)
  expect(await runOf(service, id)).toMatchObject({ status: 'idle' })
})

test('ingest: another content type or encoding is 415, what is no gzip 400, and nothing of it counts', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  expect(await post(service, id, '{}', { headers: { 'content-type': 'application/json' } })).toMatchObject({ status: 415, body: { code: 'UNSUPPORTED_MEDIA_TYPE' } })
  expect(await post(service, id, '{}', { headers: { 'content-encoding': 'br' } })).toMatchObject({ status: 415, body: { code: 'UNSUPPORTED_MEDIA_TYPE' } })
  expect(await post(service, id, three, { headers: { 'content-encoding': 'gzip' } })).toMatchObject({ status: 400, body: { code: 'INVALID_REQUEST', detail: 'the body is not valid gzip' } })
  const torn = openPiece(service, id, { headers: { 'content-encoding': 'gzip' } })
  await torn.send(gzipSync(three).subarray(0, 40))
  torn.end()
  expect(await torn.answer).toMatchObject({ status: 400, body: { code: 'INVALID_REQUEST' } })
  for (const query of ['from=-1', 'from=x', 'from=1.5', 'end=1', 'from=9007199254740993', 'later=1']) {
    expect(await service.call('POST', `/v1/runs/${id}/frames?${query}`, three, { 'content-type': 'application/x-ndjson' })).toMatchObject({ status: 400 })
  }
  expect(await runOf(service, id)).toMatchObject({ framesAccepted: 0, status: 'idle' })
})

test('ingest: a line over 8 MiB is refused by its number, and everything before it is kept', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  const long = JSON.stringify(assistant(words('x'.repeat(8 * 1024 * 1024))))
  const piece = openPiece(service, id)
  await piece.send(three)
  await piece.send(`${long}\n${linesOf(result())}`)
  const { status, body } = await piece.answer
  expect({ status, code: body.code, detail: body.detail }).toEqual({ status: 413, code: 'PAYLOAD_TOO_LARGE', detail: 'line 3 is longer than 8388608 bytes' })
  expect(await runOf(service, id)).toMatchObject({ framesAccepted: 3 })
  expect(await post(service, id, linesOf('{"left":"out"}', result()), { from: 3, end: true })).toMatchObject({ status: 200, body: { accepted: 5 } })
  expect(await runOf(service, id)).toMatchObject({ status: 'settled', stopReason: 'completed' })
})

test('ingest: a line that never ends is refused once it is too long, and does not stay in memory', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  const piece = openPiece(service, id)
  const answered = piece.answer.then(() => true)
  const block = 'x'.repeat(1024 * 1024)
  for (let sent = 0; sent < 64; sent++) {
    if (await Promise.race([answered, piece.send(block).then(() => false, () => true)])) break
  }
  expect(await piece.answer).toMatchObject({ status: 413, body: { detail: 'line 0 is longer than 8388608 bytes' } })
  expect(await runOf(service, id)).toMatchObject({ framesAccepted: 0 })
})

test('ingest: blank, torn and non-JSON lines are in the journal as they came, and in no log', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service)
  const odd = ['', '   ', '{"type":"assist', 'null', '[1]', 'NUL \0 and ünïcode \u2028 \u{1f600}', '\ufeff{}', '{"type":"result"}\r', '"\\ud800"']
  expect(await post(service, id, linesOf(...odd))).toMatchObject({ status: 200, body: { accepted: odd.length } })
  expect(await journalOf(service, id)).toEqual(odd)
  expect(await journalOf(service, id, 1)).toEqual(odd)
  expect((await linesFrom(service, id, { from: 4, limit: 2 })).split('\n').slice(0, 2)).toEqual(odd.slice(4, 6))
  expect((await eventsOf(service, id)).filter(({ type }) => type === 'assistant/message')).toEqual([])
})

test('ingest: a connection that breaks in mid-line leaves the lines before it, and its host goes on from framesAccepted', async () => {
  const service = await startService(onTestFinished)
  const lines = recorded('a subagent in the foreground')
  const [whole, torn] = [await startChat(service), await startChat(service)]
  await ingest(service, whole, lines)
  const piece = openPiece(service, torn)
  const text = lines.map((line) => `${line}\n`).join('')
  const cut = text.indexOf('"reading"')
  await piece.send(text.slice(0, cut))
  const complete = text.slice(0, cut).split('\n').length - 1
  await untilAccepted(service, torn, complete)
  piece.drop()
  expect(await runOf(service, torn)).toMatchObject({ status: 'running', framesAccepted: complete, runningChildren: 1 })
  expect(await post(service, torn, lines.slice(complete).map((line) => `${line}\n`).join(''), { from: complete, end: true })).toMatchObject({ status: 200 })
  expect(await storyOf(service, torn)).toEqual(await storyOf(service, whole))
  expect(await journalOf(service, torn)).toEqual(lines)
})

test('ingest: an old connection that goes on sending known lines beside the new one does no harm', async () => {
  const service = await startService(onTestFinished)
  const lines = recorded('two subagents side by side')
  const [whole, twice] = [await startChat(service), await startChat(service)]
  await ingest(service, whole, lines)
  const [old, young] = [openPiece(service, twice), openPiece(service, twice)]
  for (const [i, line] of lines.entries()) {
    await young.send(`${line}\n`)
    if (i % 3 === 0) await untilAccepted(service, twice, i + 1)
    if (i >= 4) await old.send(`${lines[i - 4]}\n`)
  }
  young.end()
  expect(await young.answer).toMatchObject({ status: 200, body: { accepted: lines.length } })
  old.end()
  expect(await old.answer).toMatchObject({ status: 200, body: { accepted: lines.length } })
  await post(service, twice, '', { from: lines.length, end: true })
  expect(await storyOf(service, twice)).toEqual(await storyOf(service, whole))
  expect(await journalOf(service, twice)).toEqual(lines)
})

test('ingest: an output in thousands of tiny pieces is the same output', async () => {
  const service = await startService(onTestFinished)
  const lines = recorded('a typed fork', 'a subagent in the background')
  const [whole, tiny] = [await startChat(service), await startChat(service)]
  await ingest(service, whole, lines)
  const piece = openPiece(service, tiny, { end: true })
  const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''))
  for (let i = 0; i < bytes.length; i++) void piece.send(bytes.subarray(i, i + 1))
  piece.end()
  expect(await piece.answer).toMatchObject({ status: 200, body: { accepted: lines.length } })
  expect(await storyOf(service, tiny)).toEqual(await storyOf(service, whole))
})

test('ingest: a body that ends at once, or is nothing but its end, is taken', async () => {
  const service = await startService(onTestFinished)
  const id = await startChat(service, { task: 'look into it' })
  expect(await service.call('POST', `/v1/runs/${id}/frames`)).toMatchObject({ status: 200, body: { accepted: 0 } })
  expect(await runOf(service, id)).toMatchObject({ status: 'running' })
  expect(await service.call('POST', `/v1/runs/${id}/frames?end=true`)).toMatchObject({ status: 200, body: { accepted: 0 } })
  expect(await runOf(service, id)).toMatchObject({ status: 'settled', stopReason: 'error', error: { code: 'INTERRUPTED' } })
  expect(await journalOf(service, id)).toEqual([])
})

test('ingest: an unknown run is 404, and one that takes no frames 422', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start({ task: 'a', agentOptions: { script: [{ say: 'b' }] } })
  for (const [method, body] of [['POST', three], ['GET', undefined]] as const) {
    const headers = { 'content-type': 'application/x-ndjson' }
    const unknown = await service.call(method, '/v1/runs/0197b0a0-0000-7000-8000-000000000000/frames', body, body === undefined ? {} : headers)
    expect(unknown).toMatchObject({ status: 404, body: { code: 'RUN_NOT_FOUND' } })
    expect(await service.call(method, `/v1/runs/${id}/frames`, body, body === undefined ? {} : headers)).toMatchObject({ status: 422, body: { code: 'UNSUPPORTED_CAPABILITY' } })
  }
})

test('8.1 another tenant finds no chat to add to or to read, and a key that may only read adds nothing', async () => {
  const KEYS = { a: ['read', 'write'], b: ['read', 'write'], reader: ['read'] }
  const keys = createKeyRing({
    path: 'keys.yaml', now: Date.now, watch: () => () => {}, onFault: (error) => { throw error },
    readFile: () => JSON.stringify(Object.entries(KEYS).map(([id, scopes]) => ({ id, sha256: sha256(id).toString('hex'), tenant: id === 'b' ? 'b' : 'a', scopes })))
  })
  const service = await startService(onTestFinished, { keys })
  const as = (id: string) => ({ authorization: `Bearer ${id}` })
  const { body: { id } } = await service.call('POST', '/v1/runs', { provider: 'claude-code', ingest: true }, as('a'))
  expect(await post(service, id, three, { headers: as('b') })).toMatchObject({ status: 404, body: { code: 'RUN_NOT_FOUND' } })
  expect(await service.call('GET', `/v1/runs/${id}/frames`, undefined, as('b'))).toMatchObject({ status: 404, body: { code: 'RUN_NOT_FOUND' } })
  expect(await post(service, id, three, { headers: as('reader') })).toMatchObject({ status: 403, body: { code: 'FORBIDDEN' } })
  expect(await post(service, id, three)).toMatchObject({ status: 401 })
  expect(await service.call('GET', `/v1/runs/${id}`, undefined, as('a'))).toMatchObject({ body: { framesAccepted: 0 } })
  expect(await post(service, id, three, { headers: as('a') })).toMatchObject({ status: 200, body: { accepted: 3 } })
})
