import { outcome } from '../../core/errors.ts'
import { text, type Block, type Outcome } from '../../core/events.ts'
import { isObject } from '../../core/json.ts'
import { MOST_ID, MOST_NAMED, MOST_REMEMBERED, MOST_RUNNING, MOST_STEERS, MOST_TAGS } from './bounds.ts'
import { idIn, markOf, nameIn, objectIn, reasonOf, shown, stringIn, userIn, wordsIn, wordsOf, type Call, type CallResult } from './frames.ts'
import { find, put, remember, valuesOf, without } from './persistent-map.ts'
import { childOf, outOf, type Child, type Draft, type Settled } from './state.ts'
import { beginTurn, emptyTranscript, endTurn, see, takeAssistant, takeResult, takeStream, takeUser } from './transcript.ts'
import type { ChildReason, ChildRef, Frame } from './vocabulary.ts'

export const update = (d: Draft, child: Child): void => {
  d.state.running = put(d.state.running, String(child.ref), child)
}

/** Whether a child of the chat has this `externalId`, or had it. */
export const isNamed = (d: Draft, externalId: string): boolean => find(d.state.named.map, externalId) !== undefined

export interface NewChild {
  externalId: string
  label: string
  prompt: string | undefined
  tags: readonly string[]
  task?: string | undefined
  background: boolean
  typed?: boolean
  continues?: Settled
}

/** A child run and its log, opened with the prompt where there is one. */
export function startChild (d: Draft, { externalId, label, prompt, tags, task, background, typed = false, continues }: NewChild): Child {
  const ref = ++d.state.children
  const before = continues === undefined ? {} : { continues: continues.ref }
  d.events.push({ type: 'child/started', child: ref, externalId, label, prompt: prompt ?? null, toolCallId: externalId, ...before })
  const out = outOf(d, ref)
  const turn = beginTurn(emptyTranscript(continues?.turns), out, continues === undefined ? 'task' : 'message')
  const log = prompt === undefined ? turn : takeUser(turn, out, { content: [text(prompt)] })
  const child: Child = { ref, externalId, label, tags, task, background, typed, echo: prompt === undefined ? undefined : markOf(prompt), steers: [], kept: undefined, log }
  update(d, child)
  for (const tag of tags) d.state.tags = put(d.state.tags, tag, ref);
  [d.state.named] = remember(d.state.named, externalId, true, MOST_NAMED)
  if (task !== undefined) d.state.tasks = put(d.state.tasks, task, ref)
  d.fed = ref
  return child
}

/** Once: a child that has settled is in no map that content is looked up by (B8, B9). */
export function settleChild (d: Draft, child: Child, reason: ChildReason, { summary, error }: { summary?: string | undefined, error?: Outcome } = {}): void {
  const why = reason !== 'error' ? undefined : error ?? outcome('MODEL_ERROR', shown(summary ?? 'the subagent failed'), false)
  const log = endTurn(child.log, outOf(d, child.ref), reason, why)
  d.events.push({
    type: 'child/settled', child: child.ref, toolCallId: child.externalId, reason, ...(why ? { error: why } : {}), ...(summary === undefined ? {} : { summary })
  })
  d.state.running = without(d.state.running, String(child.ref))
  const { ref, externalId, label, tags, task } = child
  const [settled, forgotten] = remember(d.state.settled, String(ref), { ref, externalId, label, tags, task, turns: log.turn }, MOST_REMEMBERED)
  d.state.settled = settled
  if (forgotten) forget(d, forgotten)
  d.fed = ref
}

function forget (d: Draft, { ref, tags, task }: Settled): void {
  for (const tag of tags) if (find(d.state.tags, tag) === ref) d.state.tags = without(d.state.tags, tag)
  if (task !== undefined && find(d.state.tasks, task) === ref) d.state.tasks = without(d.state.tasks, task)
}

/** In the order of their starts. */
export const runningChildren = (d: Draft): Child[] => inOrder(valuesOf(d.state.running))

/** Those of the chat's own calls, in the order of their starts. */
export const childrenOf = (d: Draft, calls: readonly string[]): Child[] => inOrder(calls.flatMap((call) => {
  const child = childOf(d.state, find(d.state.tags, call))
  return child?.externalId === call ? [child] : []
}))

