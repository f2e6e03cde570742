import { createHash, timingSafeEqual } from 'node:crypto'
import { unwatchFile, watch, watchFile } from 'node:fs'
import { basename, dirname, resolve } from 'node:path'
import { messageOf } from './core/errors.ts'
import { ConfigError, NAME, NAME_RULE, Settings, below, deepFreeze, given } from './settings.ts'
import { parseYaml } from './yaml.ts'

/** API keys (http-api.md 8.1): the file keeps their SHA-256 only. */

export const SCOPES = ['read', 'write', 'metrics'] as const
export type Scope = (typeof SCOPES)[number]

export interface KeyLimits { running?: number, startsPerMinute?: number, bodyBytes?: number }
export interface KeyEntry {
  readonly id: string
  /** Lower-case hex of the key's SHA-256. */
  readonly sha256: string
  readonly tenant: string
  readonly scopes: Scope[]
  /** Epoch ms; from then on the key is unknown. */
  readonly expiresAt?: number
  readonly limits?: Readonly<KeyLimits>
  readonly models?: string[]
  readonly minDepth?: number
}

export interface KeyRing {
  /** The entry of a key that is listed and not expired. */
  find (bearer: string): KeyEntry | undefined
  readonly size: number
  /** How many tenants they are of. */
  readonly tenants: number
  /** Reads the file again. A file that cannot be read or is bad leaves the ring as it is and is told to `onFault`. */
  reload (): void
  close (): void
}

export interface KeyRingOptions {
  path: string
  readFile: (path: string) => string
  /** Calls back whenever the file may have changed, until the returned function is called. */
  watch: (path: string, onChange: () => void) => () => void
  now: () => number
  onFault: (error: Error) => void
}

/** The keys of a file, reread on change. Throws `ConfigError` when the file is bad at first. */
export function createKeyRing (options: KeyRingOptions): KeyRing {
  let text = read(options)
  let entries = index(parseKeys(text, options.path))
  let tenants = tenantsOf(entries)
  const reload = (): void => {
    try {
      const next = read(options)
      if (next === text) return
      entries = index(parseKeys(next, options.path))
      tenants = tenantsOf(entries)
      text = next
    } catch (error) {
      options.onFault(error instanceof Error ? error : new Error(messageOf(error)))
    }
  }
  const unwatch = options.watch(options.path, reload)
  return {
    find (bearer) {
      if (bearer === '' || bearer.length > MAX_KEY_CHARS) return undefined
      const digest = sha256(bearer)
      const entry = entries.get(digest.toString('hex'))
      // A key that is not there costs the same comparison as one that is.
      const same = timingSafeEqual(digest, entry ? Buffer.from(entry.sha256, 'hex') : NO_DIGEST)
      if (!entry || !same) return undefined
      return entry.expiresAt === undefined || options.now() < entry.expiresAt ? entry : undefined
    },
    get size () { return entries.size },
    get tenants () { return tenants },
    reload,
    close: unwatch
  }
}

const MAX_KEY_CHARS = 1024
const NO_DIGEST = Buffer.alloc(32)
const index = (keys: readonly KeyEntry[]): Map<string, KeyEntry> => new Map(keys.map((key) => [key.sha256, key]))
const tenantsOf = (entries: ReadonlyMap<string, KeyEntry>): number => new Set([...entries.values()].map(({ tenant }) => tenant)).size
export const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()

function read ({ path, readFile }: KeyRingOptions): string {
  try {
    return readFile(path)
  } catch (error) {
    throw new ConfigError([{ key: path, detail: `cannot be read: ${messageOf(error)}` }])
  }
}

/** The entries of a keys file, frozen. Throws `ConfigError` with every fault; `name` stands for the file in it. */
export function parseKeys (text: string, name: string): KeyEntry[] {
  const settings = new Settings()
  const document = parseYaml(text)
  for (const error of document.errors) settings.fault(name, error.message)
  settings.done()
  const list = readList(document, name)
  if (!Array.isArray(list)) throw new ConfigError([{ key: name, detail: 'must be a list of keys ([] for none)' }])
  const keys = list.map((entry, i) => readKey(settings, `${name}[${i}]`, entry))
  for (const field of ['id', 'sha256'] as const) {
    const first = new Set<string>()
    for (const [i, key] of keys.entries()) {
      if (key && first.has(key[field])) settings.fault(`${name}[${i}].${field}`, 'is given twice')
      if (key) first.add(key[field])
    }
  }
  settings.done()
  return deepFreeze(keys.filter((key) => key !== undefined))
}

