import { text } from '../../core/events.ts'
import { nameIn, stringIn, wordsIn } from './frames.ts'
import { find } from './persistent-map.ts'
import { isNamed, settleChild, startChild } from './children.ts'
import { childOf, outOf, type Draft } from './state.ts'
import type { ChildReason, Frame } from './vocabulary.ts'

/** Whether a `task_started` without a tool id is a typed command's fork (C1). A task within a task, or a known one, is none (C8). */
export function isTypedFork (d: Draft, frame: Frame, task: string | undefined): boolean {
  if (wordsIn(frame, 'parent_task_id') !== undefined || !(stringIn(frame, 'description') ?? '').startsWith('/')) return false
  return task === undefined || find(d.state.tasks, task) === undefined
}

/**
 * C1, C2: a `/skill` typed as the prompt runs in a fork. The CLI makes no call for it and holds its transcript back, so its
 * task's start is all that shows it: child, open tool, and the prompt in its log.
 */
export function startTypedFork (d: Draft, frame: Frame, task: string | undefined): void {
  settleTypedFork(d, 'aborted')
  const name = (nameIn(frame, 'description') ?? '').slice(1).split(/\s/, 1)[0] ?? ''
  const externalId = unnamed(d, `forked-command-${name}-${task ?? `line${d.state.lines}`}`)
  const prompt = wordsIn(frame, 'prompt')
  outOf(d, 'chat').log({
    type: 'tool/call',
    data: { toolCallId: externalId, name: 'Agent', input: { description: `/${name}`, ...(prompt === undefined ? {} : { prompt }) }, executor: 'service', idempotent: false, parent: typist(d) }
  })
  d.state.fork = startChild(d, { externalId, label: `Agent: /${name}`, prompt, tags: [], task, background: false, typed: true }).ref
}

/** `b-c` of `/a` and `c` of `/a-b` would be one. */
function unnamed (d: Draft, wanted: string): string {
  let externalId = wanted
  while (isNamed(d, externalId)) externalId = `${externalId}~${d.state.children + 1}`
  return externalId
}

/** No model made the call, so none sees it: to the fold it is a sub-call of what the user typed. */
const typist = (d: Draft): string => d.state.turn?.uuid ?? 'user'

/** C6–C10, D5, D7: child end, then its result in the chat's log. The notified status, else `fallback`. Nothing where none is pending. */
export function settleTypedFork (d: Draft, fallback: ChildReason): void {
  const child = childOf(d.state, d.state.fork)
  d.state.fork = undefined
  if (!child) return
  const reason = child.kept ?? fallback
  const log = child.log.message?.parts.map((part) => part.type === 'text' ? part.text : '').join('') || child.log.said
  settleChild(d, child, reason)
  outOf(d, 'chat').log({
    type: 'tool/result',
    data: { toolCallId: child.externalId, name: 'Agent', content: [text(log)], isError: reason !== 'completed', parent: typist(d) }
  })
}
