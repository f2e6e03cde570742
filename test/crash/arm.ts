import { subscribe } from 'node:diagnostics_channel'
import { openSync, writeSync } from 'node:fs'
import { FAULT_POINTS } from '../../src/core/fault-point.ts'

/**
 * Preloaded into the service by the crash harness, and by nothing else: ends the process by SIGKILL at the `CRASH_HIT`-th time that
 * it comes to `CRASH_POINT`, writes each point that it comes to into `CRASH_TRACE`, sweeps every `CRASH_SWEEP_MS` and lives
 * `CRASH_DAYS` ahead of the clock.
 */
const { CRASH_POINT, CRASH_HIT = '1', CRASH_TRACE, CRASH_SWEEP_MS, CRASH_DAYS } = process.env
const trace = CRASH_TRACE === undefined ? undefined : openSync(CRASH_TRACE, 'a')
let hits = 0

subscribe(FAULT_POINTS, (name) => {
  if (trace !== undefined) writeSync(trace, `${String(name)}\n`)
  if (name === CRASH_POINT && ++hits === Number(CRASH_HIT)) process.kill(process.pid, 'SIGKILL')
})

// Whoever is left by a harness that was killed ends with it.
const parent = process.ppid
setInterval(() => { if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL') }, 500).unref()

if (CRASH_SWEEP_MS !== undefined) {
  const { setInterval } = globalThis
  const hurried = (call: () => void, ms?: number): NodeJS.Timeout => setInterval(call, ms === 60_000 ? Number(CRASH_SWEEP_MS) : ms)
  globalThis.setInterval = Object.assign(hurried, setInterval)
}
if (CRASH_DAYS !== undefined) {
  const { now } = Date
  Date.now = () => now() + Number(CRASH_DAYS) * 86_400_000
}
