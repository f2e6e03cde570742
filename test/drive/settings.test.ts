import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { assistant, init, lifecycle, replay, result, streamed, toolUse, words } from '../providers/claude-code/play.ts'
import { makeFolder } from '../support/service.ts'
import { makeDirectory, opens, startBody, startDrive } from './host.ts'

const argumentOf = (argv: string[], name: string): string | undefined => argv.includes(name) ? argv[argv.indexOf(name) + 1] : undefined
const say = (words_: string): object => ({ emit: [...streamed('m', words_), result()] })

test.concurrent('D8 the environment is an allow-list and the configuration: no secret of the service reaches the CLI', async ({ onTestFinished }) => {
  const secrets = { OPENAI_API_KEY: 'sk-service', ANTHROPIC_API_KEY: 'sk-ant-service', NODE_OPTIONS: '--no-warnings', MY_TOKEN: 'mine' }
  const drive = await startDrive(onTestFinished, { env: { ...secrets, LANG: 'C.UTF-8', HOME: '/home/nobody' }, cliEnv: { ANTHROPIC_API_KEY: 'sk-of-the-operator' } })
  const id = await drive.start()
  await drive.result(id)
  const { env } = await drive.cli.entry('start')
  expect(env).toMatchObject({
    PATH: process.env['PATH'], LANG: 'C.UTF-8', HOME: '/home/nobody', ANTHROPIC_API_KEY: 'sk-of-the-operator',
    SUBAGENTD_RUN: id, CLAUDE_CODE_FORWARD_SUBAGENT_TEXT: '1'
  })
  expect(Object.keys(env).toSorted()).toEqual(['ANTHROPIC_API_KEY', 'CLAUDE_CODE_FORWARD_SUBAGENT_TEXT', 'FAKE_CLAUDE_RECORD', 'HOME', 'LANG', 'PATH', 'SUBAGENTD_RUN'])
})

test.concurrent('D8 the cwd lies under a root: the first one where none is named, links resolved, and everything else refused in one text', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished)
  const inside = makeDirectory(drive.root, 'project', 'deep')
  const outside = makeFolder(onTestFinished)
  symlinkSync(outside, join(drive.root, 'out'))
  symlinkSync(inside, join(drive.root, 'in'))
  writeFileSync(join(drive.root, 'file'), '')
  const detail = 'cwd must be the absolute path of a directory that exists, at or under one of the roots that this service is configured with'
  for (const cwd of [outside, join(drive.root, 'out'), `${drive.root}/..`, `${drive.root}-other`, 'project', '.', '', '/', join(drive.root, 'none'), join(drive.root, 'file')]) {
    expect(await drive.call('POST', '/v1/runs', startBody({ parent: { cwd } })), cwd).toMatchObject({
      status: 400, body: { code: 'INVALID_REQUEST', detail, errors: [{ pointer: '/parent/cwd' }] }
    })
  }
  expect(drive.cli.entries('start')).toEqual([])
  for (const parent of [undefined, { cwd: drive.root }, { cwd: inside }, { cwd: join(drive.root, 'in') }]) await drive.result(await drive.start(parent ? { parent } : {}))
  expect(drive.cli.entries('start').map(({ cwd }) => cwd)).toEqual([drive.root, drive.root, inside, inside])
})

test.concurrent('D8 a root that is a link itself, and one that is not there', async ({ onTestFinished }) => {
  const real = makeFolder(onTestFinished)
  mkdirSync(join(real, 'a'))
  const link = join(makeFolder(onTestFinished), 'link')
  symlinkSync(real, link)
  const drive = await startDrive(onTestFinished, { settings: { roots: [join(real, 'gone'), link] } })
  await drive.result(await drive.start({ parent: { cwd: join(link, 'a') } }))
  expect((await drive.cli.entry('start')).cwd).toBe(join(real, 'a'))
  expect(await drive.call('POST', '/v1/runs', startBody())).toMatchObject({ status: 422, body: { code: 'PROVIDER_UNAVAILABLE', detail: expect.stringContaining('its first root is no directory') } })
})

