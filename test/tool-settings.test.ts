import { expect, test } from 'vitest'
import { Settings } from '../src/settings.ts'
import { readToolSettings, type ToolSettings } from '../src/tool-settings.ts'
import { createHttpTool } from '../src/tools/http/tool.ts'
import { createMcpSource } from '../src/tools/mcp/source.ts'
import { createOutbound } from '../src/tools/outbound.ts'
import { createSchemaCompiler } from '../src/tools/schema.ts'

function read (file: object, env: Record<string, string> = {}): { settings: ToolSettings, faults: Record<string, string> } {
  const source = Object.assign(new Settings(), { get: (name: string) => env[name], secret: (name: string) => env[name] ?? env[`${name}_FILE`] })
  const settings = readToolSettings(source, file)
  return { settings, faults: Object.fromEntries(source.faults.map(({ key, detail }) => [key, detail])) }
}

test('nothing configured is no tool, and nothing allowed', () => {
  expect(read({})).toEqual({ settings: { outbound: { allow: [] }, mcp: [], http: [] }, faults: {} })
})

test('a process gets the base variables and those it is let through, or given', () => {
  const env = { PATH: '/bin', HOME: '/home/a', OTHER: 'x', API_TOKEN: 'secret-token', LEVEL: 'debug' }
  const { settings, faults } = read({ mcp: {
    list: { command: 'npx', args: ['-y', 'server'], env: ['API_TOKEN', 'LEVEL'], cwd: '/work', required: true, timeoutMs: 5, connectTimeoutMs: 6 },
    map: { command: 'x', env: { KEY: 'is ${API_TOKEN}', PATH: '/own' } }
  } }, env)
  expect(faults).toEqual({})
  expect(settings.mcp).toEqual([
    {
      kind: 'stdio', name: 'list', command: 'npx', args: ['-y', 'server'], cwd: '/work', required: true, timeoutMs: 5, connectTimeoutMs: 6,
      env: { PATH: '/bin', HOME: '/home/a', API_TOKEN: 'secret-token', LEVEL: 'debug' }, secrets: ['secret-token']
    },
    { kind: 'stdio', name: 'map', command: 'x', args: [], env: { PATH: '/own', HOME: '/home/a', KEY: 'is secret-token' }, secrets: ['secret-token'] }
  ])
})

test('headers take variables, from a file of a secret too, and these are secrets', () => {
  const { settings, faults } = read({
    outbound: { allow: ['127.0.0.1:9000'] },
    mcp: { remote: { url: 'https://example.com/mcp', headers: { Authorization: 'Bearer ${TOKEN}' } } },
    tools: { weather: {
      description: 'The weather', url: 'http://127.0.0.1:9000/{city}', headers: { 'x-key': '${KEY}' }, maxBytes: 10, idempotent: false,
      inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
    } }
  }, { TOKEN_FILE: 'from a file', KEY: 'a-key' })
  expect(faults).toEqual({})
  expect(settings.mcp).toEqual([{ kind: 'http', name: 'remote', url: 'https://example.com/mcp', headers: { Authorization: 'Bearer from a file' }, secrets: ['from a file'] }])
  expect(settings.http[0]).toMatchObject({ name: 'weather', method: 'GET', headers: { 'x-key': 'a-key' }, secrets: ['a-key'], maxBytes: 10, idempotent: false })
})

test('what is read fits what the tools take', async () => {
  const { settings } = read({
    outbound: { allow: ['10.0.0.0/8'] }, mcp: { files: { command: 'x' }, remote: { url: 'https://example.com' } }, tools: { ping: { description: 'd', url: 'https://example.com/', body: {}, method: 'POST' } }
  })
  const outbound = createOutbound(settings.outbound)
  const compile = createSchemaCompiler()
  const log = { debug () {}, info () {}, warn () {} }
  const source = createMcpSource(settings.mcp, { version: '1', outbound, compile, log })
  expect(settings.http.map((tool) => createHttpTool(tool, { outbound, compile }).definition.name)).toEqual(['ping'])
  await source.close()
  await outbound.close()
})

test('every bad setting is named', () => {
  expect(read({
    outbound: { allow: 'all', deny: [] },
    mcp: {
      both: { command: 'x', url: 'https://x' }, none: {}, ftp: { url: 'ftp://x' }, mixed: { command: 'x', headers: {} }, gone: { command: 'x', env: ['NOT_SET'] },
      odd: { command: 'x', required: 'yes', timeoutMs: 0, speed: 1, env: { A: 1, B: '${ALSO_NOT}' } }
    },
    tools: { bad: { method: 'get', inputSchema: 'x', maxBytes: 1.5 } }
  }).faults).toEqual({
    'outbound.deny': 'is not known; known here: allow',
    'outbound.allow': 'must be a list of texts',
    'mcp.both': 'must have either a command or a url',
    'mcp.none': 'must have either a command or a url',
    'mcp.ftp.url': 'must be an http or https URL',
    'mcp.mixed.headers': 'is for a server with a url',
    'mcp.gone.env': 'the variable NOT_SET is not set',
    'mcp.odd.speed': 'is not known; known here: command, args, env, cwd, url, headers, required, connectTimeoutMs, timeoutMs',
    'mcp.odd.required': 'must be true or false',
    'mcp.odd.timeoutMs': 'must be an integer from 1 to 2147483647',
    'mcp.odd.env.A': 'must be a text',
    'mcp.odd.env.B': 'the variable ALSO_NOT is not set',
    'tools.bad.description': 'is missing',
    'tools.bad.url': 'is missing',
    'tools.bad.inputSchema': 'must be a map',
    'tools.bad.method': 'must be one of GET, HEAD, POST, PUT, PATCH, DELETE',
    'tools.bad.maxBytes': 'must be an integer from 1 to 67108864'
  })
})
