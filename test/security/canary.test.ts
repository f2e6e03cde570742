import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { expect, onTestFinished, test } from 'vitest'
import { loadConfig } from '../../src/config.ts'
import { sha256 } from '../../src/keys.ts'
import { createLogger } from '../../src/observe/log.ts'
import { calls, fails, raw, says, type FakeAnswer } from '../support/fake-answers.ts'
import { startFakeModelServer, type FakeRequest } from '../support/fake-model-server.ts'
import { makeFolder } from '../support/service.ts'
import { startProcess } from '../support/service-process.ts'
import { startTokenIssuer, tokenEnv } from '../support/token-issuer.ts'
import { bytesOf, canary, found, plainCanary, startEchoServer } from './canary-room.ts'

/** quality.md: no secret in a log, an event, an error or a result. Each secret of a configuration is one that can be told from all else. */
const everything = () => ({
  openaiKey: plainCanary('openai'), anthropicKey: plainCanary('anthropic'), yamlKey: plainCanary('yaml'), namedKey: plainCanary('named'),
  toolVariable: canary('tool-variable'), toolLiteral: plainCanary('tool-literal'), toolKeyLiteral: plainCanary('tool-key'),
  mcpVariable: canary('mcp-variable'), mcpPassed: plainCanary('mcp-passed'), mcpLiteral: plainCanary('mcp-literal'),
  remoteVariable: plainCanary('remote-variable'), remoteLiteral: plainCanary('remote-literal'),
  otelHeader: plainCanary('otel'), apiKey: plainCanary('api-key'), wrongKey: plainCanary('wrong-key')
})
type Secrets = ReturnType<typeof everything>

const TOOL_PATHS = ['ok', 'fail', 'reason', 'redirect', 'landing', 'cut', 'broken'] as const

function configuration (secrets: Secrets, echo: number, model: string): string {
  const tool = (path: string) => ({
    description: path, method: 'GET', url: `http://127.0.0.1:${echo}/${path}`, maxBytes: 1024,
    headers: { authorization: 'Bearer ${TOOL_SECRET}', 'x-api-key': secrets.toolKeyLiteral, cookie: `session=${secrets.toolLiteral}`, accept: 'text/plain' }
  })
  const remote = (path: string) => ({
    url: `http://127.0.0.1:${echo}/${path}`, headers: { authorization: 'Bearer ${REMOTE_SECRET}', 'x-auth-token': secrets.remoteLiteral }
  })
  const env = { SECRET_OF_MAP: '${MCP_SECRET}', API_TOKEN: secrets.mcpLiteral }
  return stringify({
    models: { endpoints: {
      local: { kind: 'openai-chat', baseUrl: model, apiKey: secrets.yamlKey }, named: { kind: 'openai-chat', baseUrl: model, apiKeyEnv: 'NAMED_KEY' }
    } },
    outbound: { allow: ['127.0.0.1'] },
    tools: Object.fromEntries(TOOL_PATHS.map((path) => [`http_${path}`, tool(path)])),
    mcp: {
      every: { command: process.execPath, args: ['node_modules/@modelcontextprotocol/server-everything/dist/index.js'], env },
      leaky: { command: process.execPath, args: ['test/tools/mcp/faulty-server.ts', 'leaky'], env: { TOKEN: '${MCP_SECRET}' } },
      passed: { command: process.execPath, args: ['node_modules/@modelcontextprotocol/server-everything/dist/index.js'], env: ['PASSED_TOKEN'] },
      dies: { command: '/bin/sh', args: ['-c', 'env >&2; env; echo "{\\"key\\": $API_TOKEN"; exit 3'], env },
      unauthorized: remote('mcp401'), broken: remote('mcp500'), garbage: remote('mcp-garbage')
    }
  })
}

