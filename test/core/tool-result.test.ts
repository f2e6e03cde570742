import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { noUsage, text, type Block, type RunResult, type StopReason } from '../../src/core/events.ts'
import { diagnosticText, refusalToolResult, toolResultOf } from '../../src/core/tool-result.ts'

const result = (
  stopReason: StopReason, rest: Partial<RunResult> = {}
): RunResult => ({ output: [], stopReason, usage: noUsage(), ...rest })
const image: Block = { type: 'image', data: 'AAAA', mimeType: 'image/png' }

describe('5.1 completed', () => {
  test('is the text and nothing else, images behind it', () => {
    const output = [text('one '), image, text('two')]
    expect(
      toolResultOf(result('completed', { output, diagnostic: 'x' }))
    ).toEqual({ isError: false, content: [text('one two'), image] })
  })

  test('without a text has no text block: upstreams refuse an empty one', () => {
    expect(toolResultOf(result('completed'))).toEqual({ isError: false, content: [] })
    expect(toolResultOf(result('completed', { output: [text(''), image] }))).toEqual({ isError: false, content: [image] })
  })

  test('with a structured value is that value and its JSON alone', () => {
    const structured = { ok: true, list: [1, null] }
    expect(toolResultOf(result('completed', { output: [text('chatter')], structured })))
      .toEqual({ isError: false, content: [text('{"ok":true,"list":[1,null]}')], structuredContent: structured })
  })
})

describe('§12 any other stop reason is an error with its exact text', () => {
  test.for<[StopReason, string]>([
    ['aborted', 'Error: subagent run was cancelled'],
    ['error', 'Error: subagent run failed'],
    ['max-tokens', 'Error: subagent run hit its token limit before finishing'],
    ['refusal', 'Error: subagent declined the task'],
    ['evicted' as StopReason, 'Error: subagent run ended abnormally (evicted)'],
    ['toString' as StopReason, 'Error: subagent run ended abnormally (toString)']
  ])('%s: %s', ([stopReason, expected]) => {
    expect(toolResultOf(result(stopReason))).toEqual({ isError: true, content: [text(expected)] })
  })

  test('the diagnostic and the partial text follow, in that order', () => {
    const output = [text('half a '), image, text('sentence')]
    expect(toolResultOf(result('error', { output, diagnostic: 'steps 50 reached' })).content)
      .toEqual(
        [text('Error: subagent run failed\nDiagnostic: steps 50 reached\nPartial output before the run ended:\nhalf a sentence')]
      )
    expect(toolResultOf(result('aborted', { output, diagnostic: '' })).content)
      .toEqual([text('Error: subagent run was cancelled\nPartial output before the run ended:\nhalf a sentence')])
  })

  test('9.8 aborted after the capture keeps the structured value', () => {
    expect(toolResultOf(result('aborted', { structured: { n: 1 } })))
      .toEqual({ isError: true, content: [text('Error: subagent run was cancelled')], structuredContent: { n: 1 } })
  })
})

test('5.1 a refusal is its text; a fault that no model can mend says no more than that', () => {
  expect(
    refusalToolResult('subagent depth 4 exceeds maxDepth 3')
  ).toEqual({ isError: true, content: [text('Error: subagent depth 4 exceeds maxDepth 3')] })
  expect(refusalToolResult()).toEqual({ isError: true, content: [text('Error: subagent service unavailable')] })
})

test('§12 a diagnostic is the longest head of at most 4096 bytes that splits no character', () => {
  const unit = fc.constantFrom('a', 'é', '€', '😀', '\ud800')
  fc.assert(fc.property(fc.array(unit, { maxLength: 9 }), fc.nat(4100), (head, padding) => {
    const whole = ('x'.repeat(padding) + head.join('').repeat(40)).toWellFormed()
    const cut = diagnosticText(whole)
    expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(4096)
    expect(whole.startsWith(cut)).toBe(true)
    const next = whole.codePointAt(cut.length)
    expect(next === undefined || Buffer.byteLength(cut + String.fromCodePoint(next)) > 4096).toBe(true)
  }))
  expect(diagnosticText('\ud800x')).toBe('\ufffdx')
})
