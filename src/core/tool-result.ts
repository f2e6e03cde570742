import { text, type Block, type RunResult, type StopReason } from './events.ts'
import { isObject, type JsonObject } from './json.ts'

/** What a host hands to its model: an MCP `CallToolResult` (http-api.md 5.1). */
export interface CallToolResult { isError: boolean, content: Block[], structuredContent?: JsonObject }

const FAILURES: Record<Exclude<StopReason, 'completed'>, string> = {
  aborted: 'subagent run was cancelled',
  error: 'subagent run failed',
  'max-tokens': 'subagent run hit its token limit before finishing',
  refusal: 'subagent declined the task'
}

/**
 * The tool result of a settled run. Completed: its text as one block, images behind it; with a structured value that value's
 * JSON alone. Else the text of driver.md §12, and the structured value where one was captured (9.8).
 */
export function toolResultOf ({ stopReason, output, structured, diagnostic }: RunResult): CallToolResult {
  const captured = isObject(structured) ? { structuredContent: structured } : {}
  if (stopReason !== 'completed') {
    return { isError: true, content: [text(`Error: ${failureText(stopReason, diagnostic, output)}`)], ...captured }
  }
  return { isError: false, content: structured === undefined ? said(output) : [text(JSON.stringify(structured))], ...captured }
}

/** The tool result of a refused start. Without a message: of a fault that no model can mend (401, 403, 5xx). */
export const refusalToolResult = (message = 'subagent service unavailable'): CallToolResult =>
  ({ isError: true, content: [text(`Error: ${message}`)] })

/** Longest diagnostic in bytes of UTF-8 (driver.md §12). */
const DIAGNOSTIC_BYTES = 4096

/** A diagnostic as it may be shown: at most 4096 bytes of UTF-8, cut between characters. */
export function diagnosticText (diagnostic: string): string {
  const { read } = new TextEncoder().encodeInto(diagnostic, new Uint8Array(DIAGNOSTIC_BYTES))
  return diagnostic.slice(0, read).toWellFormed()
}

type Failure = Exclude<StopReason, 'completed'>

function failureText (reason: Failure, diagnostic: string | undefined, output: readonly Block[]): string {
  const failure = Object.hasOwn(FAILURES, reason) ? FAILURES[reason] : `subagent run ended abnormally (${String(reason)})`
  const partial = textOf(output)
  return failure + (diagnostic ? `\nDiagnostic: ${diagnosticText(diagnostic)}` : '') +
    (partial === '' ? '' : `\nPartial output before the run ended:\n${partial}`)
}

/** An empty text is left out: upstreams refuse a block that says nothing. */
function said (output: readonly Block[]): Block[] {
  const whole = textOf(output)
  return [...(whole === '' ? [] : [text(whole)]), ...output.filter((block) => block.type === 'image')]
}

const textOf = (output: readonly Block[]): string => output.map((block) => block.type === 'text' ? block.text : '').join('')
