import { refuse } from '../core/errors.ts'
import type { FrameSink } from '../core/live.ts'
import type { RunRecord } from '../core/run.ts'
import type { Caller } from './api.ts'
import { findRun, leftToNextStart, type RunsContext } from './context.ts'

/** A way in for the output of a CLI that its host runs (claude-code.md, ingest). */
export async function openFrames (context: RunsContext, caller: Caller, id: string, from: number): Promise<FrameSink> {
  const live = context.registry.live(caller.tenant, id)
  const record = live?.projection.record ?? await findRun(context, caller, id)
  const accepted = acceptedBy(record)
  if (live?.frames) return await live.frames.open(from)
  if (record.status !== 'settled') throw leftToNextStart(context)
  return createPastSink(id, from, accepted)
}

/** The journal of a chat, ingested or driven. */
export async function readFrames (context: RunsContext, caller: Caller, id: string, from: number, limit: number): Promise<string[]> {
  const { provider, external } = await findRun(context, caller, id)
  if (external === undefined) throw refuse('UNSUPPORTED_CAPABILITY', { name: provider, capability: 'frames' })
  return await context.store.readFrames(caller.tenant, id, from, limit)
}

function acceptedBy ({ provider, external }: RunRecord): number {
  if (external?.framesAccepted === undefined) throw refuse('UNSUPPORTED_CAPABILITY', { name: provider, capability: 'frames' })
  return external.framesAccepted
}

const LINE_BREAK = 10

/** For a host that did not hear the answer to its last lines: it may send them again, and nothing after them. */
function createPastSink (id: string, from: number, accepted: number): FrameSink {
  let lines = 0
  let rest = false
  const check = (): void => { if (from + lines + (rest ? 1 : 0) > accepted) throw refuse('RUN_SETTLED', { id }) }
  check()
  return {
    async push (piece) {
      for (let at = piece.indexOf(LINE_BREAK); at !== -1; at = piece.indexOf(LINE_BREAK, at + 1)) lines++
      if (piece.length > 0) rest = piece.at(-1) !== LINE_BREAK
      check()
    },
    end: async () => accepted
  }
}
