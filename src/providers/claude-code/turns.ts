import { outcome } from '../../core/errors.ts'
import type { Block, Outcome, OutcomeCode } from '../../core/events.ts'
import { isObject } from '../../core/json.ts'
import { MOST_BEGUN, MOST_PENDING } from './bounds.ts'
import { amountIn, idIn, markOf, objectIn, shown, stringIn, tokensIn, usageOf, wordsIn, wordsOf } from './frames.ts'
import { emptyMap } from './persistent-map.ts'
import { childrenOf, runningChildren, settleChild } from './children.ts'
import { outOf, type Draft, type Line, type Turn } from './state.ts'
import { beginTurn, endMessage, endTurn, openCalls, takeUser } from './transcript.ts'
import { settleTypedFork } from './typed-fork.ts'
import type { ChildReason, Frame, TurnEnded } from './vocabulary.ts'

/** No turn of this run has begun yet; the session may hold those of earlier runs. */
const isFresh = (d: Draft): boolean => d.state.log.turn === d.state.before

/** D1: a user line on its way. It is in the log when the CLI says that it begins. */
export function queue (d: Draft, line: Line): void {
  if (line.uuid !== undefined && (d.state.begun.includes(line.uuid) || d.state.pending.some(({ uuid }) => uuid === line.uuid))) return
  const [first, ...rest] = d.state.pending
  // The task of a CLI that its host started has no uuid until the CLI gives it one.
  if (first && first.uuid === undefined && line.content === undefined) d.state.pending = [{ ...first, uuid: line.uuid }, ...rest]
  else {
    if (first && d.state.pending.length >= MOST_PENDING) d.events.push({ type: 'line/dropped', uuid: first.uuid ?? null })
    d.state.pending = [...d.state.pending.slice(1 - MOST_PENDING), line]
  }
}

/** The CLI will not run a line. It may have been all that a held end waited for. */
export function drop (d: Draft, uuid: string): void {
  const line = d.state.pending.find((other) => other.uuid === uuid)
  if (!line) return
  d.state.pending = d.state.pending.filter((other) => other !== line)
  d.events.push({ type: 'line/dropped', uuid })
  if (d.state.pending.length === 0) release(d)
}

/** D3: a line begins, with all sent before it. In an open turn it is a steer, unless it is the turn's own first. */
export function begin (d: Draft, uuid: string | undefined, content?: Block[]): void {
  if (uuid !== undefined && d.state.begun.includes(uuid)) return
  // After an answered interrupt the turn ends first (C7).
  if (d.state.turn?.interrupted) abandon(d)
  d.state.muted = false
  const { pending } = d.state
  const named = uuid === undefined ? -1 : pending.findIndex((line) => line.uuid === uuid)
  const at = named === -1 && pending[0] && pending[0].uuid === undefined ? 0 : named
  const lines = at === -1 ? [{ uuid, content }] : pending.slice(0, at + 1)
  d.state.pending = pending.slice(at + 1)
  for (const [i, line] of lines.entries()) start(d, i < lines.length - 1 ? line : { uuid: line.uuid ?? uuid, content: line.content ?? content })
}

function start (d: Draft, { uuid, content }: Line): void {
  const { turn } = d.state
  if (uuid !== undefined) d.state.begun = [...d.state.begun.slice(1 - MOST_BEGUN), uuid]
  const unsaid = content === undefined && uuid !== undefined ? [uuid] : []
  if (turn === undefined) openTurn(d, d.state.log.turn === 0 ? 'task' : 'message', { uuid, unsaid })
  else if (turn.held === undefined && turn.uuid === undefined && !turn.asked && !turn.wake) d.state.turn = { ...turn, uuid, unsaid: [...turn.unsaid, ...unsaid].slice(-MOST_BEGUN) }
  else {
    d.state.turn = { ...turn, held: undefined, unsaid: [...turn.unsaid, ...unsaid].slice(-MOST_BEGUN) }
    d.events.push({ type: 'steer/confirmed', uuid: uuid ?? null })
  }
  if (content !== undefined) say(d, content, uuid)
  d.fed ??= 'chat'
}

