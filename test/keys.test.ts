import crypto from 'node:crypto'
import { mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { stringify } from 'yaml'
import { mintKey, runKeyCommand } from '../src/key.ts'
import { createKeyRing, parseKeys, sha256, watchPath } from '../src/keys.ts'
import { ConfigError } from '../src/settings.ts'

const hash = (key: string): string => sha256(key).toString('hex')

/** A ring over a file in memory. */
function ring (entries: unknown) {
  const file = { text: stringify(entries), readable: true }
  const clock = { now: Date.parse('2026-01-01T00:00:00Z') }
  const faults: Error[] = []
  let change: (() => void) | undefined
  const keys = createKeyRing({
    path: 'keys.yaml',
    readFile: () => {
      if (!file.readable) throw new Error('EACCES')
      return file.text
    },
    watch: (_, onChange) => {
      change = onChange
      return () => { change = undefined }
    },
    now: () => clock.now,
    onFault: (error) => { faults.push(error) }
  })
  const write = (text: string): void => {
    file.text = text
    change?.()
  }
  return { keys, file, clock, faults, write, change: () => change?.(), watched: () => change !== undefined }
}

function faults (text: string): Record<string, string> {
  try {
    parseKeys(text, 'k')
    return {}
  } catch (error) {
    return Object.fromEntries((error as ConfigError).faults.map(({ key, detail }) => [key, detail]))
  }
}

test('8.1 a key is found by its hash, with everything its entry says', () => {
  const { keys } = ring([
    { id: 'a', sha256: hash('key-a').toUpperCase(), tenant: 'acme' },
    { id: 'b', sha256: hash('key-b'), tenant: 'Übung & co', scopes: ['metrics'], expiresAt: '2030-01-31T00:00:00+01:00',
      limits: { running: 2, startsPerMinute: 3, bodyBytes: 4 }, models: ['openai/*'], minDepth: 1 }
  ])
  expect(keys.size).toBe(2)
  expect(keys.find('key-a')).toEqual({ id: 'a', sha256: hash('key-a'), tenant: 'acme', scopes: ['read', 'write'] })
  expect(keys.find('key-b')).toEqual({
    id: 'b', sha256: hash('key-b'), tenant: 'Übung & co', scopes: ['metrics'], expiresAt: Date.parse('2030-01-30T23:00:00Z'),
    limits: { running: 2, startsPerMinute: 3, bodyBytes: 4 }, models: ['openai/*'], minDepth: 1
  })
})

test('what is no key is not found: another text, the hash itself, nothing, far too much', () => {
  const { keys } = ring([{ id: 'a', sha256: hash('key-a'), tenant: 't' }])
  for (const text of ['key-A', 'key-a ', hash('key-a'), '', 'x'.repeat(1_000_000)]) expect(keys.find(text)).toBeUndefined()
})

test('8.1 a key is looked up by its digest and the digests are compared in constant time', () => {
  const near = hash('key-a').replace(/.$/, (last) => last === '0' ? '1' : '0')
  const { keys } = ring([{ id: 'near', sha256: near, tenant: 'x' }, { id: 'a', sha256: hash('key-a'), tenant: 't' }])
  const compared: [number, number][] = []
  const real = crypto.timingSafeEqual
  const spy = vi.spyOn(crypto, 'timingSafeEqual').mockImplementation((a, b) => {
    compared.push([a.byteLength, b.byteLength])
    return real(a, b)
  })
  syncBuiltinESMExports()
  onTestFinished(() => {
    spy.mockRestore()
    syncBuiltinESMExports()
  })
  expect([keys.find('key-a')?.id, keys.find('key-b')]).toEqual(['a', undefined])
  // Whatever is sent, digests of the same length are compared once: what differs tells nothing of how far a guess was right.
  expect(compared).toEqual([[32, 32], [32, 32]])
})

test('an expired key is not found, from its instant on', () => {
  const { keys, clock } = ring([{ id: 'a', sha256: hash('k'), tenant: 't', expiresAt: '2026-01-01T00:00:10Z' }])
  clock.now += 9_999
  expect(keys.find('k')?.id).toBe('a')
  clock.now += 1
  expect(keys.find('k')).toBeUndefined()
})

test('8.1 a changed file counts at once: new keys, and none of those that went', () => {
  const { keys, write, faults } = ring([{ id: 'a', sha256: hash('a'), tenant: 't' }])
  write(stringify([{ id: 'b', sha256: hash('b'), tenant: 't' }]))
  expect([keys.find('a'), keys.find('b')?.id, keys.size]).toEqual([undefined, 'b', 1])
  write('[]')
  expect(keys.size).toBe(0)
  expect(faults).toEqual([])
})

test('a changed file that is broken, empty or unreadable keeps the old ring and tells why', () => {
  const { keys, write, file, change, faults } = ring([{ id: 'a', sha256: hash('a'), tenant: 't' }])
  write('- {id: b')
  write('')
  write('- {id: b, sha256: x, tenant: t}')
  file.readable = false
  change()
  expect(keys.find('a')?.id).toBe('a')
  expect(faults).toHaveLength(4)
  expect(faults.every((fault) => fault instanceof ConfigError)).toBe(true)
  file.readable = true
  write(stringify([{ id: 'c', sha256: hash('c'), tenant: 't' }]))
  expect(keys.find('c')?.id).toBe('c')
})

test('close ends the watching', () => {
  const { keys, watched } = ring([])
  expect(watched()).toBe(true)
  keys.close()
  expect(watched()).toBe(false)
})

test('a bad file at first throws every fault, by place', () => {
  const good = { id: 'a', sha256: hash('a'), tenant: 't' }
  expect(faults(stringify([
    good, { ...good, sha256: hash('b') }, { ...good, id: 'c' }, {}, 'x',
    { ...good, id: 'sp ace', sha256: 'abc', tenant: 'a\nb', scopes: ['all'], expiresAt: 'tomorrow', limits: { running: 0,
      starts: 1 }, models: 'm', minDepth: -1, key: 'k' },
    { ...good, id: 'd', sha256: hash('d'), expiresAt: '2026-13-01' }
  ]))).toEqual({
    'k[3].id': 'is missing', 'k[3].sha256': 'is missing', 'k[3].tenant': 'is missing',
    'k[4]': 'must be a map', 'k[4].id': 'is missing', 'k[4].sha256': 'is missing', 'k[4].tenant': 'is missing',
    'k[5].key': expect.stringMatching(/^is not known/),
    'k[5].id': 'must be 1 to 64 letters, digits, "_", "." or "-"',
    'k[5].sha256': 'must be 64 hex digits',
    'k[5].tenant': 'must be 1 to 128 printable characters',
    'k[5].scopes': 'must be one of read, write, metrics',
    'k[5].expiresAt': 'must be an ISO 8601 time with its offset, like 2030-01-31T00:00:00Z',
    'k[5].limits.running': 'must be an integer of at least 1',
    'k[5].limits.starts': expect.stringMatching(/^is not known/),
    'k[5].models': 'must be a list of texts',
    'k[5].minDepth': 'must be an integer of at least 0',
    'k[6].expiresAt': 'is no date',
    'k[1].id': 'is given twice',
    'k[2].sha256': 'is given twice'
  })
  expect(faults('a: 1')).toEqual({ k: 'must be a list of keys ([] for none)' })
  expect(() => ring({})).toThrow(ConfigError)
})

test('entries are frozen', () => {
  const [key] = parseKeys(stringify([{ id: 'a', sha256: hash('a'), tenant: 't', models: ['m'] }]), 'k')
  expect(() => { key?.models?.push('n') }).toThrow(TypeError)
})

/** Runs `act`, and waits until the watcher told of it. */
async function told (path: string, act: () => void, pollMs?: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const stop = watchPath(path, resolve, { settleMs: 1, ...pollMs !== undefined && { pollMs } })
  act()
  await promise
  stop()
}

test('watchPath tells of a write, of a rename over the file, and of a link that is set anew', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'keys-'))
  onTestFinished(() => { rmSync(folder, { recursive: true }) })
  const path = join(folder, 'keys.yaml')
  writeFileSync(path, '[]')
  await told(path, () => { writeFileSync(path, '[1]') })
  await told(path, () => {
    writeFileSync(join(folder, 'new'), '[2]')
    renameSync(join(folder, 'new'), path)
  })
  expect(readFileSync(path, 'utf8')).toBe('[2]')
  await told(path, () => { symlinkSync(folder, join(folder, '..data')) })
})