function readList (document: { toJS (): unknown }, name: string): unknown {
  try {
    return document.toJS()
  } catch (error) {
    throw new ConfigError([{ key: name, detail: messageOf(error) }])
  }
}

const TENANT = /^[^\p{C}]{1,128}$/u
const REQUIRED = ['id', 'sha256', 'tenant'] as const
const FIELDS = ['id', 'sha256', 'tenant', 'scopes', 'expiresAt', 'limits', 'models', 'minDepth'] as const

function readKey (settings: Settings, at: string, value: unknown): KeyEntry | undefined {
  const faults = settings.faults.length
  const entry = settings.members(at, value, FIELDS)
  for (const field of REQUIRED) if (entry[field] === undefined) settings.fault(below(at, field), 'is missing')
  const id = settings.matching(below(at, 'id'), entry.id, NAME, NAME_RULE)
  const hash = settings.matching(below(at, 'sha256'), entry.sha256, /^[0-9a-f]{64}$/i, '64 hex digits')
  const tenant = settings.matching(below(at, 'tenant'), entry.tenant, TENANT, '1 to 128 printable characters')
  const scopes = settings.texts(below(at, 'scopes'), entry.scopes)
  for (const scope of scopes ?? []) settings.oneOf(below(at, 'scopes'), scope, SCOPES)
  const rest = given({
    expiresAt: readTime(settings, below(at, 'expiresAt'), entry.expiresAt),
    limits: readLimits(settings, below(at, 'limits'), entry.limits),
    models: settings.texts(below(at, 'models'), entry.models),
    minDepth: settings.integer(below(at, 'minDepth'), entry.minDepth)
  })
  if (settings.faults.length > faults || !id || !hash || !tenant) return undefined
  return { id, sha256: hash.toLowerCase(), tenant, scopes: (scopes as Scope[] | undefined) ?? ['read', 'write'], ...rest }
}

function readLimits (settings: Settings, at: string, value: unknown): KeyLimits | undefined {
  if (value === undefined) return undefined
  const names = ['running', 'startsPerMinute', 'bodyBytes'] as const
  const limits = settings.members(at, value, names)
  return given(Object.fromEntries(names.map((name) => [name, settings.integer(below(at, name), limits[name], { min: 1 })])))
}

const ISO_TIME = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/

/** Epoch ms of an ISO 8601 date (its start, UTC) or date and time with its offset. */
export function readTime (settings: Settings, key: string, value: unknown): number | undefined {
  const text = settings.matching(key, value, ISO_TIME, 'an ISO 8601 time with its offset, like 2030-01-31T00:00:00Z')
  const time = text === undefined ? undefined : Date.parse(text)
  return Number.isNaN(time) ? settings.fault(key, 'is no date') : time
}

/** Tells of changes of a file, also where it is replaced by a rename or through a symbolic link. Keeps no process alive. */
export function watchPath (path: string, onChange: () => void, { settleMs = 50, pollMs = 5000 } = {}): () => void {
  let timer: NodeJS.Timeout | undefined
  const soon = (): void => {
    timer ??= setTimeout(() => {
      timer = undefined
      onChange()
    }, settleMs).unref()
  }
  const folder = dirname(resolve(path))
  // A mounted secret changes by a link beside it, so any change in the folder counts; polling serves file systems without events.
  const watcher = watch(folder, { persistent: false }, (_, name) => {
    if (name === null || name === basename(path) || name.startsWith('..')) soon()
  })
  watcher.on('error', () => { watcher.close() })
  watchFile(path, { interval: pollMs, persistent: false }, soon)
  return () => {
    clearTimeout(timer)
    watcher.close()
    unwatchFile(path, soon)
  }
}
