import { childDepth } from '../../core/depth.ts'
import type { SubagentRequest, Provider, SubagentRun } from '../../core/provider.ts'
import { CreationTransaction, checkNotAborted } from '../../driver/creation.ts'
import type { RunRecord, RunSpec } from '../../core/run.ts'
import { modelName, PROVIDER } from './chat.ts'
import type { ExternalOptions } from './external-run.ts'
import { resumeIngest, startIngest, storedOf } from './ingest.ts'
import { chatPublication, checkRequest } from './publication.ts'
import type { ClaudeCodeDrive } from './drive.ts'

export interface ClaudeCodeProvider extends Provider {
  /** Takes up a run that a stopped process left open (driver.md 2.8); `undefined` where the resumption of its chat does. */
  resume (record: RunRecord, spec: RunSpec): Promise<SubagentRun | undefined>
}

/** The Claude Code CLI: run by its host and ingested, or driven where the operator has configured one. */
export function createClaudeCodeProvider (options: ExternalOptions, drive: ClaudeCodeDrive): ClaudeCodeProvider {
  return {
    name: PROVIDER,
    external: true,
    // `outputSchema` and `depthLimit` are nothing that the CLI promises.
    capabilities: { outputSchema: false, depthLimit: false, toolFilter: true, persona: true },
    inheritsParentContext: false,
    availability: () => drive.availability(),
    async start (request) {
      checkNotAborted(request.signal)
      checkRequest(request)
      return request.service.external?.ingest === true ? await ingest(options, request) : await drive.start(request)
    },
    followUp: (request) => drive.followUp(request),
    async resume (record, spec) {
      switch (spec.external?.way) {
        case 'ingest': return await takeUp(options, record, spec)
        case 'drive': return await drive.resume(record, spec)
        // Its chat takes it up.
        default: return undefined
      }
    }
  }
}

async function ingest (options: ExternalOptions, request: SubagentRequest): Promise<SubagentRun> {
  const depth = childDepth(request.parent.depths, options.maxDepth)
  const id = request.service.id ?? options.newId()
  const creation = new CreationTransaction(id, request.signal)
  try {
    const publication = chatPublication(request, {
      id, depth, model: modelName(undefined), external: { way: 'ingest', nonce: options.newId() }, status: 'idle', now: options.now()
    })
    creation.check()
    const place = await options.store.publish(publication)
    const run = startIngest(options, { publication, place, task: request.prompt, signal: request.signal })
    creation.detach()
    return run
  } catch (error) {
    await creation.rollback()
    throw error
  }
}

async function takeUp (options: ExternalOptions, record: RunRecord, spec: RunSpec): Promise<SubagentRun> {
  const session = await options.store.getSession(record.tenant, record.sessionId)
  if (!session) throw new Error(`run ${record.id} has no session`)
  return resumeIngest(options, { record, spec, header: session.header, stored: storedOf(session) })
}
