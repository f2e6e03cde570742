import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { makeFolder, startService } from '../support/service.ts'
import { readEvents } from '../support/sse.ts'
import { startProcess, type ServiceProcess } from '../support/service-process.ts'
import type { Host } from './chats.ts'
import { ingest, journalOf, NAMES, openPiece, post, recorded, runOf, startChat, storyOf, treeOf, untilAccepted } from './chats.ts'

/** One long chat: every recording twice, the second time with ids of its own. */
const LINES = [0, 1].flatMap((round) => recorded(...NAMES).map((line) => line.replaceAll(/"([austr])-(\d)"/g, `"$1-$2-${round}"`)))

/** Where its host cancels one child alone, by its CLI's id: a background one, which is resumed later on. */
const STOP_AT = LINES.findIndex((line) => line.includes('"launched"')) + 1
const stopChild = async (host: Host, id: string): Promise<void> => {
  await untilAccepted(host, id, STOP_AT)
  const child = (await treeOf(host, id)).children.find(({ status }) => status === 'running')
  await host.call('POST', `/v1/runs/${child?.id}/cancel?wait=5`)
}

async function hostOf (process: ServiceProcess): Promise<Host> { return { call: process.call, url: await process.url } }

/** Ingests the rest of the lines over one open request until so many were sent, and kills the service then. */
async function ingestUntilKilled (process: ServiceProcess, id: string, from: number, to: number): Promise<void> {
  const host = await hostOf(process)
  const piece = openPiece(host, id, { from })
  const text = LINES.slice(from, to).map((line) => `${line}\n`).join('')
  for (let at = 0; at < text.length; at += 700) await piece.send(text.slice(at, at + 700))
  // The kill may come before the last of it is written, or even read.
  await untilAccepted(host, id, from + 1)
  process.signal('SIGKILL')
  await process.ended
}

test('2.8 a service that is killed in mid-ingest again and again leaves the same logs as one that is not', async () => {
  const service = await startService(onTestFinished)
  const whole = await startChat(service, { task: 'say it' })
  await post(service, whole, LINES.slice(0, STOP_AT).map((line) => `${line}\n`).join(''))
  await stopChild(service, whole)
  await post(service, whole, LINES.slice(STOP_AT).map((line) => `${line}\n`).join(''), { from: STOP_AT, end: true })
  const expected = await storyOf(service, whole)

  const env = { DATABASE_URL: `sqlite:${join(makeFolder(onTestFinished), 'runs.db')}`, LOG_LEVEL: 'info' }
  let process = startProcess(onTestFinished, env)
  const id = await startChat(await hostOf(process), { task: 'say it' })
  await post(await hostOf(process), id, LINES.slice(0, STOP_AT).map((line) => `${line}\n`).join(''))
  await stopChild(await hostOf(process), id)
  let known = STOP_AT
  for (const to of [STOP_AT + 10, 190, 260].map((at) => at + Math.floor(Math.random() * 30))) {
    await ingestUntilKilled(process, id, known, Math.max(to, known + 1))
    process = startProcess(onTestFinished, env)
    const { framesAccepted, runningChildren } = await runOf(await hostOf(process), id)
    expect(framesAccepted).toBeGreaterThan(known)
    expect((await treeOf(await hostOf(process), id)).children.filter(({ status }) => status === 'running')).toHaveLength(runningChildren)
    known = framesAccepted as number
  }
  const host = await hostOf(process)
  expect(await post(host, id, LINES.slice(known).map((line) => `${line}\n`).join(''), { from: known, end: true })).toMatchObject({ status: 200, body: { accepted: LINES.length } })
  expect(await storyOf(host, id)).toEqual(expected)
  expect(await journalOf(host, id)).toEqual(LINES)
  expect(process.stderr()).toBe('')
}, 60_000)

test('2.8 a restart after each line changes nothing: whatever is open stays open, a message under way is shown to who comes then', async () => {
  const env = { DATABASE_URL: `sqlite:${join(makeFolder(onTestFinished), 'runs.db')}` }
  const lines = recorded('a subagent in the foreground', 'a steer during a typed fork, and a resumed subagent')
  const whole = await startService(onTestFinished)
  const expected = await startChat(whole)
  await ingest(whole, expected, lines)
  let service = await startService(onTestFinished, { env })
  const id = await startChat(service)
  for (const [i, line] of lines.entries()) {
    expect(await post(service, id, `${line}\n`, { from: i })).toMatchObject({ status: 200, body: { accepted: i + 1 } })
    await service.stop()
    service = await startService(onTestFinished, { env })
    if (!line.includes('"text":"asking"')) continue
    const reader = await readEvents(service, id)
    const seen = await reader.until(({ event, data }) => event === 'snapshot' && data.data.parts.length > 0)
    expect(seen.at(-1)?.data.data.parts).toEqual([{ kind: 'text', text: 'asking' }])
    reader.leave()
  }
  await post(service, id, '', { from: lines.length, end: true })
  expect(await storyOf(service, id)).toEqual(await storyOf(whole, expected))
})
