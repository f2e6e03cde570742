import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { createApp, problem } from './app.ts'

const pointers = (body: { errors: { pointer: string }[] }) => body.errors.map(({ pointer }) => pointer)

test.for<[name: string, body: string, pointer: string]>([
  ['a duplicate key', '{"task":"a","task":"b"}', '/task'],
  [
    'a duplicate key inside a transcript',
    '{"provider":"fork","task":"a","parent":{"transcript":{"format":"openai-chat","messages":[{"role":"user","role":"user"}]}}}',
    '/parent/transcript/messages/0/role'
  ],
  ['__proto__', '{"task":"a","__proto__":{"x":1}}', '/__proto__'],
  ['__proto__ in metadata', '{"task":"a","metadata":{"__proto__":"x"}}', '/metadata/__proto__'],
  ['constructor as an unknown field', '{"task":"a","constructor":{}}', '/constructor'],
  ['-0', '{"task":"a","limits":{"steps":-0}}', '/limits/steps'],
  ['-0 in an output schema', '{"task":"a","outputSchema":{"const":-0}}', '/outputSchema/const'],
  ['1e400', '{"task":"a","agentOptions":{"temperature":1e400}}', '/agentOptions/temperature'],
  ['2^53+1', '{"task":"a","limits":{"totalTokens":9007199254740993}}', '/limits/totalTokens'],
  ['"2" for 2', '{"task":"a","limits":{"steps":"2"}}', '/limits/steps'],
  ['true for 1', '{"task":"a","limits":{"steps":true}}', '/limits/steps'],
  ['null for an absent field', '{"task":"a","label":null}', '/label'],
  ['half a surrogate pair', '{"task":"\\ud800"}', '/task'],
  ['NUL', '{"task":"a\\u0000b"}', '/task'],
  ['an unknown field', '{"task":"a","tsk":"b"}', '/tsk'],
  ['an unknown field further in', '{"task":"a","limits":{"stepz":1}}', '/limits/stepz'],
  ['a missing task', '{}', '/task'],
  ['an empty task', '{"task":""}', '/task'],
  ['a task of no blocks', '{"task":[]}', '/task'],
  ['a task of empty blocks', '{"task":[{"type":"text","text":""}]}', '/task'],
  ['a block of an unknown type', '{"task":[{"type":"audio"}]}', '/task/0/type'],
  ['a block without its text', '{"task":[{"type":"text"}]}', '/task/0/text'],
  ['a task that is neither text nor blocks', '{"task":5}', '/task'],
  ['a timeout longer than a timer', '{"task":"a","limits":{"timeoutMs":2147483648}}', '/limits/timeoutMs'],
  ['an id that is no UUID', '{"task":"a","id":"x"}', '/id'],
  ['a tool name with a space', '{"task":"a","tools":[{"name":"a b"}]}', '/tools/0/name'],
  ['a tool name given twice', '{"task":"a","tools":[{"name":"a"},{"name":"a"}]}', '/tools/1/name'],
  ['two kinds of parent', '{"task":"a","parent":{"runId":"x","delegationDepth":1}}', '/parent/delegationDepth'],
  ['a transcript for spawn', '{"task":"a","parent":{"transcript":{"format":"openai-chat","messages":[]}}}', '/parent/transcript'],
  ['an agent that is no name', '{"task":"a","agent":""}', '/agent'],
  ['an unknown code mode', '{"task":"a","codeMode":"program"}', '/codeMode'],
  ['ai-sdk without a tool name', '{"task":"a","format":"ai-sdk","toolCallId":"c"}', '/toolName'],
  [
    '17 pairs of metadata',
    JSON.stringify({ task: 'a', metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, 'v'])) }), '/metadata'
  ],
  ['metadata that is no string', '{"task":"a","metadata":{"a\\nb":1}}', '/metadata/a\nb'],
  ['an empty metadata key', '{"task":"a","metadata":{"":"x"}}', '/metadata/'],
  ['a body that is no object', '[]', ''],
  ['text that is no JSON', '{"task":', '']
])('a start with %s is refused by place', async ([, body, pointer], { onTestFinished }) => {
  const { start, runs } = createApp(onTestFinished)
  const answer = problem(await start(body), 400, 'INVALID_REQUEST')
  expect(pointers(answer)).toContain(pointer)
  expect(answer['detail']).toContain(pointer.split('\n')[0])
  expect(runs.asked).toEqual([])
})

