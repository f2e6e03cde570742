import { channel } from 'node:diagnostics_channel'

/** Who listens here may end the process: a harness that asks what a crash at each named instant leaves. In production nobody does. */
export const FAULT_POINTS = 'subagentd:point'
const points = channel(FAULT_POINTS)

/** Tells that the code has come to the instant `name`. Changes nothing, and costs nothing while nobody listens. */
export function at (name: string): void {
  if (points.hasSubscribers) points.publish(name)
}
