import type { EventMap, EventType } from '../../../src/core/events.ts'
import { normalize } from '../../../src/providers/claude-code/normalizer.ts'
import { createState, standing, type State } from '../../../src/providers/claude-code/state.ts'
import type { Emitted, Frame, Input, Scope } from '../../../src/providers/claude-code/vocabulary.ts'

/** Frames of the CLI's shapes, written by hand. */
export const init = (more: Frame = {}): Frame =>
  ({ type: 'system', subtype: 'init', session_id: 's-1', model: 'm-1', tools: ['Read', 'Task'], cwd: '/w', ...more })
export const lifecycle = (uuid: string, state: string): Frame => ({ type: 'command_lifecycle', command_uuid: uuid, state })
export const replay = (uuid: string, words: string): Frame =>
  ({ type: 'user', uuid, isReplay: true, parent_tool_use_id: null, message: { role: 'user', content: words } })
export const stream = (event: Frame): Frame => ({ type: 'stream_event', event, parent_tool_use_id: null })
export const streamed = (id: string, words: string): Frame[] => [
  stream({ type: 'message_start', message: { id, model: 'm-1', usage: { input_tokens: 7, output_tokens: 0 } } }),
  stream({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
  ...words.split(' ').map((word, i) => stream({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: i === 0 ? word : ` ${word}` } })),
  assistant({ type: 'text', text: words }, { id }),
  stream({ type: 'content_block_stop', index: 0 }),
  stream({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 3 } }),
  stream({ type: 'message_stop' })
]

let frames = 0
export const assistant = (block: Frame | Frame[], { id, tag = null, ...more }: { id?: string, tag?: string | null } & Frame = {}): Frame => ({
  type: 'assistant',
  uuid: `f-${++frames}`,
  parent_tool_use_id: tag,
  message: { id: id ?? `msg-${frames}`, model: 'm-1', content: [block].flat(), stop_reason: null, usage: { input_tokens: 7, output_tokens: 0 } },
  ...more
})
export const words = (said: string): Frame => ({ type: 'text', text: said })
export const toolUse = (id: string, name: string, input: unknown = {}): Frame => ({ type: 'tool_use', id, name, input })
export const agentCall = (id: string, more: Frame = {}): Frame =>
  assistant(toolUse(id, 'Agent', { description: `do ${id}`, prompt: `please ${id}`, ...more }))
export const toolResult = (id: string, said: unknown, more: Frame = {}): Frame => ({
  type: 'user', uuid: `f-${++frames}`, parent_tool_use_id: null, message: { content: [{ type: 'tool_result', tool_use_id: id, content: said }] }, ...more
})
export const userText = (said: string, tag: string | null = null): Frame =>
  ({ type: 'user', uuid: `f-${++frames}`, parent_tool_use_id: tag, message: { content: [words(said)] } })
export const taskStart = (task: string, more: Frame): Frame =>
  ({ type: 'system', subtype: 'task_started', task_id: task, task_type: 'local_agent', is_backgrounded: false, ...more })
export const notified = (task: string, status: unknown, more: Frame = {}): Frame =>
  ({ type: 'system', subtype: 'task_notification', task_id: task, status, ...more })
export const result = (more: Frame = {}): Frame => ({ type: 'result', subtype: 'success', is_error: false, result: 'done', uuid: `f-${++frames}`, ...more })
/** A typed `/fan`. */
export const fork = (task: string, more: Frame = {}): Frame => taskStart(task, { description: '/fan', prompt: 'Fan out.\n', ...more })
export const answered = (): Frame =>
  ({ type: 'control_response', response: { subtype: 'success', request_id: 'r-1', response: { still_queued: [] } } })

export const frame = (it: Frame): Input => ({ type: 'frame', frame: it })
export const sent = (uuid: string, said: string): Input => ({ type: 'sent', uuid, content: [{ type: 'text', text: said }] })

export interface Play {
  readonly events: Emitted[]
  readonly state: State
  /** Feeds frames, or other inputs; answers what they made. */
  feed (...inputs: (Frame | Input)[]): Emitted[]
  /** The log of a scope, as short lines. */
  log (scope?: Scope): string[]
  data<T extends EventType> (type: T, scope?: Scope): EventMap[T][]
  of<T extends Emitted['type']> (type: T): Extract<Emitted, { type: T }>[]
}

const INPUTS: ReadonlySet<unknown> = new Set(['frame', 'unreadable', 'sent', 'interrupt', 'stop', 'tick', 'exit', 'end'])
const isInput = (it: Frame | Input): it is Input => INPUTS.has(it.type)

/** A chat that is played frame by frame. */
export function play (mode: State['mode'] = 'ingest', ...first: (Frame | Input)[]): Play {
  let state = createState(mode)
  const events: Emitted[] = []
  const feed = (...inputs: (Frame | Input)[]): Emitted[] => {
    const from = events.length
    for (const input of inputs) {
      const [next, made] = normalize(state, isInput(input) ? input : frame(input))
      state = next
      events.push(...made)
    }
    return events.slice(from)
  }
  feed(...first)
  return {
    events,
    get state () { return state },
    feed,
    log: (scope = 'chat') => shortLog(events, scope),
    data: (type, scope = 'chat') => events.flatMap((event) =>
      event.type === 'log' && event.scope === scope && event.event.type === type ? [event.event.data as never] : []),
    of: (type) => events.filter((event) => event.type === type) as never
  }
}

/** What of the events stands in the order in which a reader of the log sees it. */
export function shortLog (events: readonly Emitted[], scope: Scope | null): string[] {
  return events.flatMap((event) => {
    switch (event.type) {
      case 'child/started': return scope === 'chat' || scope === null ? [`start #${event.child}`] : []
      case 'child/settled': return scope === 'chat' || scope === null ? [`settle #${event.child} ${event.reason}`] : []
      case 'steer/confirmed': return scope === 'chat' || scope === null ? [`steer ${event.uuid}`] : []
      case 'log': return scope === null || event.scope === scope ? short(event) : []
      default: return []
    }
  })
}

function short ({ event: { type, data } }: Extract<Emitted, { type: 'log' }>): string[] {
  switch (type) {
    case 'turn/start': return [`turn ${data.origin}`]
    case 'turn/end': return [`end ${data.reason}`]
    case 'user/message': return [`user ${said(data.content)}`]
    case 'assistant/message': return [`says ${said(data.content)}`]
    case 'tool/call': return [`call ${data.toolCallId}`]
    case 'tool/result': return [`result ${data.toolCallId}${data.isError ? ' error' : ''}`]
    default: return []
  }
}

const said = (content: readonly { type: string }[]): string =>
  content.map((part) => 'text' in part && part.type === 'text' ? String(part.text) : `<${part.type}>`).join('')

export const running = (it: Play): number => standing(it.state).runningChildren
