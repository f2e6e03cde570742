import { createHash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import type { StartBody, TranscriptBody } from '../openapi/requests.ts'
import { canonicalJson } from '../src/core/json.ts'
import type { ExternalStart } from '../src/core/provider.ts'
import { relayFault } from '../src/core/relay.ts'
import type { AgentOptions, RelayOptions } from '../src/core/run.ts'
import type { Key, ParentInput, RawTranscript, StartInput } from '../src/runs/api.ts'
import type { Verbatim } from './body.ts'
import { invalid } from './invalid.ts'
import type { Fault } from './invalid.ts'

/** A start's body as the application takes it. Throws `INVALID_REQUEST` for what the schema cannot say. */
export function startInput (body: StartBody, verbatim: Verbatim, spawn: string): StartInput {
  const faults = faultsOf(body, spawn)
  if (faults.length > 0) throw invalid(faults)
  const { provider = spawn, id, task = [], label, maxDepth, persona, toolFilter, outputSchema, limits = {}, metadata = {} } = body
  const parent = parentInput(body, verbatim)
  return {
    provider,
    task: typeof task === 'string' ? [{ type: 'text', text: task }] : task,
    codeMode: body.codeMode ?? 'native',
    limits,
    metadata,
    relay: relayOptions(body),
    ...id !== undefined && { id: id.toLowerCase() },
    ...label !== undefined && { label },
    ...body.agent !== undefined && { agent: body.agent },
    ...parent && { parent },
    ...body.agentOptions && { agentOptions: agentOptions(body.agentOptions, verbatim) },
    ...'maxDepth' in body && { maxDepth },
    ...persona !== undefined && { persona },
    ...toolFilter && { toolFilter },
    ...body.tools && {
      tools: body.tools.map(
        ({ name, description = '', inputSchema = { type: 'object' } }) => ({ name, description, inputSchema })
      )
    },
    ...outputSchema && { outputSchema },
    ...(body.ingest !== undefined || body.keepOpen !== undefined) && { external: externalStart(body) }
  }
}

const externalStart = ({ ingest, keepOpen }: StartBody): ExternalStart =>
  ({ ...ingest !== undefined && { ingest }, ...keepOpen !== undefined && { keepOpen } })

/** What only who runs the CLI can decide. */
const NOT_WITH_INGEST = ['keepOpen', 'persona', 'toolFilter', 'outputSchema', 'agentOptions', 'agent', 'tools', 'codeMode', 'limits'] as const

function faultsOf (body: StartBody, spawn: string): Fault[] {
  const faults: Fault[] = []
  const { task, parent, provider = spawn, tools = [] } = body
  if (Array.isArray(task) && task.every((block) => block.type === 'text' && block.text === '')) {
    faults.push({ pointer: '/task', detail: 'must not be empty' })
  }
  if (task === undefined && body.ingest !== true) faults.push({ pointer: '/task', detail: 'is required' })
  for (const field of body.ingest === true ? NOT_WITH_INGEST : []) {
    if (body[field] !== undefined) faults.push({ pointer: `/${field}`, detail: 'cannot stand beside ingest: the host runs the CLI itself' })
  }
  if (parent) faults.push(...parentFaults(parent, provider === spawn))
  const seen = new Set<string>()
  for (const [index, { name }] of tools.entries()) {
    if (seen.has(name)) faults.push({ pointer: `/tools/${index}/name`, detail: `repeats "${name}"` })
    seen.add(name)
  }
  const relay = relayFaultOf(body)
  if (relay) faults.push(relay)
  return faults
}

function parentFaults (parent: NonNullable<StartBody['parent']>, isSpawn: boolean): Fault[] {
  const faults: Fault[] = []
  const fields = Object.keys(parent)
  const named = fields.filter((field) => field === 'runId' || field === 'sessionId')
  if (named.length > 0 && fields.length > 1) {
    const other = fields.find((field) => field !== named[0])
    faults.push({ pointer: `/parent/${other}`, detail: `cannot stand beside ${named[0]}` })
  }
  if (parent.transcript && isSpawn) {
    faults.push({ pointer: '/parent/transcript', detail: 'needs a provider that inherits, such as "fork": a fresh child takes no history' })
  }
  return faults
}

/** What is wrong with `format`, `toolCallId`, `toolName` together. */
export const relayFaultOf = (source: RelayFields): Fault | undefined => relayFault(relayOptions(source))

interface RelayFields {
  format?: RelayOptions['format'] | undefined, toolCallId?: string | undefined, toolName?: string | undefined
}
export const relayOptions = ({ format, toolCallId, toolName }: RelayFields): RelayOptions => ({
  ...format !== undefined && { format },
  ...toolCallId !== undefined && { toolCallId },
  ...toolName !== undefined && { toolName }
})

function parentInput ({ parent }: StartBody, verbatim: Verbatim): ParentInput | undefined {
  if (!parent) return undefined
  const { runId, sessionId, transcript, model, maxTokens, cwd } = parent
  if (runId !== undefined) return { runId: runId.toLowerCase() }
  if (sessionId !== undefined) return { sessionId: sessionId.toLowerCase() }
  return {
    ...'delegationDepth' in parent && { delegationDepth: parent.delegationDepth },
    ...'subagentDepth' in parent && { subagentDepth: parent.subagentDepth },
    ...model !== undefined && { model },
    ...maxTokens !== undefined && { maxTokens },
    ...cwd !== undefined && { cwd },
    ...transcript && { transcript: rawTranscript(transcript, '/parent/transcript', verbatim) }
  }
}

function agentOptions (given: NonNullable<StartBody['agentOptions']>, verbatim: Verbatim): AgentOptions {
  const { model, maxTokens, temperature, providerOptions, script } = given
  return {
    ...model !== undefined && { model },
    ...maxTokens !== undefined && { maxTokens },
    ...temperature !== undefined && { temperature },
    ...providerOptions !== undefined && { providerOptions: verbatim.text('/agentOptions/providerOptions') },
    ...script !== undefined && { script }
  }
}

/** A transcript with the texts that the host sent (http-api.md 4.2). */
export function rawTranscript (transcript: TranscriptBody, at: string, verbatim: Verbatim): RawTranscript {
  return {
    format: transcript.format,
    ...transcript.system !== undefined && { system: verbatim.text(`${at}/system`) },
    ...transcript.tools && { tools: transcript.tools.map((_, index) => verbatim.text(`${at}/tools/${index}`)) },
    messages: transcript.messages.map((_, index) => verbatim.text(`${at}/messages/${index}`))
  }
}

/**
 * The request's `Idempotency-Key` with the hash of its body as a JSON value (http-api.md 2.4). Throws `INVALID_REQUEST`.
 */
export function idempotencyOf (request: FastifyRequest): Key | undefined {
  const header = request.headers['idempotency-key']
  if (header === undefined) return undefined
  if (typeof header !== 'string' || !/^[\x21-\x7e]{1,255}$/.test(header)) {
    throw invalid([{ pointer: '', detail: 'Idempotency-Key must be 1 to 255 visible ASCII characters' }])
  }
  return { key: header, bodyHash: createHash('sha256').update(canonicalJson(request.body ?? {})).digest('hex') }
}
