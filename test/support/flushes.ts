import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import type { AtEnd } from './service.ts'

type Flush = () => Promise<void>

/** Until the test is over, every `fdatasync` of this thread is `through`'s to do: at once, later, never, or with an error. */
export function divertFlushes (atEnd: AtEnd, through: (flush: Flush, file: number) => Promise<void>): void {
  const { fdatasync } = fs
  const set = (made: typeof fdatasync): void => {
    fs.fdatasync = made
    syncBuiltinESMExports()
  }
  const diverted = (file: number, done: fs.NoParamCallback): void => {
    const flush: Flush = () => new Promise((resolve, reject) => {
      fdatasync(file, (error) => { if (error) reject(error); else resolve() })
    })
    through(flush, file).then(() => done(null), done)
  }
  set(diverted as typeof fdatasync)
  atEnd(() => set(fdatasync))
}

export interface HeldFlushes {
  /** How many are held. */
  readonly waiting: number
  /** How many were asked for. */
  readonly asked: number
  /** Resolves once one is held. */
  next (): Promise<void>
  /** Does those that are held, and lets later ones through. */
  release (): void
  /** Fails those that are held, and later ones, as a broken disk does. */
  fail (): void
}

/** Holds every flush from here on until the test is over. */
export function holdFlushes (atEnd: AtEnd): HeldFlushes {
  const held: PromiseWithResolvers<undefined>[] = []
  let asked = 0
  let came = Promise.withResolvers<undefined>()
  let through: 'held' | 'done' | 'failed' = 'held'
  const broken = (): Error => Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' })
  divertFlushes(atEnd, async (flush) => {
    asked++
    if (through === 'held') {
      const mine = Promise.withResolvers<undefined>()
      held.push(mine)
      came.resolve(undefined)
      came = Promise.withResolvers()
      await mine.promise
    }
    if (through === 'failed') throw broken()
    await flush()
  })
  const end = (how: 'done' | 'failed') => (): void => {
    through = how
    for (const each of held.splice(0)) each.resolve(undefined)
  }
  const release = end('done')
  atEnd(release)
  return {
    get waiting () { return held.length },
    get asked () { return asked },
    async next () { if (held.length === 0) await came.promise },
    release,
    fail: end('failed')
  }
}
