import { noUsage } from '../core/events.ts'
import type { RunLimits, RunRecord } from '../core/run.ts'
import type { Store } from '../core/store.ts'
import { tokensOf } from '../core/usage.ts'

const TREE = ['treeRuns', 'treeTokens'] as const

/** A child's limits: its own, and the tree's, which it can only tighten (http-api.md 2.5). */
export function tighterLimits (own: RunLimits, tree: RunLimits | undefined): RunLimits {
  const limits: RunLimits = { ...own }
  for (const key of TREE) {
    const both = [own[key], tree?.[key]].filter((value) => value !== undefined)
    if (both.length > 0) limits[key] = Math.min(...both)
  }
  return limits
}

/** What the whole tree of a run has used, as far as it is written: what `treeTokens` limits (driver.md 2.5). */
export const treeTokens = async (store: Pick<Store, 'treeUsage'>, { tenant, rootId }: Pick<RunRecord, 'tenant' | 'rootId'>): Promise<number> =>
  tokensOf((await store.treeUsage(tenant, [rootId])).get(rootId) ?? noUsage())
