import { spawn } from 'node:child_process'
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, type TestContext } from 'vitest'
import { callContext, EVERYTHING, expectError, FILESYSTEM, mcpRoom, textOf } from './mcp-room.ts'

type Finish = TestContext['onTestFinished']
const env = { PATH: process.env.PATH ?? '' }

async function folder (onTestFinished: Finish): Promise<string> {
  const path = await realpath(await mkdtemp(join(tmpdir(), 'mcp-')))
  onTestFinished(() => rm(path, { recursive: true }))
  return path
}

async function freePort (): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** server-everything over streamable HTTP, as its authors start it. */
async function startEverything (onTestFinished: Finish, port: number): Promise<{ stop: () => Promise<void> }> {
  const child = spawn(process.execPath, [EVERYTHING, 'streamableHttp'], { env: { ...env, PORT: String(port) }, stdio: ['ignore', 'ignore', 'pipe'] })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const stop = async (): Promise<void> => { child.kill('SIGKILL'); await ended }
  onTestFinished(stop)
  await new Promise<void>((resolve, reject) => {
    let said = ''
    child.stderr.on('data', (chunk: Buffer) => { said += chunk.toString(); if (said.includes('listening on port')) resolve() })
    child.once('exit', (code) => reject(new Error(`server-everything exited with ${code}: ${said}`)))
  })
  return { stop }
}

test.concurrent('server-filesystem over stdio: files of its folder are read and written, others are refused', async ({ onTestFinished }) => {
  const path = await folder(onTestFinished)
  await writeFile(join(path, 'a.txt'), 'what stands in it')
  const { tool, call, list } = mcpRoom(onTestFinished, [{ kind: 'stdio', name: 'files', command: process.execPath, args: [FILESYSTEM, path], env }])
  const names = (await list()).map(({ definition }) => definition.name)
  expect(names).toEqual(expect.arrayContaining(['files__read_text_file', 'files__write_file', 'files__list_directory']))
  expect(await call('files__read_text_file', { path: join(path, 'a.txt') })).toMatchObject({ isError: false, content: [{ type: 'text', text: 'what stands in it' }] })
  await call('files__write_file', { path: join(path, 'b.txt'), content: 'new' })
  expect(textOf(await call('files__list_directory', { path }))).toBe('[FILE] a.txt\n[FILE] b.txt')
  expectError(await call('files__read_text_file', { path: '/etc/passwd' }), /Access denied/)
  expect([(await tool('files__read_text_file')).idempotent, (await tool('files__edit_file')).idempotent]).toEqual([true, false])
  expect((await tool('files__read_text_file')).validate({})).toEqual(['must have the property "path"'])
})

test.concurrent('server-everything over stdio: content, structure, progress, the environment, and a second server beside it', async ({ onTestFinished }) => {
  const path = await folder(onTestFinished)
  const room = mcpRoom(onTestFinished, [
    { kind: 'stdio', name: 'every', command: process.execPath, args: [EVERYTHING], env: { ...env, SHOWN: 'yes' }, cwd: path },
    { kind: 'stdio', name: 'files', command: process.execPath, args: [FILESYSTEM, path], env }
  ])
  const names = (await room.list()).map(({ definition }) => definition.name)
  expect(names.findIndex((name) => name.startsWith('files__'))).toBeGreaterThan(names.findLastIndex((name) => name.startsWith('every__')))
  expect(textOf(await room.call('every__echo', { message: 'hello' }))).toBe('Echo: hello')
  expect(textOf(await room.call('every__get-sum', { a: 2, b: 40 }))).toContain('42')
  const image = await room.call('every__get-tiny-image')
  expect(image.content.map(({ type }) => type)).toEqual(['text', 'image', 'text'])
  const weather = await room.call('every__get-structured-content', { location: 'Chicago' })
  expect(weather.structured).toMatchObject({ temperature: expect.any(Number) })
  expect(textOf(weather)).toBe(JSON.stringify(weather.structured))
  expect(textOf(await room.call('every__get-resource-links', { count: 1 }))).toMatch(/\[link to the resource ".+": \S+/)
  expect(textOf(await room.call('every__get-resource-reference', { resourceType: 'Text', resourceId: 1 }))).toContain('[resource ')
  const seen = JSON.parse(textOf(await room.call('every__get-env'))) as Record<string, string>
  expect(seen).toMatchObject({ SHOWN: 'yes' })
  expect(Object.keys(seen)).not.toContain('HOME')
  await room.call('every__trigger-long-running-operation', { duration: 0.2, steps: 2 })
  expect(room.progress).toEqual([1, 2].map((progress) => ({ progress, total: 2 })))
})

test.concurrent('server-everything over streamable HTTP: calls, progress, cancellation; a restart costs no call, an end an error', async ({ onTestFinished }) => {
  const port = await freePort()
  const first = await startEverything(onTestFinished, port)
  const room = mcpRoom(onTestFinished, [{ kind: 'http', name: 'every', url: `http://127.0.0.1:${port}/mcp`, headers: { 'x-key': 'k' } }])
  const echo = await room.tool('every__echo')
  expect(textOf(await room.call('every__echo', { message: 'hello' }))).toBe('Echo: hello')
  await room.call('every__trigger-long-running-operation', { duration: 0.1, steps: 1 })
  expect(room.progress).toHaveLength(1)
  const controller = new AbortController()
  const long = room.call('every__trigger-long-running-operation', { duration: 60, steps: 600 }, controller.signal)
  await room.progressed(2)
  controller.abort(new Error('enough'))
  await expect(long).rejects.toThrow('enough')
  await first.stop()
  const second = await startEverything(onTestFinished, port)
  expect(textOf(await echo.execute({ message: 'new session' }, callContext()))).toBe('Echo: new session')
  await second.stop()
  expectError(await echo.execute({ message: 'anyone?' }, callContext()), 'Error: MCP server "every" was lost during the call: the connection was refused (ECONNREFUSED)')
  await startEverything(onTestFinished, port)
  expect(textOf(await echo.execute({ message: 'again' }, callContext()))).toBe('Echo: again')
})
