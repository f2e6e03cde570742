import { expect, onTestFinished, test } from 'vitest'
import { text } from '../../src/core/events.ts'
import type { Capabilities, Provider, SubagentRequest } from '../../src/core/provider.ts'
import { createForkProvider, createSpawnProvider } from '../../src/providers/in-process.ts'
import { createProviderRegistry } from '../../src/providers/registry.ts'
import { checkOutputSchema } from '../../src/driver/agent.ts'
import { openDriver } from '../support/driver-room.ts'
import { says } from '../support/recording-model.ts'
import { startService } from '../support/service.ts'

const ALL: Capabilities = { outputSchema: true, depthLimit: true, toolFilter: true, persona: true }
const NONE: Capabilities = { outputSchema: false, depthLimit: false, toolFilter: false, persona: false }
/** Everything that can be wrong before the driver is asked, at once. */
const WRONG = { maxDepth: -1, toolFilter: {}, persona: 'p', outputSchema: { type: 'string' } }

const provider = (name: string, capabilities: Capabilities, asked: SubagentRequest[] = []): Provider => ({
  name, capabilities, inheritsParentContext: false,
  start: (request) => { asked.push(request); return Promise.reject(new Error('the driver was asked')) }
})

test('§4 the registry checks in order: provider known, capabilities in their order, maxDepth\'s value, the output schema', async () => {
  const room = await openDriver(onTestFinished)
  const registry = createProviderRegistry(checkOutputSchema)
  const request = room.request(WRONG)
  const refusal = async (capabilities: Capabilities, changes: object = {}) => {
    registry.unregister('p')
    registry.register(provider('p', capabilities))
    return await registry.start('p', { ...request, ...changes }).catch((error: unknown) => (error as Error).message)
  }
  await expect(registry.start('p', request)).rejects.toMatchObject({ code: 'NO_PROVIDER', message: 'no subagent provider registered for "p"' })
  const lacks = (capability: string) => `subagent provider "p" does not support the "${capability}" capability`
  expect(await refusal(NONE)).toBe(lacks('outputSchema'))
  expect(await refusal({ ...NONE, outputSchema: true })).toBe(lacks('depthLimit'))
  expect(await refusal({ ...NONE, outputSchema: true, depthLimit: true })).toBe(lacks('toolFilter'))
  expect(await refusal({ ...ALL, persona: false })).toBe(lacks('persona'))
  expect(await refusal(ALL)).toBe('subagent maxDepth must be a non-negative safe integer')
  expect(await refusal(ALL, { maxDepth: 1 })).toBe('unsupported JSON schema: #/type: the root must be of the type "object"')
  expect(await refusal(ALL, { maxDepth: 1, outputSchema: { type: 'object' } })).toBe('the driver was asked')
})

test('§4 null is a maxDepth that was given; absent ones need no capability', async () => {
  const room = await openDriver(onTestFinished)
  const registry = createProviderRegistry(checkOutputSchema)
  const asked: SubagentRequest[] = []
  registry.register(provider('p', NONE, asked))
  await expect(registry.start('p', room.request({ maxDepth: null }))).rejects.toMatchObject({ code: 'UNSUPPORTED_CAPABILITY' })
  const request = room.request()
  await expect(registry.start('p', request)).rejects.toThrow('the driver was asked')
  expect(asked).toEqual([request])
})

test('9.1 a schema that is not supported refuses before the driver is asked, with every violation', async () => {
  const room = await openDriver(onTestFinished)
  const outputSchema = { type: 'object', properties: { a: { type: ['string', 'null'] }, b: { anyOf: [] } }, required: ['c'] }
  await expect(room.start({ outputSchema })).rejects.toMatchObject({
    code: 'UNSUPPORTED_SCHEMA',
    message: 'unsupported JSON schema: #/properties/a/type: must be one type, not a list; use "oneOf" for alternatives; ' +
      '#/properties/b: needs a "type" of object, array, string, number, integer, boolean, null; ' +
      '#/properties/b: the keyword "anyOf" is not supported; #/required/0: "c" is not declared in "properties"'
  })
})

test('§12 two providers of one name: the second is refused, the first stays', () => {
  const registry = createProviderRegistry(checkOutputSchema)
  const first = provider('p', ALL)
  registry.register(first)
  expect(() => registry.register(provider('p', NONE))).toThrow('a subagent provider named "p" is already registered')
  expect(registry.list()).toEqual([first])
  registry.unregister('p')
  registry.unregister('p')
  expect([registry.list(), registry.get('p')]).toEqual([[], undefined])
})

test('§4 spawn and fork advertise the same capabilities, and differ in what they inherit', async () => {
  const { driver } = await openDriver(onTestFinished)
  const [spawn, fork] = [createSpawnProvider(driver), createForkProvider(driver)]
  expect([spawn.name, fork.name]).toEqual(['spawn', 'fork'])
  expect(spawn.capabilities).toEqual(ALL)
  expect(fork.capabilities).toEqual(ALL)
  expect([spawn.inheritsParentContext, fork.inheritsParentContext]).toEqual([false, true])
})

test('§4 spawn takes no seed, whatever the parent holds; fork asks for it once, synchronously', async () => {
  const room = await openDriver(onTestFinished, { acts: [says('done'), says('done')] })
  const parent = await room.start()
  await parent.result
  let asked = 0
  const completedTurns = () => {
    asked++
    return { stored: { segment: parent.projection.record.segment, length: parent.log.completedLength }, turns: 1, events: parent.log.completedLength }
  }
  const spawned = await room.start({ parent: { completedTurns } })
  expect([asked, (await room.row(spawned))?.seed]).toEqual([0, { turns: 0, events: 0 }])
  const forking = room.providers.start('fork', room.request({ prompt: [text('t')], parent: { completedTurns } }))
  expect(asked).toBe(1)
  const forked = await forking
  expect((await room.row(forked))?.seed).toEqual({ turns: 1, events: parent.log.completedLength })
  expect(asked).toBe(1)
})

test('§4 the configuration renames the providers: the name is in the list, in the run, and in refusals', async () => {
  const service = await startService(onTestFinished, { yaml: 'providers:\n  spawn:\n    providerName: helper\n  fork:\n    providerName: twin\n' })
  expect((await service.call('GET', '/v1/providers')).body.providers).toEqual([
    { name: 'helper', available: true, capabilities: ALL, inheritsParentContext: false },
    { name: 'twin', available: true, capabilities: ALL, inheritsParentContext: true },
    expect.objectContaining({ name: 'claude-code', available: false })
  ])
  expect(await service.start({ provider: 'helper', task: 't' })).toMatchObject({ provider: 'helper' })
  const unknown = await service.call('POST', '/v1/runs', { provider: 'fork', task: 't' })
  expect([unknown.status, unknown.body]).toMatchObject([422, { code: 'NO_PROVIDER', toolResult: { content: [{ text: 'Error: no subagent provider registered for "fork"' }] } }])
})