test('every fault of a body is named, at most 20', async ({ onTestFinished }) => {
  const { start } = createApp(onTestFinished)
  expect(pointers(problem(await start({ task: 5, a: 1, limits: { steps: 0 } }), 400, 'INVALID_REQUEST')).toSorted()).toEqual(
    ['/a', '/limits/steps', '/task']
  )
  const many = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`x${i}`, 1]))
  expect(problem(await start(many), 400, 'INVALID_REQUEST').errors).toHaveLength(20)
})

test('a big body with a million faults is refused by its first one', async ({ onTestFinished }) => {
  const { start } = createApp(onTestFinished, { maxBodyBytes: 10_000_000 })
  const answer = problem(
    await start(
      {
        task: 'a', toolFilter: { allow: Array.from({ length: 1000 }, () => 1) },
        outputSchema: { enum: Array.from({ length: 100_000 }, () => 1) }
      }
    ),
    400, 'INVALID_REQUEST'
  )
  expect(pointers(answer)).toEqual(['/toolFilter/allow/0'])
})

test.for(
  ['null', '"2"', '-1', '1.5', '-0', '1e400', '9007199254740993', '{}', 'true']
)('6.3 the depth values are the driver\'s to judge: %s goes on as it is', async (value, { onTestFinished }) => {
  const { start, runs } = createApp(onTestFinished)
  expect(
    (await start(`{"task":"a","maxDepth":${value},"parent":{"delegationDepth":${value},"subagentDepth":${value}}}`)).statusCode
  ).toBe(201)
  const expected: unknown = JSON.parse(value)
  expect(runs.input.maxDepth).toStrictEqual(expected)
  expect(runs.input.parent).toStrictEqual({ delegationDepth: expected, subagentDepth: expected })
})

test('an absent maxDepth stays absent', async ({ onTestFinished }) => {
  const { start, runs } = createApp(onTestFinished)
  await start({ task: 'a' })
  expect('maxDepth' in runs.input).toBe(false)
})

test('4.2 transcripts and provider options go on as the texts that were sent', async ({ onTestFinished }) => {
  const { start, runs } = createApp(onTestFinished)
  const body = '{"provider":"fork","task":"a","agentOptions":{"providerOptions":{"z":1.0, "a":9007199254740993}},' +
    '"parent":{"transcript":{"format":"anthropic",' +
    '"system":[ {"type":"text","text":"s"} ],"tools":[{"10":1,"2":2}],' +
    '"messages":[{"role":"user", "content":"\\u0041"},{"n":1e2}]}}}'
  expect((await start(body)).statusCode).toBe(201)
  expect(runs.input.agentOptions?.providerOptions).toBe('{"z":1.0, "a":9007199254740993}')
  expect(runs.input.parent).toEqual({
    transcript: {
      format: 'anthropic', system: '[ {"type":"text","text":"s"} ]', tools: ['{"10":1,"2":2}'],
      messages: ['{"role":"user", "content":"\\u0041"}', '{"n":1e2}']
    }
  })
})

test.for<[url: string, name: string]>([
  ['/v1/runs?limit=abc', 'limit'], ['/v1/runs?limit=1.5', 'limit'], ['/v1/runs?limit=0', 'limit'], [
    '/v1/runs?limit=201', 'limit'
  ],
  ['/v1/runs?limit=', 'limit'], ['/v1/runs?limit=01', 'limit'], [
    '/v1/runs?limit=9007199254740993', 'limit'
  ], ['/v1/runs?limit=5&limit=6', 'limit'], ['/v1/runs?limitt=5', 'limitt'],
  ['/v1/runs?__proto__=5', '__proto__'], ['/v1/runs?status=done', 'status'], ['/v1/runs?createdAfter=yesterday', 'createdAfter'],
  ['/v1/runs?include=events', 'include'], ['/v1/runs/x/events?tree=1', 'tree'], ['/v1/runs/x/result?wait=-1', 'wait'], [
    '/v1/runs/x?x=', 'x'
  ],
  ['/v1/runs/x/result?format=ai-sdk&toolCallId=c', 'toolName'], ['/healthz?x=1', 'x']
])('%s is refused and names the parameter', async ([url, name], { onTestFinished }) => {
  const { send } = createApp(onTestFinished)
  const answer = problem(await send('GET', url), 400, 'INVALID_REQUEST')
  expect(pointers(answer)[0]?.split('/')[1]).toBe(name)
  expect(answer['detail']).toContain(name)
})