test('npm run key prints a key once and an entry that finds it', () => {
  const { code, stdout, stderr } = runKeyCommand(['--tenant', 'acme', '--id', 'ci', '--scopes', 'read, metrics', '--expires',
    '2030-01-31T00:00:00Z'])
  expect([code, stderr]).toEqual([0, ''])
  const key = /sk-sub-[\w-]{43}/.exec(stdout)?.[0] as string
  const yaml = stdout.replace(/^#.*\n/gm, '')
  expect(yaml).not.toContain(key)
  const { keys } = ring([])
  expect(keys.find(key)).toBeUndefined()
  expect(parseKeys(yaml, 'k')).toEqual([
    { id: 'ci', tenant: 'acme', sha256: hash(key), scopes: ['read', 'metrics'], expiresAt: Date.parse('2030-01-31T00:00:00Z') }
  ])
})

test('keys and ids are new each time; the scopes default to read and write', () => {
  const [one, two] = [mintKey({ tenant: 't' }), mintKey({ tenant: 't' })]
  expect(new Set([one.key, two.key, one.entry.id, two.entry.id]).size).toBe(4)
  expect(one.entry.scopes).toEqual(['read', 'write'])
})

test.each([
  [[], '--tenant is missing'],
  [['--tenant', ''], 'key[0].tenant: must be'],
  [['--tenant', 't', '--scopes', 'all'], 'key[0].scopes: must be one of read, write, metrics'],
  [['--tenant', 't', '--expires', 'soon'], 'key[0].expiresAt: must be'],
  [['--tenant', 't', '--verbose'], '--verbose'],
  [['t'], 't']
])('npm run key with %j says what is wrong and prints no key', (args, what) => {
  const { code, stdout, stderr } = runKeyCommand(args)
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toContain(what)
  expect(stderr).toContain('usage: npm run key -- --tenant NAME')
})
