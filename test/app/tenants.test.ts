import { randomUUID } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createKeyRing, sha256, watchPath } from '../../src/keys.ts'
import { makeFolder, startService, type Answer, type Service } from '../support/service.ts'

const hang = { task: 'stay', agentOptions: { script: [{ hang: true }] } }
const quick = { task: 'a', agentOptions: { script: [{ say: 'secret of the tenant' }] } }
const entry = (id: string, tenant: string, more: object = {}): object =>
  ({ id, sha256: sha256(`key-of-${id}`).toString('hex'), tenant, ...more })

interface Guarded { service: Service, write (entries: object[]): void, faults: Error[] }

/** The service with a real keys file, watched as the process does. */
async function guarded (entries: object[]): Promise<Guarded> {
  const path = join(makeFolder(onTestFinished), 'keys.yaml')
  const write = (list: object[]): void => {
    writeFileSync(`${path}.new`, JSON.stringify(list))
    renameSync(`${path}.new`, path)
  }
  write(entries)
  const faults: Error[] = []
  const keys = createKeyRing({
    path, now: Date.now, readFile: (file) => readFileSync(file, 'utf8'), onFault: (error) => { faults.push(error) },
    watch: (file, onChange) => watchPath(file, onChange, { settleMs: 5, pollMs: 50 })
  })
  return { service: await startService(onTestFinished, { keys }), write, faults }
}

const as = (id: string, more: Record<string, string> = {}): Record<string, string> =>
  ({ authorization: `Bearer key-of-${id}`, ...more })

test('8.1 two tenants cannot see, guess, cancel, answer or fork each other\'s things, on any route', async () => {
  const { service } = await guarded([entry('ann', 'a'), entry('bob', 'b')])
  const call = (
    id: string, method: string, path: string, body?: object, headers = {}
  ): Promise<Answer> => service.call(method, path, body, as(id, headers))
  const { body: run } = await call(
    'ann', 'POST', '/v1/runs', { ...hang, label: 'mine', metadata: { team: 'x' }, tools: [{ name: 'ask' }] }
  )
  const { body: waits } = await call(
    'ann', 'POST', '/v1/runs', { task: 'a', tools: [{ name: 'ask' }], agentOptions: { script: [{ call: { name: 'ask' } }] } },
    { prefer: 'wait=10' }
  )
  const { body: session } = await call('ann', 'POST', '/v1/sessions', { metadata: { of: 'ann' } })
  const foreign: [method: string, path: string, body?: object][] = [
    ['GET', `/v1/runs/${run.id}`], ['GET', `/v1/runs/${run.id}/result`], [
      'GET', `/v1/runs/${run.id}/result?wait=1`
    ], ['GET', `/v1/runs/${run.id}/events`],
    ['GET', `/v1/runs/${run.id}/tree`], ['POST', `/v1/runs/${run.id}/cancel`, {}],
    [
      'POST', `/v1/runs/${waits.id}/tool-results`,
      { results: [{ toolCallId: waits.pendingToolCalls[0].toolCallId, content: 'x' }] }
    ],
    ['POST', '/v1/runs', { task: 'a', parent: { runId: run.id } }], [
      'POST', '/v1/runs', { task: 'a', provider: 'fork', parent: { runId: run.id } }
    ],
    [
      'POST', '/v1/runs', { task: 'a', parent: { sessionId: session.id } }
    ], ['POST', '/v1/runs', { task: 'a', parent: { sessionId: run.id } }],
    ['GET', `/v1/sessions/${session.id}`], ['GET', `/v1/sessions/${run.id}`], [
      'POST', `/v1/sessions/${session.id}/messages`, { after: 0, messages: [{ role: 'user', content: 'x' }] }
    ]
  ]
  for (const [method, path, body] of foreign) {
    const theirs = await call('bob', method, path, body)
    const unknown = await call(
      'bob', method, path.replaceAll(/[0-9a-f-]{36}/g, randomUUID()),
      body && JSON.parse(JSON.stringify(body).replaceAll(run.id, randomUUID()).replaceAll(session.id, randomUUID()))
    )
    expect(
      { method, path, status: theirs.status, code: theirs.body.code }
    ).toEqual({ method, path, status: 404, code: unknown.body.code })
  }
  const stream = await call('bob', 'GET', `/v1/runs/${run.id}/events`, undefined, { accept: 'text/event-stream' })
  expect(stream.status).toBe(404)
  for (const which of [{ ids: [run.id, waits.id] }, { root: run.id }, { label: 'mine' }, { metadata: { team: 'x' } }]) {
    expect((await call('bob', 'POST', '/v1/runs/cancel', which)).body).toEqual({ matched: 0 })
  }
  for (const path of [`/v1/runs/${run.id}`, `/v1/sessions/${session.id}`, `/v1/sessions/${run.id}`]) {
    expect((await call('bob', 'DELETE', path)).status).toBe(204)
  }
  for (const query of ['', `?root=${run.id}`, `?parent=${run.id}`, '?label=mine', '?metadata.team=x', '?include=result']) {
    expect((await call('bob', 'GET', `/v1/runs${query}`)).body).toEqual({ runs: [], nextCursor: null })
  }
  expect((await call('ann', 'GET', `/v1/runs/${run.id}`)).body).toMatchObject({ status: 'running', cancel: null })
  expect((await call('ann', 'GET', `/v1/sessions/${session.id}`)).status).toBe(200)
})

