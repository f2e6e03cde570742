import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { holdFlushes, type HeldFlushes } from '../support/flushes.ts'
import { makeFolder, startService, type Answer, type Service } from '../support/service.ts'

const hello = { task: 'hello', agentOptions: { script: [{ say: 'hi' }] } }
const hang = { task: 'stay', agentOptions: { script: [{ hang: true }] } }
const asks = { task: 'ask', tools: [{ name: 'ask' }], agentOptions: { script: [{ call: { name: 'ask' } }, { say: 'done' }] } }

/** A service whose disk takes nothing until the test says so. */
async function onHeldDisk (alone = false): Promise<{ service: Service, flushes: HeldFlushes }> {
  const path = join(makeFolder(onTestFinished), 'runs.db')
  const service = await startService(onTestFinished, { env: { DATABASE_URL: `sqlite:${path}` }, alone })
  return { service, flushes: holdFlushes(onTestFinished) }
}

interface Sent { answer: Promise<Answer>, /** Of the answer, once there is one. */ status?: number }

function send (service: Service, body: object, headers: Record<string, string> = {}): Sent {
  const sent: Sent = { answer: service.call('POST', '/v1/runs', body, headers) }
  sent.answer.then(({ status }) => { sent.status = status }, () => {})
  return sent
}

/** A request that touches no store, begun after others, has been answered: so could they have been. */
const othersHadTheirTurn = async (service: Service): Promise<void> => {
  for (let i = 0; i < 5; i++) expect((await service.call('GET', '/healthz')).status).toBe(200)
}

const starts: [title: string, body: object, headers: Record<string, string>, status: string][] = [
  ['plain', hang, {}, 'running'],
  ['waiting for its result', hello, { prefer: 'wait=10' }, 'settled'],
  ['whose wait is over at once', hang, { prefer: 'wait=0' }, 'running'],
  ['waiting, of a run that asks its host', asks, { prefer: 'wait=10' }, 'waiting']
]
for (const [title, body, headers, status] of starts) {
  test(`2.1 a start, ${title}: the 201 comes once the run is durable`, async () => {
    const { service, flushes } = await onHeldDisk()
    const sent = send(service, body, headers)
    await flushes.next()
    await othersHadTheirTurn(service)
    expect(sent.status).toBeUndefined()
    flushes.release()
    expect(await sent.answer).toMatchObject({ status: 201, body: { status } })
  })
}

test('2.3 a streaming start sends nothing before the run is durable', async () => {
  const { service, flushes } = await onHeldDisk()
  const sent = send(service, hello, { accept: 'text/event-stream' })
  await flushes.next()
  await othersHadTheirTurn(service)
  expect(sent.status).toBeUndefined()
  flushes.release()
  expect((await sent.answer).text).toMatch(/^event: settled$/m)
})

test('2.4 a replay says nothing of a run that is not durable', async () => {
  const { service, flushes } = await onHeldDisk()
  const key = { 'idempotency-key': 'k' }
  const first = send(service, hang, { ...key, prefer: 'wait=0' })
  await flushes.next()
  const again = send(service, hang, key)
  await othersHadTheirTurn(service)
  expect([first.status, again.status]).toEqual([undefined, undefined])
  flushes.release()
  expect([(await first.answer).status, (await again.answer).status]).toEqual([201, 200])
})

test('a waiting start costs one flush: its settlement makes its publication durable too', async () => {
  const { service, flushes } = await onHeldDisk(true)
  const sent = send(service, hello, { prefer: 'wait=10' })
  await flushes.next()
  flushes.release()
  expect((await sent.answer).body).toMatchObject({ status: 'settled', stopReason: 'completed' })
  expect(flushes.asked).toBe(1)
})

test('a start on a disk that fails is 503, and so is every later one', async () => {
  const { service, flushes } = await onHeldDisk()
  const sent = [send(service, hang), send(service, hello, { prefer: 'wait=10' })]
  await flushes.next()
  flushes.fail()
  for (const { answer } of sent) expect(await answer).toMatchObject({ status: 503, body: { code: 'STORE_UNAVAILABLE' } })
  expect(await service.call('POST', '/v1/runs', hello)).toMatchObject({ status: 503, body: { code: 'STORE_UNAVAILABLE' } })
  expect((await service.call('GET', '/readyz')).status).toBe(503)
})