function openTurn (d: Draft, origin: 'task' | 'message' | 'service', { uuid, unsaid = [] }: { uuid?: string | undefined, unsaid?: string[] } = {}): void {
  d.state.log = beginTurn(d.state.log, outOf(d, 'chat'), origin)
  d.state.turn = { uuid, unsaid, asked: false, words: undefined, wake: origin === 'service', interrupted: false, held: undefined }
}

/**
 * Content opens the turn that no line opened: the first line's where the CLI tells no beginnings. Else it is a wake turn (A6) where
 * a user's line would have been told, or a task has just notified; else what a user said to the CLI itself.
 */
export function ensureTurn (d: Draft): void {
  d.fed = 'chat'
  if (d.state.turn) return
  if (!d.state.lifecycle && d.state.pending.length > 0) begin(d, d.state.pending[0]?.uuid)
  else if (!isFresh(d) && (d.state.lifecycle || d.state.woken)) openTurn(d, 'service')
  else openTurn(d, d.state.log.turn === 0 ? 'task' : 'message')
}

/** A user's message in the chat's log. */
function say (d: Draft, content: Block[], messageId: string | undefined): void {
  const { turn } = d.state
  const words = messageId === undefined ? markOf(wordsOf(content)) : undefined
  if (turn) d.state.turn = { ...turn, asked: true, words: turn.words ?? words, unsaid: turn.unsaid.filter((uuid) => uuid !== messageId) }
  d.state.log = takeUser(d.state.log, outOf(d, 'chat'), { content, ...(messageId === undefined ? {} : { messageId }) }, turn?.asked === false)
  d.fed = 'chat'
}

/** An untagged user text: a line's replay, once, or what no line of ours said. */
export function takeWords (d: Draft, content: Block[], uuid: string | undefined, replay: boolean): void {
  const { turn, begun, pending } = d.state
  if (uuid !== undefined && turn?.unsaid.includes(uuid)) say(d, content, uuid)
  else if (uuid !== undefined && begun.includes(uuid)) return
  else if (turn && turn.uuid === undefined && turn.words !== undefined && turn.words === markOf(wordsOf(content))) {
    d.state.turn = { ...turn, uuid, words: undefined }
    if (uuid !== undefined) d.state.begun = [...begun.slice(1 - MOST_BEGUN), uuid]
  } else if (replay || (uuid !== undefined && pending.some((line) => line.uuid === uuid))) begin(d, uuid, content)
  else if (d.state.muted) return
  else if (turn) say(d, content, uuid)
  else begin(d, uuid, content)
}

/** A6: a result ends the turn, or, while a line is queued, is only where the next one steers in (C7). */
export function takeResult (d: Draft, frame: Frame): void {
  const uuid = idIn(frame, 'uuid')
  if (uuid !== undefined && uuid === d.state.result) return
  d.state.result = uuid
  const { abandoned, muted } = d.state
  const line = idIn(frame, 'user_message_uuid')
  if (abandoned && (line === undefined ? muted : line === abandoned.uuid)) {
    d.state.abandoned = undefined
    d.state.muted = false
    return
  }
  if (!d.state.turn && !isFresh(d)) return
  ensureTurn(d)
  const turn = d.state.turn as Turn | undefined
  const end = readEnd(frame, turn?.interrupted === true)
  const boundary = turn !== undefined && !turn.interrupted && d.state.pending.length > 0 && stringIn(frame, 'subtype') !== undefined
  if (!boundary) {
    finishTurn(d, end)
    return
  }
  d.state.log = endMessage(d.state.log, outOf(d, 'chat'))
  settleTypedFork(d, end.reason)
  d.state.turn = { ...turn, held: end }
}

