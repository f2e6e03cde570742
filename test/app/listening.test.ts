import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createApp } from '../../src/app.ts'
import { loadConfig } from '../../src/config.ts'
import { createLogger } from '../../src/observe/log.ts'
import { hold } from '../support/hold.ts'
import { createLives, reached } from '../support/lives.ts'
import { makeFolder, startService } from '../support/service.ts'

const hang = { task: 'stay', agentOptions: { script: [{ hang: true }] } }

test('a start that cannot listen touches no run, and leaves the file to the next one', async () => {
  const { start } = createLives(onTestFinished)
  const first = await start()
  const run = await first.start(hang)
  await reached(first, run.id, 'step/start')
  const blocker = await startService(onTestFinished)
  await expect(start({ env: { PORT: new URL(blocker.url).port } })).rejects.toMatchObject({ code: 'EADDRINUSE' })
  const last = await start()
  await reached(last, run.id, 'run/resumed')
  expect((await last.log(run.id)).filter((event) => event.type === 'run/resumed')).toHaveLength(1)
})

test('requests wait until what was left is taken up; health does not, and readiness says no', async () => {
  const folder = makeFolder(onTestFinished)
  const env = {
    DATABASE_URL: `sqlite:${join(folder, 'runs.db')}`, PORT: '0', LOG_LEVEL: 'silent', SHUTDOWN_DELAY_MS: '0',
    SHUTDOWN_GRACE_MS: '0'
  }
  const first = await startService(onTestFinished, { env })
  const run = await first.start(hang)
  await first.stop()
  const config = loadConfig(env, () => '')
  const app = await createApp({ config, log: createLogger({ level: 'silent', pretty: false }) })
  onTestFinished(async () => { await app.stop(AbortSignal.abort()) })
  const held = hold(app.store, 'unsettledRuns')
  const listening = app.listen()
  await held.reached
  const url = `http://127.0.0.1:${(app.http.server.address() as AddressInfo).port}`
  const cancelled = fetch(`${url}/v1/runs/${run.id}/cancel?wait=10`, { method: 'POST' })
  expect((await fetch(`${url}/healthz`)).status).toBe(200)
  expect((await fetch(`${url}/readyz`)).status).toBe(503)
  held.release()
  expect(await listening).toBe(url)
  expect(await (await cancelled).json()).toMatchObject({ status: 'settled', stopReason: 'aborted' })
  expect((await fetch(`${url}/readyz`)).status).toBe(200)
})
