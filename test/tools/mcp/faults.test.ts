import { expect, test } from 'vitest'
import { callContext, expectError, faulty, isAlive, mcpRoom, textOf } from './mcp-room.ts'

test.concurrent('a server that ends during a call gives an error that says so, and the next call connects again', async ({ onTestFinished }) => {
  const { call, tool } = mcpRoom(onTestFinished, [faulty()])
  const echo = await tool('faulty__echo')
  expectError(await call('faulty__die'), 'Error: MCP server "faulty" was lost during the call: it exited with code 7; outcome unknown: check before retrying')
  expect(textOf(await echo.execute({ text: 'back' }, callContext()))).toBe('back')
  expectError(await call('faulty__die-reading'), 'Error: MCP server "faulty" was lost during the call: it exited with code 7')
})

test.concurrent('a server that ends with every call is given more and more time, and the error says when it can be tried again', async ({ onTestFinished }) => {
  const { tool, clock } = mcpRoom(onTestFinished, [faulty()])
  const die = await tool('faulty__die')
  const run = () => die.execute({}, callContext())
  expectError(await run(), /was lost during the call/)
  expectError(await run(), /was lost during the call/)
  expectError(await run(), 'Error: MCP server "faulty" is not available: it was lost: it exited with code 7; the next attempt is possible in 1 s')
  clock.now += 1000
  expectError(await run(), /was lost during the call/)
  expectError(await run(), /possible in 2 s$/)
  clock.now += 2000
  const echo = await tool('faulty__echo')
  expect(textOf(await echo.execute({ text: 'well again' }, callContext()))).toBe('well again')
  expectError(await run(), /was lost during the call/)
  expect(textOf(await echo.execute({ text: 'at once' }, callContext()))).toBe('at once')
})

test.concurrent('the tools of a server that is gone stay listed, so that its calls can say what is wrong', async ({ onTestFinished }) => {
  const { source, tool, list } = mcpRoom(onTestFinished, [faulty()])
  const before = await list()
  const die = await tool('faulty__die')
  for (let n = 0; n < 2; n++) await die.execute({}, callContext())
  expect(await source.list(new AbortController().signal)).toEqual({ tools: before, notices: [] })
})

test.concurrent.each([
  ['crash', {}, 'it exited with code 3'],
  ['silent', { connectTimeoutMs: 400 }, 'it did not answer in 400 ms'],
  ['good', { command: '/nowhere/at/all' }, 'spawn /nowhere/at/all ENOENT'],
  ['good', { cwd: '/nowhere/at/all' }, `spawn ${process.execPath} ENOENT`]
])('of a server that cannot be connected (%s) a notice says why; a required one refuses the start', async (behaviour, more, reason) => {
  const finishers: (() => Promise<void>)[] = []
  const finish = (fn: () => Promise<void>): void => { finishers.push(fn) }
  const { source, clock } = mcpRoom(finish as never, [faulty(behaviour, more)])
  const { signal } = new AbortController()
  const told = `MCP server "faulty" is not available: ${reason}`
  expect(await source.list(signal)).toEqual({ tools: [], notices: [`${told}: its tools are missing`] })
  expect((await source.list(signal)).notices).toEqual([`${told}; the next attempt is possible in 1 s: its tools are missing`])
  clock.now += 1000
  expect((await source.list(signal)).notices).toEqual([`${told}: its tools are missing`])
  const strict = mcpRoom(finish as never, [faulty(behaviour, { ...more, required: true })])
  await expect(strict.source.list(signal)).rejects.toThrow(told)
  for (const end of finishers) await end()
})

test.concurrent('a server that ends at a question of a newer protocol is asked the older way', async ({ onTestFinished }) => {
  const { call } = mcpRoom(onTestFinished, [faulty('picky')])
  expect(textOf(await call('faulty__echo', { text: 'hi' }))).toBe('hi')
})

test.concurrent('a call that gets no answer ends at its timeout, and the server is told; other calls go on', async ({ onTestFinished }) => {
  const { call, tool } = mcpRoom(onTestFinished, [faulty('good', { timeoutMs: 1000 })])
  const hang = await tool('faulty__hang')
  expectError(await hang.execute({}, callContext()), 'Error: MCP server "faulty" did not answer the call of "hang" in 1000 ms; outcome unknown: check before retrying')
  expect(JSON.parse(textOf(await call('faulty__cancelled')))).toHaveLength(1)
})

