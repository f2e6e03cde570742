import { foldMessages, type ModelMessage } from '../../src/core/fold.ts'
import type { ImportedTranscript, TranscriptFormat } from '../../src/core/transcript.ts'
import { importTranscript } from '../../src/transcripts/transcripts.ts'
import { numbered } from '../core/histories.ts'
import { rawOf } from '../support/transcripts.ts'

export const imported = (format: TranscriptFormat, ...messages: unknown[]): ImportedTranscript =>
  importTranscript(rawOf({ format, messages }))

/** What any kind of model sees of the completed turns. */
export const said = (format: TranscriptFormat, ...messages: unknown[]): ModelMessage[] => neutral(imported(format, ...messages))
export const neutral = ({ events }: ImportedTranscript): ModelMessage[] =>
  foldMessages(numbered(events)).map(({ wire: _wire, ...message }) => message)

export const text = (value: string) => ({ type: 'text', text: value })
export const call = (toolCallId: string, name: string, args: string) => ({ type: 'tool-call', toolCallId, name, arguments: args })
