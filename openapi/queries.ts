import { Type } from './type.ts'
import { RELAY_FORMATS, STATUSES, STOP_REASONS, closed, oneOf } from './parts.ts'

/** Query parameters, path parameters and headers. On the wire each is text; `routes/query.ts` reads it strictly. */

const ID = 'The id of a run. Try `GET /v1/runs` for one.'
export const RunParams = closed({ id: Type.String({ description: ID }) })
export const SessionParams = closed({ id: Type.String({ description: 'The id of a session.' }) })

const wait = Type.Optional(
  Type.Integer({ minimum: 0, description: 'Seconds to hold the answer; more than the service\'s maximum is cut.', examples: [5] })
)
const relay = {
  format: Type.Optional(
    oneOf(RELAY_FORMATS, { description: 'Adds `relay` and `relayPart` in this format. Default: the start\'s.' })
  ),
  toolCallId: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
  toolName: Type.Optional(Type.String({ minLength: 1, maxLength: 256 }))
}
export const NoQuery = closed({})
export const WaitQuery = closed({ wait })
export const ResultQuery = closed({ wait, ...relay })
export const EventsQuery = closed({
  after: Type.Optional(
    Type.String({ maxLength: 512, description: 'A cursor: an event\'s `id`, or a page\'s `after`. `Last-Event-ID` beats it.' })
  ),
  tree: Type.Optional(Type.Boolean({ description: 'With the events of all descendants, in one order.' })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 200, description: 'JSON page: events at most.' })),
  wait
})
const from = Type.Optional(Type.Integer({
  minimum: 0, maximum: Number.MAX_SAFE_INTEGER, default: 0, description: 'Number of the first line, counted from 0 over the whole output.'
}))
export const FramesQuery = closed({
  from, end: Type.Optional(Type.Boolean({ description: 'The CLI\'s output ends with this body: then the run settles.' }))
})
export const FramesReadQuery = closed({ from, limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000, default: 1000 })) })
const repeatable = <T extends string>(values: readonly T[], description: string) =>
  Type.Optional(Type.Array(oneOf(values), { minItems: 1, maxItems: 16, description }))
const text = (description: string) => Type.Optional(Type.String({ minLength: 1, maxLength: 256, description }))
export const ListQuery = Type.Object({
  status: repeatable(STATUSES, 'Repeatable.'),
  stopReason: repeatable(STOP_REASONS, 'Repeatable.'),
  provider: text('Made by this provider.'),
  parent: text('Children of this run.'),
  root: text('Runs of the tree under this run.'),
  label: text('With exactly this label.'),
  createdAfter: Type.Optional(
    Type.String({ maxLength: 64, description: 'ISO 8601 with a zone.', examples: ['2026-01-01T00:00:00Z'] })
  ),
  settledAfter: Type.Optional(Type.String({ maxLength: 64, description: 'ISO 8601 with a zone.' })),
  include: Type.Optional(oneOf(['result'] as const, { description: 'Adds each settled run\'s `result`.' })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 50 })),
  cursor: Type.Optional(Type.String({ minLength: 1, maxLength: 512, description: 'The `nextCursor` of the page before.' })),
  'metadata.KEY': Type.Optional(
    Type.String({ maxLength: 512, description: 'With this metadata: put any key for KEY. Repeatable with other keys.' })
  )
}, { additionalProperties: false, patternProperties: { '^metadata\\..{1,64}$': Type.String({ maxLength: 512 }) } })

const text256 = (description: string, examples: string[] = []) => Type.Optional(
  Type.String({ description, ...examples.length > 0 && { examples } })
)
const prefer = text256(
  '`wait=<seconds>` holds the answer until the run is settled or waits for its host (RFC 7240).', ['wait=10']
)
const key = text256('1 to 255 visible ASCII characters. The same key and body give the same answer again.')
export const StartHeaders = Type.Object({ prefer, 'idempotency-key': key })
export const AnswerHeaders = Type.Object({ prefer, 'idempotency-key': key })
export const KeyHeaders = Type.Object({ 'idempotency-key': key })
export const EventHeaders = Type.Object({ 'last-event-id': text256('The cursor of the last event that was read.') })
