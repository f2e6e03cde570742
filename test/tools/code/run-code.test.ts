import { afterAll, expect, test } from 'vitest'
import { createSandbox } from '../../../src/tools/code/sandbox.ts'
import { text } from '../../../src/core/events.ts'
import { toolError } from '../../../src/core/tool.ts'
import { onlyRunCode } from '../../../src/tools/code/run-code.ts'
import { openRoom, untilAborted, value } from './room.ts'

const shared = createSandbox()
afterAll(() => shared.close())

test('10 a program is the body of an async function; the JSON value that it returns is the result', async ({ onTestFinished }) => {
  const { run, say } = openRoom(onTestFinished, {}, { shared })
  expect(await run('const a = await 20; return { a: a + 1, list: [1, null, "x"] }')).toEqual({ content: [text('{"a":21,"list":[1,null,"x"]}')], isError: false })
  expect(await say('return "two\\nlines"')).toBe('"two\\nlines"')
  expect(await say('const tools = 1; const console = 2; return tools + console // its own names')).toBe('3')
  expect(await say('')).toBe('(no value was returned)')
})

test('10 what is printed stands under the result, in the order of printing', async ({ onTestFinished }) => {
  const { say } = openRoom(onTestFinished, {}, { shared })
  const printed = await say('console.log("a", 1, undefined, null, { b: [2n, new Map([["k", 1]])] }); console.error(new TypeError("t")); console.warn(() => 1); return 1')
  expect(printed).toBe('1\n\nConsole output:\na 1 undefined null {"b":["2n",[["k",1]]]}\nTypeError: t\n[function]')
})

test('10 each tool is an async function: it gives the structured value, else the text, else the blocks', async ({ onTestFinished }) => {
  const image = { type: 'image' as const, data: 'AA==', mimeType: 'image/png' }
  const { say, calls } = openRoom(onTestFinished, {
    add: (input) => value({ got: input }),
    'read-file': () => ({ content: [text('line 1'), text('line 2')], isError: false }),
    look: () => ({ content: [text('see'), image], isError: false })
  }, { shared })
  expect(await say('return await tools.add({ a: 1, deep: { b: [true] } })')).toBe('{"got":{"a":1,"deep":{"b":[true]}}}')
  expect(await say('return await tools["read-file"]()')).toBe('"line 1\\nline 2"')
  expect(JSON.parse(await say('return await tools.look({})'))).toEqual([text('see'), image])
  expect(calls.map(({ input }) => input)).toEqual([{ a: 1, deep: { b: [true] } }, {}, {}])
})

test('10 sub-calls are named <call>:code:<n> in the order of the program, and know the execution they belong to', async ({ onTestFinished }) => {
  const { say, calls } = openRoom(onTestFinished, { a: () => value(1) }, { shared })
  const execution = {}
  await say('await tools.a(); await Promise.all([tools.a(), tools.a()]); return 1', { toolCallId: 'call_x', execution })
  expect(calls.map(({ toolCallId }) => toolCallId)).toEqual(['call_x:code:1', 'call_x:code:2', 'call_x:code:3'])
  expect(calls.every(({ parent }) => parent.execution === execution)).toBe(true)
})

test('10 a failed call rejects with an Error of the tool\'s own text; uncaught it fails the program and says where', async ({ onTestFinished }) => {
  const { run, say } = openRoom(onTestFinished, { bad: () => toolError('no such file') }, { shared })
  expect(await say('try { await tools.bad() } catch (error) { return [error instanceof Error, String(error), error.message] }'))
    .toBe('[true,"Error: no such file","no such file"]')
  expect(await run('console.log("before")\nawait tools.bad()')).toEqual({
    content: [text('Error: code run failed (runtime): no such file (line 2, column 16)\n\nConsole output:\nbefore')], isError: true
  })
})

test('8.3 a name outside the view goes through the same dispatch, which refuses it', async ({ onTestFinished }) => {
  const { say, calls } = openRoom(onTestFinished, { a: () => value(1) }, { shared })
  expect(await say('return await tools.hidden({ x: 1 })')).toContain('code run failed (runtime): unknown tool "hidden"')
  expect(await say('return await tools.run_code({ code: "" })')).toContain('unknown tool "run_code"')
  expect(calls.map(({ name, input }) => [name, input])).toEqual([['hidden', { x: 1 }], ['run_code', { code: '' }]])
})

test('10 calls under Promise.all run at the same time, ten of them unless told otherwise', async ({ onTestFinished }) => {
  let running = 0
  let most = 0
  const all = Promise.withResolvers<undefined>()
  const { say } = openRoom(onTestFinished, {
    slow: async () => {
      most = Math.max(most, ++running)
      if (running === 10) all.resolve(undefined)
      await all.promise
      running--
      return value(1)
    }
  }, { shared })
  expect(await say('return (await Promise.all(Array.from({ length: 25 }, () => tools.slow()))).length')).toBe('25')
  expect(most).toBe(10)
})

