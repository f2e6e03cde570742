import { Type } from './type.ts'
import { EVENT_TYPES } from '../src/core/events.ts'
import {
  Blocks, Id, Metadata, Outcome, Relay, STATUSES, STOP_REASONS, Time, ToolResult, Usage, anyJson, closed, nullable, oneOf, ref
} from './parts.ts'

/** The answers of http-api.md: more members may come within `/v1`. */

const PendingToolCall = closed({
  toolCallId: Type.String({ description: 'Unique in the run.' }),
  name: Type.String(),
  input: anyJson({ description: 'Parsed, and valid against the tool\'s `inputSchema`.' }),
  deadline: nullable(Time)
}, { $id: 'PendingToolCall', description: 'A call that waits for the host\'s answer.' })
const pending = Type.Array(ref(PendingToolCall))

export const Result = closed({
  runId: Id,
  stopReason: oneOf(STOP_REASONS),
  output: Blocks,
  structured: anyJson({ description: 'The captured structured value, or null.' }),
  diagnostic: nullable(Type.String()),
  error: nullable(ref(Outcome)),
  usage: ref(Usage),
  toolResult: ref(ToolResult),
  ...Relay
}, { $id: 'Result', description: 'What a settled run came to, and how a host relays it.' })

export const Unsettled = closed({
  runId: Id, status: oneOf(STATUSES), pendingToolCalls: pending
}, { $id: 'Unsettled', description: 'There is no result yet.' })

const runFields = {
  id: Id,
  sessionId: Id,
  continues: nullable(Id),
  provider: Type.String({ examples: ['spawn'] }),
  label: nullable(Type.String()),
  status: oneOf(STATUSES),
  stopReason: nullable(oneOf(STOP_REASONS)),
  error: nullable(ref(Outcome)),
  depth: Type.Integer({ minimum: 0, description: '1: the child of a top-level agent.' }),
  parent: closed({ runId: nullable(Id), sessionId: nullable(Id) }),
  rootId: Id,
  model: Type.String({ examples: ['scripted/demo'] }),
  seed: closed(
    { turns: Type.Integer({ minimum: 0 }), events: Type.Integer({ minimum: 0 }) }, { description: 'What was inherited.' }
  ),
  notices: Type.Array(Type.String(), { description: 'What the service decided by itself, in words.' }),
  createdAt: Time,
  startedAt: nullable(Time),
  settledAt: nullable(Time),
  expiresAt: nullable(Time),
  cancel: nullable(closed({
    at: Time, reason: nullable(Type.String()), by: oneOf(['request', 'disconnect', 'parent', 'dispose'] as const)
  })),
  usage: ref(Usage),
  treeUsage: ref(Usage),
  pendingToolCalls: pending,
  runningChildren: Type.Integer({ minimum: 0 }),
  externalId: nullable(Type.String({ description: 'The id of an external CLI: its session\'s, or its subagent\'s.' })),
  framesAccepted: nullable(Type.Integer({ minimum: 0, description: 'Of an ingested chat: how many lines of its output are kept.' })),
  metadata: ref(Metadata),
  links: closed({ self: Type.String(), result: Type.String(), events: Type.String(), cancel: Type.String() })
}
export const Run = closed({
  ...runFields, result: Type.Optional(nullable(ref(Result)))
}, {
  $id: 'Run', description: 'One task, one result. `result` stands in answers of a start that waited and of `include=result`.'
})

export const RunTree = Type.Unsafe<unknown>({
  $id: 'RunTree',
  description: 'A run with its children, recursively.',
  type: 'object',
  required: [...Object.keys(runFields), 'children'],
  properties: { ...runFields, children: { type: 'array', items: { $ref: 'RunTree#' } } }
})
export const RunList = closed({
  runs: Type.Array(ref(Run)), nextCursor: nullable(Type.String())
}, { $id: 'RunList', description: 'Newest first by (createdAt, id).' })

export const Starting = closed({
  id: Id, status: Type.Literal('starting')
}, { $id: 'Starting', description: 'The run was still starting: its start answers `409 START_ABORTED`.' })
export const Matched = closed(
  { matched: Type.Integer({ minimum: 0, description: 'How many runs were asked to stop.' }) }, { $id: 'Matched' }
)

const LoggedEvent = closed({
  runId: Id, seq: Type.Integer({ minimum: 0 }), time: Time, type: Type.String(
    { examples: [...EVENT_TYPES, 'settled'], description: 'Others may come; pass over those you do not know.' }
  ), data: anyJson()
}, { $id: 'LoggedEvent', description: 'One event of the log.' })
export const EventPage = closed({
  events: Type.Array(ref(LoggedEvent)),
  after: nullable(Type.String({ description: 'The cursor to go on from.' })),
  settled: Type.Boolean({ description: 'Nothing follows.' })
}, { $id: 'EventPage' })

export const SessionLength = closed({
  id: Id, length: Type.Integer({ minimum: 0, description: 'Messages that the host gave.' }), turns: Type.Integer(
    { minimum: 0, description: 'Completed turns.' }
  )
}, { $id: 'SessionLength' })
export const Session = closed({
  id: Id,
  length: Type.Integer({ minimum: 0 }),
  turns: Type.Integer({ minimum: 0 }),
  registered: Type.Boolean({ description: 'Kept for a host; false: a run made it.' }),
  createdAt: Time,
  model: nullable(Type.String()),
  format: nullable(Type.String()),
  delegationDepth: anyJson(),
  cwd: nullable(Type.String()),
  metadata: ref(Metadata)
}, { $id: 'Session' })

export const Service = closed({ version: Type.String(), features: Type.Array(Type.String()) }, { $id: 'Service' })
const Capabilities = closed(
  { outputSchema: Type.Boolean(), depthLimit: Type.Boolean(), toolFilter: Type.Boolean(), persona: Type.Boolean() }
)
export const Providers = closed({
  providers: Type.Array(closed({
    name: Type.String(),
    available: Type.Boolean(),
    reason: Type.Optional(Type.String()),
    capabilities: Capabilities,
    inheritsParentContext: Type.Boolean()
  }))
}, { $id: 'Providers' })
export const Tools = closed({
  tools: Type.Array(closed({ name: Type.String(), description: Type.String(), inputSchema: anyJson() }))
}, { $id: 'Tools' })
export const Models = closed({
  models: Type.Array(closed({
    id: Type.String(), endpoint: Type.String(), kind: oneOf(
      ['openai-chat', 'anthropic', 'scripted'] as const
    ), default: Type.Boolean()
  }))
}, { $id: 'Models' })
export const Agents = closed(
  { agents: Type.Array(closed({ name: Type.String(), description: Type.String(), model: nullable(Type.String()) })) }, { $id: 'Agents' }
)
export const Health = closed({ status: Type.String({ examples: ['ok'] }) }, { $id: 'Health' })

export const Message = closed({ messageId: Type.String() }, { $id: 'Message', description: 'The message is kept; the run\'s next step has it.' })

export const Accepted = closed(
  { accepted: Type.Integer({ minimum: 0, description: 'How many lines of the output are durable: the number of the next one.' }) },
  { $id: 'Accepted' }
)

export const ANSWERS = [
  Accepted,
  Message,
  PendingToolCall, Result, Unsettled, Run, RunTree, RunList, Starting, Matched, LoggedEvent, EventPage, SessionLength, Session,
  Service,
  Providers, Tools, Models, Agents, Health
]
