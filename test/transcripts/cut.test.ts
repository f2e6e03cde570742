import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { foldMessages, type ModelMessage } from '../../src/core/fold.ts'
import { plainJsonFault } from '../../src/core/json.ts'
import { repair } from '../../src/core/repair.ts'
import { importTranscript } from '../../src/transcripts/transcripts.ts'
import { numbered } from '../core/histories.ts'
import { CHAT_FORMATS, cutByTheRule, plans, write, type ChatFormat, type Said } from './conversations.ts'

/** Spaces show that a text is kept, not written anew. */
const textsOf = (said: readonly Said[]): string[] => said.map((one, index) => JSON.stringify(one.message, null, index % 3))
const messagesOf = (format: ChatFormat, texts: string[]): ModelMessage[] =>
  foldMessages(numbered(importTranscript({ format, messages: texts }).events))
/** System messages at the head are the system prompt, in the formats that have such messages. */
const headOf = (format: ChatFormat, said: readonly Said[]): number => {
  if (format !== 'openai-chat') return 0
  const first = said.findIndex((one) => (one.message as { role: string }).role !== 'system')
  return first === -1 ? said.length : first
}

describe.for(CHAT_FORMATS)('%s', (format) => {
  const conversations = plans.map((script) => write(format, script))

  test('4.1 the cut is the last place where the rule holds; what follows is the tail, verbatim', () => {
    fc.assert(fc.property(conversations, (said) => {
      const texts = textsOf(said)
      const { tail } = importTranscript({ format, messages: texts })
      expect(tail).toEqual(texts.slice(cutByTheRule(said)))
    }))
  })

  test('3.6 what is imported is balanced, plain JSON, in turns that count from 1, and ends with a turn', () => {
    fc.assert(fc.property(conversations, (said) => {
      const { events, turns } = importTranscript({ format, messages: textsOf(said) })
      expect(repair(numbered(events))).toEqual([])
      expect(events.map((event) => plainJsonFault(event.data))).toEqual(events.map(() => undefined))
      const ends = events.flatMap((event) => event.type === 'turn/end' ? [event.data] : [])
      expect(ends).toEqual(Array.from({ length: turns }, (_, i) => ({ turn: i + 1, reason: 'completed' })))
      expect(events.at(-1)?.type).toBe(turns === 0 ? undefined : 'turn/end')
    }))
  })

  test('a result follows the message that asked for it, wherever the host had it', () => {
    fc.assert(fc.property(conversations, (said) => {
      const messages = messagesOf(format, textsOf(said))
      for (const [index, message] of messages.entries()) {
        if (message.role !== 'assistant') continue
        const ids = message.content.flatMap((part) => part.type === 'tool-call' ? [part.toolCallId] : [])
        const results = messages.slice(index + 1, index + 1 + ids.length)
        expect(
          results.map((result) => result.role === 'tool' ? result.toolCallId : result.role).toSorted()
        ).toEqual(ids.toSorted())
        expect(results.every((result) => result.role === 'tool' && result.name === 'f')).toBe(true)
      }
    }))
  })

  test('nothing that was said before the cut is lost, and nothing after it comes along', () => {
    fc.assert(fc.property(conversations, (said) => {
      const kept = said.slice(headOf(format, said), cutByTheRule(said))
      const messages = messagesOf(format, textsOf(said))
      const users = messages.flatMap((message) => message.role === 'user' ? message.content : [])
      expect(users).toEqual(kept.flatMap((one) => one.user === null ? [] : [{ type: 'text', text: one.user }]))
      const results = messages.flatMap((message) => message.role === 'tool' ? [message.toolCallId] : [])
      expect(results.toSorted()).toEqual(kept.flatMap((one) => one.answers).toSorted())
    }))
  })

  test('3.5 messages that come later, imported behind the tail, give what all of them give at once', () => {
    fc.assert(fc.property(conversations, fc.nat(), (said, at) => {
      const texts = textsOf(said)
      const split = said.length === 0 ? 0 : at % said.length
      fc.pre(said[split]?.model !== true)
      const first = importTranscript({ format, messages: texts.slice(0, split) })
      const then = importTranscript({ format, messages: [...first.tail, ...texts.slice(split)] }, { firstTurn: first.turns + 1 })
      const whole = importTranscript({ format, messages: texts })
      expect([...first.events, ...then.events]).toEqual(whole.events)
      expect(then.tail).toEqual(whole.tail)
      expect(first.turns + then.turns).toBe(whole.turns)
    }))
  })
})

describe.for(['openai-chat', 'anthropic'] as const)('%s', (format) => {
  test('3.6 the texts of all messages in the order of the fold are the host\'s, byte for byte', () => {
    fc.assert(fc.property(plans, (script) => {
      const said = write(format, script)
      const texts = textsOf(said)
      const wires = messagesOf(format, texts).map((message) => message.wire)
      expect(wires.every((wire) => wire?.format === format)).toBe(true)
      const written = wires.flatMap((wire) => wire?.json ? [wire.json] : [])
      expect(written.join(',')).toBe(texts.slice(headOf(format, said), cutByTheRule(said)).join(','))
    }), { numRuns: 300 })
  })
})

describe.for(['openai-responses', 'ai-sdk'] as const)('%s', (format) => {
  test('no text is kept for an upstream that nobody here speaks to', () => {
    fc.assert(fc.property(plans, (script) => {
      const { events, kind } = importTranscript({ format, messages: textsOf(write(format, script)) })
      expect(JSON.stringify(events)).not.toContain('"wire"')
      expect(kind).toBeUndefined()
    }), { numRuns: 20 })
  })
})
