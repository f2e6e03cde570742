import { afterAll, expect, test } from 'vitest'
import { createSandbox } from '../../../src/tools/code/sandbox.ts'
import { openRoom, SHORT, textOf, value } from './room.ts'

const shared = createSandbox()
afterAll(() => shared.close())

const failed = (kind: string): string => `Error: code run failed (${kind}): `
const OVER_TIME = `${failed('timeout')}the program used up its ${SHORT.cpuMs} ms of CPU time`

const SMALL = { memoryBytes: 20 * 1024 * 1024 }

const ENDLESS = [
  ['a loop', 'for (;;);'],
  ['a loop that catches its interruption', 'for (;;) { try { for (;;); } catch {} finally { for (;;); } }'],
  ['async functions that call each other without end', 'const f = async () => { f(); f() }; await f()'],
  ['microtasks without end', 'for (;;) await null'],
  ['a regular expression that goes back and forth', 'return /^(a+)+$/.test("a".repeat(40) + "!")'],
  ['one operation of the engine that nothing interrupts', '"a".repeat(2e7).indexOf("a".repeat(1e7) + "b")'],
  ['a loop behind the result', 'return { toJSON () { for (;;); } }'],
  ['a loop behind the error', 'throw { get message () { for (;;); } }'],
  ['calls without end that nobody awaits', 'for (;;) tools.a()'],
  ['waiting for a tool by spinning', 'let done = false; tools.a().then(() => { done = true }); while (!done) await null']
] as const

test('10 time: what never ends is stopped, whatever it does, and other programs go on', async ({ onTestFinished }) => {
  const { say } = openRoom(onTestFinished, { a: () => value(1) }, { ...SHORT, executing: 20 })
  await Promise.all(ENDLESS.map(async ([name, code]) => expect(await say(code), name).toBe(OVER_TIME)))
  expect(await say('return 1')).toBe('1')
})

test('10 time that a program waits for its tools is not its own', async ({ onTestFinished }) => {
  const { say } = openRoom(onTestFinished, {
    slow: async () => {
      await new Promise((resolve) => setTimeout(resolve, 2 * SHORT.cpuMs))
      return value(1)
    }
  }, SHORT)
  expect(await say('let n = 0; for (let i = 0; i < 4; i++) n += await tools.slow(); return n')).toBe('4')
})

const GREEDY = [
  ['arrays', 'const a = []; for (;;) a.push(new Array(1000).fill(1))'],
  ['strings', 'const a = []; for (;;) a.push("abc".repeat(100000) + a.length)'],
  ['buffers', 'const a = []; for (;;) a.push(new ArrayBuffer(1e6))'],
  ['nested promises', 'const f = () => Promise.resolve().then(f); await f()'],
  ['a queue of calls', 'const a = []; for (;;) { a.push(tools.a({ text: "x".repeat(100000) })) }'],
  ['answers of tools', 'const a = []; for (;;) a.push(await tools.large())']
] as const

test('10 memory: what takes ever more of it ends at the maximum', async ({ onTestFinished }) => {
  const { say } = openRoom(onTestFinished, { a: () => value(1), large: () => value('y'.repeat(1_000_000)) }, { ...SMALL, cpuMs: 60_000 })
  await Promise.all(GREEDY.map(async ([name, code]) => expect(await say(code), name).toBe(`${failed('memory')}the program used up its memory`)))
  expect(await say('return 1')).toBe('1')
})

test('10 memory: a program gets what the maximum leaves it, and not more when it asks on', async ({ onTestFinished }) => {
  const { say } = openRoom(onTestFinished, {}, { shared })
  const fill = 'const a = []; let refused = 0; while (refused < 50) { try { a.push(new ArrayBuffer(2 ** 20)) } catch { refused++ } } return a.length'
  const mebibytes = Number(await say(fill))
  expect(mebibytes).toBeGreaterThan(48)
  expect(mebibytes).toBeLessThan(64)
})

test('10 an answer that the memory cannot take fails the program, not the sandbox', async ({ onTestFinished }) => {
  const { say } = openRoom(onTestFinished, { huge: () => value('z'.repeat(60_000_000)) }, { shared })
  expect(await say('return (await tools.huge()).length')).toBe(`${failed('memory')}the program used up its memory`)
})

test('10 a smaller memory ends earlier', async ({ onTestFinished }) => {
  const { say } = openRoom(onTestFinished, {}, SMALL)
  expect(await say('return new Array(3e6).fill(1).length')).toContain(failed('memory'))
  expect(await say('return new Array(1e5).fill(1).length')).toBe('100000')
})

test('10 recursion without end is an error that a program can catch', async ({ onTestFinished }) => {
  const { say } = openRoom(onTestFinished, {}, { shared })
  expect(await say('try { (function f () { f() })() } catch (error) { return String(error) }')).toBe('"InternalError: stack overflow"')
  expect(await say('JSON.parse("[".repeat(5e6))')).toContain('stack overflow')
  expect(await say('eval("(".repeat(1e6))')).toContain('stack overflow')
  expect(await say('let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); return p.x')).toContain('stack overflow')
})

