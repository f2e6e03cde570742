import { expect, onTestFinished, test } from 'vitest'
import { campaign, distinct } from './campaign.ts'
import { readDocument } from './document.ts'
import { startPopulation } from './population.ts'
import { startService } from '../support/service.ts'

test('a thousand requests made from the document, right, nearly right and hostile: each answered as it says, in time, and no 5xx',
  async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31)
  const population = await startPopulation(onTestFinished)
  const report = await campaign({ population, count: 1000, seed })
  expect(report.sent).toBeGreaterThanOrEqual(1000)
  expect(distinct(report.violations), `SEED=${seed}`).toEqual([])
  expect(population.service.lines.filter(({ level }) => ['error', 'fatal'].includes(String(level))), `SEED=${seed}`).toEqual([])
  expect(population.service.stderr()).toBe('')
}, 60_000)

test('DELETE of an id that none can be is a 404, as the document says', async () => {
  const service = await startService(onTestFinished)
  const { operations } = readDocument()
  for (const [operation, path] of [['deleteRun', '/v1/runs/'], ['deleteSession', '/v1/sessions/']] as const) {
    for (const id of ['', 'x'.repeat(301)]) {
      const { status, body } = await service.call('DELETE', path + id)
      expect([status, body.code]).toEqual([404, 'NOT_FOUND'])
    }
    expect(operations.find(({ id }) => id === operation)?.responses).toHaveProperty('404')
  }
})
