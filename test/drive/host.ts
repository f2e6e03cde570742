import { mkdirSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { expect, vi } from 'vitest'
import type { Clock } from '../../src/core/clock.ts'
import type { SessionEvent } from '../../src/core/events.ts'
import type { Frame } from '../../src/providers/claude-code/vocabulary.ts'
import { fakeClaude, isAlive, type FakeClaude, type Script, type Step } from '../support/fake-claude.ts'
import { makeFolder, startService, type Answer, type AtEnd, type Service, type ServiceOptions } from '../support/service.ts'
import { init, lifecycle, replay } from '../providers/claude-code/play.ts'

/** Time that passes when the test says so. */
export interface TestClock extends Clock { pass (ms: number): void }

export function createTestClock (): TestClock {
  let time = 0
  const timers = new Set<{ at: number, call: () => void }>()
  return {
    now: () => time,
    after (ms, call) {
      const timer = { at: time + Math.max(0, ms), call }
      timers.add(timer)
      return () => { timers.delete(timer) }
    },
    pass (ms) {
      const end = time + ms
      for (;;) {
        const [next] = [...timers].filter(({ at }) => at <= end).toSorted((a, b) => a.at - b.at)
        if (!next) break
        timers.delete(next)
        time = Math.max(time, next.at)
        next.call()
      }
      time = end
    }
  }
}

export interface DriveOptions extends Omit<ServiceOptions, 'yaml' | 'clock'> {
  script?: Script
  /** Of `providers.claudeCode`, over what the fake CLI needs. */
  settings?: Record<string, unknown>
  /** More for the CLI's environment. */
  cliEnv?: Record<string, string>
  /** More of the configuration file. */
  config?: object
}

export interface Drive extends Omit<Service, 'start'> {
  cli: FakeClaude
  /** The one directory in which runs may work. */
  root: string
  clock: TestClock
  /** Starts a driven run; answers its id. */
  start (body?: object, headers?: Record<string, string>): Promise<string>
  say (id: string, content: string, more?: object, headers?: Record<string, string>): Promise<Answer>
  cancel (id: string): Promise<Answer>
  run (id: string): Promise<any> // eslint-disable-line typescript/no-explicit-any
  /** Resolves once the log of the run has such an event, with the whole log. */
  logged (id: string, type: SessionEvent['type'], n?: number): Promise<SessionEvent[]>
  /** Resolves once so many lines of the CLI are in the journal. */
  journaled (id: string, lines: number): Promise<string[]>
  /** Resolves once the run has this status. */
  until (id: string, status: string): Promise<any> // eslint-disable-line typescript/no-explicit-any
  children (id: string): Promise<any[]> // eslint-disable-line typescript/no-explicit-any
}

const POLL = { timeout: 10_000, interval: 3 }

/** The real service with the fake CLI. At the end of the test it fails where a process of it is left. */
export async function startDrive (atEnd: AtEnd, options: DriveOptions = {}): Promise<Drive> {
  const { script, settings = {}, cliEnv = {}, config = {}, ...rest } = options
  const cli = fakeClaude(atEnd, script)
  const root = realpathSync(makeFolder(atEnd))
  const clock = createTestClock()
  const yaml = configOf(cli, root, settings, cliEnv, config)
  const service = await startService(atEnd, { ...rest, clock, yaml, env: { PATH: process.env['PATH'] ?? '', ...rest.env } })
  atEnd(async () => {
    await service.stop()
    expect(pidsOf(cli).filter(isAlive), 'processes that are left').toEqual([])
  })
  return { ...service, cli, root, clock, ...createActs(service) }
}

export const configOf = (cli: FakeClaude, root: string, settings: object = {}, cliEnv: Record<string, string> = {}, config: object = {}): string =>
  JSON.stringify({ ...config, providers: { claudeCode: { command: cli.command, roots: [root], graceMs: 300, env: { ...cli.env, ...cliEnv }, ...settings } } })

export const pidsOf = (cli: FakeClaude): number[] => [...cli.entries('start'), ...cli.entries('grandchild')].map(({ pid }) => pid)

export const startBody = (more: object = {}): object => ({ provider: 'claude-code', task: 'go', ...more })

function createActs (service: Pick<Service, 'call' | 'app' | 'log'>): Pick<Drive, 'start' | 'say' | 'cancel' | 'run' | 'logged' | 'journaled' | 'until' | 'children'> {
  const { call, app } = service
  const run: Drive['run'] = async (id) => (await call('GET', `/v1/runs/${id}`)).body
  return {
    run,
    async start (body, headers) {
      const { status, body: made, text } = await call('POST', '/v1/runs', startBody(body), headers)
      if (status !== 201) throw new Error(`the start was answered ${status}: ${text}`)
      return made.id as string
    },
    say: async (id, content, more = {}, headers = {}) => await call('POST', `/v1/runs/${id}/messages`, { content, ...more }, headers),
    cancel: async (id) => await call('POST', `/v1/runs/${id}/cancel`),
    async logged (id, type, n = 1) {
      await vi.waitFor(async () => { expect((await service.log(id)).filter((event) => event.type === type).length).toBeGreaterThanOrEqual(n) }, POLL)
      return await service.log(id)
    },
    async journaled (id, lines) {
      const read = async (): Promise<string[]> => {
        const found: string[] = []
        for (let page = [''], from = 0; page.length > 0; from += page.length) {
          page = await app.store.readFrames('default', id, from, 10_000)
          found.push(...page)
        }
        return found
      }
      await vi.waitFor(async () => { expect((await read()).length).toBeGreaterThanOrEqual(lines) }, POLL)
      return await read()
    },
    async until (id, status) {
      await vi.waitFor(async () => { expect((await run(id)).status).toBe(status) }, POLL)
      return await run(id)
    },
    children: async (id) => (await call('GET', `/v1/runs/${id}/tree`)).body.children
  }
}

/** The CLI takes its n-th user line, and begins a turn with it. */
export const opens = (n: number): Step[] => [{ user: true }, { emit: begun(n) }]
export const begun = (n: number): Frame[] => [
  lifecycle(`{{user:${n}}}`, 'queued'), lifecycle(`{{user:${n}}}`, 'started'), init({ session_id: '{{session}}', tools: ['Read', 'Bash', 'Task'] }), replay(`{{user:${n}}}`, `{{text:${n}}}`)
]

/** A log in short lines. */
export const story = (events: readonly SessionEvent[]): string[] => events.filter(({ type }) => !type.startsWith('step/')).map(({ type, data }) => {
  switch (type) {
    case 'turn/start': return `turn ${data.turn} ${data.origin}`
    case 'turn/end': return `end ${data.turn} ${data.reason}`
    case 'user/message': return `user ${textOf(data.content)}`
    case 'assistant/message': return `says ${textOf(data.content)}`
    case 'tool/call': return `call ${data.name}`
    case 'tool/result': return `result ${data.name} ${data.isError ? 'error ' : ''}${textOf(data.content)}`.trim()
    case 'run/message': return `message ${textOf(data.content)}`
    case 'run/settled': return `settled ${data.result.stopReason}`
    case 'subagent/end': return `subagent/end ${data.stopReason}`
    default: return type
  }
})

const textOf = (content: readonly { type: string }[]): string =>
  content.map((part) => 'text' in part ? String(part.text) : `<${part.type}>`).join('')

/** What the CLI was sent, in short. */
export const sent = (cli: FakeClaude): string[] => cli.entries('in').map(({ frame }) => {
  const { type, priority, message, request } = frame as { type: string, priority?: string, message?: { content: unknown }, request?: { subtype: string } }
  return type === 'user' ? `${priority ?? 'first'} ${String(message?.content)}` : request ? request.subtype : type
})

export function makeDirectory (...parts: [string, ...string[]]): string {
  const path = join(...parts)
  mkdirSync(path, { recursive: true })
  return path
}
