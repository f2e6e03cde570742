import { text } from '../../core/events.ts'
import { toolError, type ToolOutcome } from '../../core/tool.ts'
import { cutText } from './cut.ts'
import type { Cut } from './messages.ts'
import type { ProgramEnd } from './thread.ts'

/** What printed output keeps for itself of the bytes of a result, where both are long. */
const PRINTED_SHARE = 0.25

/**
 * The result of `run_code` as the model reads it: the returned JSON alone where nothing was printed; else what was printed and
 * the notes under it. A failure is `code run failed (<kind>): <message>` (driver.md §10). At most about `bytes`; what is cut
 * says how much is missing.
 */
export function renderEnd ({ ending, console }: ProgramEnd, notes: readonly string[], bytes: number): ToolOutcome {
  const printedBytes = Math.min(Buffer.byteLength(console.text), Math.floor(bytes * PRINTED_SHARE))
  const main = 'failure' in ending
    ? `code run failed (${ending.failure.kind}): ${ending.failure.message}`.toWellFormed()
    : ending.result ? shown(shorter(ending.result, bytes - printedBytes)) : '(no value was returned)'
  const printed = shown(shorter(console, bytes - Buffer.byteLength(main)))
  const whole = [main, ...(printed === '' ? [] : [`Console output:\n${printed.trimEnd()}`]), ...notes].join('\n\n')
  return 'failure' in ending ? toolError(whole) : { content: [text(whole)], isError: false }
}

function shorter (cut: Cut, bytes: number): Cut {
  const { text, missing } = cutText(cut.text, cut.text.length, bytes)
  return { text, missing: missing + cut.missing }
}

const shown = ({ text, missing }: Cut): string => {
  const kept = text.toWellFormed()
  return missing === 0 ? kept : `${kept}… (${missing} more characters not shown)`
}
