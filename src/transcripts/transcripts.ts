import type { NewEvent, SystemSection, ToolDefinition, WireFormat } from '../core/events.ts'
import type { ImportedTranscript, ImportOptions, RawTranscript, Steps, TranscriptFormat } from '../core/transcript.ts'
import { aiSdk } from './ai-sdk.ts'
import { anthropic } from './anthropic.ts'
import { readEvents } from './events.ts'
import { systemText, type Fields, type Loss } from './fields.ts'
import { openaiChat } from './openai-chat.ts'
import { openaiResponses } from './openai-responses.ts'
import { createPlace, parseJson, parseObject, type Place } from './place.ts'
import type { Format, Reading } from './reading.ts'
import { finish, mapInSteps } from './steps.ts'
import { readTools } from './tools.ts'
import { completedTurns, turnEvents } from './turns.ts'

/** `wire`: the format whose models take the messages as they are. */
const FORMATS: Record<Exclude<TranscriptFormat, 'events'>, Format & { wire?: WireFormat }> = {
  'openai-chat': { ...openaiChat, wire: 'openai-chat' },
  'openai-responses': openaiResponses,
  anthropic: { ...anthropic, wire: 'anthropic' },
  'ai-sdk': aiSdk
}

/**
 * A host's transcript as events of its completed turns (http-api.md §4, driver.md §3): pure, and linear in its size. Later
 * messages of the same conversation are imported with the tail before them and `firstTurn` after the turns so far. Throws
 * `TRANSCRIPT_INVALID` where it is malformed, cut off or not; `INVALID_REQUEST` for a second system prompt.
 */
export const importTranscript = (raw: RawTranscript, options?: ImportOptions): ImportedTranscript => finish(importInSteps(raw, options))

/** As `importTranscript`, with pauses. */
export function * importInSteps (raw: RawTranscript, options: ImportOptions = {}): Steps<ImportedTranscript> {
  const place = createPlace(options)
  const tools = readTools(raw.format, raw.tools ?? [], place)
  const beside = raw.system === undefined ? [] : [readSystem(raw.format, raw.system, place)]
  const firstTurn = options.firstTurn ?? 1
  if (raw.format === 'events') {
    const { events, turns, cut } = yield * readEvents(raw.messages, firstTurn, place)
    return assemble(raw, { events, turns, cut, losses: [] }, beside, tools)
  }
  const { wire, ...format } = FORMATS[raw.format]
  const messages = yield * mapInSteps(raw.messages, (text, index) => parseObject(text, place.message(index)))
  const head = firstTurn > 1 ? 0 : headLength(format, messages)
  if (head > 0 && beside.length > 0) throw place.systemTwice()
  const system = head > 0 ? [headSystem(raw, messages.slice(0, head), place)] : beside
  const readings = yield * mapInSteps(messages, (message, index): Reading => index < head ? SILENT : format.read(message, place.message(index)))
  const { turns, cut } = completedTurns(readings, place.message)
  const wires = wire ? { format: wire, texts: raw.messages } : undefined
  const events = (yield * mapInSteps(turns, (turn, index) => turnEvents(turn, firstTurn + index, wires))).flat()
  const losses = [...new Set(readings.slice(0, cut).flatMap((reading) => [...reading.losses]))]
  return { ...assemble(raw, { events, turns: turns.length, cut, losses }, system, tools), ...(wire ? { kind: wire } : {}) }
}

const SILENT: Reading = { from: 'none', losses: new Set() }

interface Prefix { events: NewEvent[], turns: number, cut: number, losses: Loss[] }

function assemble (raw: RawTranscript, prefix: Prefix, system: SystemSection[], tools: ToolDefinition[]): ImportedTranscript {
  const { events, turns, cut, losses } = prefix
  const tail = raw.messages.slice(cut)
  if (events.length === 0 || (system.length === 0 && tools.length === 0)) return { events, turns, tail, system, tools, losses }
  const header: NewEvent = { type: 'request/header', data: { system, tools, model: null, reason: 'transcript' } }
  return { events: [header, ...events], turns, tail, system, tools, losses }
}

function readSystem (format: TranscriptFormat, json: string, place: Place): SystemSection {
  const text = systemText(parseJson(json, place.system), place.system)
  if (format === 'openai-chat') return { text, wire: { format, json: `{"role":"system","content":${json}}` } }
  return format === 'anthropic' ? { text, wire: { format, json } } : { text }
}

/** How many messages before the first of another role are the conversation's system prompt. */
function headLength ({ isSystem }: Format, messages: readonly Fields[]): number {
  if (!isSystem) return 0
  const first = messages.findIndex((message) => !isSystem(message))
  return first === -1 ? messages.length : first
}

function headSystem ({ format, messages }: RawTranscript, head: readonly Fields[], place: Place): SystemSection {
  const text = head.map(({ content }, index) => systemText(content, place.message(index))).join('\n\n')
  return format === 'openai-chat' ? { text, wire: { format, json: messages.slice(0, head.length).join(',') } } : { text }
}