test('10 a long result and long prints are cut with what is missing, and both are seen', async ({ onTestFinished }) => {
  const { say } = openRoom(onTestFinished, {}, { outputBytes: 1000 })
  const said = await say('for (let i = 0; i < 500; i++) console.log("line " + i); return "x".repeat(5000)')
  expect(said).toMatch(/^"x{749}… \(4252 more characters not shown\)\n\nConsole output:\nline 0\nline 1\n/)
  expect(said).toMatch(/… \(\d+ more characters not shown\)$/)
  expect(Buffer.byteLength(said)).toBeLessThan(1150)
  expect(await say('return "€".repeat(1000)')).toMatch(/^"€{333}… \(668 more characters not shown\)$/)
})

test('10 a flood of prints costs memory nowhere, and a killed program keeps what it printed', async ({ onTestFinished }) => {
  const { say } = openRoom(onTestFinished, {}, SHORT)
  const flood = await say('for (;;) console.log("flood")')
  expect(flood).toMatch(/^Error: code run failed \(timeout\).*\n\nConsole output:\nflood\n/)
  expect(Buffer.byteLength(flood)).toBeLessThan(66_000)
  const killed = await say('console.log("before"); await tools.none().catch(() => {}); "a".repeat(2e7).indexOf("a".repeat(1e7) + "b")')
  expect(killed).toBe(`${OVER_TIME}\n\nConsole output:\nbefore`)
})

test('10 calls are limited in number and size, and the program is told', async ({ onTestFinished }) => {
  const { say, calls } = openRoom(onTestFinished, { a: () => value(1) }, { calls: 3, inputChars: 100 })
  expect(await say('let n = 0; try { for (;;) { await tools.a(); n++ } } catch (error) { return [n, error.message] }'))
    .toBe('[3,"a program may make at most 3 tool calls"]')
  expect(await say('await tools.a({ text: "x".repeat(100) })')).toContain('the input of a has 111 characters of JSON, more than 100')
  expect(calls).toHaveLength(3)
})

const FAILURES = [
  ['syntax', 'const x = ;', 'SyntaxError: unexpected token in expression: \';\' (line 1, column 11)'],
  ['syntax', 'import fs from "fs"', 'SyntaxError: '],
  ['runtime', 'let a = 1\n\n  missing()', 'ReferenceError: \'missing\' is not defined (line 3, column 3)'],
  ['runtime', 'throw { a: 1 }', 'thrown: {"a":1}'],
  ['runtime', 'await new Promise(() => {})', 'the program waits for a promise that nothing will settle'],
  ['output', 'return () => 1', 'TypeError: a function was returned'],
  ['output', 'return 1n', 'TypeError: '],
  ['output', 'const a = []; a[0] = a; return a', 'TypeError: circular reference'],
  ['runtime', 'await tools.a(() => 1)', 'the input of a is not JSON'],
  ['runtime', 'throw null', 'thrown: null']
] as const

test('10 a failure names its kind, what was thrown, and where', async ({ onTestFinished }) => {
  const { run } = openRoom(onTestFinished, { a: () => value(1) }, { shared })
  for (const [kind, code, message] of FAILURES) {
    const outcome = await run(code)
    expect(textOf(outcome), code).toContain(`${failed(kind)}${message}`)
    expect(outcome.isError).toBe(true)
  }
})

test('10 there is nothing to reach out with', async ({ onTestFinished }) => {
  const { say } = openRoom(onTestFinished, {}, { shared })
  const names = ['fetch', 'process', 'require', 'module', 'Buffer', 'setTimeout', 'setInterval', 'XMLHttpRequest', 'WebAssembly', 'Worker', 'std', 'os', 'scriptArgs', 'print', 'send', 'done', 'failed']
  expect(await say(`return [${names.map((name) => `typeof ${name}`).join(', ')}]`)).toBe(JSON.stringify(names.map(() => 'undefined')))
  expect(await say('return await import("node:fs")')).toContain('could not load module')
  expect(await say('return Function("return this")() === globalThis && globalThis.constructor.constructor("return process")()')).toContain('code run failed (runtime): ReferenceError: \'process\' is not defined')
})

test('10 only JSON crosses: no prototype of the service can be reached', async ({ onTestFinished }) => {
  const { say, calls } = openRoom(onTestFinished, { a: (input) => value(input) }, { shared })
  const code = 'const evil = JSON.parse(`{"__proto__": {"polluted": 1}, "constructor": {"prototype": {"polluted": 1}}}`); return await tools.a(evil)'
  expect(await say(code)).toBe('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}')
  expect(Object.getPrototypeOf(calls[0]?.input)).toBe(Object.prototype)
  expect(({} as { polluted?: number }).polluted).toBeUndefined()
})

test('10 a program that bends its built-ins bends nothing else', async ({ onTestFinished }) => {
  const { say } = openRoom(onTestFinished, { a: () => value(7) }, { shared })
  const bend = `Promise.prototype.then = JSON.stringify = JSON.parse = Array.prototype.push = String.prototype.slice = null
    Object.defineProperty(Error.prototype, 'message', { set () { throw 3 } })
    globalThis.tools.a = () => 8`
  expect(await say(`${bend}\nreturn { a: await tools.a() }`)).toBe('{"a":7}')
  expect(await say('return [1].push(2) + JSON.stringify({ a: await tools.a() })')).toBe('"2{\\"a\\":7}"')
})

test('10 nothing of a program is there for the next', async ({ onTestFinished }) => {
  const { say } = openRoom(onTestFinished, {}, { threads: 1 })
  await say('globalThis.secret = 1; Object.prototype.leak = 2; return 1')
  expect(await say('return [typeof secret, typeof ({}).leak]')).toBe('["undefined","undefined"]')
})
