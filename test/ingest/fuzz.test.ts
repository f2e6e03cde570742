import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { startService } from '../support/service.ts'
import { eventsOf, journalOf, NAMES, openPiece, post, recorded, runOf, startChat, treeOf } from './chats.ts'

/** Values that no field expects, and ids that some do. */
const odd = fc.oneof(
  fc.constantFrom(null, true, 0, -0, 1e308, '', '/', [], {}, [null], { type: 'x' }, 'forked-command-', '<system-reminder>', '__proto__', '\ud800', 'x'.repeat(70_000)),
  fc.constantFrom('a-1', 'a-2', 't-1', 'u-1', 'u-2', 's-1'), fc.jsonValue({ maxDepth: 2 })
)
const change = fc.record({ at: fc.nat(), to: fc.nat(), how: fc.constantFrom('drop', 'double', 'move', 'tear', 'join', 'noise', 'field', 'inner'), value: odd })
type Change = typeof change extends fc.Arbitrary<infer T> ? T : never

/** Everything that can happen to lines on their way. */
function changed (lines: readonly string[], changes: readonly Change[]): string[] {
  const list = [...lines]
  for (const { at, to, how, value } of changes) {
    const i = at % list.length
    const line = list[i] ?? ''
    switch (how) {
      case 'drop': if (list.length > 1) list.splice(i, 1); break
      case 'double': list.splice(to % list.length, 0, line); break
      case 'move': list.splice(to % list.length, 0, ...list.splice(i, 1)); break
      case 'tear': list[i] = line.slice(0, to % (line.length + 1)); break
      case 'join': list[i] = line + (list[to % list.length] ?? ''); break
      case 'noise': list.splice(i, 0, JSON.stringify(value)); break
      default: list[i] = withOdd(line, to, value, how === 'inner')
    }
  }
  return list
}

function withOdd (line: string, to: number, by: unknown, inner: boolean): string {
  try {
    return JSON.stringify(replaced(JSON.parse(line), to, by, inner))
  } catch {
    return line
  }
}

function replaced (value: unknown, to: number, by: unknown, inner: boolean): unknown {
  if (typeof value !== 'object' || value === null) return by
  const keys = Object.keys(value)
  const key = keys[to % keys.length]
  if (key === undefined) return by
  const old = (value as Record<string, unknown>)[key]
  const made = inner ? replaced(old, Math.floor(to / keys.length), by, to % 3 !== 0) : by
  return Array.isArray(value) ? value.with(Number(key), made) : { ...value, [key]: made }
}

const output = fc.tuple(fc.array(fc.constantFrom(...NAMES), { minLength: 1, maxLength: 2 }), fc.array(change, { maxLength: 25 }))
  .map(([names, changes]) => changed(recorded(...names), changes))

test('whatever comes, in whatever pieces: no 5xx, the journal is what was sent, the count is the running rows, nothing runs after the end', async () => {
  const service = await startService(onTestFinished)
  const pieces = fc.array(fc.record({ at: fc.nat(), how: fc.constantFrom('post', 'cut', 'cancel child', 'look') }), { maxLength: 6 })
  await fc.assert(fc.asyncProperty(output, pieces, fc.option(fc.constantFrom('go', '/fan')), async (lines, steps, task) => {
    const id = await startChat(service, task === null ? {} : { task })
    const text = (from: number, to?: number): string => lines.slice(from, to).map((line) => `${line}\n`).join('')
    for (const { at, how } of steps.toSorted((a, b) => a.at - b.at)) {
      const from = (await runOf(service, id)).framesAccepted as number
      const to = from + at % (lines.length - from + 1)
      if (how === 'cut') {
        const piece = openPiece(service, id, { from })
        await piece.send(text(from, to).slice(0, -3))
        piece.drop()
      } else expect((await post(service, id, text(from, to), { from })).status).toBe(200)
      const tree = await treeOf(service, id)
      const running = tree.children.filter(({ status }) => status === 'running')
      expect(tree.runningChildren).toBe(running.length)
      if (how === 'cancel child' && running[0]) expect((await service.call('POST', `/v1/runs/${running[0].id}/cancel?wait=5`)).body).toMatchObject({ status: 'settled' })
    }
    const from = (await runOf(service, id)).framesAccepted as number
    expect(await post(service, id, text(from), { from, end: true })).toMatchObject({ status: 200, body: { accepted: lines.length } })
    const tree = await treeOf(service, id)
    expect(tree).toMatchObject({ status: 'settled', runningChildren: 0, framesAccepted: lines.length })
    for (const child of tree.children) expect(child).toMatchObject({ status: 'settled', runningChildren: 0, children: [] })
    expect((await journalOf(service, id, 7)).map((line) => line.toWellFormed())).toEqual(lines.map((line) => line.toWellFormed()))
    const events = await eventsOf(service, id)
    expect(events.filter(({ type }) => type === 'subagent/start').map(({ data }) => data.runId)).toEqual(tree.children.map((child) => child.id))
    const ended = events.filter(({ type }) => type === 'subagent/end').map(({ data }) => data.runId as string)
    expect([ended.length, new Set(ended)]).toEqual([tree.children.length, new Set(tree.children.map((child) => child.id))])
    for (const run of [tree, ...tree.children]) {
      const own = events.filter(({ runId }) => runId === run.id)
      expect(own.map(({ seq }) => seq)).toEqual(own.map((_, i) => i + (own[0]?.seq ?? 0)))
      expect(own.at(-1)?.type).toMatch(/settled$/)
      expect((await service.call('GET', `/v1/runs/${run.id}/result`)).status).toBe(200)
    }
  }), { numRuns: 25 })
})
