import { setTimeout as delay } from 'node:timers/promises'
import { againRan, all, completes, onceAtMost, type Check } from './checks.ts'
import type { Host } from './host.ts'
import { uuidOf } from './ids.ts'
import { task, text } from './scripts.ts'
import type { Message } from './world.ts'

/** A way in which a host uses the service. `play` goes through it, crashes or not, and answers with what must hold in the end. */
export interface Kind {
  name: string
  env?: Record<string, string>
  /** Has children that call an MCP server. */
  mcp?: true
  /** The life ends or the clock jumps by its doing: not to be mixed with others. */
  alone?: true
  /** What expired or was deleted is swept at once. */
  sweeps?: true
  /** Its first life is not the one to kill. */
  from?: number
  play (host: Host, key: string): Promise<Check>
}

const metadata = (key: string): { metadata: { key: string } } => ({ metadata: { key } })
export const KINDS: readonly Kind[] = [
  {
    name: 'plain',
    async play (host, key) {
      // Without a key and an id: what is not answered may be there or not.
      const answer = await host.tryCall('POST', '/v1/runs', { task: task('plain', key), ...metadata(key) })
      if (answer) {
        const { id } = answer.body as { id: string }
        host.told.runs.add(id)
        await Promise.all([host.follow(id).done, host.result(id)])
      }
      return (facts) => facts.byKey(key).length === 0 && !answer ? [] : completes(key)(facts, undefined as never)
    }
  },
  {
    name: 'tools',
    async play (host, key) {
      const id = await host.start(key, { task: task('tools', key), ...metadata(key) })
      await Promise.all([host.follow(id).done, host.result(id)])
      return all(completes(key), againRan(key, 'c3'), ...['1', '2', '3'].map((n) => onceAtMost(`${key}.${n}`, key, n === '3' ? 'c4' : `c${n}`)))
    }
  },
  {
    name: 'host',
    async play (host, key) {
      const tools = [{ name: 'ask', description: 'asks', inputSchema: { type: 'object' } }]
      const id = await host.start(key, { task: task('host', key), tools, ...metadata(key) })
      const reader = host.follow(id)
      await Promise.all([reader.done, host.result(id, (_, call) => `answer to ${call}`)])
      const answered = (call: string): Check => (facts) => facts.byKey(key)[0]?.toolResult(call)?.text === `answer to ${call}` ? [] : [`the answer to ${call} of ${key} is lost`]
      return all(completes(key), answered('h1'), answered('h2'), againRan(key, 'c3'))
    }
  },
  {
    name: 'structured',
    async play (host, key) {
      const outputSchema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }
      const id = await host.start(key, { task: task('structured', key), outputSchema, ...metadata(key) })
      await Promise.all([host.follow(id).done, host.result(id)])
      return (facts, world) => [
        ...facts.one(key, (run) => run.stopReason === 'completed' && JSON.stringify(run.structured) === '{"n":7}' ? [] : [`${key} ended ${run.stopReason} with ${JSON.stringify(run.structured)}`]),
        ...world.ran('once', key) > 0 ? [`a call after the capture of ${key} ran`] : [],
        ...world.asked(key).some((messages) => messages.at(-1)?.tool_call_id === 'c2') ? [`the model was asked after the capture of ${key}`] : []
      ]
    }
  },
  {
    name: 'tree',
    async play (host, key) {
      const id = await host.start(key, { task: task('tree', key), ...metadata(key) })
      await Promise.all([host.follow(id).done, host.follow(id, { tree: true }).done, host.result(id)])
      return all(completes(key), (facts, world) => [
        ...facts.children(key, 3),
        ...facts.childrenOf(key).flatMap((run) => run.stopReason === 'completed' ? [] : [`the child ${run.label} of ${key} ended ${run.stopReason}`]),
        ...world.ran('once', `${key}/2`) > 1 ? [`the tool "once" ran twice in a child of ${key}`] : []
      ])
    }
  },
  {
    name: 'background',
    async play (host, key) {
      const id = await host.start(key, { task: task('background', key), ...metadata(key) })
      await Promise.all([host.follow(id, { tree: true }).done, host.result(id)])
      return all(completes(key), (facts) => [
        ...facts.children(key, 1),
        ...facts.one(key, (run) => run.told('settled: completed') === 1 ? [] : [`${key} was told ${run.told('settled: completed')} times that its child settled`])
      ])
    }
  },
  {
    name: 'stream',
    async play (host, key) {
      const id = uuidOf(key)
      const reader = host.follow(id, { start: { id, task: task('tools', key), ...metadata(key) } })
      await reader.done
      await host.result(id)
      return completes(key)
    }
  },
  {
    name: 'idempotent',
    async play (host, key) {
      const body = { task: task('plain', key), ...metadata(key) }
      const ids = await Promise.all([1, 2, 3].map(() => host.start(key, body, { prefer: 'wait=10' })))
      await host.result(ids[0] as string)
      return all(completes(key), (facts) => facts.byKey(key).length === 1 && new Set(ids).size === 1 ? [] : [`the key ${key} made ${facts.byKey(key).length} runs, and named ${[...new Set(ids)].join(', ')}`])
    }
  },
  {
    name: 'cancel',
    async play (host, key) {
      const id = await host.start(key, { task: task('cancel', key), ...metadata(key) })
      const readers = [host.follow(id), host.follow(id, { tree: true })]
      const tree = async (): Promise<number> => ((await host.call('GET', `/v1/runs/${id}/tree`)).body as { children: unknown[] }).children.length
      while (await tree() < 2) await delay(10)
      await delay(30)
      await host.call('POST', `/v1/runs/${id}/cancel`, { reason: key })
      host.told.cancels.add(id)
      await Promise.all([...readers.map(({ done }) => done), host.result(id)])
      return (facts) => [
        ...facts.one(key, (run) => run.stopReason === 'aborted' && run.cancel?.reason === key ? [] : [`${key} was cancelled and ended ${run.stopReason}, ${JSON.stringify(run.cancel)}`]),
        ...facts.children(key, 2),
        ...facts.childrenOf(key).flatMap((run) => run.stopReason === 'aborted' ? [] : [`the child ${run.label} of the cancelled ${key} ended ${run.stopReason}`])
      ]
    }
  },
  {
    name: 'follow-up',
    async play (host, key) {
      const id = await host.start(key, { task: task('plain', key), ...metadata(key) })
      await host.result(id)
      const sent = await host.call('POST', `/v1/runs/${id}/messages`, { mode: 'follow-up', content: task('once', `${key}+`) }, { 'idempotency-key': key })
      if (sent.status !== 201 && sent.status !== 200) return () => [`the follow-up of ${key} was answered ${sent.status}: ${sent.text}`]
      const { id: next } = sent.body as { id: string }
      host.told.runs.add(next)
      await Promise.all([host.follow(next).done, host.result(next)])
      return (facts, world) => {
        const [first, ...later] = facts.byKey(key).toSorted((a, b) => a.createdAt.localeCompare(b.createdAt))
        return [
          ...first?.text === `done ${key}` ? [] : [`the first run of ${key} ended "${first?.text}"`],
          ...later.length === 1 && later[0]?.text === `done ${key}+` ? [] : [`${key} has ${later.length} follow-ups that ended "${later.map((run) => run.text).join(', ')}"`],
          ...world.ran('once', `${key}+`) > 1 ? [`the tool "once" ran twice in the follow-up of ${key}`] : []
        ]
      }
    }
  },
  {
    name: 'fork',
    async play (host, key) {
      const turns = Array.from({ length: 110 }, (_, n) => [{ role: 'user', content: `question ${n}` }, { role: 'assistant', content: `answer ${n}` }]).flat()
      const open = { role: 'assistant', content: null, tool_calls: [{ id: 'call_9', type: 'function', function: { name: 'delegate', arguments: '{}' } }] }
      const transcript = { format: 'openai-chat', messages: [{ role: 'system', content: 'You are.' }, ...turns, { role: 'user', content: 'go' }, open] }
      const id = await host.start(key, { provider: 'fork', task: task('plain', key), parent: { transcript }, ...metadata(key) })
      await Promise.all([host.follow(id).done, host.result(id)])
      const again = await host.start(`${key}-2`, { provider: 'fork', task: task('once', `${key}-2`), parent: { runId: id }, ...metadata(`${key}-2`) })
      await host.result(again)
      const kept = (messages: readonly Message[]): boolean => JSON.stringify(messages.slice(1, 221)) === JSON.stringify(turns)
      return all(completes(key), completes(`${key}-2`), onceAtMost(`${key}-2`, `${key}-2`, 'c1'), (_, world) =>
        [...world.asked(key), ...world.asked(`${key}-2`)].every(kept) ? [] : [`a fork of ${key} was asked without its parent's turns`])
    }
  },
  {
    name: 'steered',
    async play (host, key) {
      const id = await host.start(key, { task: task('steered', key), ...metadata(key) })
      const sent = await host.call('POST', `/v1/runs/${id}/messages`, { content: `steer ${key}` }, { 'idempotency-key': key })
      if (sent.status === 202) host.told.messages.push({ id, messageId: (sent.body as { messageId: string }).messageId })
      await Promise.all([host.follow(id).done, host.result(id)])
      return all(completes(key), (facts, world) => [
        ...sent.status === 202 || sent.status === 409 ? [] : [`the message to ${key} was answered ${sent.status}: ${sent.text}`],
        ...sent.status === 202 && !world.asked(key).at(-1)?.some(({ content }) => text(content).includes(`steer ${key}`)) ? [`the model of ${key} was not asked with the message`] : [],
        ...facts.one(key, (run) => run.told(`steer ${key}`) === (sent.status === 202 ? 1 : 0) ? [] : [`the log of ${key} has its message ${run.told(`steer ${key}`)} times`])
      ])
    }
  },
  {
    name: 'session',
    async play (host, key) {
      const id = uuidOf(key)
      const pair = (n: number): object[] => [{ role: 'user', content: `question ${n} ${'of many words '.repeat(20)}` }, { role: 'assistant', content: `answer ${n}` }]
      const made = await host.call('POST', '/v1/sessions', { id, transcript: { format: 'openai-chat', messages: pair(0) } }, { 'idempotency-key': key })
      const grown = await host.call('POST', `/v1/sessions/${id}/messages`, { after: 2, messages: Array.from({ length: 110 }, (_, n) => pair(n + 1)).flat() }, { 'idempotency-key': key })
      const last = await host.call('POST', `/v1/sessions/${id}/messages`, { after: 222, messages: pair(111) }, { 'idempotency-key': `${key}-2` })
      const statuses = [made, grown, last].map(({ status }) => status)
      if (statuses.some((status) => status !== 200 && status !== 201)) return () => [`the session of ${key} was answered ${statuses.join(', ')}: ${last.text}`]
      const run = await host.start(key, { provider: 'fork', task: task('plain', key), parent: { sessionId: id }, ...metadata(key) })
      await host.result(run)
      const read = await host.call('GET', `/v1/sessions/${id}`)
      return all(completes(key), (_, world) => [
        ...(read.body as { length: number }).length === 224 ? [] : [`the session of ${key} has ${(read.body as { length: number }).length} messages`],
        ...world.asked(key).every((messages) => messages.length === 225) ? [] : [`a fork of the session of ${key} was asked with ${world.asked(key).map((messages) => messages.length).join(', ')} messages`]
      ])
    }
  },
  {
    name: 'retried',
    async play (host, key) {
      const id = await host.start(key, { task: task('retried', key), ...metadata(key) })
      await Promise.all([host.follow(id).done, host.result(id)])
      return completes(key)
    }
  },
  {
    name: 'code',
    async play (host, key) {
      const id = await host.start(key, { task: task('code', key), codeMode: 'both', ...metadata(key) })
      await Promise.all([host.follow(id).done, host.result(id)])
      return all(completes(key), (facts, world) => [
        ...world.ran('once', key) > 1 ? [`the tool "once" ran ${world.ran('once', key)} times in a program of ${key}`] : [],
        ...facts.one(key, (run) => run.toolResult('p1') === undefined ? [`the program of ${key} has no result`] : [])
      ])
    }
  },
  {
    name: 'queued',
    env: { MAX_RUNNING: '2' },
    async play (host, key) {
      const keys = [1, 2, 3, 4].map((n) => `${key}-${n}`)
      const ids = await Promise.all(keys.map((each) => host.start(each, { task: task('once', each), ...metadata(each) })))
      await Promise.all(ids.map((id) => host.result(id)))
      return all(...keys.flatMap((each) => [completes(each), onceAtMost(each, each, 'c1')]))
    }
  },
  {
    name: 'delete',
    sweeps: true,
    async play (host, key) {
      const ids = await Promise.all(['hanging', 'plain'].map((script) => host.start(`${key}-${script}`, { task: task(script, `${key}-${script}`), ...metadata(`${key}-${script}`) })))
      const readers = ids.map((id) => host.follow(id))
      await host.result(ids[1] as string)
      for (const id of ids) {
        const { status, text: answer } = await host.call('DELETE', `/v1/runs/${id}`)
        if (status !== 204) return () => [`the deletion of ${key} was answered ${status}: ${answer}`]
        host.told.deleted.add(id)
      }
      await Promise.all(readers.map(({ done }) => done))
      // The sweep frees the bytes.
      await delay(120)
      return () => []
    }
  },
  {
    name: 'mcp',
    mcp: true,
    async play (host, key) {
      const id = await host.start(key, { task: task('mcp', key), ...metadata(key) })
      await Promise.all([host.follow(id).done, host.result(id)])
      return all(completes(key), (facts) => facts.byKey(key)[0]?.toolResult('m1')?.text === key ? [] : [`the MCP call of ${key} has the result ${JSON.stringify(facts.byKey(key)[0]?.toolResult('m1'))}`])
    }
  },
  {
    name: 'expire',
    sweeps: true,
    alone: true,
    from: 1,
    env: { RETENTION_DAYS: '1' },
    async play (host, key) {
      const ids = await Promise.all(['tree', 'plain'].map((script) => host.start(`${key}-${script}`, { task: task(script, `${key}-${script}`), ...metadata(`${key}-${script}`) })))
      await Promise.all(ids.map((id) => host.result(id)))
      const sessions = Array.from({ length: 150 }, (_, n) => ({ role: n % 2 === 0 ? 'user' : 'assistant', content: `message ${n}` }))
      await host.call('POST', '/v1/sessions', { id: uuidOf(key), transcript: { format: 'openai-chat', messages: sessions } }, { 'idempotency-key': key })
      host.town.jump(3)
      for (const id of ids) host.told.deleted.add(id)
      await host.town.terminate()
      for (const path of [...ids.map((id) => `/v1/runs/${id}`), `/v1/sessions/${uuidOf(key)}`]) {
        while ((await host.call('GET', path)).status !== 404) await delay(20)
      }
      await delay(120)
      return (facts) => facts.runs.map((run) => `the run ${run.metadata.key ?? run.label} did not expire`)
    }
  },
  {
    name: 'shutdown',
    alone: true,
    async play (host, key) {
      const tools = [{ name: 'ask', description: 'asks', inputSchema: { type: 'object' } }]
      const scripts = ['host', 'tools', 'plain']
      const ids = await Promise.all(scripts.map((script) => host.start(`${key}-${script}`, {
        task: task(script, `${key}-${script}`), ...script === 'host' ? { tools } : {}, ...metadata(`${key}-${script}`)
      })))
      const readers = ids.map((id) => host.follow(id))
      await host.town.terminate()
      await Promise.all([...readers.map(({ done }) => done), ...ids.map((id) => host.result(id, (_, call) => `answer to ${call}`))])
      return all(...scripts.map((script) => completes(`${key}-${script}`)))
    }
  }
]
