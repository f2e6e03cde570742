import { join } from 'node:path'
import { beginLife, type Kill, type Life } from './life.ts'

/** `from`: the first life that is killed, 0 being the first of all. `sweeps`: at once, not once a minute. */
export interface TownOptions { folder: string, env: Record<string, string>, kills: readonly Kill[], from: number, sweeps: boolean }

/** The service through its lives on one data folder: when one ends, the next begins. */
export interface Town {
  /** A life that listens. Rejects once the town is closed, or where lives end before they listen. */
  now (): Promise<{ life: Life, url: string }>
  /** How many lives began. */
  lives (): number
  /** The kills that happened, as an index of those asked for. */
  killed (): number
  /** What no life should do: a fault in its log, an end that nobody asked for. */
  violations (): string[]
  points (life: number): string[]
  /** Lives that begin from now on live so many days ahead. */
  jump (days: number): void
  /** Asks the current life to stop; its end counts as wanted. */
  terminate (): Promise<void>
  /** Stops the last life and begins no other. Resolves with its exit. */
  close (): Promise<number | NodeJS.Signals>
}

/** More lives than any plan needs: past it something ends each of them. */
const MOST = 12

export function openTown ({ folder, env, kills, from, sweeps }: TownOptions): Town {
  const lives: Life[] = []
  const violations: string[] = []
  const left = [...kills]
  let killed = 0
  let terminated: Life | undefined
  let closing = false
  let days: number | undefined

  const begin = (): void => {
    const kill = lives.length < from ? undefined : left.shift()
    const life = beginLife({ env, kill, trace: join(folder, `trace-${lives.length}`), days, sweeps })
    lives.push(life)
    void life.ended.then((how) => {
      for (const fault of life.faults()) violations.push(`life ${lives.length} told of a fault: ${fault.slice(0, 1500)}`)
      if (how === 'SIGKILL' && kill) killed++
      else if (life !== terminated || how !== 0) violations.push(`life ${lives.length} ended by itself: ${how}`)
      if (!closing && lives.length < MOST) begin()
    })
  }
  begin()
  return {
    async now () {
      for (;;) {
        const life = lives.at(-1) as Life
        const url = await life.url
        if (url !== undefined && life === lives.at(-1)) return { life, url }
        await life.ended
        await new Promise((resolve) => { setImmediate(resolve) })
        if (closing || life === lives.at(-1)) throw new Error('no life is left')
      }
    },
    lives: () => lives.length,
    killed: () => killed,
    violations: () => violations,
    points: (n) => lives[n]?.points() ?? [],
    jump: (ahead) => { days = ahead },
    async terminate () {
      terminated = lives.at(-1) as Life
      terminated.signal('SIGTERM')
      await terminated.ended
    },
    async close () {
      closing = true
      const before = killed
      const last = lives.at(-1) as Life
      terminated = last
      last.signal('SIGTERM')
      const timer = setTimeout(() => last.signal('SIGKILL'), 10_000)
      const how = await last.ended
      clearTimeout(timer)
      // Its kill came as late as that.
      return how === 'SIGKILL' && killed > before ? 0 : how
    }
  }
}
