import {
  noUsage, type AssistantPart, type Block, type NewEvent, type ToolCallPart, type Wire, type WireFormat
} from '../core/events.ts'
import type { Fail } from './fields.ts'
import type { ModelReading, Reading, ResultReading, UserReading } from './reading.ts'

/** Messages `first` to `last` of the host that say one thing: adjacent ones of the model are one (http-api.md 4.1). */
type Unit = UserUnit | ModelUnit
interface UserUnit { from: 'user', first: number, last: number, content?: Block[] }
interface ModelUnit {
  from: 'model'
  first: number
  last: number
  content: AssistantPart[]
  asked: Set<string>
  results: Answer[]
}
interface Answer { part: ToolCallPart, result: ResultReading, index: number }
export type Turn = readonly Unit[]

interface Call { unit: ModelUnit, part: ToolCallPart }
/** Calls that share an id, in order, and how many of them are answered. */
interface Calls { calls: Call[], answered: number }

/**
 * The completed turns of a conversation, and the number of messages they take: the cut of http-api.md 4.1. Throws what
 * `failAt` makes for a tool result that answers no open call. Linear in the conversation's size.
 */
export function completedTurns (readings: readonly Reading[], failAt: (index: number) => Fail): { turns: Turn[], cut: number } {
  const turns: Turn[] = []
  const calls = new Map<string, Calls>()
  let units: Unit[] = []
  let open = 0
  let cut = 0

  const endTurn = (): void => {
    const last = units.at(-1)
    if (last?.from !== 'model' || open > 0 || last.asked.size > 0) return
    turns.push(units)
    units = []
    cut = last.last + 1
  }
  const takeModel = (reading: ModelReading, index: number): void => {
    const unit = modelUnit(units, index)
    for (const part of reading.content) {
      unit.content.push(part)
      if (part.type !== 'tool-call') continue
      open++
      const same = calls.get(part.toolCallId)
      if (same) same.calls.push({ unit, part })
      else calls.set(part.toolCallId, { calls: [{ unit, part }], answered: 0 })
    }
    for (const id of reading.asked) unit.asked.add(id)
    for (const id of reading.answered) unit.asked.delete(id)
  }
  const takeUser = (reading: UserReading, index: number): void => {
    endTurn()
    for (const result of reading.results) {
      const same = calls.get(result.toolCallId)
      if (!same) throw failAt(index)(`tool result for an unknown call "${result.toolCallId.slice(0, 64)}"`)
      const call = same.calls[same.answered++]
      if (!call) throw failAt(index)(`the call "${result.toolCallId.slice(0, 64)}" is answered already`)
      open--
      call.unit.results.push({ part: call.part, result, index })
    }
    units.push({ from: 'user', first: index, last: index, ...(reading.content ? { content: reading.content } : {}) })
  }

  for (const [index, reading] of readings.entries()) {
    if (reading.from === 'model') takeModel(reading, index)
    else if (reading.from === 'user') takeUser(reading, index)
  }
  endTurn()
  return { turns, cut }
}

/** The unit that a message of the model belongs to: the one before it, where that is the model's as well. */
function modelUnit (units: Unit[], index: number): ModelUnit {
  const last = units.at(-1)
  if (last?.from === 'model') {
    last.last = index
    return last
  }
  const unit: ModelUnit = { from: 'model', first: index, last: index, content: [], asked: new Set(), results: [] }
  units.push(unit)
  return unit
}

/** An event, and the messages whose verbatim text it stands for. */
interface Piece { event: NewEvent, first?: number, last?: number }

/** The events of a completed turn. Each result follows the message that asked for it, wherever the host had it. */
export function turnEvents (units: Turn, turn: number, wires?: { format: WireFormat, texts: readonly string[] }): NewEvent[] {
  const pieces: Piece[] = [{ event: { type: 'turn/start', data: { turn, origin: 'transcript' } } }]
  let step = 0
  for (const unit of units) {
    if (unit.from === 'model') for (const piece of stepPieces(unit, turn, ++step)) pieces.push(piece)
    else if (unit.content) pieces.push(userPiece(unit, unit.content))
  }
  pieces.push({ event: { type: 'turn/end', data: { turn, reason: 'completed' } } })
  if (wires) addWires(pieces, units, wires.format, wires.texts)
  return pieces.map((piece) => piece.event)
}

const userPiece = ({ first, last }: UserUnit, content: Block[]): Piece =>
  ({ event: { type: 'user/message', data: { content } }, first, last })

function * stepPieces ({ first, last, content, results }: ModelUnit, turn: number, step: number): Iterable<Piece> {
  const stop = content.some((part) => part.type === 'tool-call') ? 'tool-calls' : 'end'
  yield { event: { type: 'step/start', data: { turn, step, attempt: 1 } } }
  yield { event: { type: 'assistant/message', data: { content, usage: noUsage(), model: '', stop } }, first, last }
  for (const { part: { toolCallId, name }, result: { content: told, isError }, index } of results) {
    yield { event: { type: 'tool/result', data: { toolCallId, name, content: told, isError } }, first: index, last: index }
  }
  yield { event: { type: 'step/end', data: { turn, step } } }
}

/**
 * Gives each event the verbatim text of its messages, so that all texts in the order of the events are the host's own.
 * Where results had to move to their call, the first event carries the whole turn.
 */
function addWires (pieces: readonly Piece[], units: Turn, format: WireFormat, texts: readonly string[]): void {
  const places = pieces.flatMap((piece) => piece.first ?? [])
  const inOrder = places.every((first, i) => i === 0 || first >= (places[i - 1] as number))
  let written = -1
  for (const { event, first, last } of pieces) {
    if (first === undefined || last === undefined) continue
    let json = ''
    if (written < first) {
      const [from, to] = inOrder ? [first, last] : [(units[0] as Unit).first, (units.at(-1) as Unit).last]
      json = texts.slice(from, to + 1).join(',')
      written = to
    }
    (event.data as { wire?: Wire }).wire = { format, json }
  }
}
