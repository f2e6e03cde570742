import type { Facts } from './facts.ts'
import type { World } from './world.ts'

/** What must hold in the end of what a host did; violations, in words. */
export type Check = (facts: Facts, world: World) => string[]

export const completes = (key: string, output = `done ${key}`): Check => (facts) => facts.one(key, (run) =>
  run.stopReason === 'completed' && run.text === output ? [] : [`${key} ended ${run.stopReason} "${run.text}", not completed "${output}": ${JSON.stringify(run.error)}`])
export const all = (...checks: Check[]): Check => (facts, world) => checks.flatMap((check) => check(facts, world))
/** A tool that may run once did, or its model was told that its outcome is unknown. */
export const onceAtMost = (key: string, runKey: string, toolCallId: string): Check => (facts, world) => {
  const ran = world.ran('once', key)
  const result = facts.byKey(runKey)[0]?.toolResult(toolCallId)
  return [
    ...ran > 1 ? [`the tool "once" ran ${ran} times for ${key}`] : [],
    ...result && !result.isError && ran !== 1 ? [`the result of "once" for ${key} is told, but it ran ${ran} times`] : [],
    ...result?.isError && !/outcome unknown/.test(result.text) ? [`the result of "once" for ${key} is "${result.text}"`] : [],
    ...result ? [] : [`no result of "once" for ${key}`]
  ]
}
export const againRan = (key: string, toolCallId: string): Check => (facts, world) => {
  const result = facts.byKey(key)[0]?.toolResult(toolCallId)
  return result && !result.isError && world.ran('again', key) >= 1 ? [] : [`the idempotent call of ${key} has the result ${JSON.stringify(result)}`]
}
