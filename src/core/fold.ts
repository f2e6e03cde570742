import { cutBlocks } from './cut.ts'
import type { AssistantPart, Block, SessionEvent, SessionEventOf, SystemSection, ToolDefinition, Wire } from './events.ts'

/** A longer result reaches the model cut, with a mark that says how much is missing; the log keeps it whole. */
const MAX_RESULT_BYTES = 262_144

/** What the model sees: a pure fold of the log (driver.md 2.6). Same log, same messages, in the same order. */
export type ModelMessage =
  | { role: 'user', content: Block[], wire?: Wire }
  | { role: 'assistant', content: AssistantPart[], wire?: Wire }
  | { role: 'tool', toolCallId: string, name: string, content: Block[], isError: boolean, wire?: Wire }

/**
 * The messages of a log. Tool results stand in the order of the calls they answer, whatever order they came in; a turn
 * that does not end on the model's word is answered `(no answer: <reason>)`, so that roles alternate.
 */
export function foldMessages (events: Iterable<SessionEvent>): ModelMessage[] {
  const folded = new Fold()
  for (const event of events) folded.take(event)
  return folded.finish()
}

class Fold {
  readonly #messages: ModelMessage[] = []
  /** Call ids of the step that is being answered, in the model's order, and the results that came for them. */
  #order: string[] = []
  #results: SessionEventOf<'tool/result'>[] = []

  take (event: SessionEvent): void {
    switch (event.type) {
      case 'turn/start':
        this.#flushResults()
        return
      case 'user/message':
        this.#flushResults()
        this.#messages.push({ role: 'user', content: event.data.content, ...wireOf(event.data) })
        return
      case 'assistant/message':
        this.#flushResults()
        this.#assistant(event)
        return
      case 'tool/result':
        if (event.data.parent === undefined) this.#results.push(event)
        return
      case 'step/end':
        this.#flushResults()
        return
      case 'turn/end':
        this.#flushResults()
        if (this.#messages.length > 0 && this.#messages.at(-1)?.role !== 'assistant') {
          this.#messages.push({ role: 'assistant', content: [{ type: 'text', text: `(no answer: ${event.data.reason})` }] })
        }
        return
      default:
    }
  }

  finish (): ModelMessage[] {
    this.#flushResults()
    return this.#messages
  }

  #assistant (event: SessionEventOf<'assistant/message'>): void {
    const { content } = event.data
    if (content.length === 0 && event.data.wire === undefined) return
    this.#order = content.filter((part) => part.type === 'tool-call').map((part) => part.toolCallId)
    this.#messages.push({ role: 'assistant', content, ...wireOf(event.data) })
  }

  #flushResults (): void {
    if (this.#results.length === 0) return
    const imported = this.#results.some((result) => result.data.wire !== undefined)
    for (const { data: { toolCallId, name, content, isError, ...rest } } of imported ? this.#results : this.#inCallOrder()) {
      this.#messages.push({ role: 'tool', toolCallId, name, content: cutBlocks(content, MAX_RESULT_BYTES), isError, ...wireOf(rest) })
    }
    this.#results = []
  }

  /** Each result at the place of its call; of calls that share an id, the first unanswered one. Unknown ids come last. */
  #inCallOrder (): SessionEventOf<'tool/result'>[] {
    const open: (string | undefined)[] = [...this.#order]
    const placed = this.#results.map((result) => {
      const at = open.indexOf(result.data.toolCallId)
      if (at !== -1) open[at] = undefined
      return { result, at: at === -1 ? open.length : at }
    })
    return placed.toSorted((a, b) => a.at - b.at).map(({ result }) => result)
  }
}

const wireOf = (data: { wire?: Wire }): { wire?: Wire } => data.wire === undefined ? {} : { wire: data.wire }

/** What a host's transcript brought along beside its messages: its system prompt and its tools (http-api.md 4.3). */
export function transcriptHeader (events: readonly SessionEvent[]): { system: SystemSection[], tools: ToolDefinition[] } | undefined {
  const found = events.findLast((event) => event.type === 'request/header' && event.data.reason === 'transcript')
  return found?.type === 'request/header' ? found.data : undefined
}
