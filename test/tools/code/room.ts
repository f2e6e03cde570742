import { text } from '../../../src/core/events.ts'
import type { Json } from '../../../src/core/json.ts'
import { toolError, type ToolContext, type ToolOutcome } from '../../../src/core/tool.ts'
import type { CodeTool } from '../../../src/tools/code/declarations.ts'
import { createRunCode, type RunCode, type RunCodeOptions, type SubCall } from '../../../src/tools/code/run-code.ts'
import { createSandbox, type Sandbox, type SandboxOptions } from '../../../src/tools/code/sandbox.ts'

type OnFinished = (close: () => Promise<void>) => void

/** A program may compute for this long in tests that let it run out. */
export const SHORT = { cpuMs: 150, graceMs: 600 }

export interface CodeRoom {
  sandbox: Sandbox
  runCode: RunCode
  calls: SubCall[]
  /** The outcome of a program. */
  run (code: string, context?: Partial<ToolContext>): Promise<ToolOutcome>
  /** Its text. */
  say (code: string, context?: Partial<ToolContext>): Promise<string>
}

export const value = (structured: Json): ToolOutcome => ({ content: [text(JSON.stringify(structured))], isError: false, structured })
export const tool = (name: string, inputSchema: Json = { type: 'object' }): CodeTool => ({ name, description: '', inputSchema })
export const textOf = ({ content }: ToolOutcome): string => content.map((block) => block.type === 'text' ? block.text : '').join('')

/** A sandbox, of its own unless one is `shared`, with a `run_code` whose tools answer by `answers`; an own one is closed with the test. */
export function openRoom (
  onFinished: OnFinished,
  answers: Record<string, (input: Json, call: SubCall) => ToolOutcome | Promise<ToolOutcome>> = {},
  options: Partial<SandboxOptions> & Pick<RunCodeOptions, 'isBarrier'> & { shared?: Sandbox } = {}
): CodeRoom {
  const { isBarrier, shared, ...limits } = options
  const sandbox = shared ?? createSandbox(limits)
  if (!shared) onFinished(() => sandbox.close())
  const calls: SubCall[] = []
  const runCode = createRunCode({
    sandbox,
    tools: Object.keys(answers).map((name) => tool(name)),
    dispatch: async (call) => {
      calls.push(call)
      return Object.hasOwn(answers, call.name)
        ? await (answers[call.name] as (input: Json, call: SubCall) => ToolOutcome | Promise<ToolOutcome>)(call.input, call)
        : toolError(`unknown tool "${call.name}"`)
    },
    ...(isBarrier ? { isBarrier } : {})
  })
  const run: CodeRoom['run'] = (code, context) => runCode.tool.execute({ code }, {
    toolCallId: 'call_1', execution: {}, runId: 'run_1', tenant: 'default', signal: new AbortController().signal, ...context
  })
  return { sandbox, runCode, calls, run, say: async (code, context) => textOf(await run(code, context)) }
}

/** Resolves when the call's signal aborts, as a tool that minds it does. */
export const untilAborted = ({ signal }: SubCall): Promise<ToolOutcome> => new Promise((resolve) => {
  const end = (): void => resolve(toolError('tool call aborted'))
  if (signal.aborted) end()
  else signal.addEventListener('abort', end)
})
