import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync, chownSync, closeSync, mkdirSync, openSync, statSync, writeFileSync, writeSync
} from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import type { Store } from '../../src/core/store.ts'
import { openDatabase } from '../../src/store/connection.ts'
import { openSqliteStore, type SqliteStoreOptions } from '../../src/store/sqlite.ts'
import { storeContract } from './contract.ts'
import { newFolder, newPath, rowsOf } from './files.ts'
import { append, at, childOf, DAY, hostSession, publish, refused, said, settle, T, turn } from './support.ts'

const open = async (path: string, options: Partial<SqliteStoreOptions> = {}): Promise<Store> => {
  const store = await openSqliteStore({ path, now: () => 1_000_000, ...options })
  onTestFinished(() => store.close())
  return store
}

storeContract('sqlite in a file', async (options) => openSqliteStore({ path: newPath(), ...options }))
storeContract('sqlite in memory', async (options) => openSqliteStore({ path: ':memory:', ...options }))

interface Child { child: ChildProcess, lines: AsyncIterator<string> }

function startChild (mode: string, path: string, user: { uid?: number, gid?: number } = {}): Child {
  const script = fileURLToPath(new URL('child.ts', import.meta.url))
  const child = spawn(process.execPath, [script, mode, path], { stdio: ['ignore', 'pipe', 'inherit'], ...user })
  onTestFinished(() => { child.kill('SIGKILL') })
  return { child, lines: createInterface({ input: child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]() }
}

test('a store is found again as it was left: runs, logs, sessions, keys, and the one order goes on', async () => {
  const path = newPath()
  const first = await open(path)
  const run = await publish(first, { idempotency: { route: 'runs', key: 'k', bodyHash: 'h' } })
  await first.append({ segment: run.segment, events: at(0, turn(1)) })
  const before = await first.readTree(T, run.id, 0, 10)
  await first.close()
  const second = await open(path)
  expect(await second.getRun(T, run.id)).toMatchObject({ status: 'running' })
  expect((await second.unsettledRuns()).map(({ id }) => id)).toEqual([run.id])
  await second.append({ segment: run.segment, events: at(3, [said('after')]) })
  const other = await publish(second)
  expect(other.segment).not.toBe(run.segment)
  const after = await second.readTree(T, run.id, 0, 10)
  expect(after.slice(0, 3)).toEqual(before)
  expect(after[3]?.pos).toBeGreaterThan(before[2]?.pos as number)
  expect(await second.findIdempotency(T, 'runs', 'k')).toMatchObject({ subject: run.id })
})

interface Acknowledged { id?: string, events: number, settled?: boolean }

test('what was acknowledged survives SIGKILL, and no log has a hole', async () => {
  const path = newPath()
  for (const kill of [150, 400]) {
    const { child, lines } = startChild('write', path)
    const acknowledged = new Map<string, Acknowledged>()
    for (let i = 0; i < kill; i++) {
      const line = JSON.parse((await lines.next()).value as string) as Acknowledged
      if (line.id !== undefined) acknowledged.set(line.id, line)
    }
    child.kill('SIGKILL')
    await once(child, 'exit')
    const store = await openSqliteStore({ path, now: () => 0 })
    expect(acknowledged.size).toBeGreaterThan(0)
    for (const [id, { events, settled }] of acknowledged) {
      const run = await store.getRun(T, id)
      expect(run).toBeDefined()
      const log = await store.readEvents(run?.segment as number, 0)
      expect(log.length).toBeGreaterThanOrEqual(events)
      expect(log.map(({ seq }) => seq)).toEqual(log.map((_, i) => i))
      if (settled) expect(run).toMatchObject({ status: 'settled', result: { stopReason: 'completed' } })
    }
    await store.close()
  }
})

test('8.2 a second process on the same file refuses to start, and may once the first is gone', async () => {
  const path = newPath()
  const { child, lines } = startChild('hold', path)
  await lines.next()
  await expect(openSqliteStore({ path, now: Date.now })).rejects.toThrow(`"${path}": it is in use by another process`)
  child.kill('SIGKILL')
  await once(child, 'exit')
  await open(path)
})

test('the log is flushed by the store, checkpoints by SQLite, and one process has the file', () => {
  const db = openDatabase(newPath())
  const pragma = (name: string): unknown => db.prepare(`PRAGMA ${name}`).get()
  expect(pragma('journal_mode')).toEqual({ journal_mode: 'wal' })
  expect(pragma('synchronous')).toEqual({ synchronous: 1 })
  expect(pragma('locking_mode')).toEqual({ locking_mode: 'exclusive' })
  db.close()
})

test('a second store in this process refuses too', async () => {
  const path = newPath()
  await open(path)
  await expect(openSqliteStore({ path, now: Date.now })).rejects.toThrow('in use by another process')
})

test('a new file is readable by its owner alone', async () => {
  const path = newPath()
  const store = await open(path)
  await publish(store)
  for (const file of [path, `${path}-wal`]) expect(statSync(file).mode & 0o077).toBe(0)
})

test('what cannot be opened says why, with the path and what to do', async () => {
  const folder = newFolder()
  const file = (name: string, content = ''): string => {
    writeFileSync(join(folder, name), content)
    return join(folder, name)
  }
  const change = (path: string, sql: string): void => {
    const db = new DatabaseSync(path)
    db.exec(sql)
    db.close()
  }
  const foreign = join(folder, 'foreign.db')
  change(foreign, 'CREATE TABLE mine (a)')
  const newer = join(folder, 'newer.db')
  await (await openSqliteStore({ path: newer, now: Date.now })).close()
  change(newer, 'PRAGMA user_version = 9999')
  const damaged = file('damaged.db', 'not a database, but long enough to be taken for one. '.repeat(50))
  const cases: [string, RegExp][] = [
    [damaged, /no SQLite database, or a damaged one. Restore it from a backup/],
    [foreign, /a database of another program/],
    [newer, /written by a newer version \(schema 9999, this one knows \d+\): run that version/],
    [folder, /it is a folder. Set DATABASE_URL to a file in it/],
    [join(damaged, 'below', 'store.db'), /a part of the path is a file/]
  ]
  for (const [path, reason] of cases) {
    const opening = openSqliteStore({ path, now: Date.now })
    await expect(opening).rejects.toThrow(reason)
    await expect(opening).rejects.toThrow(`cannot open the database "${path}"`)
  }
})

test.skipIf(process.getuid?.() !== 0)('a folder or file without permission to write says so', async () => {
  const folder = newFolder()
  const nobody = { uid: 65_534, gid: 65_534 }
  chmodSync(folder, 0o755)
  const mine = join(folder, 'mine')
  mkdirSync(mine, { mode: 0o755 })
  writeFileSync(join(mine, 'read-only.db'), '', { mode: 0o644 })
  writeFileSync(join(mine, 'beside.db'), '', { mode: 0o644 })
  chownSync(join(mine, 'beside.db'), nobody.uid, nobody.gid)
  for (const path of [join(mine, 'new.db'), join(mine, 'new', 'new.db'), join(mine, 'read-only.db'), join(mine, 'beside.db')]) {
    const { value } = await startChild('open', path, nobody).lines.next()
    expect(JSON.parse(value as string)).toEqual({ error: expect.stringContaining(`"${path}": `) as string })
    expect(value).toMatch(/Give this user write access to the file and/)
  }
})

test('3.7 a fork writes rows for itself alone: as many under 100,000 events as under 10', async () => {
  const grown: Record<string, number>[] = []
  for (const length of [10, 100_000]) {
    const path = newPath()
    const store = await openSqliteStore({ path, now: () => 1 })
    const parent = await publish(store)
    await append(store, parent, 0, Array.from({ length: length - 3 }, () => said('x')))
    await append(store, parent, length - 3, turn(1))
    await store.close()
    const before = rowsOf(path)
    const again = await openSqliteStore({ path, now: () => 1 })
    for (let i = 0; i < 3; i++) {
      const child = await publish(again, { run: childOf(parent), seed: { segment: parent.segment, length } })
      await again.append({ segment: child.segment, events: at(length, [said('own')]) })
    }
    await again.close()
    const after = rowsOf(path)
    grown.push(Object.fromEntries(Object.entries(after).map(([table, rows]) => [table, rows - (before[table] ?? 0)])))
  }
  expect(grown[0]).toEqual({ events: 3, segments: 3, runs: 3, specs: 3, sessions: 3, idempotency: 0, garbage: 0 })
  expect(grown[1]).toEqual(grown[0])
})

test('3.7 bytes stay while a fork refers to them, not longer, and nothing is left of what is forgotten', async () => {
  const path = newPath()
  let store = await openSqliteStore({ path, now: () => 1 })
  const reopened = async (): Promise<Record<string, number>> => {
    await store.sweep(1 + DAY)
    await store.close()
    const rows = rowsOf(path)
    store = await openSqliteStore({ path, now: () => 1 })
    return rows
  }
  const parent = await publish(store, { seed: { events: turn(1) }, idempotency: { route: 'runs', key: 'k', bodyHash: 'h' } })
  await append(store, parent, 3, [...turn(2), ...turn(3)])
  const child = await publish(store, { run: childOf(parent), seed: { segment: parent.segment, length: 6 } })
  await settle(store, parent, 9)
  await settle(store, child, 6)
  expect(await reopened()).toMatchObject({ events: 11, segments: 3 })
  await store.deleteRuns(T, [parent.id])
  expect(await reopened()).toMatchObject({ events: 7, segments: 3, runs: 1, specs: 1, sessions: 1, idempotency: 0, garbage: 0 })
  await store.deleteRuns(T, [child.id])
  expect(await reopened()).toEqual({ events: 0, segments: 0, runs: 0, specs: 0, sessions: 0, idempotency: 0, garbage: 0 })
  await store.close()
})

test('3.7 a fork of a fork refers to the log that holds the events: what lies between them can go', async () => {
  const path = newPath()
  const store = await openSqliteStore({ path, now: () => 1 })
  const parent = await publish(store)
  await append(store, parent, 0, turn(1))
  const between = await publish(store, { run: childOf(parent), seed: { segment: parent.segment, length: 3 } })
  const fork = await publish(store, { run: childOf(between), seed: { segment: between.segment, length: 3 } })
  await settle(store, between, 3)
  await store.deleteRuns(T, [between.id])
  await store.sweep(0)
  expect(await store.readEvents(fork.segment, 0)).toHaveLength(3)
  await store.close()
  expect(rowsOf(path)).toMatchObject({ segments: 2, events: 3, garbage: 0 })
})

test('6.1 the one order goes on after a restart, also when the first write of all failed', async () => {
  const path = newPath()
  const first = await openSqliteStore({ path, now: () => 1, maxBytes: 500_000 })
  await refused(first.createSession(hostSession({ events: [...turn(1), said('x'.repeat(600_000))] })), 'STORE_UNAVAILABLE')
  const run = await publish(first)
  await append(first, run, 0, turn(1))
  await first.close()
  const second = await open(path)
  const other = await publish(second)
  await append(second, run, 3, turn(2))
  expect(other.segment).toBeGreaterThan(run.segment)
  expect((await second.readTree(T, run.id, 0, 10)).map(({ event }) => event.seq)).toEqual([0, 1, 2, 3, 4, 5])
  const order = (await second.readTree(T, run.id, 0, 10)).map(({ pos }) => pos)
  expect(order).toEqual(order.toSorted((a, b) => a - b))
})

test('a full disk fails the batch, skips nothing of a log, and is no full disk any more once there is room', async () => {
  const faults: unknown[] = []
  const store = await open(newPath(), { maxBytes: 1_000_000, onFault: (error) => faults.push(error) })
  const old = await publish(store)
  await append(store, old, 0, Array.from({ length: 600 }, () => said('x'.repeat(600))))
  await settle(store, old, 600)
  const run = await publish(store)
  const big = (seq: number): ReturnType<typeof at> => at(seq, [said('y'.repeat(700_000))])
  const outcomes = await Promise.allSettled([
    store.patchRun(T, run.id, { notices: ['n'] }),
    store.append({ segment: run.segment, events: big(0), run: { tenant: T, id: run.id, patch: { startedAt: 1 } } })
  ])
  const reason = { code: 'STORE_UNAVAILABLE', context: { retryAfter: 5 } }
  expect(outcomes).toMatchObject([{ reason }, { reason }])
  expect(faults).toMatchObject([{ message: expect.stringContaining('full') as string }])
  await refused(append(store, run, 1, [said('z')]), 'STORE_UNAVAILABLE')
  await refused(append(store, run, 0, [said('z')], { notices: ['y'.repeat(700_000)] }), 'STORE_UNAVAILABLE')
  expect(await store.readEvents(run.segment, 0)).toEqual([])
  expect(await store.getRun(T, run.id)).toMatchObject({ startedAt: null, notices: [] })
  await store.deleteRuns(T, [old.id])
  await store.sweep(0)
  await store.append({ segment: run.segment, events: big(0) })
  await append(store, run, 1, [said('z')])
  expect(faults).toHaveLength(2)
})

test('a damaged page is a store that fails, told with its cause, not an answer', async () => {
  const path = newPath()
  const first = await openSqliteStore({ path, now: () => 1 })
  const run = await publish(first)
  await first.append({ segment: run.segment, events: at(0, Array.from({ length: 2000 }, () => said('x'.repeat(500)))) })
  await first.close()
  const size = statSync(path).size
  const file = openSync(path, 'r+')
  writeSync(file, Buffer.alloc(size / 2, 0xff), 0, undefined, size / 2)
  closeSync(file)
  const faults: unknown[] = []
  const store = await open(path, { onFault: (error) => faults.push(error) })
  await refused(store.readEvents(run.segment, 0), 'STORE_UNAVAILABLE')
  expect(faults).toMatchObject([{ message: expect.stringContaining('malformed') as string }])
})
