import { outcome } from '../../core/errors.ts'
import type { Outcome } from '../../core/events.ts'
import type { ToolFilter } from '../../core/run.ts'
import type { ChatNews } from './chat.ts'
import { approve, decline, deny } from './command.ts'
import { decide, isLeftOut, type Permissions } from './policy.ts'

/** The answer to whatever the CLI asks: none of its requests hangs (A7). */
export function answerTo (permissions: Permissions, filter: ToolFilter | undefined, asked: Extract<ChatNews, { type: 'approval/asked' | 'control/asked' }>): object | string {
  if (asked.type === 'control/asked') return decline(asked.requestId, asked.subtype)
  const verdict = decide(permissions, filter, asked.tool)
  return verdict.allowed ? approve(asked.requestId, asked.input) : deny(asked.requestId, verdict.text)
}

/** Why a CLI that offers these tools is not to be used; `undefined` where the filter holds. It tells them before its first word. */
export function offerFault (filter: ToolFilter | undefined, offered: readonly string[]): Outcome | undefined {
  const wrong = offered.filter((tool) => isLeftOut(filter, tool))
  return wrong.length === 0 ? undefined : outcome('SETUP_FAILED', `the CLI offers tools that toolFilter leaves out: ${wrong.join(', ')}`)
}
