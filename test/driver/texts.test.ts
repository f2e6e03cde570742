import { expect, onTestFinished, test } from 'vitest'
import { startService } from '../support/service.ts'

/** §12 the texts that a host relays, as it gets them. */

const FAILED = 'Error: subagent run failed'
test.each<[string, object[], object, string]>([
  ['a failed run', [{ fail: { code: 'MODEL_AUTH', message: 'no entry' } }], {}, `${FAILED}\nDiagnostic: model endpoint "scripted" answered 401 (not authorized): no entry`],
  ['a failed run with partial text', [{ reset: { after: 'half a word' } }], {}, `${FAILED}\nDiagnostic: model endpoint "scripted" reset the connection\nPartial output before the run ended:\nhalf a word`],
  ['the token cap', [{ maxTokens: 'so far' }], {}, 'Error: subagent run hit its token limit before finishing\nPartial output before the run ended:\nso far'],
  ['a refusal', [{ refuse: 'I will not' }], {}, 'Error: subagent declined the task\nPartial output before the run ended:\nI will not'],
  ['a limit', [{ say: 'looking', call: { name: 'nothing' } }], { limits: { steps: 1 } }, `${FAILED}\nDiagnostic: steps 1 reached\nPartial output before the run ended:\nlooking`],
  ['no structured report', [{ say: 'plain' }], { outputSchema: { type: 'object' } }, `${FAILED}\nDiagnostic: the turn ended without a \`structured_output\` call that matched the schema\nPartial output before the run ended:\nplain`]
])('§12 %s', async (_, script, more, told) => {
  const service = await startService(onTestFinished)
  const run = await service.start({ task: 't', agentOptions: { script }, ...more })
  expect((await service.result(run.id)).toolResult).toEqual({ isError: true, content: [{ type: 'text', text: told }] })
})

test('§12 an aborted run, with what it said; refusals of a tree that is full and of an unknown provider', async () => {
  const service = await startService(onTestFinished)
  const root = await service.start({ task: 't', limits: { treeRuns: 1 }, agentOptions: { script: [{ hang: true }] } })
  const refused = async (body: object) => (await service.call('POST', '/v1/runs', { task: 't', ...body })).body.toolResult.content[0].text
  expect(await refused({ parent: { runId: root.id } })).toBe('Error: subagent tree exceeds 1 runs')
  expect(await refused({ parent: { runId: root.id }, limits: { treeRuns: 99 } })).toBe('Error: subagent tree exceeds 1 runs')
  expect(await refused({ provider: 'teleport' })).toBe('Error: no subagent provider registered for "teleport"')
  await service.call('POST', `/v1/runs/${root.id}/cancel?wait=10`, {})
  expect((await service.result(root.id)).toolResult.content[0].text).toBe('Error: subagent run was cancelled')
})
