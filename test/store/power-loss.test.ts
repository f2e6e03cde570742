import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, fstatSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import type { Store } from '../../src/core/store.ts'
import { openSqliteStore, type SqliteStoreOptions } from '../../src/store/sqlite.ts'
import { divertFlushes, holdFlushes } from '../support/flushes.ts'
import { append, publish, refused, said, settle, T, type Published } from './support.ts'

const newFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'store-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
const open = async (path: string, options: Partial<SqliteStoreOptions> = {}): Promise<Store> => {
  const onFault = (error: unknown): void => expect.fail(`a fault: ${String(error)}`)
  const store = await openSqliteStore({ path, now: () => 1_000_000, onFault, ...options })
  onTestFinished(() => store.close())
  return store
}
const MEGABYTE = 1_000_000
/** Writes so much of the log again as a checkpoint needs. */
const rewrite = (store: Store, { tenant, id }: Published, mark: string, size = MEGABYTE): Promise<void> =>
  store.patchRun(tenant, id, { notices: [mark.padEnd(size, '.')] })

/** What became of the promise once everything that can go on without the disk has gone on. */
async function stateOf (promise: Promise<unknown>): Promise<'open' | 'done'> {
  let state: 'open' | 'done' = 'open'
  promise.then(() => { state = 'done' }, () => { state = 'done' })
  for (let i = 0; i < 5; i++) await new Promise((resolve) => { setImmediate(resolve) })
  return state
}

test('a publication is written before it is durable; no read, no refusal and no write is answered before that', async () => {
  const store = await open(join(newFolder(), 'store.db'))
  const flushes = holdFlushes(onTestFinished)
  const run = await publish(store)
  const other = await publish(store)
  expect(flushes.asked).toBe(0)
  const answers: Promise<unknown>[] = [
    store.getRun(T, run.id), store.listRuns(T, {}, { limit: 10 }), store.readEvents(run.segment, 0), store.durable(),
    refused(publish(store, { run: { id: run.id } }), 'RUN_EXISTS'), append(store, run, 0, [said('a')]),
    store.patchRun(T, other.id, { startedAt: 1 }), store.ping()
  ]
  await flushes.next()
  expect(await Promise.all(answers.map(stateOf))).toEqual(answers.map(() => 'open'))
  expect(flushes.waiting).toBe(1)
  flushes.release()
  const [found, listed] = await Promise.all(answers)
  expect(found).toMatchObject({ id: run.id })
  expect(listed).toHaveLength(2)
})

test('whoever reads what is durable waits for no disk', async () => {
  const store = await open(join(newFolder(), 'store.db'))
  const run = await publish(store)
  await append(store, run, 0, [said('a')])
  const flushes = holdFlushes(onTestFinished)
  expect(await store.readEvents(run.segment, 0)).toHaveLength(1)
  expect(await store.getRun(T, run.id)).toMatchObject({ id: run.id })
  await store.durable()
  expect(flushes.asked).toBe(0)
})

test('a store in memory flushes nothing', async () => {
  const flushes = holdFlushes(onTestFinished)
  const store = await open(':memory:')
  const run = await publish(store)
  await append(store, run, 0, [said('a')])
  await store.durable()
  await store.close()
  expect(flushes.asked).toBe(0)
})

/** What the disk holds for certain when a flush ends, and what was acknowledged by then. */
interface Cut { path: string, run: Published, mark: number, events: number }

test('what was acknowledged survives the loss of power, before, between and after checkpoints', async () => {
  const folder = newFolder()
  const path = join(folder, 'store.db')
  const store = await open(path)
  const run = await publish(store)
  const cuts: Cut[] = []
  const acknowledged = { mark: 0, events: 0 }
  let count = 0
  divertFlushes(onTestFinished, async (flush) => {
    const cut = { path: join(folder, `${count}.db`), run, ...acknowledged }
    if (count++ % 9 === 4) {
      copyFileSync(path, cut.path)
      copyFileSync(`${path}-wal`, `${cut.path}-wal`)
      cuts.push(cut)
    }
    await flush()
    // Told of in the order of the flushes: what this one brings is acknowledged before the next one begins.
    setImmediate(() => Object.assign(cut, acknowledged))
  })
  for (let mark = 1; mark <= 40; mark++) {
    await rewrite(store, run, `${mark} `)
    acknowledged.mark = mark
    await append(store, run, mark - 1, [said('a')])
    acknowledged.events = mark
  }
  expect(cuts.length).toBeGreaterThan(5)
  // The log was begun again at least once: it holds fewer bytes than were written.
  expect(statSync(`${path}-wal`).size).toBeLessThan(30 * MEGABYTE)
  for (const { path: copy, mark, events } of cuts) {
    const found = await open(copy)
    expect(await found.readEvents(run.segment, 0)).toHaveLength(events)
    expect(parseInt((await found.getRun(T, run.id))?.notices[0] ?? '0', 10)).toBe(mark)
    await found.close()
  }
})

