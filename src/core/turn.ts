import type { SessionEvent, SessionEventOf, ToolCallPart } from './events.ts'

/** The open tail of a log: what is left to do, or to repair. Read by repair.ts and by resume (driver.md 2.7, 2.8). */
export interface OpenTurn {
  turn: number
  /** The open step, if one is open; `message` where the model answered it. */
  step?: { step: number, attempt: number, message?: SessionEventOf<'assistant/message'> }
  /** The open step's calls in the model's order. */
  calls: OpenCall[]
  /** Steps of this turn that have a `step/start`. */
  steps: number
}
export interface OpenCall {
  part: ToolCallPart
  started?: SessionEventOf<'tool/call'>
  result?: SessionEventOf<'tool/result'>
  /** What its program called and has no result of. */
  inside?: SessionEventOf<'tool/call'>[]
}

/** The open turn at the tail of a log; `undefined` when the log is balanced. Pure. */
export function openTurn (events: readonly SessionEvent[]): OpenTurn | undefined {
  const start = events.findLastIndex((event) => event.type === 'turn/start' || event.type === 'turn/end')
  const opened = events[start]
  if (opened?.type !== 'turn/start') return undefined
  const open: OpenTurn = { turn: opened.data.turn, calls: [], steps: 0 }
  for (let i = start + 1; i < events.length; i++) note(open, events[i] as SessionEvent)
  return open
}

function note (open: OpenTurn, event: SessionEvent): void {
  switch (event.type) {
    case 'step/start':
      open.step = { step: event.data.step, attempt: event.data.attempt }
      open.calls = []
      open.steps = Math.max(open.steps, event.data.step)
      return
    case 'step/end':
      delete open.step
      open.calls = []
      return
    case 'assistant/message':
      if (!open.step) return
      open.step.message = event
      open.calls = event.data.content.filter((part) => part.type === 'tool-call').map((part) => ({ part }))
      return
    case 'tool/call': {
      const call = open.calls.find((c) => c.part.toolCallId === event.data.toolCallId && !c.started)
      if (call) call.started = event
      const program = programOf(open, event)
      if (program) program.inside = [...program.inside ?? [], event]
      return
    }
    case 'tool/result': {
      const call = open.calls.find((c) => c.part.toolCallId === event.data.toolCallId && !c.result)
      if (call) call.result = event
      const program = programOf(open, event)
      if (program?.inside) program.inside = program.inside.filter(({ data }) => data.toolCallId !== event.data.toolCallId)
      return
    }
    default:
  }
}

/** The `run_code` call whose program made a call. */
const programOf = ({ calls }: OpenTurn, { data: { parent } }: SessionEventOf<'tool/call' | 'tool/result'>): OpenCall | undefined =>
  parent === undefined ? undefined : calls.find(({ part }) => part.toolCallId === parent)