test.concurrent('a server that answers nothing any more is ended, and the next call connects again', async ({ onTestFinished }) => {
  const { tool, logged } = mcpRoom(onTestFinished, [faulty('deaf', { timeoutMs: 1000 })])
  const hang = await tool('faulty__hang')
  const echo = await tool('faulty__echo')
  expectError(await hang.execute({}, callContext()), /did not answer/)
  await logged(/^warn an MCP server was lost: it does not answer$/)
  expect(textOf(await echo.execute({ text: 'new' }, callContext()))).toBe('new')
})

test.concurrent('the signal of a run ends its call alone, and the server is told', async ({ onTestFinished }) => {
  const { call, logged } = mcpRoom(onTestFinished, [faulty()])
  const controller = new AbortController()
  const hanging = call('faulty__hang', {}, controller.signal)
  const [, id] = await logged(/hanging (\d+)/)
  controller.abort(new Error('cancelled by its parent'))
  await expect(hanging).rejects.toThrow('cancelled by its parent')
  expect(textOf(await call('faulty__cancelled'))).toBe(`[${id}]`)
  await expect(call('faulty__echo', { text: 'x' }, controller.signal)).rejects.toThrow('cancelled by its parent')
})

test.concurrent('a run that leaves while a server connects leaves the connection to the others', async ({ onTestFinished }) => {
  const { source } = mcpRoom(onTestFinished, [faulty()])
  const controller = new AbortController()
  const leaving = source.list(controller.signal)
  const staying = source.list(new AbortController().signal)
  controller.abort(new Error('gone'))
  await expect(leaving).rejects.toThrow('gone')
  expect((await staying).tools.length).toBeGreaterThan(5)
})

test.concurrent('lines that are no messages are passed over; an answer cut off by the end of its server is a lost one', async ({ onTestFinished }) => {
  const { call } = mcpRoom(onTestFinished, [faulty()])
  expect(textOf(await call('faulty__garbage'))).toBe('after the garbage')
  expectError(await call('faulty__half'), /was lost during the call: it exited with code 0; outcome unknown/)
})

test.concurrent('a message without an end costs the connection, not the memory', async ({ onTestFinished }) => {
  const { call } = mcpRoom(onTestFinished, [faulty()])
  expectError(await call('faulty__huge'), /was lost during the call: it sent a message that is too large/)
  expect(textOf(await call('faulty__echo', { text: 'still there' }))).toBe('still there')
})

test.concurrent('a list that changed is read again at the next start, and only then', async ({ onTestFinished }) => {
  const { list, call } = mcpRoom(onTestFinished, [faulty()])
  const before = await list()
  expect((await list())[0]).toBe(before[0])
  await call('faulty__grow')
  const after = await list()
  expect(after.map(({ definition }) => definition.name)).toContain(`faulty__grown-${before.length + 1}`)
  expect(after.length).toBe(before.length + 1)
})

test.concurrent('results keep their error, their structure and their order; what no model sees is told in words', async ({ onTestFinished }) => {
  const { call } = mcpRoom(onTestFinished, [faulty()])
  const texts = (...values: string[]) => values.map((text) => ({ type: 'text', text }))
  expect(await call('faulty__content')).toEqual({
    isError: true,
    structured: { n: 1 },
    content: [
      ...texts('a text'), { type: 'image', data: 'AAAA', mimeType: 'image/png' },
      ...texts('[image image/svg+xml, 3 bytes: not shown]', '[audio audio/wav, 3 bytes: not shown]', '[link to the resource "a": file:///a (text/plain)]',
        '[resource file:///b]\nits text', '[resource file:///c: application/zip, 4 bytes: not shown]')
    ]
  })
  expectError(await call('faulty__wrong'), /^Error: MCP server "faulty" failed the call of "wrong": .*does not match.*\/n: must be number/)
})

test.concurrent('progress goes to whoever watches', async ({ onTestFinished }) => {
  const { call, progress } = mcpRoom(onTestFinished, [faulty()])
  await call('faulty__progress')
  expect(progress.map(({ progress, total, message }) => ({ progress, total, message })))
    .toEqual([{ progress: 1, total: 2, message: 'step 1' }, { progress: 2, total: 2, message: 'step 2' }])
})

