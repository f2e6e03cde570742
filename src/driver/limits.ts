import type { RunLimits } from '../core/run.ts'

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