test('9.6 a barrier waits for earlier calls, and later ones wait for it', async ({ onTestFinished }) => {
  const order: string[] = []
  const noted = (name: string) => async () => {
    order.push(`${name} begins`)
    await new Promise((resolve) => setImmediate(resolve))
    order.push(`${name} ends`)
    return value(name)
  }
  const { say } = openRoom(onTestFinished, { a: noted('a'), last: noted('last'), b: noted('b') }, { shared, isBarrier: (name) => name === 'last' })
  expect(await say('return await Promise.all([tools.a(), tools.last(), tools.b()])')).toBe('["a","last","b"]')
  expect(order).toEqual(['a begins', 'a ends', 'last begins', 'last ends', 'b begins', 'b ends'])
})

test('10 a finished program is not done before its calls are, and the model hears of those that nobody awaited', async ({ onTestFinished }) => {
  const gate = Promise.withResolvers<undefined>()
  const { say, calls } = openRoom(onTestFinished, {
    write: async () => {
      await gate.promise
      return value(1)
    },
    bad: () => toolError('disk full')
  }, { parallel: 2 })
  const said = say('tools.write(); tools.bad(); tools.write(); return "ok"')
  while (calls.length < 2) await new Promise((resolve) => setImmediate(resolve))
  gate.resolve(undefined)
  expect(await said).toBe('"ok"\n\nNote: the program ended before tools.write answered, which then succeeded\n\n' +
    'Note: the program ended before tools.bad answered, which failed: disk full\n\nNote: the program ended before 1 more of its calls were made: await them')
})

test('10 a failed program aborts the calls it left under way', async ({ onTestFinished }) => {
  const { say, calls } = openRoom(onTestFinished, { slow: (_, call) => untilAborted(call), bad: () => toolError('no') }, { shared })
  expect(await say('await Promise.all([tools.slow(), tools.bad()])')).toContain('code run failed (runtime): no')
  expect(calls.map(({ signal }) => signal.aborted)).toEqual([true, true])
})

test('5.2 the run\'s signal ends the program and its calls at once', async ({ onTestFinished }) => {
  const { say, calls } = openRoom(onTestFinished, { slow: (_, call) => untilAborted(call) }, { shared })
  const controller = new AbortController()
  const said = say('await tools.slow(); for (;;);', { signal: controller.signal })
  while (calls.length === 0) await new Promise((resolve) => setImmediate(resolve))
  controller.abort(new Error('cancelled'))
  expect(await said).toBe('Error: code run failed (aborted): the call was cancelled')
  expect(calls[0]?.signal.aborted).toBe(true)
  expect(await say('return 1', { signal: AbortSignal.abort() })).toBe('Error: code run failed (aborted): the call was cancelled')
})

test('5.2 a program that computes hears the signal too, and its thread is used again', async ({ onTestFinished }) => {
  const { say, calls, sandbox } = openRoom(onTestFinished, { begun: () => value(1) }, { executing: 1, threads: 1 })
  const controller = new AbortController()
  const said = say('await tools.begun(); for (;;);', { signal: controller.signal })
  while (calls.length === 0) await new Promise((resolve) => setImmediate(resolve))
  controller.abort()
  expect(await said).toContain('(aborted)')
  expect(await say('return 2')).toBe('2')
  expect(sandbox.size).toBe(1)
})

test('a fault of the dispatch ends the program and is thrown, not told to the model', async ({ onTestFinished }) => {
  const lost = new Error('the store is lost')
  const { run } = openRoom(onTestFinished, { a: () => Promise.reject(lost) }, { shared })
  await expect(run('try { await tools.a() } catch {} return await tools.a()')).rejects.toBe(lost)
})

test('10 the text for a direct call in mode code is exact', () => {
  expect(onlyRunCode('read_file')).toBe('unknown tool "read_file": only `run_code` is callable directly — call `read_file` from inside a `run_code` program instead')
})

test('arguments of run_code are validated, each fault named', ({ onTestFinished }) => {
  const { runCode: { tool: { validate, idempotent } } } = openRoom(onTestFinished, {}, { shared })
  expect(validate({ code: 'return 1' })).toEqual([])
  expect(validate({})).toEqual(['must have the property "code"'])
  expect(validate({ code: 1, language: 'js' })).toEqual(['/code: must be string', 'must not have the property "language"'])
  expect(validate([])).toEqual(['must be object'])
  expect(validate({ code: ' '.repeat(262_145) })).toEqual(['/code: must not have more than 262144 characters'])
  expect(idempotent).toBe(false)
})

test('5.4 no listener stays on the signal of the call', async ({ onTestFinished }) => {
  const { say } = openRoom(onTestFinished, { a: () => value(1) }, { shared })
  const { signal } = new AbortController()
  const kept = new Set<unknown>()
  const { addEventListener, removeEventListener } = signal
  signal.addEventListener = (...args: Parameters<typeof addEventListener>) => { kept.add(args[1]); addEventListener.apply(signal, args) }
  signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => { kept.delete(args[1]); removeEventListener.apply(signal, args) }
  await say('return await tools.a()', { signal })
  await say('throw 1', { signal })
  expect(kept.size).toBe(0)
})