/** A model server that fails in every way with the headers of the request in its words, after one tool call where it is asked for. */
const FAILURES: Record<string, (said: string) => FakeAnswer> = {
  auth: (message) => fails('auth', { message }), bad: (message) => fails('status400', { message }), limited: (message) => fails('status429', { message, headers: { 'retry-after': '0' } }),
  down: (message) => fails('status500', { message }), event: (message) => fails('error-event', { message }), html: (message) => raw(message, 'text/html'),
  text: (message) => raw(message, 'application/json'), stream: (message) => raw(`data: ${message}\n\n`, 'text/event-stream'),
  moved: (message) => fails('redirect', { headers: { location: `/elsewhere?h=${encodeURIComponent(message)}` } }), type: (message) => raw('x', `text/${message.replaceAll(/[^\w-]/g, '-')}`)
}
const answerOf = ({ json, headers }: FakeRequest): FakeAnswer => {
  const name = String(json.model)
  const said = JSON.stringify(headers)
  const fail = Object.hasOwn(FAILURES, name) ? FAILURES[name] : undefined
  if (fail) return fail(said)
  const [, tool] = /^calls-(\w+)$/.exec(name) ?? []
  const asked = json.messages as { role: string }[]
  return tool !== undefined && asked.at(-1)?.role === 'user' ? calls(tool, {}, { id: 'c1' }) : says('done')
}

