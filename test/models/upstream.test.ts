import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { createModels } from '../../src/models/models.ts'
import { fails, hangs, says } from '../support/fake-answers.ts'
import { startFakeModelServer } from '../support/fake-model-server.ts'
import { KEY, KINDS, play, request, startModel } from './model-call.ts'

for (const kind of KINDS) {
  test(`${kind}: an abort while the model streams closes the connection`, async ({ onTestFinished }) => {
    const { model, server } = await startModel(onTestFinished, kind, [hangs('so far')])
    const abort = new AbortController()
    const types: string[] = []
    for await (const event of model.stream(request(), abort.signal)) {
      types.push(event.type)
      if (event.type === 'delta') abort.abort()
    }
    expect(types).toEqual(['delta', 'failure'])
    expect(await server.requests[0]?.closed).toMatchObject({ complete: false })
  })

  test(`${kind}: an abort before the answer begins closes the connection`, async ({ onTestFinished }) => {
    const { model, server } = await startModel(onTestFinished, kind, [hangs()])
    const abort = new AbortController()
    const playing = play(model, request(), abort.signal)
    const received = await server.received(0)
    abort.abort(new Error('enough'))
    expect((await playing).failure?.outcome).toMatchObject({ retryable: false })
    expect(await received.closed).toMatchObject({ complete: false })
  })

  test(`${kind}: after an abort before the call nothing is sent`, async ({ onTestFinished }) => {
    const { model, server } = await startModel(onTestFinished, kind, [says('never')])
    expect((await play(model, request(), AbortSignal.abort())).failure).toBeDefined()
    expect(server.requests).toEqual([])
  })

  test(`${kind}: a reader that leaves closes the connection`, async ({ onTestFinished }) => {
    const { model, server } = await startModel(onTestFinished, kind, [hangs('so far')])
    for await (const event of model.stream(request(), new AbortController().signal)) {
      expect(event).toMatchObject({ type: 'delta', text: 'so far' })
      break
    }
    expect(await server.requests[0]?.closed).toMatchObject({ complete: false })
  })

  test(`${kind}: 5.4 no listener stays on the signal, however the call ended`, async ({ onTestFinished }) => {
    const { model } = await startModel(onTestFinished, kind,
      [says('x'), fails('status500'), fails('bad-json'), fails('wrong-content-type'), fails('ignores-stream')])
    const { signal } = new AbortController()
    for (let i = 0; i < 5; i++) {
      await play(model, request(), signal)
      expect(getEventListeners(signal, 'abort')).toEqual([])
    }
  })

  test(`${kind}: the bytes sent are the encoder's own, and there is one request a call`, async ({ onTestFinished }) => {
    const { model, server } = await startModel(onTestFinished, kind, [fails('status503'), says('x')])
    const json = '{"role":"user","10":1,"2":12345678901234567890,"content":"\\u00e9"}'
    const messages = [{ role: 'user' as const, content: [], wire: { format: kind, json } }]
    await play(model, request({ messages }))
    expect(server.requests).toHaveLength(1)
    await play(model, request({ messages }))
    expect(server.requests[0]?.body).toContain(`"messages":[${json}]`)
    expect(server.requests[1]?.body).toBe(server.requests[0]?.body)
    expect(server.requests[0]?.headers['content-type']).toBe('application/json')
  })

  test(`${kind}: the key and the endpoint's headers are sent`, async ({ onTestFinished }) => {
    const { model, server } = await startModel(onTestFinished, kind, [says('x')], { headers: { 'x-team': 'a' } })
    await play(model)
    const { headers } = server.requests[0] ?? {}
    expect(headers).toMatchObject({ 'x-team': 'a', authorization: `Bearer ${KEY}`,
      ...(kind === 'anthropic' ? { 'x-api-key': KEY } : {}) })
  })

  test(`${kind}: without a key no credential is sent`, async ({ onTestFinished }) => {
    const { model, server } = await startModel(onTestFinished, kind, [says('x')], { apiKey: null })
    expect((await play(model)).reply).toMatchObject({ content: [{ text: 'x' }] })
    expect(server.requests[0]?.headers).not.toHaveProperty('authorization')
    expect(server.requests[0]?.headers).not.toHaveProperty('x-api-key')
  })

  test(`${kind}: a key in the endpoint's own headers does in its place`, async ({ onTestFinished }) => {
    const { model, server } = await startModel(onTestFinished, kind, [says('x')],
      { apiKey: null, headers: { Authorization: 'Bearer other' } })
    await play(model)
    expect(server.requests[0]?.headers.authorization).toBe('Bearer other')
  })

  test(`${kind}: closing the models ends what is in flight, and nothing is sent afterwards`, async ({ onTestFinished }) => {
    const server = await startFakeModelServer(onTestFinished, { answers: [hangs('so far')] })
    const baseUrl = kind === 'anthropic' ? server.anthropicUrl : server.openaiUrl
    const models = createModels({ endpoints: [{ name: 'up', kind, baseUrl, apiKey: KEY }] })
    const model = models.resolve('up/m')
    const playing = play(model)
    const received = await server.received(0)
    await models.close()
    expect((await playing).failure?.outcome.code).toBe('MODEL_ERROR')
    expect(await received.closed).toMatchObject({ complete: false })
    expect((await play(model)).failure?.outcome.message).toBe('model endpoint "up" cannot be called: the service is closing')
    expect(server.requests).toHaveLength(1)
  })
}

test('an anthropic base URL may end with /v1 or a slash', async ({ onTestFinished }) => {
  const server = await startFakeModelServer(onTestFinished, { fallback: says('x') })
  for (const baseUrl of [`${server.url}/v1`, `${server.url}/v1/`, `${server.url}/`, server.url]) {
    const models = createModels({ endpoints: [{ name: 'up', kind: 'anthropic', baseUrl }] })
    onTestFinished(() => models.close())
    expect((await play(models.resolve('up/m'))).reply, baseUrl).toBeDefined()
  }
})
