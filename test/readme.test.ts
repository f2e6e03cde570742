import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { fakeClaudeFolder } from './support/fake-claude.ts'
import { echo } from './support/fake-models.ts'
import { startFakeModelServer } from './support/fake-model-server.ts'
import { startService } from './support/service.ts'

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
const blocks = [...readme.matchAll(/^```sh\n([^]*?)^```$/gm)].map((match) => match[1] as string)
/** Each line of a block that begins with a command is one command. */
const commandsOf = (block: string): string[] => block.split(/^(?=curl |claude )/m)
const run = promisify(execFile)

test('the README works as it stands: every shell line, against a fake OpenAI and a fake Anthropic server, and a fake Claude Code', async () => {
  const models = await startFakeModelServer(onTestFinished, { answer: echo })
  const service = await startService(onTestFinished, {
    yaml: readFileSync(new URL('../examples/tools.yaml', import.meta.url), 'utf8'),
    env: { OPENAI_BASE_URL: models.openaiUrl, ANTHROPIC_BASE_URL: models.anthropicUrl, DEFAULT_MODEL: 'scripted/demo' }
  })
  const env = { ...process.env, PATH: `${fakeClaudeFolder(onTestFinished)}:${process.env.PATH}` }
  const outputs: string[] = []
  for (const command of blocks.flatMap(commandsOf)) {
    const { stdout } = await run('bash', ['-c', command.replaceAll('localhost:8080', service.url.replace('http://', ''))], { env })
    outputs.push(stdout)
  }
  const json = outputs.map((output) => output.startsWith('{') ? JSON.parse(output) : undefined)
  const [hello, waiting, , tool, relayed, structured, , hanging, cancelled, deep, openai, anthropic, tools, events, , ingested, claude] = json
  expect(hello).toMatchObject({ status: 'settled', result: { toolResult: { isError: false } } })
  expect(waiting).toMatchObject({ status: 'waiting', pendingToolCalls: [{ toolCallId: 'call_1', input: { path: 'notes.txt' } }] })
  expect(tool).toMatchObject({ toolResult: { content: [{ text: 'It says: buy milk.' }] } })
  expect(relayed).toMatchObject({ relay: { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1' }] } })
  expect(structured).toMatchObject({ result: { structured: { files: 3 } } })
  expect(outputs[6]).toMatch(/^event: run$[^]*^event: settled$/m)
  expect(hanging).toMatchObject({ status: 'running' })
  expect(cancelled).toMatchObject({ status: 'settled', stopReason: 'aborted', cancel: { reason: 'changed my mind' } })
  expect(deep.toolResult.content[0].text).toBe('Error: subagent depth 4 exceeds maxDepth 3')
  const answer = 'fake answer to: List the functions that have no test.'
  expect(openai).toMatchObject({ seed: { turns: 1 }, result: { relay: { role: 'tool', tool_call_id: 'call_9', content: answer } } })
  expect(anthropic).toMatchObject({ seed: { turns: 1 }, result: { relay: { content: [{ tool_use_id: 'toolu_9' }] } } })
  expect(tools).toMatchObject({ result: { structured: { record: 'ADR 2', answers: 2 } } })
  expect(JSON.stringify(events)).toContain('transcript are kept as the texts they came as')
  expect(JSON.stringify(events)).toContain('Scripted answer to: Who relies on it?')
  expect(ingested).toEqual({ accepted: expect.any(Number) })
  expect(claude).toMatchObject({ status: 'settled', stopReason: 'completed', children: [{ status: 'settled', stopReason: 'completed' }] })
  expect(models.requests).toHaveLength(2)
  for (const { body } of models.requests) expect(body).not.toContain('find untested functions')
})