test.concurrent('A7 every can_use_tool request is answered, by policy and filter, and every other request with an error', async ({ onTestFinished }) => {
  const ask = (tool: string): object => ({ type: 'control_request', request_id: `q-${tool}`, request: { subtype: 'can_use_tool', tool_name: tool, input: { a: [1, 'x'] } } })
  const tools = ['Read', 'Bash', 'mcp__docs__find', 'Edit', 'Write', '']
  const drive = await startDrive(onTestFinished, {
    settings: { permissions: { allow: ['Read', 'mcp__docs__*', 'Edit', 'Bash'], deny: ['Bash'] } },
    script: [
      { user: true }, { emit: [lifecycle('{{user:1}}', 'started'), init({ tools: ['Read'] })] }, ...tools.flatMap((tool) => [{ emit: ask(tool) }, { response: true as const }]),
      { emit: { type: 'control_request', request_id: 'q-hook', request: { subtype: 'hook_callback' } } }, { response: true }, { emit: { type: 'control_request', request_id: 'q-none' } }, { response: true }, say('done') as never
    ]
  })
  const id = await drive.start({ toolFilter: { deny: ['Edit'] } })
  expect(await drive.result(id)).toMatchObject({ stopReason: 'completed' })
  const answers = drive.cli.entries('in').slice(1).map(({ frame }) => frame['response'] as { request_id: string, subtype: string, response?: object, error?: string })
  const denied = (tool: string, why: string): object => ({ subtype: 'success', request_id: `q-${tool}`, response: { behavior: 'deny', message: `tool "${tool}" is not permitted: ${why}` } })
  const none = "the operator's permissions do not allow it"
  expect(answers).toEqual([
    { subtype: 'success', request_id: 'q-Read', response: { behavior: 'allow', updatedInput: { a: [1, 'x'] } } },
    denied('Bash', "the operator's permissions deny \"Bash\""), { subtype: 'success', request_id: 'q-mcp__docs__find', response: { behavior: 'allow', updatedInput: { a: [1, 'x'] } } },
    denied('Edit', 'the toolFilter of this run denies it'), denied('Write', none), denied('', none),
    { subtype: 'error', request_id: 'q-hook', error: 'this host does not answer "hook_callback" requests' }, { subtype: 'error', request_id: 'q-none', error: 'this host does not answer "" requests' }
  ])
})

test.concurrent('persona, toolFilter, model and steps become flags; the operator\'s arguments are last', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { settings: { args: ['--settings', '{}'] } })
  const id = await drive.start({
    persona: '--be brief', toolFilter: { allow: ['Read', 'Task'], deny: ['Bash'] }, agentOptions: { model: 'claude-code/opus' }, limits: { steps: 7 }
  })
  await drive.result(id)
  const { argv } = await drive.cli.entry('start')
  expect(argv).toEqual([
    '-p', '--input-format', 'stream-json', '--output-format', 'stream-json', '--verbose', '--include-partial-messages', '--replay-user-messages',
    '--permission-prompt-tool', 'stdio', '--model', 'opus', '--append-system-prompt=--be brief', '--max-turns', '7', '--tools', 'Read,Task', '--strict-mcp-config',
    '--disallowedTools', 'Bash', '--settings', '{}'
  ])
  expect(await drive.run(id)).toMatchObject({ model: 'claude-code/opus' })
  await drive.result(await drive.start({ agentOptions: { model: 'sonnet' } }))
  expect(argumentOf((await drive.cli.entry('start', 2)).argv, '--model')).toBe('sonnet')
  await drive.result(await drive.start())
  expect((await drive.cli.entry('start', 3)).argv).not.toContain('--model')
})

test.concurrent('a CLI that offers what the filter leaves out ends the run as SETUP_FAILED before its first word, and is not asked nicely', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [{ user: true }, { emit: [lifecycle('{{user:1}}', 'started'), init({ tools: ['Read', 'Bash', 'Agent'] })] }, { silent: true }]
  })
  for (const toolFilter of [{ allow: ['Read'] }, { deny: ['Bash', 'Task'] }]) {
    expect(await drive.result(await drive.start({ toolFilter }))).toMatchObject({
      stopReason: 'error', output: [], error: { code: 'SETUP_FAILED', message: 'the CLI offers tools that toolFilter leaves out: Bash, Agent' }
    })
  }
  expect(drive.cli.entries('in').map(({ frame }) => frame['type'])).toEqual(['user', 'user'])
})

