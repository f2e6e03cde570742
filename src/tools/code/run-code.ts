import { messageOf } from '../../core/errors.ts'
import type { SystemSection, ToolDefinition } from '../../core/events.ts'
import { isObject, plainJsonFault, type Json } from '../../core/json.ts'
import type { Tool, ToolContext, ToolOutcome } from '../../core/tool.ts'
import { accessOf, declareTools, type CodeTool } from './declarations.ts'
import { renderEnd } from './rendering.ts'
import type { Sandbox } from './sandbox.ts'
import type { CallAnswer, ProgramEnd } from './thread.ts'

export const RUN_CODE = 'run_code'
const MAX_CODE = 256 * 1024

/** What a direct call of another tool is answered in mode `code` (driver.md §10). */
export const onlyRunCode = (name: string): string =>
  `unknown tool "${name}": only \`${RUN_CODE}\` is callable directly — call \`${name}\` from inside a \`${RUN_CODE}\` program instead`

/** A tool call of a program; `parent` is the execution of `run_code` it belongs to (driver.md 9.4). */
export interface SubCall { toolCallId: string, name: string, input: Json, signal: AbortSignal, parent: ToolContext }

export interface RunCodeOptions {
  /** What the child may call, in the order of its view; tools that an upstream executes itself are left out. */
  tools: readonly CodeTool[]
  /** Runs a sub-call through the guard, the view, validation and the log. Rejects with a fault only; that ends the program. */
  dispatch: (call: SubCall) => Promise<ToolOutcome>
  /** Calls that run alone: earlier ones finish first, later ones wait (driver.md 9.6). */
  isBarrier?: (name: string) => boolean
  sandbox: Sandbox
}

export interface RunCode { tool: Tool, section: SystemSection }

/** The `run_code` tool of a child and the section of its system prompt that declares what a program may call (driver.md §10). */
export function createRunCode (options: RunCodeOptions): RunCode {
  const tools = options.tools.filter(({ name, serverTool }) => name !== RUN_CODE && serverTool !== true)
  const names = tools.map(({ name }) => name)
  const tool: Tool = {
    definition: DEFINITION,
    executor: 'service',
    idempotent: false,
    validate: codeFaults,
    execute: async (input, context) => {
      const { code } = input as { code: string }
      const { sandbox } = options
      const calls = new SubCalls(options, context)
      const call: SubCalls['make'] = (n, name, given) => calls.make(n, name, given)
      const end = await sandbox.run({ code, names, call, signal: calls.signal, tenant: context.tenant })
      const notes = await calls.finish(end)
      return renderEnd(end, notes, sandbox.limits.outputBytes)
    }
  }
  const declared = tools.length === 0 ? '(There are no tools to call.)' : `\`\`\`ts\n${declareTools(tools)}\n\`\`\``
  return { tool, section: { text: `${GUIDANCE}\n\n${declared}` } }
}

const DEFINITION: ToolDefinition = {
  name: RUN_CODE,
  description: 'Run a JavaScript program in a sandbox in which the declared tools are async functions. ' +
    'Answers with the JSON value that it returns and what it printed.',
  inputSchema: {
    type: 'object',
    properties: {
      code: { type: 'string', description: 'The body of an async JavaScript function: await tools.<name>(input), and return a JSON value.' }
    },
    required: ['code'],
    additionalProperties: false
  }
}

const GUIDANCE = `Programs: \`${RUN_CODE}\` runs \`code\`, the body of an async function in plain JavaScript \
(no TypeScript, no import, no require). Each tool below is an async function: \`const value = await tools.name(input)\`. \
It resolves with the structured value of the tool where it has one, else with its text; \
a failed call throws an Error with the text of the failure. Calls under \`Promise.all\` run in parallel. \
Return what you need to know as a JSON value; \`console.log\` is shown to you too. \
There is no network, no file system, no timer and no state \
from one program to the next other than through tools. Prefer one program that does several steps and returns only what matters.`