test('8.1 ids and idempotency keys of one tenant are free for another', async () => {
  const { service } = await guarded([entry('ann', 'a'), entry('ann2', 'a'), entry('bob', 'b')])
  const body = { ...quick, id: randomUUID() }
  const start = (id: string, more: object = {}): Promise<Answer> => service.call(
    'POST', '/v1/runs', { ...body, ...more }, as(id, { 'idempotency-key': 'k', prefer: 'wait=10' })
  )
  expect((await start('ann')).status).toBe(201)
  expect((await start('bob', { label: 'of bob' })).status).toBe(201)
  expect((await start('ann2')).status).toBe(200)
  expect((await service.call('GET', `/v1/runs/${body.id}`, undefined, as('bob'))).body.label).toBe('of bob')
  await service.call('DELETE', `/v1/runs/${body.id}`, undefined, as('bob'))
  expect((await service.call('GET', `/v1/runs/${body.id}`, undefined, as('ann'))).status).toBe(200)
})

test('8.1 without a good key nothing but health answers, and scopes say what a key may', async () => {
  const past = new Date(Date.now() - 1000).toISOString()
  const { service } = await guarded([
    entry('all', 'a'), entry('reader', 'a', { scopes: ['read'] }), entry(
      'meter', 'a', { scopes: ['metrics'] }
    ), entry('old', 'a', { expiresAt: past })
  ])
  for (const headers of [{}, as('nobody'), as('old'), { authorization: 'Basic abc' }, { authorization: 'Bearer' }]) {
    const { status, body, headers: answered } = await service.call(
      'GET', '/v1/runs', undefined, headers as Record<string, string>
    )
    expect(
      { status, code: body.code, challenge: answered.get('www-authenticate') }
    ).toEqual({ status: 401, code: 'UNAUTHENTICATED', challenge: 'Bearer' })
  }
  expect((await service.call('GET', '/healthz')).status).toBe(200)
  expect((await service.call('GET', '/readyz')).status).toBe(200)
  const statuses = async (id: string): Promise<number[]> => [
    (await service.call('GET', '/v1/runs', undefined, as(id))).status,
    (await service.call('POST', '/v1/runs', hang, as(id))).status,
    (await service.call('GET', '/metrics', undefined, as(id))).status
  ]
  expect(await statuses('all')).toEqual([200, 201, 403])
  expect(await statuses('reader')).toEqual([200, 403, 403])
  expect(await statuses('meter')).toEqual([403, 403, 200])
})

test('8.1 a key\'s models are all it sees and may use, a parent\'s model included', async () => {
  const { service } = await guarded([entry('any', 'a'), entry('few', 'a', { models: ['scripted/small*'] })])
  expect(
    (await service.call('GET', '/v1/models', undefined, as('any'))).body.models.map((model: { id: string }) => model.id)
  ).toContain('scripted/demo')
  expect((await service.call('GET', '/v1/models', undefined, as('few'))).body).toEqual({ models: [] })
  const start = (more: object): Promise<Answer> => service.call('POST', '/v1/runs', { task: 'a', ...more }, as('few'))
  const forbidden = {
    status: 403,
    body: {
      code: 'MODEL_FORBIDDEN', detail: 'model "scripted/demo" is not allowed for this key',
      toolResult: { content: [{ text: 'Error: subagent service unavailable' }] }
    }
  }
  expect(await start({})).toMatchObject(forbidden)
  expect(await start({ parent: { model: 'scripted/demo' } })).toMatchObject(forbidden)
  expect(await start({ agentOptions: { model: 'scripted/demo' } })).toMatchObject(forbidden)
  expect(
    await start({ agentOptions: { model: 'scripted/small-1' } })
  ).toMatchObject({ status: 201, body: { model: 'scripted/small-1' } })
})

