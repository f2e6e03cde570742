import { expect, onTestFinished, test } from 'vitest'
import { openDriver } from '../support/driver-room.ts'
import { says } from '../support/recording-model.ts'
import { startService } from '../support/service.ts'

const DEPTH_INVALID = { code: 'DEPTH_INVALID', detail: 'agent subagentDepth must be a non-negative safe integer' }
const MAX_INVALID = { code: 'MAX_DEPTH_INVALID', detail: 'subagent maxDepth must be a non-negative safe integer' }
const RANGE = { code: 'DEPTH_RANGE', detail: 'subagent child depth exceeds the safe-integer range' }
const exceeded = (depth: number, max: number) => ({ code: 'DEPTH_EXCEEDED', detail: `subagent depth ${depth} exceeds maxDepth ${max}` })

/** JSON texts that are no depth. */
const MALFORMED = ['null', '"2"', '""', 'true', 'false', '1.5', '-1', '-0', '-0.0', '9007199254740992', '9007199254740993', '1e300', '{}', '[]', '[2]', '{"depth": 2}']

const refusals: [string, object][] = [
  ...MALFORMED.map((json): [string, object] => [`"maxDepth": ${json}`, MAX_INVALID]),
  ...MALFORMED.map((json): [string, object] => [`"parent": {"delegationDepth": ${json}}`, DEPTH_INVALID]),
  ...MALFORMED.map((json): [string, object] => [`"parent": {"subagentDepth": ${json}}`, DEPTH_INVALID]),
  ['"parent": {"delegationDepth": 9007199254740991}', RANGE],
  ['"parent": {"subagentDepth": 9007199254740991}, "maxDepth": 3', RANGE],
  ['"maxDepth": 0', exceeded(1, 0)],
  ['"maxDepth": 0e5', exceeded(1, 0)],
  ['"parent": {"delegationDepth": 3}, "maxDepth": 3', exceeded(4, 3)],
  ['"parent": {"delegationDepth": 2.0}, "maxDepth": 2e0', exceeded(3, 2)],
  ['"parent": {"delegationDepth": 5, "subagentDepth": 1}, "maxDepth": 5', exceeded(6, 5)],
  ['"parent": {"delegationDepth": 1, "subagentDepth": 5}, "maxDepth": 5', exceeded(6, 5)],
  ['"parent": {"delegationDepth": null, "subagentDepth": 9007199254740991}, "maxDepth": -1', MAX_INVALID],
  ['"parent": {"delegationDepth": 1, "subagentDepth": null}, "maxDepth": 0', DEPTH_INVALID]
]

test('6.1–6.3 over HTTP: each malformed or exceeded depth is 422 with its exact text, which a host can relay; no run is left', async () => {
  const service = await startService(onTestFinished)
  for (const provider of ['spawn', 'fork']) {
    for (const [members, { code, detail }] of refusals as [string, { code: string, detail: string }][]) {
      const { status, body, headers } = await service.call('POST', '/v1/runs', `{"provider": "${provider}", "task": "t", ${members}}`)
      expect([members, status, body]).toMatchObject([members, 422, {
        status: 422, code, detail, retryable: false, toolResult: { isError: true, content: [{ type: 'text', text: `Error: ${detail}` }] }
      }])
      expect(headers.get('content-type')).toContain('application/problem+json')
    }
  }
  expect((await service.call('GET', '/v1/runs')).body.runs).toEqual([])
})

const accepted: [string, number][] = [
  ['"maxDepth": 1', 1], ['"maxDepth": 1.0', 1], ['"maxDepth": 1e0', 1], ['"maxDepth": 10e-1', 1], ['"maxDepth": 9007199254740991', 1],
  ['"parent": {}', 1], ['"parent": {"delegationDepth": 0}', 1], ['"parent": {"delegationDepth": 2e0}, "maxDepth": 3.0', 3],
  ['"parent": {"delegationDepth": 2, "subagentDepth": 4}', 5], ['"parent": {"delegationDepth": 4, "subagentDepth": 2}', 5],
  ['"parent": {"delegationDepth": 9007199254740990}', Number.MAX_SAFE_INTEGER]
]
test('6.1–6.3 over HTTP: a depth in any spelling of its number, and the deeper of header and runtime', async () => {
  const service = await startService(onTestFinished)
  for (const [members, depth] of accepted) {
    const { status, body } = await service.call('POST', '/v1/runs', `{"task": "t", ${members}}`)
    expect([members, status, body.depth]).toEqual([members, 201, depth])
    expect((await service.app.store.getSession('default', body.id))?.header.delegationDepth).toBe(depth)
  }
})

test('6.2 a chain of runs: 1 lets only a top-level agent delegate, and a refused attempt costs the parent nothing', async () => {
  const service = await startService(onTestFinished)
  const child = await service.start({ task: 't', maxDepth: 1 })
  const refused = await service.call('POST', '/v1/runs', { task: 't', parent: { runId: child.id }, maxDepth: 1 })
  expect([refused.status, refused.body.detail]).toEqual([422, 'subagent depth 2 exceeds maxDepth 1'])
  const grandchild = await service.start({ task: 't', parent: { runId: child.id }, maxDepth: 2 })
  expect([child.depth, grandchild.depth]).toEqual([1, 2])
  expect(await service.result(child.id)).toMatchObject({ stopReason: 'completed' })
})

test('6.1 the deployment\'s MAX_DEPTH caps beside the request\'s: the lower one is told', async () => {
  const service = await startService(onTestFinished, { env: { MAX_DEPTH: '1' } })
  const refused = async (maxDepth?: number) => (await service.call('POST', '/v1/runs', { task: 't', parent: { delegationDepth: 1 }, ...(maxDepth === undefined ? {} : { maxDepth }) })).body.detail
  expect([await refused(), await refused(9), await refused(0)]).toEqual([
    'subagent depth 2 exceeds maxDepth 1', 'subagent depth 2 exceeds maxDepth 1', 'subagent depth 2 exceeds maxDepth 0'
  ])
})

test('6.1 the stored depth of a registered session is authoritative for its forks', async () => {
  const service = await startService(onTestFinished)
  const session = await service.call('POST', '/v1/sessions', { delegationDepth: 2 })
  const child = await service.start({ provider: 'fork', task: 't', parent: { sessionId: session.body.id } })
  expect(child.depth).toBe(3)
  expect((await service.call('POST', '/v1/sessions', '{"delegationDepth": -0}')).body).toMatchObject(DEPTH_INVALID)
})

test.each([null, '2', true, 1.5, -1, -0, NaN, Infinity, 2 ** 53, {}, [], 2n, Symbol('two'), () => 2])('6.3 in process, %s is no maxDepth and no depth', async (value) => {
  const room = await openDriver(onTestFinished, { acts: [says('never')] })
  await expect(room.start({ maxDepth: value })).rejects.toMatchObject({ code: 'MAX_DEPTH_INVALID', message: MAX_INVALID.detail })
  await expect(room.start({ parent: { depths: { runtime: value } } })).rejects.toMatchObject({ code: 'DEPTH_INVALID', message: DEPTH_INVALID.detail })
  await expect(room.start({ parent: { depths: { stored: value } } })).rejects.toMatchObject({ code: 'DEPTH_INVALID' })
  expect(room.models.requests).toEqual([])
})