test('quality.md no secret of the configuration or of a caller gets into a log, an event, a result, a metric, a trace or the store', async () => {
  const secrets = everything()
  const echo = await startEchoServer(onTestFinished)
  const models = await startFakeModelServer(onTestFinished, { answer: answerOf })
  const issuer = await startTokenIssuer(onTestFinished)
  const folder = makeFolder(onTestFinished)
  const data = join(folder, 'data')
  mkdirSync(data)
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const service = startProcess(onTestFinished, {
    LOG_LEVEL: 'trace', DATABASE_URL: `sqlite:${join(data, 'runs.db')}`, SHUTDOWN_DELAY_MS: '0', SHUTDOWN_GRACE_MS: '0', DEFAULT_MODEL: 'scripted/demo',
    CONFIG: file('config.yaml', configuration(secrets, echo.port, models.openaiUrl)),
    API_KEYS_FILE: file('keys.yaml', stringify([{ id: 'all', sha256: sha256(secrets.apiKey).toString('hex'), tenant: 'acme', scopes: ['read', 'write', 'metrics'] }])),
    OPENAI_API_KEY: secrets.openaiKey, OPENAI_BASE_URL: models.openaiUrl,
    ANTHROPIC_API_KEY_FILE: file('anthropic', `${secrets.anthropicKey}\n`), ANTHROPIC_BASE_URL: models.anthropicUrl,
    NAMED_KEY: secrets.namedKey, TOOL_SECRET: secrets.toolVariable, MCP_SECRET: secrets.mcpVariable, PASSED_TOKEN: secrets.mcpPassed, REMOTE_SECRET: secrets.remoteVariable,
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${echo.port}`, OTEL_EXPORTER_OTLP_HEADERS: `authorization=${secrets.otelHeader}`,
    OTEL_BSP_SCHEDULE_DELAY: '10', ...tokenEnv(issuer)
  })
  const shown: string[] = []
  const call = async (method: string, path: string, body?: object, bearer = secrets.apiKey): Promise<any> => { // oxlint-disable-line typescript/no-explicit-any
    const answer = await service.call(method, path, body, { authorization: `Bearer ${bearer}` })
    shown.push(`${method} ${path}: ${answer.text}\n${JSON.stringify([...answer.headers])}`)
    return answer.body
  }
  const tokens = { good: await issuer.token(), expired: await issuer.token({ exp: 1 }), foreign: await issuer.token({ aud: 'other' }) }
  for (const bearer of [secrets.wrongKey, ...Object.values(tokens)]) await call('GET', '/v1/runs', undefined, bearer)
  const step = (name: string, input: object = {}): object => ({ call: { name, input } })
  const scripts = [
    ...TOOL_PATHS.map((path) => [step(`http_${path}`)]), [step('every__get-env')], [step('passed__get-env')], [step('every__echo', { message: 'x' })]
  ]
  const bodies: object[] = [
    ...scripts.map((script) => ({ task: 'call', agentOptions: { model: 'scripted/demo', script: [...script, { say: 'done' }] } })),
    ...['openai', 'anthropic', 'local', 'named'].flatMap((endpoint) =>
      [...Object.keys(FAILURES), 'calls-http_ok', 'calls-http_fail', 'fine'].map((name) => ({ task: 'ask', limits: { steps: 3 }, agentOptions: { model: `${endpoint}/${name}` } })))
  ]
  const runs = await Promise.all(bodies.map(async (body) => (await call('POST', '/v1/runs', body)) as { id: string }))
  await Promise.all(runs.map(async ({ id }) => {
    const result = await call('GET', `/v1/runs/${id}/result?wait=40`)
    expect(result).toHaveProperty('stopReason')
    for (const path of ['', '/events?limit=200', '/events?tree=true', '/tree', '/result?format=anthropic&toolCallId=x']) await call('GET', `/v1/runs/${id}${path}`)
  }))
  for (const path of ['/v1/runs?include=result&limit=200', '/v1/models', '/v1/tools', '/v1/agents', '/v1/providers', '/metrics', '/healthz', '/readyz', '/nowhere', '/v1/runs/x']) await call('GET', path)
  await call('POST', '/v1/runs', { task: 7, agentOptions: { model: 'openai/x' } })
  service.signal('SIGTERM')
  expect(await service.ended).toBe(0)

  const all = { ...secrets, ...tokens }
  const traces = echo.bodies.filter((body) => body.length > 0).join('\n')
  const places = {
    'the answers': shown.join('\n'), 'the log': service.lines.map((line) => JSON.stringify(line)).join('\n'), 'standard error': service.stderr(),
    'a request to a model': models.requests.map(({ path, body }) => `${path} ${body}`).join('\n'), 'a body that went to a tool, an MCP server or the collector': traces,
    'the store': bytesOf(data)
  }
  // It is no proof unless the failures came and the servers echoed.
  expect(places['the answers'].split('[redacted]').length).toBeGreaterThan(40)
  expect(traces).toContain('subagentd')
  expect(Object.entries(places).flatMap(([where, text]) => found(where, text, all))).toEqual([])
}, 60_000)

/** SECURITY.md, what is not promised: it stands in the run, as the model's words. */
test('a model server that says its own key in a good answer, as text, reasoning, name or id, gets it into its run and nowhere else', async () => {
  const key = plainCanary('said')
  const echo = await startEchoServer(onTestFinished)
  const models = await startFakeModelServer(onTestFinished, { answer: ({ json }) => {
    const name = String(json.model)
    if (name === 'call') return (json.messages as { role: string }[]).at(-1)?.role === 'user' ? calls(key, { [key]: key }, { id: `id-${key}` }) : { kind: 'reply', text: 'done' }
    return { kind: 'reply', text: name === 'reason' ? 'done' : key, ...name === 'reason' ? { reasoning: key } : {}, ...name === 'split' ? { pieces: 7 } : {} }
  } })
  const service = startProcess(onTestFinished, {
    LOG_LEVEL: 'trace', DATABASE_URL: 'sqlite::memory:', SHUTDOWN_DELAY_MS: '0', OPENAI_API_KEY: key, OPENAI_BASE_URL: models.openaiUrl,
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${echo.port}`
  })
  for (const name of ['text', 'split', 'reason', 'call', key]) {
    const { body: run } = await service.call('POST', '/v1/runs', { task: 'x', agentOptions: { model: `openai/${name}` } }, { prefer: 'wait=20' })
    expect(run.stopReason).toBe('completed')
    const { body: page } = await service.call('GET', `/v1/runs/${run.id}/events?limit=200`)
    expect(JSON.stringify(page)).toContain(key)
  }
  const { text: metrics } = await service.call('GET', '/metrics')
  service.signal('SIGTERM')
  expect(await service.ended).toBe(0)
  const traces = echo.bodies.join('\n')
  expect(traces).toContain('execute_tool unknown')
  expect(metrics).toContain('model="openai/text"')
  const places = { 'the log': service.lines.map((line) => JSON.stringify(line)).join('\n'), 'standard error': service.stderr(), metrics, traces }
  expect(Object.entries(places).flatMap(([where, text]) => found(where, text, { key }))).toEqual([])
}, 30_000)