test.concurrent('what the CLI cannot promise is refused by capability, what it has no setting for by pointer, and no process starts', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished)
  const start = async (more: object): Promise<unknown> => await drive.call('POST', '/v1/runs', startBody(more))
  expect(await start({ outputSchema: { type: 'object' } })).toMatchObject({ status: 422, body: { code: 'UNSUPPORTED_CAPABILITY', detail: 'subagent provider "claude-code" does not support the "outputSchema" capability' } })
  expect(await start({ maxDepth: 3 })).toMatchObject({ status: 422, body: { code: 'UNSUPPORTED_CAPABILITY', detail: 'subagent provider "claude-code" does not support the "depthLimit" capability' } })
  expect(await start({ toolFilter: { allow: ['Bash(ls)'] } })).toMatchObject({ status: 422, body: { code: 'TOOL_FILTER_INVALID' } })
  expect(await start({ toolFilter: { allow: ['mcp__a__b'] } })).toMatchObject({ status: 422, body: { code: 'TOOL_FILTER_INVALID' } })
  for (const [more, pointer] of [
    [{ tools: [{ name: 'find' }] }, '/tools'], [{ codeMode: 'code' }, '/codeMode'], [{ agentOptions: { maxTokens: 5 } }, '/agentOptions/maxTokens'],
    [{ agentOptions: { temperature: 1 } }, '/agentOptions/temperature'], [{ agentOptions: { providerOptions: {} } }, '/agentOptions/providerOptions'],
    [{ agentOptions: { script: [{ say: 'a' }] } }, '/agentOptions/script'], [{ parent: { transcript: { format: 'openai-chat', messages: [] } } }, '/parent/transcript']
  ] as const) {
    expect(await start(more), pointer).toMatchObject({ status: 400, body: { code: 'INVALID_REQUEST', errors: [{ pointer }] } })
  }
  expect((await drive.call('GET', '/v1/runs')).body.runs).toEqual([])
  expect(drive.cli.entries('start')).toEqual([])
})

test.concurrent('keepOpen and ingest are refused for a provider that does its runs here', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished)
  expect(await drive.call('POST', '/v1/runs', { provider: 'spawn', task: 'a', keepOpen: true })).toMatchObject({ status: 400, body: { errors: [{ pointer: '/keepOpen' }] } })
})

test.concurrent('timeoutMs stops a turn as LIMIT_TIME, by an interrupt; what was said before is the output', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, {
    script: [...opens(1), { emit: [assistant(words('so far'), { id: 'm1' }), assistant(toolUse('a', 'Bash'), { id: 'm2' })] }, { request: 'interrupt', answer: { still_queued: [] } }, { emit: result({ is_error: true, subtype: 'error_during_execution' }) }, { silent: true }]
  })
  const id = await drive.start({ limits: { timeoutMs: 60_000 } })
  await drive.journaled(id, 6)
  drive.clock.pass(60_000)
  expect(await drive.result(id)).toMatchObject({ stopReason: 'error', output: [{ text: 'so far' }], error: { code: 'LIMIT_TIME' } })
  expect(await drive.run(id)).toMatchObject({ cancel: null })
})

test.concurrent('timeoutMs of a chat that is kept open counts for each time that it is at work', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { script: [...opens(1), { emit: [...streamed('m', 'one'), result()] }, ...opens(2), { silent: true }] })
  const id = await drive.start({ keepOpen: true, limits: { timeoutMs: 1000 } })
  await drive.until(id, 'idle')
  drive.clock.pass(50_000)
  expect(await drive.run(id)).toMatchObject({ status: 'idle' })
  await drive.say(id, 'more')
  await drive.logged(id, 'user/message', 2)
  drive.clock.pass(999)
  expect(await drive.run(id)).toMatchObject({ status: 'running' })
  drive.clock.pass(1)
  await drive.cli.entry('in', 3)
  drive.clock.pass(3000)
  await drive.until(id, 'settled')
  expect(await drive.result(id)).toMatchObject({ stopReason: 'error', error: { code: 'LIMIT_TIME' } })
})

test.concurrent('totalTokens stops as LIMIT_TOKENS; --max-turns reached is LIMIT_STEPS', async ({ onTestFinished }) => {
  const used = assistant(toolUse('a', 'Bash'), { id: 'm' })
  const drive = await startDrive(onTestFinished, {
    script: [...opens(1), { emit: [used, assistant(words('x'), { id: 'm2' }), assistant(words('y'), { id: 'm3' })] }, { request: 'interrupt', answer: { still_queued: [] } }, { emit: result() }, { silent: true }]
  })
  expect(await drive.result(await drive.start({ limits: { totalTokens: 10 } }))).toMatchObject({ stopReason: 'error', error: { code: 'LIMIT_TOKENS' } })
  const steps = await startDrive(onTestFinished, { script: [...opens(1), { emit: result({ subtype: 'error_max_turns', is_error: true, result: undefined }) }] })
  expect(await steps.result(await steps.start({ limits: { steps: 1 } }))).toMatchObject({ stopReason: 'error', error: { code: 'LIMIT_STEPS', retryable: false } })
  expect((await steps.cli.entry('start')).argv).toContain('--max-turns')
})

test.concurrent('replays count for nothing: usage is what each message says, and the cost what the CLI says', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { script: [...opens(1), { emit: [replay('{{user:1}}', 'go'), ...streamed('m', 'hi'), result({ total_cost_usd: 0.25 })] }] })
  const id = await drive.start()
  await drive.result(id)
  expect((await drive.run(id)).usage).toMatchObject({ inputTokens: 7, outputTokens: 3, steps: 1, cost: 0.25 })
})
