import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createBackoff } from '../../../src/tools/mcp/backoff.ts'
import { createLineReader } from '../../../src/processes/lines.ts'
import { LineBuffer } from '../../../src/tools/mcp/lines.ts'
import { SERVER_NAME, toolName } from '../../../src/tools/mcp/names.ts'
import { createMcpSource } from '../../../src/tools/mcp/source.ts'

test('a tool is named after its server, with what model servers do not take replaced', () => {
  expect(toolName('files', 'read_file')).toBe('files__read_file')
  expect(toolName('files', 'read/file v2.0é')).toBe('files__read_file_v2_0_')
})

test('too long a name is shortened to the same valid name every time, and differs from that of another tool', () => {
  const long = 'x'.repeat(100)
  expect(toolName('files', long)).toBe(toolName('files', long))
  expect(toolName('files', `${long}a`)).not.toBe(toolName('files', `${long}b`))
  fc.assert(fc.property(fc.stringMatching(/^[a-z]{1,32}$/), fc.string({ minLength: 1 }), (server, tool) => {
    expect(toolName(server, tool)).toMatch(/^[A-Za-z0-9_-]{1,64}$/)
  }))
})

test('the names of two servers never meet where none is shortened', () => {
  const name = fc.stringMatching(/^[ab_]{1,6}$/)
  const server = name.filter((one) => SERVER_NAME.test(one))
  fc.assert(fc.property(server, name, server, name, (one, tool, other, second) => {
    fc.pre(one !== other)
    expect(toolName(one, tool)).not.toBe(toolName(other, second))
  }))
})

test('a name that no server can have, or that two have, is refused', () => {
  const source = (...names: string[]) => () => createMcpSource(names.map((name) => ({ kind: 'stdio', name, command: 'x' })), {} as never)
  expect(source('a__b', '_a', 'a_', 'a b', 'x'.repeat(33), 'fine-1_2'))
    .toThrow(`no name for an MCP server: "a__b", "_a", "a_", "a b", "${'x'.repeat(33)}"; it must be 1 to 32 letters, digits, "-" or single "_" between them`)
  expect(source('twice', 'twice')).toThrow('two MCP servers are named "twice"')
})

test('the wait doubles up to a minute, begins anew after a success, and is none after the first loss', () => {
  let now = 0
  const backoff = createBackoff(() => now)
  expect(backoff.waitMs()).toBe(0)
  const waits = Array.from({ length: 9 }, () => { backoff.failed(); return backoff.waitMs() })
  expect(waits).toEqual([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000])
  now += 59_999
  expect(backoff.waitMs()).toBe(1)
  now += 5
  expect(backoff.waitMs()).toBe(0)
  backoff.succeeded()
  backoff.lost()
  expect(backoff.waitMs()).toBe(0)
  backoff.lost()
  expect(backoff.waitMs()).toBe(1000)
})

test('lines are whole however the pieces fall', () => {
  fc.assert(fc.property(fc.array(fc.stringMatching(/^[a-zé漢]{1,20}$/), { maxLength: 20 }), fc.array(fc.nat(40), { maxLength: 30 }), (lines, cuts) => {
    const whole = Buffer.from(lines.map((line) => `${line}\n`).join(''))
    const at = [...new Set([0, ...cuts.filter((cut) => cut < whole.length), whole.length])].toSorted((a, b) => a - b)
    const buffer = new LineBuffer(1000)
    const reader: string[] = []
    const read = createLineReader((line) => { reader.push(line) })
    const pieces = at.slice(1).map((end, n) => whole.subarray(at[n], end))
    expect(pieces.flatMap((piece) => buffer.take(piece) ?? ['too long'])).toEqual(lines)
    for (const piece of pieces) read(piece)
    expect(reader).toEqual(lines)
  }))
})

test('a line without an end is not kept', () => {
  const buffer = new LineBuffer(10)
  expect(buffer.take(Buffer.from('0123456789\n\n'))).toEqual(['0123456789'])
  expect(buffer.take(Buffer.from('01234567890'))).toBeUndefined()
  const parts: string[] = []
  createLineReader((line) => { parts.push(line) })(Buffer.from(`${'x'.repeat(10_000)}\nshort\n`))
  expect(parts.map((part) => part.length)).toEqual([4096, 4096, 1808, 5])
})
