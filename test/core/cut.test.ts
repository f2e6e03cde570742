import fc from 'fast-check'
import { expect, test } from 'vitest'
import { cutBlocks, cutText, utf8Length } from '../../src/core/cut.ts'
import { text } from '../../src/core/events.ts'
import type { Block } from '../../src/core/events.ts'

const bytes = (value: string): number => new TextEncoder().encode(value).length
const MARK = /\n\[\.\.\. (\d+) of (\d+) bytes are missing here \.\.\.\]\n/
const MARK_BYTES = 64
const anyUnit = fc.oneof(
  fc.constantFrom('a', '\n', 'é', '漢', '😀', '\u0000'), fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit))
)
const anyText = fc.string({ unit: anyUnit, maxLength: 400 })
const longText = fc.string({ unit: anyUnit, minLength: 300, maxLength: 600 })

test('a text that fits is left as it is', () => {
  fc.assert(fc.property(anyText, (value) => { expect(cutText(value, bytes(value))).toBe(value) }))
  expect(cutText('', 0)).toBe('')
})

test('a cut text fits, is well formed, and is a head and a tail of the whole around the mark', () => {
  fc.assert(fc.property(longText, fc.integer({ min: MARK_BYTES, max: 600 }), (value, max) => {
    const cut = cutText(value, max)
    fc.pre(bytes(value) > max)
    expect(bytes(cut)).toBeLessThanOrEqual(max)
    expect(cut.isWellFormed()).toBe(true)
    const found = [...cut.matchAll(new RegExp(MARK, 'g'))]
    expect(found).toHaveLength(1)
    const [head = '', missing = '', total = '', tail = ''] = cut.split(MARK)
    const whole = value.toWellFormed()
    expect(whole.startsWith(head) && whole.endsWith(tail)).toBe(true)
    expect(Number(total)).toBe(bytes(value))
    expect(bytes(head) + Number(missing) + bytes(tail)).toBe(bytes(value))
  }))
})

test('more of the head is kept than of the tail, and both are kept', () => {
  const value = `START${'x'.repeat(10_000)}END`
  const cut = cutText(value, 1000)
  expect(cut.startsWith('START') && cut.endsWith('END')).toBe(true)
  const [head = '', , , tail = ''] = cut.split(MARK)
  expect(head.length).toBeGreaterThan(tail.length)
  expect(tail.length).toBeGreaterThan(250)
  expect(bytes(cut)).toBeGreaterThan(990)
})

test('no room but for the mark leaves the mark alone, which says that everything is missing', () => {
  expect(cutText('x'.repeat(500), 0)).toBe('\n[... 500 of 500 bytes are missing here ...]\n')
})

test('a character of several bytes is never broken', () => {
  for (let max = MARK_BYTES; max < MARK_BYTES + 40; max++) {
    const cut = cutText('😀'.repeat(100), max)
    expect(cut.replace(MARK, '')).toMatch(/^(😀)*$/u)
  }
})

test('the length in UTF-8 is what an encoder gives', () => {
  fc.assert(fc.property(anyText, (value) => { expect(utf8Length(value)).toBe(bytes(value)) }))
})

test('blocks that fit together are the same blocks', () => {
  const blocks: Block[] = [text('a'), { type: 'image', data: 'A'.repeat(1000), mimeType: 'image/png' }, text('b')]
  expect(cutBlocks(blocks, 2)).toBe(blocks)
})

test('of several blocks only the longest are cut, to one size; images stay', () => {
  const image: Block = { type: 'image', data: 'A'.repeat(5000), mimeType: 'image/png' }
  const cut = cutBlocks([text('short'), text('x'.repeat(5000)), image, text('y'.repeat(9000))], 2000)
  expect(cut[0]).toEqual(text('short'))
  expect(cut[2]).toBe(image)
  const sizes = [cut[1], cut[3]].map((block) => block?.type === 'text' ? bytes(block.text) : 0)
  for (const size of sizes) expect(size).toBeGreaterThan(980)
  expect((sizes[0] ?? 0) + (sizes[1] ?? 0) + 5).toBeLessThanOrEqual(2000)
})

test('texts of blocks fit together whenever each has room for its mark', () => {
  fc.assert(fc.property(fc.array(anyText, { minLength: 1, maxLength: 5 }), fc.integer({ min: 5 * MARK_BYTES, max: 1200 }), (texts, max) => {
    const cut = cutBlocks(texts.map(text), max)
    expect(cut.reduce((sum, block) => sum + (block.type === 'text' ? bytes(block.text) : 0), 0)).toBeLessThanOrEqual(max)
    expect(cut).toHaveLength(texts.length)
  }))
})

test('cutting is linear: megabytes take no time', () => {
  const value = '漢'.repeat(2_000_000)
  expect(bytes(cutText(value, 50_000))).toBeLessThanOrEqual(50_000)
})

test('many short texts are cut as one, never longer than they may be', () => {
  const cut = cutBlocks(Array.from({ length: 20_000 }, () => ({ type: 'text' as const, text: 'x'.repeat(20) })), 262_144)
  expect(cut).toHaveLength(1)
  expect(cut.reduce((sum, block) => sum + (block.type === 'text' ? Buffer.byteLength(block.text) : 0), 0)).toBeLessThanOrEqual(262_144)
})
