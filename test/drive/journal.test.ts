import { expect, test } from 'vitest'
import { lifecycle, result, streamed } from '../providers/claude-code/play.ts'
import { opens, startDrive } from './host.ts'

test.concurrent('the journal of a driven chat is read as that of an ingested one: live, in pages, and once it has settled', async ({ onTestFinished }) => {
  const drive = await startDrive(onTestFinished, { script: [...opens(1), { write: 'no JSON\n\n{"torn\n' }, { user: true }, { emit: [lifecycle('{{user:2}}', 'started'), ...streamed('m', 'hi'), result()] }] })
  const id = await drive.start()
  const lines = async (query = ''): Promise<string[]> => {
    const answer = await fetch(`${drive.url}/v1/runs/${id}/frames${query}`)
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/x-ndjson; charset=utf-8'])
    return (await answer.text()).split('\n').slice(0, -1)
  }
  await drive.journaled(id, 7)
  const live = await lines()
  expect(live.slice(4)).toEqual(['no JSON', '', '{"torn'])
  expect(live.slice(0, 4).map((line) => JSON.parse(line).type)).toEqual(['command_lifecycle', 'command_lifecycle', 'system', 'user'])
  await drive.say(id, 'go on')
  await drive.result(id)
  const all = await lines()
  expect(all).toEqual(await drive.journaled(id, 8))
  expect(all.slice(0, 7)).toEqual(live)
  const rest = await lines('?from=5')
  expect(rest).toEqual(all.slice(5))
  expect(await lines(`?from=${all.length}`)).toEqual([])
  expect(await drive.run(id)).toMatchObject({ framesAccepted: null })
  expect(await drive.call('POST', `/v1/runs/${id}/frames`, undefined, { 'content-type': 'application/x-ndjson' })).toMatchObject({ status: 422, body: { code: 'UNSUPPORTED_CAPABILITY' } })
})