const inOrder = (children: Child[]): Child[] => children.toSorted((a, b) => a.ref - b.ref)

/** One more tag of a child. The first stays: the CLI goes on to use it (B4). */
function withTag (d: Draft, tags: readonly string[], tag: string): readonly string[] {
  const [first, second, ...rest] = tags
  if (first === undefined || second === undefined || tags.length < MOST_TAGS) return [...tags, tag]
  d.state.tags = without(d.state.tags, second)
  return [first, ...rest, tag]
}

const isTaken = (d: Draft, tool: string): boolean => find(d.state.tags, tool) !== undefined || isNamed(d, tool)

const isFull = (d: Draft): boolean => d.state.running.size >= MOST_RUNNING

/** B1: an untagged `Agent` or `Task` call. A `Skill` call waits for its task's start (B2). */
export function takeCall (d: Draft, { toolCallId, name, input }: Call): void {
  const given: Frame = isObject(input) ? input : {}
  if (name === 'Skill') {
    const skill = (stringIn(given, 'skill') ?? stringIn(given, 'command') ?? '').replace(/^\//, '')
    if (d.state.skills.size < MOST_REMEMBERED) d.state.skills = put(d.state.skills, toolCallId, skill.slice(0, MOST_ID).toWellFormed())
    return
  }
  if ((name !== 'Agent' && name !== 'Task') || isTaken(d, toolCallId) || isFull(d)) return
  startChild(d, {
    externalId: toolCallId,
    label: `Agent: ${nameIn(given, 'description') ?? nameIn(given, 'subagent_type') ?? 'subagent'}`,
    prompt: wordsIn(given, 'prompt'),
    tags: [toolCallId],
    background: given['run_in_background'] === true
  })
}

/** `task_started` with a tool id (B2–B4). */
export function takeTaskStart (d: Draft, frame: Frame, task: string | undefined, tool: string): void {
  const known = task === undefined ? undefined : find(d.state.tasks, task)
  const background = frame['is_backgrounded']
  if (known !== undefined) {
    resume(d, known, frame, tool)
    return
  }
  const child = childOf(d.state, find(d.state.tags, tool))
  if (child) {
    update(d, { ...child, task: child.task ?? task, background: typeof background === 'boolean' ? background : child.background })
    if (task !== undefined && child.task === undefined) d.state.tasks = put(d.state.tasks, task, child.ref)
    d.fed = child.ref
    return
  }
  const skill = find(d.state.skills, tool)
  if (skill === undefined || isTaken(d, tool) || isFull(d)) return
  const name = skill || (nameIn(frame, 'description') ?? '').replace(/^\//, '').split(/\s/, 1)[0] || 'skill'
  startChild(d, { externalId: tool, label: `Agent: /${name}`, prompt: wordsIn(frame, 'prompt'), tags: [tool], task, background: background === true })
}

/** B4: a known task under a new tool id. A running child is steered; a settled one goes on in a new child. */
function resume (d: Draft, ref: ChildRef, frame: Frame, tool: string): void {
  const prompt = wordsIn(frame, 'prompt')
  const isOld = isTaken(d, tool)
  const running = childOf(d.state, ref)
  if (running) {
    d.fed = ref
    if (isOld || running.steers.length >= MOST_STEERS) return
    const log = prompt === undefined ? running.log : takeUser(running.log, outOf(d, ref), { content: [text(prompt)] })
    const steers = prompt === undefined ? running.steers : [...running.steers, markOf(prompt)]
    update(d, { ...running, tags: withTag(d, running.tags, tool), steers, log })
    d.state.tags = put(d.state.tags, tool, ref)
    return
  }
  const settled = find(d.state.settled.map, String(ref))
  if (!settled || isOld || isFull(d)) return
  // A resume answers its call at once; only a task that says so runs in the foreground.
  const { label, task } = settled
  startChild(d, { externalId: tool, label, prompt, tags: withTag(d, settled.tags, tool), task, background: frame['is_backgrounded'] !== false, continues: settled })
}

/** The child that a tag or a task speaks of, while it runs; a pending typed fork has every tag of its kind (C3). */
export function taggedChild (d: Draft, tag: string): Child | undefined {
  const ref = find(d.state.tags, tag) ?? (tag.startsWith('forked-command-') ? d.state.fork : undefined)
  return childOf(d.state, ref)
}

function childOfTask (d: Draft, frame: Frame): Child | undefined {
  const task = idIn(frame, 'task_id')
  if (frame['task_type'] === 'local_bash' || (task !== undefined && find(d.state.shells.map, task))) return undefined
  const tool = idIn(frame, 'tool_use_id')
  const ref = (task === undefined ? undefined : find(d.state.tasks, task)) ?? (tool === undefined ? undefined : find(d.state.tags, tool))
  return childOf(d.state, ref)
}

/** B5: a shell's task, whatever its tool id. */
export function takeShell (d: Draft, task: string | undefined): void {
  if (task !== undefined && find(d.state.tasks, task) === undefined) [d.state.shells] = remember(d.state.shells, task, true, MOST_REMEMBERED)
}

/** Progress, a patch, or the notification that settles (B7, B8). A typed fork only keeps its status (C5). */
export function takeTaskNews (d: Draft, frame: Frame): void {
  const child = childOfTask(d, frame)
  if (!child) return
  d.fed = child.ref
  if (frame['subtype'] === 'task_updated') {
    const patch = objectIn(frame, 'patch')
    const background = patch['is_backgrounded'] === true || child.background
    update(d, { ...child, background, kept: child.typed ? child.kept : reasonOf(stringIn(patch, 'status')) ?? child.kept })
    return
  }
  const reason = frame['subtype'] === 'task_notification' ? reasonOf(stringIn(frame, 'status')) : undefined
  if (reason === undefined) return
  if (child.typed) update(d, { ...child, kept: reason })
  else settleChild(d, child, reason, { summary: wordsIn(frame, 'summary') })
}

/** B8: the chat's own result of a call settles a foreground child that had no notification; "launched" only closes the call. */
export function takeCallResult (d: Draft, { toolCallId, content, isError }: CallResult, frame: Frame): void {
  d.state.skills = without(d.state.skills, toolCallId)
  const child = childOf(d.state, find(d.state.tags, toolCallId))
  if (!child || child.externalId !== toolCallId || child.background) return
  const told = objectIn(frame, 'tool_use_result')
  if (!isError && (told['isAsync'] === true || told['status'] === 'async_launched')) {
    update(d, { ...child, background: true })
    return
  }
  settleChild(d, child, isError ? child.kept ?? 'error' : child.kept ?? 'completed', { summary: shown(wordsOf(content)) || undefined })
}

/** B6: a tagged frame, in block order. */
export function takeTagged (d: Draft, child: Child, frame: Frame): void {
  const out = outOf(d, child.ref)
  d.fed = child.ref
  if (frame['type'] === 'stream_event') {
    update(d, { ...child, log: takeStream(child.log, out, objectIn(frame, 'event')) })
    return
  }
  const [log, again] = see(child.log, frame)
  if (again) return
  if (frame['type'] === 'assistant') {
    update(d, { ...child, log: takeAssistant(log, out, frame)[0] })
    return
  }
  const { content, results } = userIn(objectIn(frame, 'message'))
  const answered = results.reduce((next, result) => takeResult(next, out, result)[0], log)
  if (content.length === 0) update(d, { ...child, log: answered })
  else sayTo(d, { ...child, log: answered }, content)
}

/** A user text within a child: what it was given comes back once as an echo, and is dropped then (B11, C4). */
function sayTo (d: Draft, child: Child, content: Block[]): void {
  const words = markOf(wordsOf(content))
  if (child.echo === words) {
    update(d, { ...child, echo: undefined })
    return
  }
  const steer = child.steers.indexOf(words)
  const rest = { ...child, echo: child.typed ? child.echo : undefined }
  if (steer === -1) update(d, { ...rest, log: takeUser(rest.log, outOf(d, child.ref), { content }) })
  else update(d, { ...rest, steers: rest.steers.toSpliced(steer, 1) })
}
