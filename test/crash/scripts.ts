import { calls, callsAll, fails, hangs, says, type FakeAnswer } from '../support/fake-answers.ts'
import type { Message, Script } from './world.ts'

/** The task that the script of this name answers. */
export const task = (script: string, key: string): string => `@${script} ${key}`
export const text = (content: unknown): string => typeof content === 'string' ? content : JSON.stringify(content)
const step = (...answers: FakeAnswer[]): Script => ({ key, step }) => answers[step] ?? says(`done ${key}`)
/** An answer in pieces, so that there is something to cut off. */
const slowly = (message: string): FakeAnswer => says(message, { pieces: 6, delayMs: 15 })
const resultsOf = (messages: readonly Message[]): string[] => messages.filter(({ role }) => role === 'tool').map(({ content }) => text(content))

/** What the model answers to each kind of task. */
export const SCRIPTS: Readonly<Record<string, Script>> = {
  plain: ({ key }) => slowly(`done ${key}`),
  tools: ({ key, step: at }) => at === 0
    ? callsAll([
      { id: 'c1', name: 'once', input: { key: `${key}.1` } }, { id: 'c2', name: 'once', input: { key: `${key}.2`, ms: 40 } },
      { id: 'c3', name: 'again', input: { key } }
    ], { text: 'three calls' })
    : at === 1 ? calls('once', { key: `${key}.3` }, { id: 'c4' }) : slowly(`done ${key}`),
  host: ({ key, step: at }) => at === 0
    ? callsAll([{ id: 'h1', name: 'ask', input: { n: 1 } }, { id: 'h2', name: 'ask', input: { n: 2 } }, { id: 'c3', name: 'again', input: { key } }])
    : says(`done ${key}`),
  structured: ({ key, step: at }) => at === 0
    ? calls('again', { key }, { id: 'c1' })
    : at === 1 ? callsAll([{ id: 's1', name: 'structured_output', input: { n: 7 } }, { id: 'c2', name: 'once', input: { key } }]) : fails('status400'),
  tree: ({ key, step: at, messages }) => {
    const child = (n: number, more: object = {}): object => ({ description: `child ${n}`, prompt: task(n === 2 ? 'once' : 'plain', `${key}/${n}`), ...more })
    if (at === 0) {
      return callsAll([
        { id: 'd1', name: 'subagent', input: child(1) }, { id: 'd2', name: 'subagent', input: child(2) },
        { id: 'd3', name: 'subagent', input: child(3, { run_in_background: true }) }
      ])
    }
    const background = /Subagent (\S+) runs in the background/.exec(resultsOf(messages).join('\n'))?.[1]
    return at === 1 ? calls('subagent_result', { subagent: background }, { id: 'd4' }) : says(`done ${key}`)
  },
  once: ({ key, step: at }) => at === 0 ? calls('once', { key }, { id: 'c1' }) : says(`done ${key}`),
  background: ({ key, step: at, messages }) => {
    if (at === 0) return calls('subagent', { description: 'later', prompt: task('plain', `${key}/1`), run_in_background: true }, { id: 'd1' })
    // Works on until it is told that the child settled.
    const isTold = messages.some(({ role, content }) => role === 'user' && text(content).includes('settled: completed'))
    return isTold || at > 40 ? says(`done ${key}`) : calls('again', { key, ms: 10 }, { id: `c${at}` })
  },
  hanging: step(hangs('half a')),
  cancel: ({ key, step: at }) => at === 0
    ? callsAll([
      { id: 'd1', name: 'subagent', input: { description: 'hangs', prompt: task('hanging', `${key}/1`) } },
      { id: 'd2', name: 'subagent', input: { description: 'in a tool', prompt: task('long', `${key}/2`) } }
    ])
    : says(`done ${key}`),
  long: ({ key }) => calls('once', { key, ms: 60_000 }, { id: 'c1' }),
  steered: ({ key, step: at }) => at === 0 ? calls('again', { key, ms: 80 }, { id: 'c1' }) : says(`done ${key}`),
  retried: ({ key, attempt }) => attempt === 0 ? fails('status500', { headers: { 'retry-after': '0' } }) : says(`done ${key}`),
  code: ({ key, step: at }) => at === 0
    ? calls('run_code', { code: `const a = await tools.again({ key: '${key}' }); const b = await tools.once({ key: '${key}' }); return [a, b]` }, { id: 'p1' })
    : says(`done ${key}`),
  mcp: ({ key, step: at }) => at === 0 ? calls('kit__echo', { text: key }, { id: 'm1' }) : says(`done ${key}`)
}
