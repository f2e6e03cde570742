import type { Clock } from '../../core/clock.ts'
import type { RunLimits, RunRecord, RunSpec } from '../../core/run.ts'
import { treeTokens as treeTokensOf } from '../../driver/limits.ts'
import { LimitReason } from '../../loop/agent.ts'
import type { ChatWriter } from './chat-writer.ts'
import { createDeadline } from './deadline.ts'
import type { ExternalOptions } from './external-run.ts'

/** `goesOn`: its model is at it; an answer does not end by what it used up (the loop asks before it calls). `tokens`: its own. */
export interface ChatAtWork { isIdle: boolean, goesOn: boolean, runningChildren: number, tokens: number }

export interface ChatLimits {
  /** Whether its tree has used up its tokens before it began. */
  refusal (): Promise<LimitReason | undefined>
  /** Told whenever something happened. */
  mark (chat: ChatAtWork): void
  clear (): void
}

export interface ChatLimitsOptions {
  clock: Clock
  limits: RunLimits
  /** The time limit counts for each time at work, not once for all. */
  renewed: boolean
  /** How much of the time has passed at the first mark. */
  spentMs: number
  /** What the whole tree has used so far; asked at most once a second, and only for `treeTokens`. */
  treeTokens: () => Promise<number>
  onReached: (reason: LimitReason) => void
  onFault: (error: unknown) => void
}

const LOOK_MS = 1000

/** The limits of a chat that the service holds by itself (driver.md 2.5): its time, its tokens and its tree's. */
export function createChatLimits (options: ChatLimitsOptions): ChatLimits {
  const { clock, limits: { timeoutMs, totalTokens, treeTokens }, renewed, spentMs, onReached, onFault } = options
  const deadline = createDeadline({
    clock, ms: timeoutMs, renewed, spent: spentMs, onOver: (ms) => onReached(new LimitReason('LIMIT_TIME', 'timeoutMs', ms))
  })
  const look = async (): Promise<LimitReason | undefined> =>
    treeTokens !== undefined && await options.treeTokens() >= treeTokens ? new LimitReason('LIMIT_TREE', 'treeTokens', treeTokens) : undefined
  let last: ChatAtWork = { isIdle: false, goesOn: false, runningChildren: 0, tokens: 0 }
  let reached: LimitReason | undefined
  const judge = (): void => { if (reached && last.goesOn) onReached(reached) }
  const tree = createThrottle(clock, () => {
    look().then((found) => {
      reached = found
      judge()
    }).catch(onFault)
  })
  return {
    refusal: look,
    mark (chat) {
      const counts = chat.tokens !== last.tokens || chat.runningChildren > 0 || (last.isIdle && !chat.isIdle)
      last = chat
      if (totalTokens !== undefined && chat.tokens > totalTokens) onReached(new LimitReason('LIMIT_TOKENS', 'totalTokens', totalTokens))
      deadline.mark(chat.isIdle)
      judge()
      if (counts && treeTokens !== undefined) tree.mark()
    },
    clear () {
      deadline.clear()
      tree.clear()
    }
  }
}

/** Those of a driven chat's run, which begins to be marked now. */
export const limitsOf = ({ options, clock, record, spec, writer }: {
  options: Pick<ExternalOptions, 'store' | 'now' | 'onFault'>
  clock: Clock
  record: Pick<RunRecord, 'id' | 'tenant' | 'rootId' | 'createdAt'>
  spec: Pick<RunSpec, 'limits' | 'external'>
  writer: Pick<ChatWriter, 'written'>
}, onReached: ChatLimitsOptions['onReached']): ChatLimits => createChatLimits({
  clock, limits: spec.limits, renewed: spec.external?.keepOpen === true, spentMs: options.now() - record.createdAt, onReached,
  async treeTokens () {
    await writer.written()
    return await treeTokensOf(options.store, record)
  },
  onFault: (error) => { options.onFault('the tokens of a tree could not be read', error, { runId: record.id }) }
})

/** Acts on a mark: at once, or where it did so within the last second after that. */
function createThrottle (clock: Clock, act: () => void): { mark (): void, clear (): void } {
  let last = -Infinity
  let cancel: (() => void) | undefined
  const now = (): void => {
    cancel = undefined
    last = clock.now()
    act()
  }
  return {
    mark () {
      if (cancel) return
      const wait = last + LOOK_MS - clock.now()
      if (wait > 0) cancel = clock.after(wait, now)
      else now()
    },
    clear () { cancel?.() }
  }
}