function codeFaults (input: Json): string[] {
  if (!isObject(input)) return ['must be object']
  const { code, ...rest } = input
  const faults = Object.keys(rest).map((name) => `must not have the property ${JSON.stringify(name)}`)
  if (code === undefined) return ['must have the property "code"', ...faults]
  if (typeof code !== 'string') return ['/code: must be string', ...faults]
  return code.length > MAX_CODE ? [`/code: must not have more than ${MAX_CODE} characters`, ...faults] : faults
}

interface Call { name: string, done: Promise<CallAnswer> | undefined, failure?: string }

/** Of a failure that a note repeats. */
const NOTED = 500

/** The tool calls of one program. None outlives it: a failed program's calls are aborted, a finished one's are waited for. */
class SubCalls {
  readonly #options: RunCodeOptions
  readonly #context: ToolContext
  readonly #ending = new AbortController()
  readonly #calls = new Map<number, Call>()
  #barrier: Promise<unknown> | undefined
  #fault: { error: unknown } | undefined
  readonly #onAbort = (): void => this.#ending.abort(this.#context.signal.reason)

  constructor (options: RunCodeOptions, context: ToolContext) {
    this.#options = options
    this.#context = context
    if (context.signal.aborted) this.#onAbort()
    else context.signal.addEventListener('abort', this.#onAbort)
  }

  /** Aborts with the call of `run_code`, or when a fault makes going on pointless. */
  get signal (): AbortSignal { return this.#ending.signal }

  make (n: number, name: string, input: Json): Promise<CallAnswer> {
    const isBarrier = this.#options.isBarrier?.(name) ?? false
    const before = isBarrier ? this.#settled() : this.#barrier
    const done = this.#dispatch(before, n, name, input)
    const call: Call = { name, done }
    this.#calls.set(n, call)
    if (isBarrier) this.#barrier = done
    return done.then((answer) => {
      call.done = undefined
      if (!answer.ok) call.failure = answer.text.slice(0, NOTED).toWellFormed()
      return answer
    })
  }

  /**
   * Resolves when no call is under way, with what the model should know of those whose results the program, finished, never saw.
   * Throws the fault there was.
   */
  async finish ({ ending, unseen, unmade }: ProgramEnd): Promise<string[]> {
    const failed = 'failure' in ending
    if (failed) this.#ending.abort(new Error('the program has ended'))
    await this.#settled()
    this.#context.signal.removeEventListener('abort', this.#onAbort)
    if (this.#fault) throw this.#fault.error
    if (failed) return []
    const notes = unseen.map((n) => {
      const { name, failure } = this.#calls.get(n) as Call
      const end = failure === undefined ? 'then succeeded' : `failed: ${failure}`
      return `Note: the program ended before ${accessOf(name)} answered, which ${end}`
    })
    return unmade === 0 ? notes : [...notes, `Note: the program ended before ${unmade} more of its calls were made: await them`]
  }

  #settled (): Promise<unknown> { return Promise.all([...this.#calls.values()].flatMap(({ done }) => done ? [done] : [])) }

  async #dispatch (before: Promise<unknown> | undefined, n: number, name: string, input: Json): Promise<CallAnswer> {
    await before
    const unkept = plainJsonFault(input)
    if (unkept) return { ok: false, text: `invalid arguments: ${unkept.pointer}: ${unkept.reason}` }
    const toolCallId = `${this.#context.toolCallId}:code:${n}`
    try {
      return answerOf(await this.#options.dispatch({ toolCallId, name, input, signal: this.signal, parent: this.#context }))
    } catch (error) {
      this.#fault ??= { error }
      this.#ending.abort(error)
      return { ok: false, text: messageOf(error) }
    }
  }
}

/**
 * What a program gets of a result: the structured value, else the text, else (images) the blocks; of a failure the text, without
 * the prefix that `Error` adds.
 */
function answerOf ({ content, isError, structured }: ToolOutcome): CallAnswer {
  const texts = content.map((block) => block.type === 'text' ? block.text : undefined)
  const isText = texts.every((part) => part !== undefined)
  const whole = texts.filter((part) => part !== undefined).join('\n')
  if (isError) return { ok: false, text: whole.replace(/^Error: /, '') }
  return { ok: true, text: JSON.stringify(structured ?? (isText ? whole : content)) }
}
