import { Type } from './type.ts'
import type { Static } from 'typebox'
import { Blocks, Metadata, RELAY_FORMATS, TRANSCRIPT_FORMATS, anyJson, anyObject, closed, oneOf, ref, chosenId } from './parts.ts'

/** The bodies of http-api.md. Nothing is coerced; an unknown field is refused by name. */

const TASK_MAX = 33_554_432
/** More at once would keep the service from everybody else; a session takes as many again with each append. */
const MESSAGES_MAX = 40_000
const HostTool = closed({
  name: Type.String(
    { pattern: '^[A-Za-z0-9_-]{1,64}$', description: '1 to 64 of `A-Z a-z 0-9 _ -`; unique, and none of the service\'s own.' }
  ),
  description: Type.Optional(Type.String({ maxLength: 16_384 })),
  inputSchema: Type.Optional(
    anyObject({ description: 'JSON Schema of the input; calls are checked against it. Default: any object.' })
  )
}, { $id: 'HostTool', description: 'A tool that the host executes.' })

export const Transcript = closed({
  format: oneOf(TRANSCRIPT_FORMATS),
  system: Type.Optional(
    anyJson({ description: 'The system prompt as the format writes it; goes unchanged to a model of the same kind.' })
  ),
  tools: Type.Optional(Type.Array(anyJson(), { maxItems: 1024, description: 'The host\'s tools as the format writes them.' })),
  messages: Type.Array(
    anyJson(), { maxItems: MESSAGES_MAX, description: 'The messages, or the items, of the history: open tool calls and all.' }
  )
}, {
  $id: 'Transcript',
  description: 'The parent\'s conversation as the host has it. The child gets its completed turns; unknown fields are kept.',
  examples: [{ format: 'openai-chat', messages: [{ role: 'user', content: 'Hello' }, { role: 'assistant', content: 'Hi.' }] }]
})

const Parent = closed({
  runId: Type.Optional(Type.String({ maxLength: 128, description: 'A run of this service. Excludes every other field.' })),
  sessionId: Type.Optional(Type.String({ maxLength: 128, description: 'A session kept here. Excludes every other field.' })),
  delegationDepth: Type.Optional(
    anyJson(
      {
        description: 'Inline: the depth in the parent\'s stored header. A non-negative safe integer; judged with `422 ' +
          'DEPTH_INVALID`.'
      }
    )
  ),
  subagentDepth: Type.Optional(
    anyJson({ description: 'Inline: the parent\'s runtime depth; may deepen the stored one, never lower it.' })
  ),
  model: Type.Optional(Type.String({ minLength: 1, maxLength: 256, description: 'Inline: the parent\'s model.' })),
  maxTokens: Type.Optional(
    Type.Integer(
      { minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: 'Inline: the parent\'s cap of output tokens a model call.' }
    )
  ),
  cwd: Type.Optional(Type.String({ maxLength: 4096, description: 'Inline: the parent\'s working directory.' })),
  transcript: Type.Optional(ref(Transcript))
}, {
  description: 'The delegating agent: `{runId}`, `{sessionId}`, or inline for an agent that lives elsewhere. Absent: a ' +
    'top-level agent at depth 0.'
})

const limit = (description: string, maximum = Number.MAX_SAFE_INTEGER) => Type.Optional(
  Type.Integer({ minimum: 1, maximum, description })
)
const TIMER_MAX = 2_147_483_647
const Limits = closed({
  steps: limit('Model calls of the run.'),
  timeoutMs: limit('Milliseconds from publication to the end.', TIMER_MAX),
  totalTokens: limit('Input and output tokens of the run.'),
  toolTimeoutMs: limit('Milliseconds that one tool call may take.', TIMER_MAX),
  treeRuns: limit('Runs of the whole tree under the root.'),
  treeTokens: limit('Tokens of the whole tree under the root.')
}, { description: 'Limits; a child\'s can only be tighter than its parent\'s.' })

const names = (description: string) => Type.Optional(
  Type.Array(Type.String({ minLength: 1, maxLength: 256 }), { maxItems: 1024, description })
)