test.concurrent('a process gets the environment that is configured and nothing else; what it says on its standard error is logged, without secrets', async ({ onTestFinished }) => {
  const { call } = mcpRoom(onTestFinished, [faulty('good', { env: { ONLY: 'this' }, cwd: import.meta.dirname })])
  const { env, cwd } = JSON.parse(textOf(await call('faulty__env'))) as { env: object, cwd: string }
  expect({ env, cwd }).toEqual({ env: { ONLY: 'this' }, cwd: import.meta.dirname })
  const crash = mcpRoom(onTestFinished, [faulty('crash', { env: { TOKEN: 'secret-value' }, secrets: ['secret-value'] })])
  await crash.list()
  expect(crash.log).toContain('info cannot work: [redacted]')
  expect(crash.log.join('\n')).not.toContain('secret-value')
})

test.concurrent('what a server tells of its tools is told on without the secrets that it was given: names, descriptions, schemas, faults of arguments', async ({ onTestFinished }) => {
  const secret = 'listed-Secret-42'
  const room = mcpRoom(onTestFinished, [faulty('leaky', { env: { TOKEN: secret }, secrets: [secret] })])
  const tools = await room.list()
  expect(tools.find(({ definition: { name } }) => name.includes('leak'))?.definition).toEqual({
    name: 'faulty__leak__redacted_', description: 'connected with [redacted]',
    inputSchema: { type: 'object', properties: { '[redacted]': { enum: ['[redacted]'], default: '[redacted]', description: 'not [redacted]' } } }
  })
  expect(JSON.stringify(tools.map(({ definition }) => definition))).not.toContain(secret)
  const tool = await room.tool('faulty__leak__redacted_')
  expect(tool.validate({ '[redacted]': 'x' }).join()).not.toContain(secret)
  // The server knows its tool by the name that it gave it.
  expect(await room.call('faulty__leak__redacted_', {})).toEqual({ content: [{ type: 'text', text: 'called leak [redacted]' }], isError: false })
})

test.concurrent('schemas that cannot be checked here are left to the server; tools that answer only through tasks are left out', async ({ onTestFinished }) => {
  const { tool, list, log } = mcpRoom(onTestFinished, [faulty()])
  expect((await tool('faulty__odd')).validate({ a: 'anything' })).toEqual([])
  expect(log.some((line) => line.startsWith('warn the input schema of an MCP tool cannot be checked here'))).toBe(true)
  expect((await list()).map(({ definition }) => definition.name)).not.toContain('faulty__task')
})

test.concurrent('two tools of one name refuse the start', async ({ onTestFinished }) => {
  const { source } = mcpRoom(onTestFinished, [faulty('clash')])
  await expect(source.list(new AbortController().signal)).rejects.toMatchObject({ code: 'TOOL_NAME_TAKEN', message: 'tool name "faulty__a_b" is taken' })
})

test.concurrent('closing ends the whole group of a process, one that heeds nothing as well, and calls under way get an error', async ({ onTestFinished }) => {
  const { source, call, logged, tool } = mcpRoom(onTestFinished, [faulty('stubborn')])
  const echo = await tool('faulty__echo')
  const hanging = call('faulty__hang')
  const [, parent, child] = (await logged(/pids (\d+) (\d+)/)).map(Number)
  await logged(/hanging/)
  expect([isAlive(parent ?? 0), isAlive(child ?? 0)]).toEqual([true, true])
  await source.close()
  expectError(await hanging, /MCP server "faulty" was lost during the call/)
  expect([isAlive(parent ?? 0), isAlive(child ?? 0)]).toEqual([false, false])
  expectError(await echo.execute({ text: 'x' }, callContext()), 'Error: MCP server "faulty" is not available: the service is closing')
})

test.concurrent('closing while a server connects ends that too', async ({ onTestFinished }) => {
  const { source, log } = mcpRoom(onTestFinished, [faulty('silent', { connectTimeoutMs: 60_000 })])
  const listing = source.list(new AbortController().signal)
  await source.close()
  expect((await listing).notices).toEqual(['MCP server "faulty" is not available: the service is closing: its tools are missing'])
  expect(log.filter((line) => line.startsWith('warn'))).toEqual([])
})
