import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

/** An MCP server over standard input and output with every fault that one can have. Its first argument says how it behaves. */
const behaviour = process.argv[2] ?? 'good'
interface Message { id?: number | string, method?: string, params?: { name?: string, arguments?: Record<string, unknown>, _meta?: { progressToken?: number }, requestId?: number } }

const send = (message: object): void => { process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`) }
const tool = (name: string, more: object = {}): object => ({ name, description: `the tool ${name}`, inputSchema: { type: 'object' }, ...more })
/** A tool that is told of with what its server was given. */
const leak = (secret: string): object => tool(`leak ${secret}`, {
  description: `connected with ${secret}`, inputSchema: { type: 'object', properties: { [secret]: { enum: [secret], default: secret, description: `not ${secret}` } } }
})
const tools = [
  tool('echo', { annotations: { readOnlyHint: true }, inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] } }),
  tool('die'), tool('hang'), tool('garbage'), tool('grow'), tool('cancelled'), tool('progress'), tool('env'), tool('huge'), tool('half'), tool('content'),
  tool('die-reading', { annotations: { readOnlyHint: true } }), tool('wrong', { outputSchema: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] } }),
  tool('odd', { inputSchema: { type: 'object', properties: { a: { $ref: 'https://elsewhere.test/schema' } } } }), tool('task', { execution: { taskSupport: 'required' } }),
  ...(behaviour === 'leaky' ? [leak(process.env.TOKEN ?? '')] : []),
  ...(behaviour === 'clash' ? [tool('a.b'), tool('a b')] : [])
]
const cancelled: unknown[] = []

if (behaviour === 'crash') {
  process.stderr.write(`cannot work: ${process.env.TOKEN ?? 'no token'}\n`)
  process.exitCode = 3
} else {
  if (behaviour === 'stubborn') beStubborn()
  createInterface({ input: process.stdin }).on('line', (line) => { answer(JSON.parse(line) as Message) })
}

/** Ends only by SIGKILL, and so does the process it started. */
function beStubborn (): void {
  process.on('SIGTERM', () => {})
  setInterval(() => {}, 1000)
  const child = spawn(process.execPath, ['-e', 'process.on("SIGTERM", () => {}); setInterval(() => {}, 1000); console.log("up")'], { stdio: ['ignore', 'pipe', 'inherit'] })
  child.stdout.once('data', () => { process.stderr.write(`pids ${process.pid} ${child.pid}\n`) })
}

function answer ({ id, method, params }: Message): void {
  const result = (value: object): void => send({ id, result: value })
  switch (method) {
    case 'server/discover':
      if (behaviour === 'picky') process.exit(1)
      return send({ id, error: { code: -32601, message: 'Method not found' } })
    case 'initialize':
      if (behaviour === 'silent') return
      return result({ protocolVersion: '2025-06-18', capabilities: { tools: { listChanged: true } }, serverInfo: { name: 'faulty', version: '1' } })
    case 'ping':
      if (behaviour !== 'deaf') result({})
      return
    case 'tools/list': return result({ tools })
    case 'notifications/cancelled': cancelled.push(params?.requestId); return
    case 'tools/call': return call(id, params, result)
    default:
  }
}

function call (id: Message['id'], params: Message['params'], result: (value: object) => void): void {
  const text = (value: string): void => result({ content: [{ type: 'text', text: value }] })
  switch (params?.name) {
    case 'echo': return text(String(params.arguments?.text))
    case 'die-reading':
    case 'die': process.exit(7)
    case 'hang': process.stderr.write(`hanging ${id}\n`); return
    case 'garbage': process.stdout.write('this is no JSON\n'); return text('after the garbage')
    case 'grow':
      tools.push(tool(`grown-${tools.length}`))
      send({ method: 'notifications/tools/list_changed' })
      return text('grown')
    case 'cancelled': return text(JSON.stringify(cancelled))
    case 'progress':
      for (const progress of [1, 2]) send({ method: 'notifications/progress', params: { progressToken: params._meta?.progressToken, progress, total: 2, message: `step ${progress}` } })
      return text('done')
    case 'env': return text(JSON.stringify({ env: process.env, cwd: process.cwd() }))
    case 'huge': return text('x'.repeat(33 * 1024 * 1024))
    case 'half': process.stdout.write('{"jsonrpc":"2.0","id":'); process.exit(0)
    case 'content': return result({
      content: [
        { type: 'text', text: 'a text' }, { type: 'text', text: '' }, { type: 'image', data: 'AAAA', mimeType: 'image/png' }, { type: 'image', data: 'AAAA', mimeType: 'image/svg+xml' },
        { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' }, { type: 'resource_link', uri: 'file:///a', name: 'a', mimeType: 'text/plain' },
        { type: 'resource', resource: { uri: 'file:///b', text: 'its text' } }, { type: 'resource', resource: { uri: 'file:///c', blob: 'AAAAAA==', mimeType: 'application/zip' } }
      ],
      structuredContent: { n: 1 },
      isError: true
    })
    case 'wrong': return result({ content: [], structuredContent: { n: 'no number' } })
    case `leak ${process.env.TOKEN}`: return text(`called ${params.name}`)
    default: send({ id, error: { code: -32602, message: `no tool ${params?.name}` } })
  }
}