test.for<[what: string, env: Record<string, string>, yaml: string]>([
  ['YAML that breaks beside it', {}, 'models:\n  endpoints:\n    a: {kind: anthropic, apiKey: SECRET, : }\n'],
  ['YAML that is not closed', {}, 'tools:\n  a: {headers: {authorization: "Bearer SECRET}}\n'],
  ['a tag', {}, 'models: {endpoints: {a: {kind: anthropic, apiKey: !SECRET }}}'],
  ['an alias', {}, 'models: {endpoints: {a: {kind: anthropic, apiKey: *SECRET }}}'],
  ['an escape', {}, 'models: {endpoints: {a: {kind: anthropic, apiKey: "\\xSECRET" }}}'],
  ['a block\'s head', {}, 'persona: |SECRET\n  a\n'],
  ['a list in place of a text', {}, 'models: {endpoints: {a: {kind: anthropic, apiKey: [SECRET]}}}'],
  ['a header that is no text', {}, 'tools: {a: {description: a, url: "http://a.test", headers: {authorization: [SECRET]}}}'],
  ['a URL with a password', { OPENAI_BASE_URL: 'https://u:SECRET@a.test/' }, ''],
  ['a URL with a query', { OPENAI_BASE_URL: 'https://a.test/?key=SECRET' }, ''],
  ['a database with a password', { DATABASE_URL: 'postgres://u:SECRET@a.test/db' }, ''],
  ['a key server with a password', { JWT_JWKS_URL: 'https://u:SECRET@a.test/', JWT_ISSUER: 'i', JWT_AUDIENCE: 'a' }, ''],
  ['two ways to give it', { OPENAI_API_KEY: 'SECRET', OPENAI_API_KEY_FILE: 'x' }, ''],
  ['headers of traces that are none', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a.test', OTEL_EXPORTER_OTLP_HEADERS: 'SECRET' }, ''],
  ['a key in place of its hash', { API_KEYS_FILE: 'keys.yaml' }, '- {id: a, sha256: SECRET, tenant: t}'],
  ['a keys file that breaks', { API_KEYS_FILE: 'keys.yaml' }, '- {id: a, sha256: SECRET tenant: t'],
  ['a keys file with an alias', { API_KEYS_FILE: 'keys.yaml' }, '- {id: a, sha256: *SECRET , tenant: t}']
])('a start that fails for %s does not show it', ([, env, yaml]) => {
  const secret = plainCanary('x')
  const fill = (text: string): string => text.replaceAll('SECRET', secret)
  const filled = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, fill(value)]))
  let said = ''
  try {
    loadConfig({ ...filled, ...yaml === '' || env.API_KEYS_FILE ? {} : { CONFIG: 'c.yaml' } }, () => fill(yaml))
  } catch (error) {
    said = String((error as Error).message)
  }
  expect(said).toMatch(/^bad configuration:\n {2}\S/)
  expect(found('the message', said, { secret })).toEqual([])
})

test('what nobody foresaw is logged without the secrets of the configuration: messages, causes, fields, lines of others', () => {
  const secrets = { plain: plainCanary('plain'), odd: canary('odd') }
  const lines: string[] = []
  const log = createLogger({ level: 'trace', pretty: false, secrets: Object.values(secrets), destination: { write: (line) => { lines.push(line) } } })
  for (const secret of Object.values(secrets)) {
    log.error({ err: new Error(`sent ${secret}`, { cause: new Error(JSON.stringify({ headers: { 'x-any': secret } })) }) }, `failed with ${secret}`)
    log.debug({ url: `http://a.test/?k=${encodeURIComponent(secret)}`, deep: { er: { still: [secret] } } }, 'x')
  }
  expect(lines).toHaveLength(4)
  for (const line of lines) expect(() => JSON.parse(line) as unknown).not.toThrow()
  expect(found('the log', lines.join(''), secrets)).toEqual([])
})