test.for<[type: string]>(
  [
    ['text/plain'], ['application/xml'], ['application/x-www-form-urlencoded'], ['multipart/form-data; boundary=x'],
    ['application/json; charset=utf-16'], ['application/jsonx']
  ]
)('a body of %s is 415', async ([type], { onTestFinished }) => {
  const { send } = createApp(onTestFinished)
  problem(await send('POST', '/v1/runs', '{"task":"a"}', { 'content-type': type }), 415, 'UNSUPPORTED_MEDIA_TYPE')
})

test.for(
  ['application/json', 'application/json; charset=utf-8', 'application/json;charset="UTF-8"', 'Application/JSON']
)('a body of %s is taken', async (type, { onTestFinished }) => {
  const { send } = createApp(onTestFinished)
  expect((await send('POST', '/v1/runs', '{"task":"a"}', { 'content-type': type })).statusCode).toBe(201)
})

test('an empty body is {}', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished)
  expect((await send('POST', '/v1/runs/x/cancel')).statusCode).toBe(200)
  expect((await send('POST', '/v1/runs/x/cancel', '', {})).statusCode).toBe(200)
  expect((await send('POST', '/v1/sessions')).statusCode).toBe(201)
  expect(runs.asked.map(({ call }) => call)).toEqual(['cancel', 'cancel', 'createSession'])
})

test('a body where none is taken is refused', async ({ onTestFinished }) => {
  const { send } = createApp(onTestFinished)
  problem(await send('DELETE', '/v1/runs/x', { force: true }), 400, 'INVALID_REQUEST')
  expect((await send('DELETE', '/v1/runs/x', {})).statusCode).toBe(204)
})

test('gzip is taken, and counts decoded', async ({ onTestFinished }) => {
  const { send } = createApp(onTestFinished)
  const gzip = { 'content-encoding': 'gzip' }
  expect((await send('POST', '/v1/runs', gzipSync('{"task":"a"}'), gzip)).statusCode).toBe(201)
  const bomb = gzipSync(JSON.stringify({ task: 'a'.repeat(5_000_000) }))
  expect(bomb.length).toBeLessThan(100_000)
  problem(await send('POST', '/v1/runs', bomb, gzip), 413, 'PAYLOAD_TOO_LARGE')
  problem(await send('POST', '/v1/runs', '{"task":"a"}', gzip), 400, 'INVALID_REQUEST')
  problem(await send('POST', '/v1/runs', gzipSync('{"task":"a"}').subarray(0, 15), gzip), 400, 'INVALID_REQUEST')
  problem(await send('POST', '/v1/runs', '{"task":"a"}', { 'content-encoding': 'br' }), 415, 'UNSUPPORTED_MEDIA_TYPE')
})

test('a body past the limit is 413, one at the limit is taken', async ({ onTestFinished }) => {
  const { start } = createApp(onTestFinished, { maxBodyBytes: 1000 })
  const overhead = JSON.stringify({ task: '' }).length
  expect((await start({ task: 'a'.repeat(1000 - overhead) })).statusCode).toBe(201)
  const refused = await start({ task: 'a'.repeat(1001 - overhead) })
  expect(problem(refused, 413, 'PAYLOAD_TOO_LARGE')['detail']).toBe('the request body is larger than 1000 bytes')
})

test('bytes that are no UTF-8 are refused', async ({ onTestFinished }) => {
  const { start } = createApp(onTestFinished)
  problem(await start(Buffer.from([0x22, 0xff, 0x22])), 400, 'INVALID_REQUEST')
})