function readEnd (frame: Frame, interrupted: boolean): Omit<TurnEnded, 'turn'> {
  const subtype = stringIn(frame, 'subtype')
  const said = wordsIn(frame, 'result')
  const failed = subtype !== 'success' || frame['is_error'] === true
  const origin = frame['origin']
  const costUsd = amountIn(frame, 'total_cost_usd')
  return {
    reason: interrupted ? 'aborted' : failed ? 'error' : 'completed',
    ...(failed && !interrupted ? { error: failureOf(subtype, said) } : {}),
    answers: origin !== 'task-notification' && stringIn(objectIn(frame, 'origin'), 'kind') !== 'task-notification',
    ...(said === undefined ? {} : { text: said }),
    ...(isObject(frame['usage']) ? { usage: usageOf(tokensIn(frame), 0) } : {}),
    ...(costUsd === undefined ? {} : { costUsd })
  }
}

const FAILURES = new Map<string, OutcomeCode>([
  ['error_max_turns', 'LIMIT_STEPS'], ['error_max_budget_usd', 'LIMIT_TOKENS'], ['error_max_structured_output_retries', 'NO_STRUCTURED_OUTPUT']
])

function failureOf (subtype: string | undefined, said: string | undefined): Outcome {
  if (subtype === undefined) return outcome('INTERNAL', 'the CLI gave a result that cannot be read')
  return outcome(FAILURES.get(subtype) ?? 'MODEL_ERROR', shown(said ?? `the CLI reports: ${subtype}`), false)
}

/** Ends the open turn: the fork and what runs in the foreground settle first, and no tool stays open (C6, D5, D7). */
export function finishTurn (d: Draft, end: Omit<TurnEnded, 'turn'>): void {
  if (!d.state.turn) return
  const out = outOf(d, 'chat')
  const unanswered = openCalls(d.state.log)
  d.state.log = endMessage(d.state.log, out, end.reason === 'aborted')
  settleTypedFork(d, end.reason)
  for (const child of childrenOf(d, unanswered)) {
    if (!child.background) settleChild(d, child, child.kept ?? (end.reason === 'aborted' ? 'aborted' : 'error'))
  }
  const { turn } = d.state.log
  d.state.log = endTurn(d.state.log, out, end.reason, end.error)
  d.state.turn = undefined
  d.state.interrupt = undefined
  d.state.woken = false
  d.state.skills = emptyMap()
  d.events.push({ type: 'turn/ended', turn, ...end })
  d.fed = 'chat'
}

/** Whether the open turn has a user's message to answer. */
const isAsked = (d: Draft): boolean => d.state.turn?.wake !== true || d.state.turn.asked

/** D4: lets a held end go. */
export function release (d: Draft): void {
  const held = d.state.turn?.held
  if (held) finishTurn(d, held)
}

/** D5: the interrupt was answered, but no result came. What still comes of this turn is not the next one's. */
export function abandon (d: Draft): void {
  if (d.state.turn?.held) {
    release(d)
    return
  }
  const answers = isAsked(d)
  d.state.abandoned = { uuid: d.state.turn?.uuid }
  d.state.muted = true
  finishTurn(d, { reason: 'aborted', answers })
}

/** The process or the input has ended (B10, D7): fork, children, then the turn. */
export function endAll (d: Draft, error: Outcome): void {
  const reason: ChildReason = d.state.stopping || d.state.turn?.interrupted ? 'aborted' : 'error'
  const [first, ...others] = d.state.pending
  d.state.pending = []
  if (first && isFresh(d)) start(d, first)
  else if (first) others.unshift(first)
  d.state.log = endMessage(d.state.log, outOf(d, 'chat'), reason === 'aborted')
  settleTypedFork(d, reason)
  for (const child of runningChildren(d)) settleChild(d, child, d.state.stopping ? 'aborted' : 'error', { error })
  for (const { uuid } of others) d.events.push({ type: 'line/dropped', uuid: uuid ?? null })
  finishTurn(d, d.state.turn?.held ?? { reason, answers: isAsked(d), ...(reason === 'error' ? { error } : {}) })
}
