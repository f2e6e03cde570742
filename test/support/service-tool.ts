import { text } from '../../src/core/events.ts'
import type { Json } from '../../src/core/json.ts'
import type { Tool, ToolContext, ToolOutcome } from '../../src/core/tool.ts'
import { createSchemaCompiler } from '../../src/tools/schema.ts'

export interface ServiceToolOptions {
  schema?: Json
  idempotent?: boolean
  description?: string
}
export interface ServiceTool extends Tool {
  /** What it was called with, in the order in which the executions began. */
  readonly inputs: Json[]
  readonly contexts: ToolContext[]
  /** Resolves once execution `n`, from 0, has begun. */
  began (n?: number): Promise<void>
}

const compile = createSchemaCompiler()

/** A deployment's tool that keeps what it was called with. `work` answers, a string as the text of a result. */
export function serviceTool (
  name: string, work: (input: Json, context: ToolContext) => string | ToolOutcome | Promise<string | ToolOutcome> = () => `${name} ran`, options: ServiceToolOptions = {}
): ServiceTool {
  const inputSchema = options.schema ?? { type: 'object' }
  const inputs: Json[] = []
  const contexts: ToolContext[] = []
  const waiting: { n: number, resolve: () => void }[] = []
  return {
    definition: { name, description: options.description ?? `the tool ${name}`, inputSchema },
    executor: 'service',
    idempotent: options.idempotent ?? true,
    inputs,
    contexts,
    began: (n = 0) => new Promise((resolve) => {
      if (inputs.length > n) resolve()
      else waiting.push({ n, resolve })
    }),
    validate: compile(inputSchema),
    async execute (input, context) {
      inputs.push(input)
      contexts.push(context)
      for (const waiter of waiting) if (waiter.n < inputs.length) waiter.resolve()
      const answer = await work(input, context)
      return typeof answer === 'string' ? { content: [text(answer)], isError: false } : answer
    }
  }
}

/** Runs until its signal aborts, then fails with the reason. */
export const untilAborted = (_: Json, { signal }: ToolContext): Promise<never> => new Promise((_resolve, reject) => {
  signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
})
/** Never ends, whatever its signal says. */
export const never = (): Promise<never> => new Promise(() => {})