test.for<[method: string, url: string, status: number, code: string]>([
  ['GET', '/nowhere', 404, 'NOT_FOUND'], ['POST', '/nowhere', 404, 'NOT_FOUND'], ['GET', '/v1/runs/', 404, 'NOT_FOUND'], [
    'GET', `/v1/runs/${'a'.repeat(301)}`, 404, 'NOT_FOUND'
  ],
  ['GET', '/v1/runs/%zz', 400, 'INVALID_REQUEST'], ['GET', '/v1/%ff', 400, 'INVALID_REQUEST'], [
    'PUT', '/v1/runs', 405, 'METHOD_NOT_ALLOWED'
  ],
  ['PATCH', '/v1/runs/x', 405, 'METHOD_NOT_ALLOWED'], ['GET', '/v1/sessions', 405, 'METHOD_NOT_ALLOWED'], [
    'PROPFIND', '/v1/runs', 405, 'METHOD_NOT_ALLOWED'
  ]
])('%s %s is %i', async ([method, url, status, code], { onTestFinished }) => {
  const { send } = createApp(onTestFinished)
  problem(await send(method, url), status, code)
})

test('405 names the methods that are allowed', async ({ onTestFinished }) => {
  const { send } = createApp(onTestFinished)
  expect((await send('PUT', '/v1/runs')).headers['allow']).toBe('GET, HEAD, POST')
  expect((await send('POST', '/v1/runs/x/tree')).headers['allow']).toBe('GET, HEAD')
})

test.for<[accept: string, url: string, ok: boolean]>([
  ['text/html', '/v1/runs', false], ['application/json;q=0', '/v1/runs', false], ['text/event-stream', '/v1/runs', false], [
    '*/*;q=0', '/v1/runs', false
  ],
  ['*/*', '/v1/runs', true], ['application/*', '/v1/runs', true], ['text/html, */*;q=0.1', '/v1/runs', true], [
    'application/json;q=0.5', '/v1/runs', true
  ],
  ['text/html', '/v1/runs/x/events', false], ['image/png', '/healthz', true]
])('Accept: %s on %s: %s', async ([accept, url, ok], { onTestFinished }) => {
  const { send } = createApp(onTestFinished)
  const answer = await send('GET', url, undefined, { accept })
  if (ok) expect(answer.statusCode).toBe(200)
  else problem(answer, 406, 'NOT_ACCEPTABLE')
})

test('a gzip body counts decoded: what swells far is taken while it is within the limit, and a bomb is refused at once', async ({ onTestFinished }) => {
  const { send, runs } = createApp(onTestFinished, { maxBodyBytes: 33_554_432 })
  const posted = (text: string) => send('POST', '/v1/runs', gzipSync(text), { 'content-encoding': 'gzip', 'content-type': 'application/json' })
  const log = JSON.stringify({ task: 'INFO health check ok 200\n'.repeat(200_000) })
  expect((await posted(log)).statusCode).toBe(201)
  const taken = runs.asked.length
  expect(problem(await posted(`${'\n'.repeat(33_000_000)}x`), 400, 'INVALID_REQUEST').detail).toMatch(/white space/)
  problem(await posted(JSON.stringify({ task: 'a'.repeat(34_000_000) })), 413, 'PAYLOAD_TOO_LARGE')
  expect(runs.asked).toHaveLength(taken)
})

test('white space without end is no empty body', async ({ onTestFinished }) => {
  const { send } = createApp(onTestFinished, { maxBodyBytes: 33_554_432 })
  const refused = problem(await send('POST', '/v1/runs', ' '.repeat(2_000_000)), 400, 'INVALID_REQUEST')
  expect(refused.detail).toMatch(/white space/)
})

test('lengths count characters, not the code units that JavaScript keeps them in', async ({ onTestFinished }) => {
  const { start } = createApp(onTestFinished)
  expect((await start({ task: 'a', label: '😀'.repeat(200) })).statusCode).toBe(201)
  for (const label of ['😀'.repeat(201), 'a'.repeat(201), 'a'.repeat(500)]) {
    expect(problem(await start({ task: 'a', label }), 400, 'INVALID_REQUEST').errors).toEqual([{ pointer: '/label', detail: 'must have at most 200 characters' }])
  }
  expect(problem(await start({ task: '' }), 400, 'INVALID_REQUEST').errors).toContainEqual({ pointer: '/task', detail: 'must not be empty' })
})
