import { messageOf, refuse } from '../core/errors.ts'
import { text, type SessionEvent, type SystemSection } from '../core/events.ts'
import { at } from '../core/fault-point.ts'
import type { Json, JsonObject } from '../core/json.ts'
import { toolError, type CompileSchema, type Tool, type ToolOutcome } from '../core/tool.ts'
import type { Execution, ToolScope } from '../loop/agent.ts'

const NAME = 'structured_output'
const DESCRIPTION = 'Report your final structured result. Call this exactly once, when your answer is complete; the arguments must match this tool\'s parameter schema exactly.'
const INSTRUCTION = 'When you have your final answer, you MUST report it by calling the `structured_output` tool with arguments matching its parameter schema exactly. Do not finish with a plain text answer: only the tool call counts as your result.'

export interface StructuredOutput { tool: Tool, section: SystemSection, scope: ToolScope }

export interface StructuredOutputOptions {
  schema: JsonObject
  compile: CompileSchema
  /** A value captured before a restart, if there was one. */
  captured?: Json
  /** Told once, in the tick in which the final result of the reporting execution is known. */
  onCapture: (execution: Execution, value: Json) => void
}

/**
 * The child-scoped runtime of structured output (driver.md §9, seed 003): a tool that stages its arguments under the identity of
 * the execution, a capture by that execution's final result, a guard that never opens again, and the end of the turn.
 */
export function createStructuredOutput (options: StructuredOutputOptions): StructuredOutput {
  const staged = new Map<object, Json>()
  let captured = options.captured !== undefined
  const tool: Tool = {
    definition: { name: NAME, description: DESCRIPTION, inputSchema: options.schema },
    executor: 'service',
    idempotent: true,
    barrier: true,
    validate: compileOutputSchema(options),
    execute: (input, { execution }): Promise<ToolOutcome> => {
      if (captured || staged.size > 0) return Promise.resolve(toolError(refusal(NAME)))
      staged.set(execution, input)
      return Promise.resolve({ content: [text('Structured output recorded.')], isError: false, structured: { recorded: true } })
    }
  }
  const scope: ToolScope = {
    guard: (name) => captured || staged.size > 0 ? refusal(name) : undefined,
    onResult: (execution, result) => {
      const value = staged.get(execution)
      if (!staged.delete(execution) || result.isError || value === undefined) return
      captured = true
      at('structured/captured')
      options.onCapture(execution, value)
    },
    stopsTurn: () => captured
  }
  return { tool, section: { text: INSTRUCTION }, scope }
}

/** Throws `UNSUPPORTED_SCHEMA` for what the compiler alone can tell, a foreign `$schema` for one. */
function compileOutputSchema ({ schema, compile }: StructuredOutputOptions): Tool['validate'] {
  try {
    return compile(schema)
  } catch (error) {
    throw refuse('UNSUPPORTED_SCHEMA', { violations: [messageOf(error)] }, error)
  }
}

const refusal = (name: string): string => `structured output already recorded: the run is complete, so \`${name}\` is not executed`

/** The value that a run's own events captured, if any. */
export function capturedValue (own: readonly SessionEvent[]): { value: Json } | undefined {
  const found = own.find((event) => event.type === 'run/structured')
  return found?.type === 'run/structured' ? { value: found.data.value } : undefined
}
