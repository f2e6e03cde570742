// What the fake CLI says where no script tells it: each user line gets a turn. A line `agent: <task>` of the prompt is an Agent call, and
// so is a prompt that speaks of a helper; `ask: <tool>` asks for a permission, `/<name>` is a typed fork. FAKE_CLAUDE_PACE_MS: the time each piece takes (0).
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'

const USAGE = { input_tokens: 10, output_tokens: 5, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
const TOOLS = ['Task', 'Bash', 'Edit', 'Glob', 'Grep', 'Read', 'Skill', 'Write']
const PACE = Number(process.env.FAKE_CLAUDE_PACE_MS ?? 0)
const INTERRUPTED = Symbol('interrupted')

/** Ends with the input. `host`: the inbox, the session, and how frames are written. */
export async function playDemo (host) {
  const { inbox, answer } = host
  const queue = []
  const turn = { number: 0, calls: 0, cost: 0, interrupted: false, stopped: new Set(), wake: () => {} }
  let hasEnded = false
  let wakeQueue = () => {}
  const readUsers = async () => {
    for (let user; (user = await inbox.take(({ type }) => type === 'user'));) {
      lifecycle(host, user, 'queued')
      queue.push(user)
      wakeQueue()
    }
    hasEnded = true
    wakeQueue()
  }
  const readRequests = async () => {
    for (let request; (request = await inbox.take(({ type }) => type === 'control_request'));) {
      const { subtype, task_id: task } = request.request ?? {}
      if (subtype === 'interrupt') turn.interrupted = true
      if (subtype === 'stop_task') turn.stopped.add(task)
      answer(request, subtype === 'interrupt' ? { still_queued: queue.map(({ uuid }) => uuid) } : {})
      turn.wake()
    }
  }
  void readRequests()
  void readUsers()
  while (queue.length > 0 || !hasEnded) {
    const user = queue.shift()
    if (user) await takeTurn(host, turn, user)
    else await new Promise((resolve) => { wakeQueue = resolve })
  }
}

async function takeTurn (host, turn, user) {
  Object.assign(turn, { number: turn.number + 1, interrupted: false, started: Date.now() })
  lifecycle(host, user, 'started')
  const text = host.textOf(user)
  const command = /^\/(\S+)/.exec(text)?.[1]
  try {
    const said = command ? await playFork(host, turn, user, command, text) : await playReply(host, turn, user, text)
    result(host, turn, user, { is_error: false, subtype: 'success', result: said, num_turns: command ? 0 : 1, ...(command ? { local_command: 'custom' } : {}) })
    lifecycle(host, user, 'completed')
  } catch (error) {
    if (error !== INTERRUPTED) throw error
    result(host, turn, user, { is_error: true, subtype: 'error_during_execution', num_turns: 1 })
    lifecycle(host, user, 'cancelled')
  }
}

const lifecycle = ({ emit }, user, state) => { if (user.uuid) emit({ type: 'command_lifecycle', command_uuid: user.uuid, state }) }

function result ({ emit, session }, turn, user, rest) {
  turn.cost += 0.0001
  emit({
    type: 'result', duration_ms: Date.now() - turn.started, duration_api_ms: 0, stop_reason: 'end_turn', total_cost_usd: turn.cost, usage: USAGE,
    modelUsage: { [session.model]: { inputTokens: 10, outputTokens: 5, costUSD: turn.cost } }, permission_denials: [],
    ...(user.uuid ? { user_message_uuid: user.uuid, user_message_uuids: [user.uuid] } : {}), result_index: turn.number - 1, ...rest
  })
}

function init ({ emit, session }) {
  const tools = session.tools === undefined ? TOOLS : session.tools.split(',').filter(Boolean)
  emit({ type: 'system', subtype: 'init', cwd: session.cwd, tools, mcp_servers: [], model: session.model, permissionMode: 'default', slash_commands: [] })
}

const replay = ({ emit }, user) => { if (user.uuid) emit({ ...user, isReplay: true, timestamp: new Date().toISOString() }) }

async function pause (turn) {
  if (PACE > 0) {
    const waiting = new AbortController()
    turn.wake = () => waiting.abort()
    await delay(PACE, undefined, { signal: waiting.signal }).catch(() => {})
  }
  if (turn.interrupted) throw INTERRUPTED
}

const messageOf = (id, model, content) =>
  ({ id, type: 'message', role: 'assistant', model, content, stop_reason: null, stop_sequence: null, usage: { ...USAGE, output_tokens: 0 } })

/** One streamed message of the chat: texts in pieces, calls at once, each block's own frame after it. */
async function say ({ emit, session }, turn, blocks) {
  const id = `msg_fake_${turn.number}_${++turn.calls}`
  const stream = (event) => emit({ type: 'stream_event', event, parent_tool_use_id: null, api_message_id: id })
  stream({ type: 'message_start', message: messageOf(id, session.model, []) })
  for (const [index, block] of blocks.entries()) {
    stream({ type: 'content_block_start', index, content_block: block.type === 'text' ? { type: 'text', text: '' } : { ...block, input: {} } })
    const deltas = block.type === 'text'
      ? block.text.match(/\S+\s*/g).map((text) => ({ type: 'text_delta', text }))
      : [{ type: 'input_json_delta', partial_json: JSON.stringify(block.input) }]
    for (const delta of deltas) {
      await pause(turn)
      stream({ type: 'content_block_delta', index, delta })
    }
    emit({ type: 'assistant', message: messageOf(id, session.model, [block]), parent_tool_use_id: null })
    stream({ type: 'content_block_stop', index })
  }
  stream({ type: 'message_delta', delta: { stop_reason: blocks.at(-1).type === 'text' ? 'end_turn' : 'tool_use', stop_sequence: null }, usage: { output_tokens: 5 } })
  stream({ type: 'message_stop' })
}

async function playReply (host, turn, user, text) {
  init(host)
  host.emit({ type: 'system', subtype: 'status', status: 'requesting' })
  replay(host, user)
  for (const [, tool] of text.matchAll(/\bask: *(\w+)/g)) await playQuestion(host, turn, tool)
  const named = [...text.matchAll(/\bagent: *(.+)/g)].map(([, task]) => task)
  const tasks = named.length === 0 && /\bhelpers?\b/i.test(text) ? ['Look around'] : named
  if (tasks.length > 0) await playAgents(host, turn, tasks)
  const said = tasks.length > 0 ? `The ${tasks.length === 1 ? 'helper is' : 'helpers are'} done.` : `You said: ${text.trim() || 'nothing'}`
  await say(host, turn, [{ type: 'text', text: said }])
  return said
}

async function playQuestion ({ inbox, emit, session, ...rest }, turn, tool) {
  const call = { type: 'tool_use', id: `toolu_fake_${randomUUID()}`, name: tool, input: { about: tool } }
  await say({ emit, session, ...rest }, turn, [call])
  const id = randomUUID()
  emit({ type: 'control_request', request_id: id, request: { subtype: 'can_use_tool', tool_name: tool, input: call.input, tool_use_id: call.id } })
  const response = await inbox.take((frame) => frame.type === 'control_response' && frame.response?.request_id === id)
  const { behavior, message } = response?.response?.response ?? {}
  const content = behavior === 'allow' ? `${tool} ran` : message ?? 'denied'
  emit({ type: 'user', message: { role: 'user', content: [{ tool_use_id: call.id, type: 'tool_result', content, is_error: behavior !== 'allow' }] }, parent_tool_use_id: null })
}

async function playAgents (host, turn, tasks) {
  const calls = tasks.map((task) => ({
    type: 'tool_use', id: `toolu_fake_${randomUUID()}`, name: 'Agent',
    input: { description: task, prompt: task, subagent_type: 'general-purpose', run_in_background: false }
  }))
  await say(host, turn, [{ type: 'text', text: 'I will ask for help.' }, ...calls])
  for (const call of calls) await playAgent(host, turn, call)
}

async function playAgent ({ emit, session }, turn, call) {
  const { description, prompt } = call.input
  const task = { task_id: `a${randomUUID().replaceAll('-', '').slice(0, 16)}`, tool_use_id: call.id }
  const tagged = { parent_tool_use_id: call.id, agent_id: task.task_id, subagent_type: 'general-purpose', task_description: description }
  emit({ type: 'system', subtype: 'task_started', ...task, description, prompt, subagent_type: 'general-purpose', is_backgrounded: false, task_type: 'local_agent' })
  emit({ type: 'user', message: { role: 'user', content: [{ type: 'text', text: prompt }] }, ...tagged })
  const said = `Done: ${prompt}`
  let status = 'completed'
  try {
    await pause(turn)
    await pause(turn)
    if (turn.stopped.has(task.task_id)) status = 'stopped'
    else emit({ type: 'assistant', message: messageOf(`msg_fake_${call.id}`, session.model, [{ type: 'text', text: said }]), ...tagged })
  } catch (error) {
    emit({ type: 'system', subtype: 'task_notification', ...task, status: 'stopped', summary: description })
    throw error
  }
  emit({ type: 'system', subtype: 'task_updated', ...task, patch: { status } })
  emit({ type: 'system', subtype: 'task_notification', ...task, status, summary: status === 'completed' ? said : description })
  emit({ type: 'user', message: { role: 'user', content: [{ tool_use_id: call.id, type: 'tool_result', content: [{ type: 'text', text: said }] }] }, parent_tool_use_id: null })
}

/** A `/name` whose skill runs in a fork: its transcript comes after its end. */
async function playFork (host, turn, user, name, text) {
  const { emit, session } = host
  const task = { task_id: `a${randomUUID().replaceAll('-', '').slice(0, 16)}` }
  const rest = text.slice(name.length + 1).trim()
  const prompt = `The skill ${name}.${rest === '' ? '' : `\nARGUMENTS: ${rest}`}`
  const said = `Report of ${name}.`
  const tagged = { parent_tool_use_id: `forked-command-${name}`, agent_id: task.task_id, subagent_type: 'general-purpose', task_description: `The ${name} skill` }
  emit({ type: 'system', subtype: 'task_started', ...task, description: `/${name}`, prompt, subagent_type: 'general-purpose', is_backgrounded: false, task_type: 'local_agent' })
  let interrupted = false
  try {
    for (let i = 0; i < 4; i++) await pause(turn)
  } catch (error) {
    if (error !== INTERRUPTED) throw error
    interrupted = true
  }
  emit({ type: 'system', subtype: 'task_notification', ...task, status: interrupted ? 'stopped' : 'completed', summary: `/${name}` })
  init(host)
  emit({ type: 'user', message: { role: 'user', content: [{ type: 'text', text: prompt }] }, ...tagged })
  if (!interrupted) {
    emit({ type: 'assistant', message: messageOf(`msg_fake_${turn.number}_f`, session.model, [{ type: 'text', text: said }]), ...tagged })
    emit({ type: 'assistant', message: messageOf(randomUUID(), '<synthetic>', [{ type: 'text', text: said }]), parent_tool_use_id: null, local_command_source: 'custom' })
  }
  replay(host, user)
  return interrupted ? '' : said
}