test('8.1 a key\'s minDepth raises the depth that an inline parent claims, never that of a run here', async () => {
  const { service } = await guarded([entry('deep', 'a', { minDepth: 2 })])
  const start = (more: object): Promise<Answer> => service.call('POST', '/v1/runs', { ...hang, ...more }, as('deep'))
  const top = await start({})
  expect(top.body.depth).toBe(3)
  expect((await start({ parent: { delegationDepth: 1 } })).body.depth).toBe(3)
  expect((await start({ parent: { subagentDepth: 5 } })).body.depth).toBe(6)
  expect((await start({ parent: { runId: top.body.id } })).body.depth).toBe(4)
  expect(await start({ maxDepth: 2 })).toMatchObject(
    { status: 422, body: { code: 'DEPTH_EXCEEDED', detail: 'subagent depth 3 exceeds maxDepth 2' } }
  )
  expect(await start({ parent: { subagentDepth: '1' } })).toMatchObject({ status: 422, body: { code: 'DEPTH_INVALID' } })
})

test('8.3 a key\'s limits: runs open at once, starts a minute, bytes of a body; another tenant is not touched', async () => {
  const { service } = await guarded([
    entry('two', 'a', { limits: { running: 2 } }), entry('rate', 'b', { limits: { startsPerMinute: 2 } }),
    entry('small', 'c', { limits: { bodyBytes: 1000 } }), entry('free', 'd')
  ])
  const start = (id: string, body: object = hang): Promise<Answer> => service.call('POST', '/v1/runs', body, as(id))
  const two = await Promise.all(Array.from({ length: 6 }, () => start('two')))
  expect([201, 429].map((status) => two.filter((each) => each.status === status).length)).toEqual([2, 4])
  const refused = two.find(({ status }) => status === 429) as Answer
  expect(refused.body).toMatchObject({ code: 'QUOTA_EXCEEDED', retryable: true })
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  const [{ id }] = (await service.call('GET', '/v1/runs', undefined, as('two'))).body.runs
  await service.call('POST', `/v1/runs/${id}/cancel?wait=10`, {}, as('two'))
  expect((await start('two')).status).toBe(201)
  expect([(await start('rate')).status, (await start('rate')).status]).toEqual([201, 201])
  const limited = await start('rate')
  expect(limited).toMatchObject({ status: 429, body: { code: 'RATE_LIMITED', retryable: true } })
  expect(Number(limited.headers.get('retry-after'))).toBeGreaterThan(0)
  expect((await service.call('GET', '/v1/runs', undefined, as('rate'))).status).toBe(200)
  expect(await start('small', { task: 'x'.repeat(2000) })).toMatchObject({ status: 413, body: { code: 'PAYLOAD_TOO_LARGE' } })
  expect((await start('free', { task: 'x'.repeat(2000) })).status).toBe(201)
})

test('8.1 the keys file is reread on change; a bad one leaves the keys before in force, and is told', async () => {
  const { service, write, faults } = await guarded([entry('ann', 'a')])
  const status = async (id: string): Promise<number> => (await service.call('GET', '/v1/runs', undefined, as(id))).status
  expect([await status('ann'), await status('bob')]).toEqual([200, 401])
  write([entry('bob', 'a')])
  while (await status('bob') !== 200) await service.call('GET', '/healthz')
  expect(await status('ann')).toBe(401)
  write([{ id: 'nonsense' }])
  while (faults.length === 0) await service.call('GET', '/healthz')
  expect(faults[0]?.message).toMatch(/sha256: is missing/)
  expect([await status('ann'), await status('bob')]).toEqual([401, 200])
})

/** A request with headers that fetch does not let through. */
const raw = (url: string, path: string, headers: Record<string, string>): Promise<number> => new Promise((resolve, reject) => {
  request(url + path, { headers, agent: false }, (response) => {
    response.resume()
    resolve(response.statusCode ?? 0)
  }).on('error', reject).end()
})

test('8.2 without keys a foreign Host or Origin is 403, on every route; this machine\'s own is served', async () => {
  const service = await startService(onTestFinished)
  const { port } = new URL(service.url)
  for (const path of ['/v1/runs', '/healthz', '/openapi.json', '/docs/', '/nowhere']) {
    expect([path, await raw(service.url, path, { host: `evil.example:${port}` })]).toEqual([path, 403])
    expect([path, await raw(service.url, path, { origin: 'https://evil.example' })]).toEqual([path, 403])
    expect([path, await raw(service.url, path, { origin: 'null' })]).toEqual([path, 403])
  }
  for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`]) {
    expect(await raw(service.url, '/v1/runs', { host, origin: `http://${host}` })).toBe(200)
  }
  const open = await startService(onTestFinished, { env: { ALLOW_UNAUTHENTICATED: 'true' } })
  expect(await raw(open.url, '/v1/runs', { host: 'agents.example' })).toBe(200)
  expect(await raw(open.url, '/v1/runs', { host: 'agents.example', origin: 'https://evil.example' })).toBe(403)
  expect(await raw(open.url, '/v1/runs', { host: 'agents.example', origin: 'https://agents.example' })).toBe(200)
})
