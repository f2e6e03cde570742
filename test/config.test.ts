import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { stringify } from 'yaml'
import { ConfigError, isLoopbackAddress, loadConfig } from '../src/config.ts'

const files = (contents: Record<string, string>) => (path: string): string => {
  const text = contents[path]
  if (text === undefined) throw new Error(`ENOENT: no such file, open '${path}'`)
  return text
}
const load = (env: Record<string, string | undefined>, contents: Record<string, string> = {}) => loadConfig(env, files(contents))
const loadYaml = (file: unknown, env: Record<string, string> = {}) => load({ CONFIG: 'c.yaml', ...env },
  { 'c.yaml': stringify(file) })

function faults (run: () => unknown): Record<string, string> {
  try {
    run()
  } catch (error) {
    if (error instanceof ConfigError) return Object.fromEntries(error.faults.map(({ key, detail }) => [key, detail]))
    throw error
  }
  return {}
}

const DEFAULTS = {
  port: 8080,
  host: '127.0.0.1',
  allowUnauthenticated: false,
  access: 'loopback',
  databasePath: './data/subagentd.db',
  models: { endpoints: [], default: 'scripted/demo' },
  providers: { spawn: { providerName: 'spawn' }, fork: { providerName: 'fork' } },
  limits: { steps: 50, timeoutMs: 600_000, toolTimeoutMs: 120_000, treeRuns: 200 },
  tools: { outbound: { allow: [] }, mcp: [], http: [] },
  delegation: false,
  maxRunning: 1000,
  maxQueued: 10_000,
  maxOpen: 20_000,
  maxWaitSeconds: 50,
  maxBodyBytes: 33_554_432,
  retentionDays: 30,
  shutdownDelayMs: 5000,
  shutdownGraceMs: 20_000,
  logLevel: 'info'
}

test('an empty environment gives the defaults of http-api.md §9; what has none is absent', () => {
  expect(load({})).toStrictEqual(DEFAULTS)
})

test('an empty variable counts as not set', () => {
  expect(load({ PORT: '', OPENAI_API_KEY: '', CONFIG: ' ', DEFAULT_MODEL: '' })).toStrictEqual(DEFAULTS)
})

