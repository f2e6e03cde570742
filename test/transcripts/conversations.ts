import fc from 'fast-check'
import type { TranscriptFormat } from '../../src/core/transcript.ts'

/** A conversation as any host could have it, in no format: calls are answered late, in any order, or never. */
type Plan =
  | { kind: 'user', text: string }
  | { kind: 'system', text: string }
  | { kind: 'assistant', text: string, calls: number }
  | { kind: 'answers', picks: number[], text: string | null }

const plan: fc.Arbitrary<Plan> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('user' as const), text: fc.string({ maxLength: 4 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('system' as const), text: fc.string({ maxLength: 4 }) }) },
  {
    weight: 5,
    arbitrary: fc.record(
      {
        kind: fc.constant('assistant' as const), text: fc.string({ minLength: 1, maxLength: 4 }),
        calls: fc.constantFrom(0, 0, 0, 1, 2)
      }
    )
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('answers' as const),
      picks: fc.array(fc.nat(9), { minLength: 1, maxLength: 3 }),
      text: fc.option(fc.string({ minLength: 1, maxLength: 4 }))
    })
  }
)
export const plans = fc.array(plan, { maxLength: 14 })

/** One message of a host, and what the rule of http-api.md 4.1 needs to know of it. */
export interface Said { message: unknown, model: boolean, calls: string[], answers: string[], user: string | null }

const user = (
  message: unknown, text: string | null, answers: string[] = []
): Said => ({ message, model: false, calls: [], answers, user: text })
const model = (message: unknown, calls: string[] = []): Said => ({ message, model: true, calls, answers: [], user: null })

interface Writer {
  user: (text: string) => Said[]
  system?: (text: string) => Said[]
  assistant: (text: string, ids: string[]) => Said[]
  answers: (ids: string[], text: string | null) => Said[]
}

const calls = <T>(ids: string[], write: (id: string) => T): T[] => ids.map(write)

export const WRITERS: Record<Exclude<TranscriptFormat, 'events'>, Writer> = {
  'openai-chat': {
    user: (text) => [user({ role: 'user', content: text }, text)],
    system: (text) => [user({ role: 'system', content: text }, text)],
    assistant: (text, ids) => [model({
      role: 'assistant', content: text, ...(
        ids.length > 0 ? { tool_calls: calls(
          ids, (id) => ({ id, type: 'function', function: { name: 'f', arguments: '{ }' } })
        ) } : {}
      )
    }, ids)],
    answers: (ids, text) => [
      ...ids.map((id) => user({ role: 'tool', tool_call_id: id, content: `r ${id}` }, null, [id])),
      ...(text === null ? [] : [user({ role: 'user', content: text }, text)])
    ]
  },
  anthropic: {
    user: (text) => [user({ role: 'user', content: text }, text)],
    system: (text) => [user({ role: 'system', content: text }, text)],
    assistant: (text, ids) => [model({
      role: 'assistant', content: [
        { type: 'text', text }, ...calls(ids, (id) => ({ type: 'tool_use', id, name: 'f', input: {} }))
      ]
    }, ids)],
    answers: (ids, text) => [user({
      role: 'user',
      content: [
        ...ids.map((id) => ({ type: 'tool_result', tool_use_id: id, content: `r ${id}` })),
        ...(text === null ? [] : [{ type: 'text', text }])
      ]
    }, text, ids)]
  },
  'openai-responses': {
    user: (text) => [user({ role: 'user', content: text }, text)],
    assistant: (text, ids) => [
      model({ type: 'reasoning', id: 'rs', summary: [] }),
      model({ type: 'message', role: 'assistant', content: [{ type: 'output_text', text }] }),
      ...ids.map((id) => model({ type: 'function_call', call_id: id, name: 'f', arguments: '{}' }, [id]))
    ],
    answers: (ids, text) => [
      ...ids.map((id) => user({ type: 'function_call_output', call_id: id, output: `r ${id}` }, null, [id])),
      ...(text === null ? [] : [user({ role: 'user', content: text }, text)])
    ]
  },
  'ai-sdk': {
    user: (text) => [user({ role: 'user', content: text }, text)],
    assistant: (text, ids) => [model({
      role: 'assistant', content: [
        { type: 'text', text }, ...calls(ids, (id) => ({ type: 'tool-call', toolCallId: id, toolName: 'f', input: {} }))
      ]
    }, ids)],
    answers: (ids, text) => [
      user(
        {
          role: 'tool',
          content: ids.map(
            (id) => ({ type: 'tool-result', toolCallId: id, toolName: 'f', output: { type: 'text', value: `r ${id}` } })
          )
        },
        null, ids
      ),
      ...(text === null ? [] : [user({ role: 'user', content: text }, text)])
    ]
  }
}
export type ChatFormat = keyof typeof WRITERS
export const CHAT_FORMATS = Object.keys(WRITERS) as ChatFormat[]

/** Writes a plan in a format. Answers that no open call is left for are left out. */
export function write (format: ChatFormat, script: readonly Plan[]): Said[] {
  const writer = WRITERS[format]
  let next = 0
  const open: string[] = []
  return script.flatMap((item): Said[] => {
    switch (item.kind) {
      case 'user': return writer.user(item.text)
      case 'system': return writer.system?.(item.text) ?? []
      case 'assistant': {
        const ids = Array.from({ length: item.calls }, () => `c${next++}`)
        open.push(...ids)
        return writer.assistant(item.text, ids)
      }
      case 'answers': {
        const ids = item.picks.flatMap((pick) => open.length === 0 ? [] : open.splice(pick % open.length, 1))
        return ids.length === 0 ? [] : writer.answers(ids, item.text)
      }
      default: return item satisfies never
    }
  })
}

/** The cut, straight from the words of http-api.md 4.1: tried at every place, the last one that holds wins. */
export function cutByTheRule (said: readonly Said[]): number {
  for (let cut = said.length; cut > 0; cut--) {
    if (said[cut - 1]?.model !== true || said[cut]?.model === true) continue
    const head = said.slice(0, cut)
    const run = head.slice(head.findLastIndex((one) => !one.model) + 1)
    const answered = new Set(head.flatMap((one) => one.answers))
    if (run.every((one) => one.calls.length === 0) && head.every((one) => one.calls.every((id) => answered.has(id)))) return cut
  }
  return 0
}
