import { expect, test } from 'vitest'
import { isRefusal } from '../../src/core/errors.ts'
import { createModels } from '../../src/models/models.ts'
import type { Endpoint } from '../../src/models/link.ts'

const openai: Endpoint = { name: 'openai', kind: 'openai-chat', apiKey: 'k' }
const anthropic: Endpoint = { name: 'claude', kind: 'anthropic', apiKey: 'k' }
const local: Endpoint = { name: 'local', kind: 'openai-chat', baseUrl: 'http://127.0.0.1:1/v1', models: ['small', 'org/large'] }

const refusal = (act: () => unknown): unknown => {
  try { act() } catch (error) { return isRefusal(error) ? `${error.code}: ${error.message}` : error }
  return undefined
}

test('a full name is the endpoint and the rest, slashes and all', () => {
  const models = createModels({ endpoints: [openai, anthropic] })
  expect(models.resolve('openai/gpt-5-mini')).toMatchObject({ id: 'openai/gpt-5-mini', kind: 'openai-chat' })
  expect(models.resolve('openai/meta-llama/x')).toMatchObject({ id: 'openai/meta-llama/x', kind: 'openai-chat' })
  expect(models.resolve('claude/opus')).toMatchObject({ id: 'claude/opus', kind: 'anthropic' })
})

test('a first segment that names no endpoint belongs to the model\'s name', () => {
  const models = createModels({ endpoints: [openai], defaultModel: 'openai/gpt-5' })
  expect(models.resolve('meta-llama/x').id).toBe('openai/meta-llama/x')
})

test('4.4 a name without endpoint means the endpoint of the transcript\'s kind, else the default model\'s', () => {
  const models = createModels({ endpoints: [openai, anthropic], defaultModel: 'openai/gpt-5' })
  expect(models.resolve('opus', 'anthropic').id).toBe('claude/opus')
  expect(models.resolve('gpt-4', 'openai-chat').id).toBe('openai/gpt-4')
  expect(models.resolve('gpt-4').id).toBe('openai/gpt-4')
  const one = createModels({ endpoints: [anthropic], defaultModel: 'claude/opus' })
  expect(one.resolve('sonnet', 'openai-chat').id).toBe('claude/sonnet')
})

test('a list of models restricts its endpoint and is what GET /v1/models shows', () => {
  const models = createModels({ endpoints: [local, openai], defaultModel: 'local/small' })
  expect(models.resolve('local/org/large').id).toBe('local/org/large')
  expect(refusal(() => models.resolve('local/other'))).toBe(
    'MODEL_UNKNOWN: unknown model "local/other"; known: local/small, local/org/large, scripted/demo')
  expect(models.list()).toEqual([
    { id: 'local/small', endpoint: 'local', kind: 'openai-chat', default: true },
    { id: 'local/org/large', endpoint: 'local', kind: 'openai-chat', default: false },
    { id: 'scripted/demo', endpoint: 'scripted', kind: 'scripted', default: false }
  ])
})

test('the default model is listed even where its endpoint lists none', () => {
  expect(createModels({ endpoints: [openai], defaultModel: 'openai/gpt-5' }).list()[0])
    .toEqual({ id: 'openai/gpt-5', endpoint: 'openai', kind: 'openai-chat', default: true })
})

test('the scripted endpoint is always there, under any model name', () => {
  const models = createModels({ endpoints: [] })
  expect(models.defaultModel).toBe('scripted/demo')
  expect(models.resolve('scripted/anything/at-all')).toMatchObject({ id: 'scripted/anything/at-all', kind: 'scripted' })
  expect(models.resolve('demo').id).toBe('scripted/demo')
})

test('the scripted model never answers for one whose endpoint is missing', () => {
  const models = createModels({ endpoints: [] })
  expect(refusal(() => models.resolve('openai/gpt-5'))).toBe(
    'MODEL_UNKNOWN: unknown model "openai/gpt-5"; known: scripted/demo')
  expect(refusal(() => models.resolve('gpt-5', 'openai-chat'))).toMatch('MODEL_UNKNOWN')
})

test('an empty name is unknown', () => {
  const models = createModels({ endpoints: [openai], defaultModel: 'openai/gpt-5' })
  for (const name of ['', 'openai/', 'scripted/']) expect(refusal(() => models.resolve(name)), name).toMatch('MODEL_UNKNOWN')
})

test('a configuration that cannot be is refused at once', () => {
  expect(() => createModels({ endpoints: [openai, openai] })).toThrow('two endpoints are named "openai"')
  expect(() => createModels({ endpoints: [{ ...openai, name: 'scripted' }] })).toThrow('the endpoint name "scripted" is taken')
  expect(() => createModels({ endpoints: [{ ...openai, name: 'a/b' }] })).toThrow('endpoint name "a/b"')
  expect(() => createModels({ endpoints: [{ ...openai, baseUrl: 'file:///x' }] })).toThrow('base URL of endpoint "openai"')
  expect(refusal(() => createModels({ endpoints: [local], defaultModel: 'local/none' }))).toMatch('MODEL_UNKNOWN')
  expect(refusal(() => createModels({ endpoints: [local], defaultModel: 'small' }))).toMatch('MODEL_UNKNOWN')
})
