import { noUsage, text } from '../../src/core/events.ts'
import type { RunResult } from '../../src/core/events.ts'
import { refuse } from '../../src/core/errors.ts'
import type { RelayOptions, SessionRecord } from '../../src/core/run.ts'
import type { Caller, RunTree, RunView, Runs, StartInput, StreamItem, ToolAnswer } from '../../src/runs/api.ts'

export const RUN_ID = '0193a7b2-6a5e-7c3d-8f10-2b4c6d8e0f12'

export const result = (patch: Partial<RunResult> = {}): RunResult =>
  ({ output: [text('done')], stopReason: 'completed', usage: noUsage(), ...patch })

export const runView = (patch: Partial<RunView> = {}): RunView => ({
  id: RUN_ID, tenant: 'default', sessionId: RUN_ID, segment: 1, firstSeq: 0, continues: null, provider: 'spawn', label: null,
  status: 'running', stopReason: null, error: null, depth: 1, parentRunId: null, parentSessionId: null, rootId: RUN_ID,
  model: 'scripted/demo', seed: {
    turns: 0, events: 0
  }, notices: [], createdAt: 1_700_000_000_000, startedAt: null, settledAt: null,
  expiresAt: null, cancel: null, usage: noUsage(), pendingToolCalls: [], metadata: {}, result: null,
  treeUsage: noUsage(), runningChildren: 0, ...patch
})

export const settled = (patch: Partial<RunResult> = {}): RunView => {
  const outcome = result(patch)
  return runView(
    {
      status: 'settled', stopReason: outcome.stopReason, settledAt: 1_700_000_001_000, result: outcome,
      error: outcome.error ?? null
    }
  )
}

const session = (id: string): SessionRecord => ({
  id, tenant: 'default', segment: 1, header: { id, tenant: 'default', createdAt: 1_700_000_000_000 }, registered: true, length: 2,
  completedLength: 4, turns: 1, tail: [], model: null, format: 'openai-chat', metadata: {}
})

export interface Asked { call: string, caller: Caller | undefined, args: unknown[] }
export interface FakeRuns extends Runs {
  readonly asked: Asked[]
  /** The last start's input. */
  readonly input: StartInput
  /** What the next calls answer. */
  run: RunView
  replayed: boolean
  relay: RelayOptions
  /** Replaces calls by name. */
  override: Partial<Runs>
}

/** An application that answers what a test says and remembers what it was asked. */
export function createFakeRuns (): FakeRuns {
  const asked: Asked[] = []
  const overridden = <K extends keyof Runs>(fake: FakeRuns, name: K): Runs[K] | undefined => fake.override[name]
  const note = (call: string, caller: Caller | undefined, ...args: unknown[]) => { asked.push({ call, caller, args }) }
  const base = {
    asked,
    run: runView(),
    replayed: false,
    relay: {},
    override: {},
    get input () { return asked.findLast(({ call }) => call === 'start')?.args[0] as StartInput },
    async start () { return { run: fake.run, replayed: fake.replayed } },
    async get () { return fake.run },
    async list () { return { runs: [fake.run], nextCursor: null } },
    async tree (): Promise<RunTree> { return { ...fake.run, children: [{ ...fake.run, children: [] }] } },
    async wait () { return fake.run },
    async relayOptions () { return fake.relay },
    async cancel () { return { run: fake.run } },
    async waitTree () { return fake.run },
    async cancelMany () { return 3 },
    async disconnected () {},
    async dispose () {},
    async answerTools (_caller: Caller, _id: string, _answers: ToolAnswer[]) { return { run: fake.run, replayed: fake.replayed } },
    async openFrames () { return { push: async () => {}, end: async () => 3 } },
    async readFrames () { return ['{}'] },
    async eventPage () { return { events: [], after: null, settled: false } },
    async stream () { return { ended: false as const, items: (async function * (): AsyncGenerator<StreamItem[]> {})() } },
    async createSession () { return { session: session(RUN_ID), replayed: false } },
    async getSession (_caller: Caller, id: string) { return session(id) },
    async appendSession (_caller: Caller, id: string, after: number) {
      if (after !== 2) throw refuse('SESSION_CONFLICT', { detail: 'the session has 2 messages', length: 2 })
      return { session: session(id), replayed: false }
    },
    async deleteSession () {},
    providers: () => [
      {
        name: 'spawn', available: true, capabilities: { outputSchema: true, depthLimit: true, toolFilter: true, persona: true },
        inheritsParentContext: false
      }
    ],
    tools: async () => [{ name: 'read_file', description: 'Reads.', inputSchema: { type: 'object' } }],
    agents: () => [],
    async sendMessage (_caller: Caller, _id: string, { mode }: { mode: 'steer' | 'follow-up' }) {
      return mode === 'steer' ? { messageId: 'm1', replayed: fake.replayed } : { run: fake.run, replayed: fake.replayed }
    },
    models: () => [{ id: 'scripted/demo', endpoint: 'scripted', kind: 'scripted' as const, default: true }]
  }
  const fake: FakeRuns = new Proxy(base as unknown as FakeRuns, {
    get (target, name, receiver) {
      const own: unknown = Reflect.get(target, name, receiver)
      if (typeof own !== 'function') return own
      return (...args: [Caller, ...unknown[]]) => {
        note(String(name), args[0], ...args.slice(1))
        const call = (overridden(fake, name as keyof Runs) ?? own) as (...all: unknown[]) => unknown
        return call(...args)
      }
    }
  })
  return fake
}