test('.env.example holds the defaults, and with its comments taken off every line of it is a known setting', () => {
  const lines = readFileSync(new URL('../.env.example', import.meta.url), 'utf8').split('\n')
  const settings = (pattern: RegExp) => Object.fromEntries(lines.flatMap((line) => {
    const [, name, value] = pattern.exec(line) ?? []
    return name === undefined ? [] : [[name, value]]
  }))
  expect(load(settings(/^([A-Z_]+)=(.*)$/))).toStrictEqual(DEFAULTS)
  const asked = new Set<string>()
  const env = new Proxy<Record<string, string | undefined>>({}, { get: (_, name) => void asked.add(String(name)) })
  load(env)
  expect([...Object.keys(settings(/^(?:# )?([A-Z_]+)=(.*)$/)), 'DATABASE_URL_FILE'].sort()).toEqual([...asked].sort())
})

test('every value can be set, and the configuration is frozen to its leaves', () => {
  const config = load({
    PORT: '0', HOST: '::1', DATABASE_URL: 'sqlite:///var/a b.db', MAX_RUNNING: '7', MAX_QUEUED: '0', MAX_OPEN: '9', MAX_WAIT_SECONDS: '0',
    MAX_BODY_BYTES: '1024', MAX_DEPTH: '0', AGENTS_DIR: 'agents', RETENTION_DAYS: '1', RETENTION_RUNS: '5', SHUTDOWN_DELAY_MS: '0',
    SHUTDOWN_GRACE_MS: '1', LOG_LEVEL: 'silent', DEFAULT_MODEL: 'scripted/x/y'
  })
  expect(config).toMatchObject({
    port: 0, host: '::1', databasePath: '/var/a b.db', maxRunning: 7, maxQueued: 0, maxOpen: 9, maxWaitSeconds: 0, maxBodyBytes: 1024,
    maxDepth: 0, agentsDir: 'agents', retentionDays: 1, retentionRuns: 5, shutdownDelayMs: 0, shutdownGraceMs: 1, logLevel: 'silent',
    models: { default: 'scripted/x/y' }
  })
  expect(() => { (config.limits as { steps: number }).steps = 1 }).toThrow(TypeError)
  expect(() => { config.models.endpoints.push({ name: 'x', kind: 'anthropic' }) }).toThrow(TypeError)
})

test('every bad value is named at once', () => {
  expect(faults(() => loadYaml({ limits: { steps: 0 }, port: 1 }, {
    PORT: '65536', MAX_RUNNING: '0', MAX_QUEUED: '1.5', MAX_OPEN: '0', MAX_WAIT_SECONDS: '-1', MAX_BODY_BYTES: '1e6', MAX_DEPTH: '0x1',
      RETENTION_DAYS: ' 3d',
    SHUTDOWN_DELAY_MS: '2147483648', LOG_LEVEL: 'loud', ALLOW_UNAUTHENTICATED: 'yes', DATABASE_URL: 'mysql://x',
      DEFAULT_MODEL: 'gpt', HOST: '0.0.0.0'
  }))).toEqual({
    PORT: 'must be an integer from 0 to 65535',
    MAX_RUNNING: 'must be an integer from 1 to 1000000',
    MAX_QUEUED: 'must be an integer from 0 to 10000000',
    MAX_OPEN: 'must be an integer from 1 to 10000000',
    MAX_WAIT_SECONDS: 'must be an integer from 0 to 86400',
    MAX_BODY_BYTES: 'must be an integer from 1024 to 268435456',
    MAX_DEPTH: 'must be an integer of at least 0',
    RETENTION_DAYS: 'must be an integer from 1 to 36500',
    SHUTDOWN_DELAY_MS: 'must be an integer from 0 to 2147483647',
    LOG_LEVEL: 'must be one of fatal, error, warn, info, debug, trace, silent',
    ALLOW_UNAUTHENTICATED: 'must be one of true, false',
    DATABASE_URL: 'must be sqlite:PATH, like sqlite:./data/subagentd.db',
    DEFAULT_MODEL: '"gpt" must be <endpoint>/<model>',
    HOST: '"0.0.0.0" is open to others without API keys: set API_KEYS_FILE, or ALLOW_UNAUTHENTICATED=true',
    'limits.steps': 'must be an integer of at least 1',
    port: 'is not known; known here: auth, models, persona, providers, limits, delegation, outbound, mcp, tools'
  })
})

test('the error tells every fault in its message', () => {
  expect(() => load({ PORT: 'x', LOG_LEVEL: 'y' })).toThrow(
    /^bad configuration:\n {2}PORT: must be an integer.*\n {2}LOG_LEVEL: must be one of/
  )
})

test('PostgreSQL is refused as not built yet', () => {
  expect(faults(() => load({ DATABASE_URL: 'postgres://u:p@h/d' }))).toEqual(
    { DATABASE_URL: 'PostgreSQL is not built yet: use sqlite:PATH, like sqlite:./data/subagentd.db' })
})

test('8.2 without keys only loopback is served, unless ALLOW_UNAUTHENTICATED says so', () => {
  const keys = { 'k.yaml': stringify([{ id: 'a', sha256: 'a'.repeat(64), tenant: 't' }]) }
  for (const host of ['0.0.0.0', '::', '192.168.1.2', 'example.com', '127.0.0.1.example.com']) {
    expect(Object.keys(faults(() => load({ HOST: host })))).toEqual(['HOST'])
    expect(load({ HOST: host, ALLOW_UNAUTHENTICATED: 'true' }).access).toBe('open')
    expect(load({ HOST: host, API_KEYS_FILE: 'k.yaml' }, keys).access).toBe('keys')
  }
  for (const host of ['localhost', '127.0.0.1', '127.1.2.3', '::1', '::ffff:127.0.0.1']) {
    expect(isLoopbackAddress(host)).toBe(true)
    expect(load({ HOST: host }).access).toBe('loopback')
  }
})

test('8.1 a keys file that is missing or bad stops the start', () => {
  expect(faults(() => load({ API_KEYS_FILE: 'k.yaml' }))).toEqual(
    { API_KEYS_FILE: 'the file "k.yaml" cannot be read: ENOENT: no such file, open \'k.yaml\'' })
  expect(faults(() => load({ API_KEYS_FILE: 'k.yaml', PORT: 'x' }, { 'k.yaml': '- {id: a, sha256: 1, tenant: t}' }))).toEqual(
    { PORT: expect.any(String), 'k.yaml[0].sha256': 'must be 64 hex digits' })
})

test('a vendor key or base URL makes its endpoint; a key chooses the default model, OpenAI first', () => {
  expect(load({ OPENAI_API_KEY: 'k' }).models).toEqual(
    { endpoints: [{ name: 'openai', kind: 'openai-chat', apiKey: 'k' }], default: 'openai/gpt-5-mini' })
  expect(load({ ANTHROPIC_API_KEY: 'k', ANTHROPIC_BASE_URL: 'http://h/' }).models).toEqual(
    { endpoints: [{ name: 'anthropic', kind: 'anthropic', apiKey: 'k', baseUrl: 'http://h' }],
      default: 'anthropic/claude-sonnet-4-5' })
  expect(load({ ANTHROPIC_API_KEY: 'k', OPENAI_API_KEY: 'k' }).models.default).toBe('openai/gpt-5-mini')
  expect(load({ OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' }).models).toEqual(
    { endpoints: [{ name: 'openai', kind: 'openai-chat', baseUrl: 'http://127.0.0.1:1/v1' }], default: 'scripted/demo' })
  expect(load({ OPENAI_BASE_URL: 'http://h', DEFAULT_MODEL: 'openai/qwen/3' }).models.default).toBe('openai/qwen/3')
})

test('secrets can come from files; both at once, a missing and an empty file are faults', () => {
  expect(load({ OPENAI_API_KEY_FILE: '/run/k', DATABASE_URL_FILE: '/run/d' }, { '/run/k': ' sk-1\n',
    '/run/d': 'sqlite:x\n' })).toMatchObject(
    { models: { endpoints: [{ apiKey: 'sk-1' }] }, databasePath: 'x' })
  expect(faults(() => load({
    OPENAI_API_KEY: 'a', OPENAI_API_KEY_FILE: 'f', ANTHROPIC_API_KEY_FILE: 'no', DATABASE_URL_FILE: 'empty'
  }, { f: 'b', empty: '\n' }))).toEqual({
    OPENAI_API_KEY_FILE: 'OPENAI_API_KEY is set too; set one of them',
    ANTHROPIC_API_KEY_FILE: 'the file "no" cannot be read: ENOENT: no such file, open \'no\'',
    DATABASE_URL_FILE: 'the file "empty" is empty'
  })
})

test('the file gives what is nested', () => {
  const config = loadYaml({
    persona: 'You are terse.',
    providers: { spawn: { providerName: 'task' } },
    limits: { steps: 3, totalTokens: 5, treeTokens: 6 },
    models: {
      default: 'local/qwen',
      endpoints: {
        local: { kind: 'openai-chat', baseUrl: 'http://127.0.0.1:8000/v1', models: ['qwen', 'qwen-big'] },
        work: { kind: 'anthropic', apiKeyEnv: 'WORK_KEY' }
      }
    }
  }, { WORK_KEY: 'sk-w' })
  expect(config).toMatchObject({
    persona: 'You are terse.',
    providers: { spawn: { providerName: 'task' }, fork: { providerName: 'fork' } },
    models: {
      default: 'local/qwen',
      endpoints: [
        { name: 'local', kind: 'openai-chat', baseUrl: 'http://127.0.0.1:8000/v1', models: ['qwen', 'qwen-big'] },
        { name: 'work', kind: 'anthropic', apiKey: 'sk-w' }
      ]
    }
  })
  expect(config.limits).toEqual({ steps: 3, timeoutMs: 600_000, toolTimeoutMs: 120_000, treeRuns: 200, totalTokens: 5,
    treeTokens: 6 })
})

test('the environment wins over the file, setting by setting', () => {
  const file = { models: { default: 'openai/a', endpoints: { openai: { baseUrl: 'http://file', apiKey: 'file', models: ['a',
    'b'] } } } }
  expect(loadYaml(file).models).toEqual({ default: 'openai/a', endpoints: [{ name: 'openai', kind: 'openai-chat',
    baseUrl: 'http://file', apiKey: 'file', models: ['a', 'b'] }] })
  expect(loadYaml(file, { OPENAI_API_KEY: 'env', DEFAULT_MODEL: 'openai/b' }).models).toEqual({
    default: 'openai/b', endpoints: [{ name: 'openai', kind: 'openai-chat', baseUrl: 'http://file', apiKey: 'env', models: ['a',
      'b'] }]
  })
})

test('without a default the first model that the file lists answers', () => {
  expect(loadYaml({ models: { endpoints: { a: { kind: 'openai-chat', baseUrl: 'http://h' }, b: { kind: 'anthropic',
    models: ['m'] } } } }).models.default).toBe('b/m')
})

test('bad entries of the file are named by their path', () => {
  expect(faults(() => loadYaml({
    persona: 3,
    limits: { timeoutMs: 2 ** 31, steps: '5', tokens: 1 },
    providers: { spawn: { providerName: 'x' }, fork: { providerName: 'x' }, other: {} },
    models: {
      default: 'nowhere/m',
      endpoints: {
        scripted: { kind: 'anthropic' },
        'a/b': { kind: 'anthropic' },
        c: {},
        d: { kind: 'grpc', baseUrl: 'ftp://x', models: [] },
        e: { kind: 'anthropic', baseUrl: 'http://u:p@h', apiKey: 'k', apiKeyEnv: 'NOT_SET', models: 'm', url: 1 },
        f: 'x'
      }
    }
  }))).toEqual({
    persona: 'must be a text that is not empty',
    'limits.timeoutMs': 'must be an integer from 1 to 2147483647',
    'limits.steps': 'must be an integer of at least 1',
    'limits.tokens': expect.stringMatching(/^is not known; known here: steps, /),
    'providers.other': 'is not known; known here: spawn, fork, claudeCode',
    providers: 'spawn and fork have the same name',
    'models.endpoints.scripted': 'the name "scripted" is taken',
    'models.endpoints.a/b': 'the name must be 1 to 64 letters, digits, "_", "." or "-"',
    'models.endpoints.c.kind': 'is missing: openai-chat or anthropic',
    'models.endpoints.d.kind': 'must be one of openai-chat, anthropic',
    'models.endpoints.d.baseUrl': 'must be an http or https URL without query',
    'models.endpoints.d.models': 'lists no model; leave it out to accept any name',
    'models.endpoints.e.baseUrl': 'must not hold a user name or password',
    'models.endpoints.e.apiKeyEnv': 'the variable NOT_SET is not set',
    'models.endpoints.e.models': 'must be a list of texts',
    'models.endpoints.e.url': expect.stringMatching(/^is not known/),
    'models.endpoints.f': 'must be a map',
    'models.endpoints.f.kind': 'is missing: openai-chat or anthropic',
    'models.default': '"nowhere/m": no endpoint "nowhere"; known: scripted, a/b, e, scripted'
  })
})

test('a model that its endpoint does not list is no default', () => {
  const file = { models: { endpoints: { a: { kind: 'anthropic', models: ['m'] } } } }
  expect(faults(() => loadYaml(file, { DEFAULT_MODEL: 'a/n' }))).toEqual(
    { DEFAULT_MODEL: '"a/n" is not among the models of its endpoint' }
  )
})

test('a file that is missing, broken, or no map stops the start; an empty one does not', () => {
  expect(Object.keys(faults(() => load({ CONFIG: 'no' })))).toEqual(['CONFIG'])
  expect(Object.keys(faults(() => load({ CONFIG: 'c' }, { c: 'a: [1' })))).toContain('CONFIG')
  expect(faults(() => load({ CONFIG: 'c' }, { c: 'persona: a\npersona: b' })).CONFIG).toMatch(/unique/i)
  expect(faults(() => load({ CONFIG: 'c' }, { c: '- 1' }))).toEqual({ CONFIG: 'must be a map' })
  expect(load({ CONFIG: 'c' }, { c: '# nothing\n' })).toStrictEqual(DEFAULTS)
})

test('no fault shows a secret', () => {
  const secret = 's3cr3t-value'
  const shown = faults(() => load({ OPENAI_API_KEY: secret, OPENAI_API_KEY_FILE: 'f',
    DATABASE_URL: `postgres://u:${secret}@h/d`, OPENAI_BASE_URL: `http://u:${secret}@h` }))
  expect(Object.keys(shown)).toHaveLength(3)
  expect(JSON.stringify(shown)).not.toContain(secret)
})