export const StartRequest = closed({
  provider: Type.Optional(
    Type.String(
      {
        minLength: 1, maxLength: 128, default: 'spawn',
        description: 'How the child is made: `spawn` (no history) or `fork` (the parent\'s completed turns), or another of ' +
          '`GET /v1/providers`.'
      }
    )
  ),
  id: Type.Optional(chosenId('The run\'s id, a UUID that the host chooses: then a run that is still starting can be cancelled.')),
  task: Type.Optional(Type.Union(
    [Type.String({ minLength: 1, maxLength: TASK_MAX }), Type.Array(Blocks.items, { minItems: 1, maxItems: 1000 })],
    { description: 'What to do: text, or content blocks. Sent verbatim as the child\'s one user message. Required, but with `ingest`.' }
  )),
  label: Type.Optional(Type.String({ maxLength: 200, description: 'Short display text.' })),
  parent: Type.Optional(Parent),
  agentOptions: Type.Optional(closed({
    model: Type.Optional(
      Type.String(
        {
          minLength: 1, maxLength: 256,
          description: '`<endpoint>/<model>` of `GET /v1/models`. Default: the parent\'s, else the deployment\'s.'
        }
      )
    ),
    maxTokens: Type.Optional(
      Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: 'Output tokens of one model call.' })
    ),
    temperature: Type.Optional(Type.Number({ minimum: 0, maximum: 2 })),
    providerOptions: Type.Optional(anyObject({ description: 'Joins the model request as it is.' })),
    script: Type.Optional(anyJson({ description: 'For the scripted model: the steps that it plays.' }))
  })),
  maxDepth: Type.Optional(
    anyJson(
      { description: 'Absolute cap of the child\'s depth, a non-negative safe integer; judged with `422 MAX_DEPTH_INVALID`.' }
    )
  ),
  persona: Type.Optional(
    Type.String({ minLength: 1, maxLength: 1_048_576, description: 'Replaces the deployment\'s persona for this child.' })
  ),
  toolFilter: Type.Optional(
    closed(
      { allow: names('Keep only these.'), deny: names('Remove these.') },
      { description: 'Which of the deployment\'s tools the child has. An empty `allow` means none.' }
    )
  ),
  codeMode: Type.Optional(oneOf(['native', 'code', 'both'] as const, { default: 'native' })),
  agent: Type.Optional(Type.String({ minLength: 1, maxLength: 128, description: 'An agent of `GET /v1/agents`.' })),
  tools: Type.Optional(
    Type.Array(ref(HostTool), { maxItems: 128, description: 'Tools that the host executes (`POST /v1/runs/{id}/tool-results`).' })
  ),
  outputSchema: Type.Optional(anyObject({ description: 'JSON Schema, object root, of a structured result.' })),
  limits: Type.Optional(Limits),
  toolCallId: Type.Optional(
    Type.String(
      {
        minLength: 1, maxLength: 256, description: 'The host\'s tool call that this run answers; with `format` it gives `relay`.'
      }
    )
  ),
  toolName: Type.Optional(
    Type.String({ minLength: 1, maxLength: 256, description: 'The name of that tool; `ai-sdk` needs it.' })
  ),
  format: Type.Optional(oneOf(RELAY_FORMATS, { default: 'mcp', description: 'How the result is handed to the host\'s model.' })),
  onDisconnect: Type.Optional(
    oneOf(
      ['cancel', 'continue'] as const,
      {
        description: 'What losing the client does to the run. Default: `cancel` for a waiting or streaming start without ' +
          '`Idempotency-Key` and `id`, else `continue`.'
      }
    )
  ),
  ingest: Type.Optional(Type.Boolean({
    description: 'With `claude-code`: the host runs the CLI itself and posts its output to `POST /v1/runs/{id}/frames`. Needs no `task`.'
  })),
  keepOpen: Type.Optional(Type.Boolean({ description: 'With `claude-code`: the run takes messages after its first turn, until it is cancelled.' })),
  metadata: Type.Optional(ref(Metadata))
}, { $id: 'StartRequest' })

const reason = Type.Optional(Type.String({ maxLength: 500, description: 'Shown in the run\'s `cancel`.' }))
export const CancelRequest = closed({ reason }, { $id: 'CancelRequest' })
export const CancelManyRequest = closed({
  ids: Type.Optional(Type.Array(Type.String({ maxLength: 128 }), { minItems: 1, maxItems: 10_000 })),
  root: Type.Optional(Type.String({ minLength: 1, maxLength: 128, description: 'Every run of the tree under this one.' })),
  label: Type.Optional(Type.String({ maxLength: 200 })),
  metadata: Type.Optional(ref(Metadata)),
  reason
}, { $id: 'CancelManyRequest', description: 'Exactly one of `ids`, `root`, `label`, `metadata` says which runs.' })

export const ToolResultsRequest = closed({
  results: Type.Array(closed({
    toolCallId: Type.String({ minLength: 1, maxLength: 512 }),
    content: Type.Union([Type.String(), Blocks]),
    isError: Type.Optional(Type.Boolean({ default: false }))
  }), { minItems: 1, maxItems: 1000 })
}, { $id: 'ToolResultsRequest', description: 'Answers of pending calls, all or nothing.' })

export const SessionRequest = closed({
  id: Type.Optional(chosenId('The session\'s id, a UUID that the host chooses.')),
  transcript: Type.Optional(ref(Transcript)),
  model: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
  delegationDepth: Type.Optional(
    anyJson({ description: 'The depth at which the session\'s agent stands; a non-negative safe integer.' })
  ),
  cwd: Type.Optional(Type.String({ maxLength: 4096 })),
  metadata: Type.Optional(ref(Metadata))
}, { $id: 'SessionRequest' })

export const SessionMessagesRequest = closed({
  after: Type.Integer(
    {
      minimum: 0, maximum: Number.MAX_SAFE_INTEGER,
      description: 'How many messages the session has: the `length` of the last answer.'
    }
  ),
  messages: Type.Array(anyJson(), { minItems: 1, maxItems: MESSAGES_MAX, description: 'In the session\'s format.' })
}, { $id: 'SessionMessagesRequest' })

export const MessageRequest = closed({
  content: Type.Union([Type.String({ minLength: 1 }), Blocks]),
  mode: Type.Optional(Type.Union([Type.Literal('steer'), Type.Literal('follow-up'), Type.Literal('interrupt')], {
    default: 'steer',
    description: '`steer` reaches a run under way at its next step; `follow-up` goes on with a settled run\'s session in a new run; ' +
      '`interrupt` is a `steer` of a driven CLI for which its open turn is interrupted first.'
  }))
}, { $id: 'MessageRequest', examples: [{ content: 'Mind the tests, too.', mode: 'steer' }] })

export type StartBody = Static<typeof StartRequest>
export type TranscriptBody = Static<typeof Transcript>

export const REQUESTS = [
  HostTool, Transcript, StartRequest, CancelRequest, CancelManyRequest, ToolResultsRequest, MessageRequest, SessionRequest,
  SessionMessagesRequest
]
