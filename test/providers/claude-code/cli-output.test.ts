import { expect, onTestFinished, test } from 'vitest'
import { readOutput } from '../../../src/providers/claude-code/cli-output.ts'
import { startCli } from '../../../src/providers/claude-code/process.ts'
import { makeFolder } from '../../support/service.ts'

const bytes = (text: string): Uint8Array => Buffer.from(text)

test('output is taken in lines, however it comes in pieces, to its last one', async () => {
  const taken: string[][] = []
  const output = (async function * () { yield * ['{"a":1}\n{"b"', ':2}', '\n\nlast'].map(bytes) })()
  await readOutput({ output, drained: async () => {} }, { written: async () => {} }, (lines) => { taken.push(lines.map(({ line }) => line)) })
  expect(taken).toEqual([['{"a":1}'], ['{"b":2}', ''], ['last']])
})

test('no more is read than one write before what was taken, nor while the CLI does not take its answers', async () => {
  const events: string[] = []
  const writes = Array.from({ length: 4 }, () => Promise.withResolvers<undefined>())
  const reads = Array.from({ length: 4 }, () => Promise.withResolvers<undefined>())
  const output = (async function * () {
    for (let n = 0; n < 4; n++) {
      events.push(`read ${n}`)
      yield bytes(`${n}\n`)
    }
  })()
  let drains = 0
  let at = 0
  const settle = async (): Promise<void> => { for (let i = 0; i < 20; i++) await Promise.resolve() }
  const done = readOutput({ output, drained: async () => { await reads[drains++]?.promise } }, { written: async () => { await writes[at++]?.promise } }, () => {})
  await settle()
  expect(events).toEqual(['read 0'])
  reads[0]?.resolve(undefined)
  await settle()
  expect(events).toEqual(['read 0', 'read 1'])
  for (const { resolve } of reads) resolve(undefined)
  await settle()
  expect(events).toEqual(['read 0', 'read 1'])
  writes[0]?.resolve(undefined)
  await settle()
  expect(events).toEqual(['read 0', 'read 1', 'read 2'])
  for (const { resolve } of writes) resolve(undefined)
  await done
  expect(events).toHaveLength(4)
})

test('a write that fails ends the reading', async () => {
  const output = (async function * () { for (;;) yield bytes('x\n') })()
  const lost = Promise.reject(new Error('lost'))
  lost.catch(() => {})
  await expect(readOutput({ output, drained: async () => {} }, { written: () => lost }, () => {})).rejects.toThrow('lost')
})

test('drained waits for a CLI that does not read what was written, and no longer than it lives', async () => {
  const cli = await startCli({ command: '/bin/sh', args: ['-c', 'sleep 60'], cwd: makeFolder(onTestFinished), env: {}, onStderr: () => {} })
  onTestFinished(() => cli.end(0))
  await cli.drained()
  cli.write({ text: 'x'.repeat(3 * 1024 * 1024) })
  let isDrained = false
  const drained = cli.drained().then(() => { isDrained = true })
  for (let i = 0; i < 20; i++) await new Promise((resolve) => { setImmediate(resolve) })
  expect(isDrained).toBe(false)
  const reading = (async () => { for await (const piece of cli.output) expect(piece).toBeDefined() })()
  await cli.end(100)
  await drained
  await reading
})
