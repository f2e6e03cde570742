import type { ToolDefinition, WireFormat } from '../core/events.ts'
import { isObject, plainJsonFault, type Json } from '../core/json.ts'
import type { TranscriptFormat } from '../core/transcript.ts'
import type { Fail, Fields } from './fields.ts'
import { parseObject, type Place } from './place.ts'

/**
 * The host's tools (http-api.md 4.3), each in the shape of its format or as MCP writes it (`inputSchema`). Those in the
 * format's own shape keep their text. Throws for a tool without a name, with a schema that is no object, or named twice.
 */
export function readTools (format: TranscriptFormat, texts: readonly string[], place: Place): ToolDefinition[] {
  const names = new Set<string>()
  return texts.map((text, index) => {
    const fail = place.tool(index)
    const tool = parseObject(text, fail)
    const definition = define(tool, fail)
    if (names.has(definition.name)) throw fail(`a tool named "${definition.name.slice(0, 64)}" is there already`)
    names.add(definition.name)
    const own = ownFormat(format, tool)
    return own ? { ...definition, wire: { format: own, json: text } } : definition
  })
}

function define (tool: Fields, fail: Fail): ToolDefinition {
  if (isObject(tool.function)) return custom(tool.function, tool.function.parameters, fail)
  if (isObject(tool.custom)) return custom(tool.custom, FREE_TEXT, fail)
  const schema = tool.inputSchema ?? tool.input_schema ?? tool.parameters
  if (tool.type === 'custom' && schema === undefined) return custom(tool, FREE_TEXT, fail)
  if (!isBuiltIn(tool) || schema !== undefined) return custom(tool, bareSchema(schema), fail)
  const definition: ToolDefinition = { name: builtInName(tool, fail), description: '', inputSchema: { type: 'object' } }
  return isRunByHost(tool) ? definition : { ...definition, serverTool: true }
}

/** The AI SDK wraps a schema that it did not make itself. */
const bareSchema = (schema: unknown): unknown => isObject(schema) && isObject(schema.jsonSchema) ? schema.jsonSchema : schema

/** What a tool takes whose input is one free text. */
const FREE_TEXT = { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] }
const NO_INPUT = { type: 'object', properties: {} }

function custom (tool: Fields, schema: unknown, fail: Fail): ToolDefinition {
  const inputSchema = schema ?? NO_INPUT
  if (!isObject(inputSchema)) throw fail('the input schema must be an object')
  const fault = plainJsonFault(inputSchema)
  if (fault) throw fail(`the input schema at "${fault.pointer}": ${fault.reason}`)
  const description = tool.description ?? ''
  if (typeof description !== 'string') throw fail('"description" must be a string')
  return { name: nameOf(tool.name, fail), description, inputSchema: inputSchema as Json }
}

function nameOf (name: unknown, fail: Fail): string {
  if (typeof name !== 'string' || name === '') throw fail('the tool has no "name"')
  return name
}

/** A tool that the vendor defines: a type, and no schema. */
const isBuiltIn = (tool: Fields): boolean => typeof tool.type === 'string' && tool.type !== 'function' && tool.type !== 'custom'

const builtInName = (tool: Fields, fail: Fail): string =>
  nameOf(tool.name ?? tool.server_label ?? tool.mcp_server_name ?? tool.type, fail)

/** Tools that the vendor defines and the host runs; the upstream runs all others. */
const RUN_BY_HOST = /^(?:bash|text_editor|memory|computer|browser|local_shell|shell|apply_patch)(?:_|$)/
const isRunByHost = (tool: Fields): boolean => RUN_BY_HOST.test(String(tool.type)) || tool.execution === 'client'

/** The format whose API takes the tool as it is. */
function ownFormat (format: TranscriptFormat, tool: Fields): WireFormat | undefined {
  if (format === 'openai-chat' && (isObject(tool.function) || isObject(tool.custom))) return format
  const foreign = tool.function ?? tool.custom ?? tool.inputSchema ?? tool.parameters
  return format === 'anthropic' && foreign === undefined && ('input_schema' in tool || isBuiltIn(tool)) ? format : undefined
}
