import { createReading, type Reading } from './reading.ts'
import { readLine } from './lines.ts'
import { normalize } from './normalizer.ts'
import { createState, type State } from './state.ts'
import type { ChildRef, Emitted, Input } from './vocabulary.ts'

/** A child that was stopped once so many lines were in the journal. */
export type Stop = readonly [lines: number, child: ChildRef]

/** A chat as its journal tells it: the normalizer's state, and what its open runs have said so far. */
export interface Replay {
  state: State
  readonly chat: Reading
  /** Of the children that still run. */
  readonly running: Map<ChildRef, Reading>
  /** What the journal does not tell, in order. */
  readonly stops: Stop[]
}

export const startReplay = (stops: readonly Stop[]): Replay =>
  ({ state: createState('ingest'), chat: createReading(), running: new Map(), stops: [...stops] })

/** Reads lines again, whose effects are in the logs already. */
export function replay (chat: Replay, lines: readonly string[]): void {
  for (const line of lines) {
    replayInput(chat, readLine(line))
    for (let next = chat.stops[0]; next && next[0] <= chat.state.lines; next = chat.stops[0]) {
      chat.stops.shift()
      replayInput(chat, { type: 'child/stop', child: next[1] })
    }
  }
}

export function replayInput (chat: Replay, input: Input): void {
  const [state, emitted] = normalize(chat.state, input)
  chat.state = state
  for (const event of emitted) note(chat, event)
}

function note ({ chat, running }: Replay, event: Emitted): void {
  switch (event.type) {
    case 'log':
      if (event.scope === 'chat') chat.take(event.event)
      else running.get(event.scope)?.take(event.event)
      return
    case 'child/started': running.set(event.child, createReading()); return
    case 'child/settled': running.delete(event.child); return
    case 'turn/ended':
      chat.judge(event.answers)
      if (event.answers && event.text !== undefined) chat.say(event.text)
      if (event.costUsd !== undefined) chat.spend(event.costUsd)
      return
    default:
  }
}
