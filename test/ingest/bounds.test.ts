import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Observation } from '../../src/core/store.ts'
import { startIngest } from '../../src/providers/claude-code/ingest.ts'
import { isHeavy, MOST_VALUES } from '../../src/providers/claude-code/line-weight.ts'
import { readLine } from '../../src/providers/claude-code/lines.ts'
import { openSqliteStore } from '../../src/store/sqlite.ts'
import { newId, publication } from '../store/support.ts'
import { startService } from '../support/service.ts'

/** A chat whose writes are noted. */
async function room () {
  const store = await openSqliteStore({ path: ':memory:', now: () => 1 })
  onTestFinished(() => store.close())
  const written: Observation[] = []
  const onWrite = { told: (_: Observation): void => {} }
  const made = publication({ run: { provider: 'claude-code', status: 'idle', external: { framesAccepted: 0 } } })
  made.spec.external = { way: 'ingest', nonce: newId() }
  const place = await store.publish(made)
  const run = startIngest({
    store: { ...store, observe: async (observation) => { written.push(observation); onWrite.told(observation); return await store.observe(observation) } },
    now: () => 1, newId, retentionMs: 1000, maxDepth: 8, announce: () => {}, retire: () => {},
    onFault: (message) => { throw new Error(message) }, reserve: () => { throw new Error('an observed run takes no slot') }
  }, { publication: made, place, task: [], signal: new AbortController().signal })
  const sink = await run.frames?.open(0)
  if (!sink) throw new Error('no way in')
  return { sink, written, onWrite }
}

test.for([['blank', '\n', 1024], ['of no JSON', '{x\n', 1024], ['of tiny frames', '{}\n', 128]] as const)(
  'ingest: a piece of lines %s is many writes, each with a turn of its own, and no line is read before its turn', async ([, line, most]) => {
    const { sink, written, onWrite } = await room()
    const parse = vi.spyOn(JSON, 'parse')
    onTestFinished(() => { parse.mockRestore() })
    let turns = 0
    let ended = false
    const count = (): void => { turns++; if (!ended) setImmediate(count) }
    setImmediate(count)
    const readAtFirst: number[] = []
    onWrite.told = () => { if (readAtFirst.length === 0) readAtFirst.push(parse.mock.calls.filter(([text]) => text === line.trim()).length) }
    await sink.push(Buffer.from(line.repeat(5000)))
    ended = true
    expect(await sink.end(false)).toBe(5000)
    const sizes = written.map(({ frames }) => frames?.lines.length ?? 0)
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(5000)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(most)
    expect(turns).toBeGreaterThanOrEqual(5000 / most)
    expect(readAtFirst[0]).toBeLessThanOrEqual(2 * most)
  }
)

test('ingest: what costs an error to read and can be no frame is not parsed', () => {
  const parse = vi.spyOn(JSON, 'parse')
  onTestFinished(() => { parse.mockRestore() })
  for (const line of ['', '  ', 'x', '[1]', '"{}"', '7', '\r']) expect(readLine(line)).toEqual({ type: 'unreadable', line })
  expect(parse).not.toHaveBeenCalled()
  expect(readLine(' \t{"a":1}\r')).toMatchObject({ type: 'frame', frame: { a: 1 } })
})

test('ingest: a line of more values than are read in one go is the journal\'s alone, however they stand; a long text is read', () => {
  const many = MOST_VALUES + 10
  for (const line of [
    `{"a":[${'1,'.repeat(many)}1]}`, `{"a":${'['.repeat(many)}${']'.repeat(many)}}`, `{${Array.from({ length: many }, (_, i) => `"${i}":1`).join(',')}}`
  ]) expect(readLine(line)).toEqual({ type: 'unreadable', line })
  for (const text of ['[,:{'.repeat(many), '\\"[,'.repeat(many), '\\\\'.repeat(many)]) expect(readLine(`{"type":"x","text":"${text}"}`).type).toBe('frame')
})

test('ingest: values are counted outside of strings alone', () => {
  const pad = '1,'.repeat(MOST_VALUES - 50)
  fc.assert(fc.property(fc.array(fc.string({ unit: fc.constantFrom('"', '\\', ',', ':', '[', 'a'), maxLength: 12 }), { maxLength: 40 }), fc.nat({ max: 60 }), (texts, more) => {
    const values = [...texts, ...Array.from({ length: more }, () => 0)]
    const line = `[${pad}${values.map((value) => JSON.stringify(value)).join(',')}]`
    const count = 1 + MOST_VALUES - 50 + Math.max(0, values.length - 1)
    expect(isHeavy(line)).toBe(count > MOST_VALUES)
  }), { numRuns: 50 })
})

test('ingest: a gzip body may be 200 times its size; what came before it swells further is kept, and the chat goes on', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start({ provider: 'claude-code', ingest: true })
  const post = async (body: Buffer | string, from: number, headers = {}): Promise<{ status: number, body: { detail: string, accepted: number } }> => {
    const response = await fetch(`${service.url}/v1/runs/${id}/frames?from=${from}`, { method: 'POST', body, headers: { 'content-type': 'application/x-ndjson', ...headers } })
    return { status: response.status, body: await response.json() as { detail: string, accepted: number } }
  }
  const gzip = { 'content-encoding': 'gzip' }
  expect(await post(gzipSync('{}\n'.repeat(100)), 0, gzip)).toEqual({ status: 200, body: { accepted: 100 } })
  const refused = await post(gzipSync(`${' '.repeat(1023)}\n`.repeat(20_000)), 100, gzip)
  expect([refused.status, refused.body.detail]).toEqual([400, 'the gzip body swells to more than 200 times its size; send it as it is'])
  const { framesAccepted } = (await service.call('GET', `/v1/runs/${id}`)).body
  expect(framesAccepted).toBeLessThanOrEqual(100 + 1024)
  expect(await post('{}\n', framesAccepted)).toEqual({ status: 200, body: { accepted: framesAccepted + 1 } })
})