test('the file that is flushed stays the log of the store, whatever checkpoints do to it', async () => {
  const path = join(newFolder(), 'store.db')
  const seen = new Set<string>()
  const sizes: number[] = []
  divertFlushes(onTestFinished, async (flush, file) => {
    const { ino, nlink } = fstatSync(file)
    const { ino: named, size } = statSync(`${path}-wal`)
    seen.add(`${ino === named} ${nlink} ${ino}`)
    sizes.push(size)
    await flush()
  })
  const store = await open(path)
  const run = await publish(store)
  for (let i = 0; i < 40; i++) await rewrite(store, run, `${i}`)
  const before = Math.max(...sizes)
  await rewrite(store, run, 'big', 40 * MEGABYTE)
  expect(Math.max(...sizes)).toBeGreaterThan(2 * before)
  await rewrite(store, run, 'after')
  await append(store, run, 0, [said('a')])
  // Begun again, and cut to its limit.
  expect(sizes.at(-1)).toBeLessThanOrEqual(2 ** 25)
  expect(seen.size).toBe(1)
  expect([...seen][0]).toMatch(/^true 1 /)
})

test('the log is found beside the file that a link stands for', async () => {
  const folder = newFolder()
  mkdirSync(join(folder, 'real'))
  const link = join(folder, 'link.db')
  const real = join(folder, 'real', 'store.db')
  await (await open(real)).close()
  symlinkSync(real, link)
  const files: number[] = []
  divertFlushes(onTestFinished, async (flush, file) => {
    files.push(fstatSync(file).ino)
    await flush()
  })
  const store = await open(link)
  await append(store, await publish(store), 0, [said('a')])
  expect(new Set(files)).toEqual(new Set([statSync(`${real}-wal`).ino]))
})

test('a flush that fails loses the store: nothing is read or written until it is opened anew', async () => {
  const path = join(newFolder(), 'store.db')
  const faults: unknown[] = []
  const store = await open(path, { onFault: (error) => faults.push(error) })
  const run = await publish(store)
  await append(store, run, 0, [said('a')])
  const flushes = holdFlushes(onTestFinished)
  const first = refused(append(store, run, 1, [said('b')]), 'STORE_UNAVAILABLE', { retryAfter: 5 })
  await flushes.next()
  const lost = [append(store, run, 2, [said('c')]), store.getRun(T, run.id), store.durable()]
  flushes.fail()
  await Promise.all([first, ...lost.map((each) => refused(each, 'STORE_UNAVAILABLE', { retryAfter: 5 }))])
  const calls = [
    publish(store), settle(store, run, 1), store.getRun(T, run.id), store.readEvents(run.segment, 0), store.ping(), store.sweep(0)
  ]
  await Promise.all(calls.map((each) => refused(each, 'STORE_UNAVAILABLE')))
  expect(faults).toMatchObject([{ code: 'EIO' }])
  await store.close()
  expect(flushes.asked).toBe(1)
  flushes.release()
  const again = await open(path)
  expect((await again.readEvents(run.segment, 0)).length).toBeGreaterThanOrEqual(1)
  await append(again, await publish(again), 0, [said('d')])
})

test('what a killed process had written is flushed before it is read', async () => {
  const path = join(newFolder(), 'store.db')
  const first = await open(path)
  const run = await publish(first)
  const copy = join(newFolder(), 'store.db')
  for (const end of ['', '-wal']) copyFileSync(path + end, copy + end)
  const flushes = holdFlushes(onTestFinished)
  const opening = open(copy)
  await flushes.next()
  expect(await stateOf(opening)).toBe('open')
  flushes.release()
  expect(await (await opening).getRun(T, run.id)).toMatchObject({ id: run.id })
})

test('a store whose log cannot be flushed does not open, says so, and leaves the file free', async () => {
  const path = join(newFolder(), 'store.db')
  const flushes = holdFlushes(onTestFinished)
  flushes.fail()
  await expect(openSqliteStore({ path, now: () => 0 })).rejects.toThrow(`cannot open the database "${path}": EIO: i/o error`)
  flushes.release()
  await open(path)
})

test('8.2 a refused second store of this process does not free the file for another process', async () => {
  const path = join(newFolder(), 'store.db')
  await open(path)
  await expect(openSqliteStore({ path, now: Date.now })).rejects.toThrow('in use by another process')
  const script = fileURLToPath(new URL('child.ts', import.meta.url))
  const child = spawn(process.execPath, [script, 'open', path], { stdio: ['ignore', 'pipe', 'inherit'] })
  const gone = once(child, 'exit')
  const { value } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next()
  expect(JSON.parse(value as string)).toEqual({ error: expect.stringContaining('in use by another process') as string })
  await gone
})
