import type { Block, SystemSection, ToolDefinition, Wire, WireFormat } from '../core/events.ts'
import { isObject, type JsonObject } from '../core/json.ts'
import { modelFault } from './faults.ts'
import { isObjectText, objectMembers } from './json-text.ts'

/** What the encoders of both formats share. All pure. */

/** The verbatim text, where it is of the encoder's own format. */
export const ownWire = (item: { wire?: Wire }, format: WireFormat): string | undefined =>
  item.wire?.format === format ? item.wire.json : undefined

export const IMAGE_OMITTED = '[image omitted]'
/** For wire formats whose tool results hold text only. */
export const plainText = (content: readonly Block[]): string =>
  content.map((block) => block.type === 'text' ? block.text : IMAGE_OMITTED).join('\n')

/** The sections that the encoder words itself, joined with blank lines. */
export const joinSections = (sections: readonly SystemSection[]): string =>
  sections.map((section) => section.text).filter((text) => text !== '').join('\n\n')

/** Both APIs want an object schema; what is missing for one is added in front. */
export function objectSchema ({ inputSchema }: ToolDefinition): JsonObject {
  if (!isObject(inputSchema)) return { type: 'object', properties: {} }
  return {
    ...('type' in inputSchema ? {} : { type: 'object' }),
    ...('properties' in inputSchema || 'type' in inputSchema ? {} : { properties: {} }),
    ...inputSchema
  }
}

/** A member of an upstream request: its key and the JSON text of its value; without a value it is left out. */
export type Member = readonly [key: string, json: string | undefined]

/**
 * The text of an upstream request: our members, then the host's `providerOptions` as they are. A key that the host names
 * replaces ours (`replaces` lists further keys that mean the same), except a reserved one, which is ours alone: theirs is left
 * out. Throws an `UpstreamFault` when `providerOptions` is not a JSON object.
 */
export function requestText (ours: readonly Member[], providerOptions: string | undefined, rules: {
  reserved: ReadonlySet<string>
  replaces: Readonly<Record<string, string>>
}): string {
  const options = providerOptions ?? '{}'
  if (!isObjectText(options)) throw modelFault('was not called: providerOptions is not a JSON object', false)
  const theirs = objectMembers(options).filter(({ key }) => !rules.reserved.has(key))
  const named = new Set(theirs.flatMap(({ key }) => Object.hasOwn(rules.replaces, key) ? [key, rules.replaces[key]] : [key]))
  const kept = ours.filter(([key, json]) => json !== undefined && !named.has(key))
  return `{${[...kept.map(([key, json]) => `${JSON.stringify(key)}:${json}`), ...theirs.map(({ text }) => text)].join(',')}}`
}

/** Tools that the upstream runs itself are its own format's: another would take them for functions that somebody runs. */
export const sendableTools = (tools: readonly ToolDefinition[], format: WireFormat): ToolDefinition[] =>
  tools.filter((tool) => !tool.serverTool || ownWire(tool, format) !== undefined)
