import type { Tool as ListedTool } from '@modelcontextprotocol/client'
import { messageOf, refuse } from '../../core/errors.ts'
import { isObject, type Json, type JsonObject } from '../../core/json.ts'
import { redactJson, type Redact } from '../../core/secrets.ts'
import { toolError, type CompileSchema, type Tool, type ToolContext, type ToolOutcome } from '../../core/tool.ts'
import { toolName } from './names.ts'

export interface ListedTools {
  compile: CompileSchema
  redact: Redact
  /** `name` is the server's own name of the tool. */
  call: (name: string, idempotent: boolean, input: JsonObject, context: ToolContext) => Promise<ToolOutcome>
  onUnchecked: (name: string, reason: string) => void
}

/**
 * The tools of a server as a child's view holds them, without the secrets that the server was given. Two that get the same name:
 * `TOOL_NAME_TAKEN`.
 */
export function toolsOf (server: string, listed: readonly ListedTool[], { compile, redact, call, onUnchecked }: ListedTools): Tool[] {
  const taken = new Set<string>()
  // Tasks are no part of the protocol's tools any more; a tool that answers only through one cannot be called.
  return listed.filter((tool) => tool.execution?.taskSupport !== 'required').map((tool) => {
    const name = toolName(server, redact(tool.name))
    if (taken.has(name)) throw refuse('TOOL_NAME_TAKEN', { name })
    taken.add(name)
    const { annotations } = tool
    const inputSchema = redactJson(tool.inputSchema as Json, redact)
    const idempotent = annotations?.readOnlyHint === true || annotations?.idempotentHint === true
    return {
      definition: { name, description: redact(tool.description ?? tool.title ?? annotations?.title ?? ''), inputSchema },
      executor: 'service',
      idempotent,
      validate: validatorOf(compile, inputSchema, (reason) => onUnchecked(redact(tool.name), reason)),
      execute: async (input, context) => isObject(input)
        ? await call(tool.name, idempotent, input as JsonObject, context)
        : toolError('invalid arguments: must be an object')
    }
  })
}

/** The server checks its arguments itself: a schema that cannot be compiled here costs an early and better error, not the tool. */
function validatorOf (compile: CompileSchema, schema: Json, onUnchecked: (reason: string) => void): Tool['validate'] {
  try {
    return compile(schema)
  } catch (error) {
    onUnchecked(messageOf(error))
    return () => []
  }
}
