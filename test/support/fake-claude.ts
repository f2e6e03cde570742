import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, vi } from 'vitest'
import { makeFolder, type AtEnd } from './service.ts'

/** The executable; fake-claude.mjs says what its texts may hold, fake-claude-demo.mjs what it does without a script. */
export const FAKE_CLAUDE = join(import.meta.dirname, 'fake-claude.mjs')

export type Step =
  /** Waits for the next user line. The input's end ends the process with code 0 wherever it waits, unless `ignore` says otherwise. */
  | { user: true }
  /** Waits for the next control request of this subtype; answers it with `answer`, an empty one by default. */
  | { request: string, answer?: object | false }
  /** Waits for the next control response. */
  | { response: true }
  /** Frames; `session_id` and `uuid` are added where they are absent. */
  | { emit: object | object[] }
  /** As it stands: torn lines, junk. */
  | { write: string }
  | { stderr: string }
  | { delay: number }
  | { silent: true }
  | { ignore: 'SIGTERM' | 'end' }
  /** A process that stays; the record has its pid. */
  | { grandchild: { ignoresTerm?: boolean, holdsOutput?: boolean, leavesGroup?: boolean } }
  /** Reads no input any more. */
  | { pauseInput: true }
  | { closeOutput: true }
  | { exit: number }
  | { kill: NodeJS.Signals }
  | { repeat: number, steps: Step[] }
  /** From here on as without a script. */
  | { demo: true }
export type Script = Step[] | { start: Step[], resume: Step[] }

export type Entry =
  | { kind: 'start', pid: number, argv: string[], env: Record<string, string>, cwd: string }
  /** `line`: of an answer, as it came. */
  | { kind: 'in', frame: Record<string, unknown>, line?: string }
  | { kind: 'end' }
  | { kind: 'closed' }
  | { kind: 'signal', signal: string }
  | { kind: 'grandchild', pid: number }
export type EntryOf<K extends Entry['kind']> = Extract<Entry, { kind: K }>

export interface FakeClaude {
  command: string
  /** What its environment has to hold beside `PATH`. */
  env: Record<string, string>
  /** What it received so far, of all its starts. */
  entries<K extends Entry['kind']> (kind: K): EntryOf<K>[]
  /** The n-th entry of a kind (from 1), as soon as it is there. */
  entry<K extends Entry['kind']> (kind: K, n?: number): Promise<EntryOf<K>>
}

/** A CLI that plays this script, or answers as it likes, and keeps a record. */
export function fakeClaude (atEnd: AtEnd, script?: Script): FakeClaude {
  const folder = makeFolder(atEnd)
  const record = join(folder, 'record.jsonl')
  const file = join(folder, 'script.json')
  if (script) writeFileSync(file, JSON.stringify(script))
  const entries: FakeClaude['entries'] = (kind) => {
    const lines = existsSync(record) ? readFileSync(record, 'utf8').split('\n').slice(0, -1) : []
    return lines.map((line) => JSON.parse(line) as Entry).filter((entry): entry is EntryOf<typeof kind> => entry.kind === kind)
  }
  return {
    command: FAKE_CLAUDE,
    env: { FAKE_CLAUDE_RECORD: record, ...(script ? { FAKE_CLAUDE_SCRIPT: file } : {}) },
    entries,
    async entry (kind, n = 1) {
      await vi.waitFor(() => { expect(entries(kind).length).toBeGreaterThanOrEqual(n) }, { timeout: 10_000, interval: 5 })
      return entries(kind)[n - 1] as EntryOf<typeof kind>
    }
  }
}

/** A folder for `PATH` in which the CLI stands under its own name, `claude`: it answers as it likes. */
export function fakeClaudeFolder (atEnd: AtEnd): string {
  const folder = makeFolder(atEnd)
  symlinkSync(FAKE_CLAUDE, join(folder, 'claude'))
  return folder
}

/** Whether a process is there and has not ended. */
export function isAlive (pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2))
  } catch {
    return false
  }
}
