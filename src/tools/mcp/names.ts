import { createHash } from 'node:crypto'

/** A server's name is the first part of its tools' names, up to the first `__`. */
export const SERVER_NAME = /^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$/
export const SERVER_NAME_RULE = '1 to 32 letters, digits, "-" or single "_" between them'

const MAX_NAME = 64
const HASH = 8

/**
 * The name under which a model knows a server's tool: `<server>__<tool>`, what model servers do not take as `_`. Too long a name
 * ends in a hash of the whole instead, the same one on every machine.
 */
export function toolName (server: string, tool: string): string {
  const name = `${server}__${tool.replaceAll(/[^\w-]/g, '_')}`
  if (name.length <= MAX_NAME) return name
  const hash = createHash('sha256').update(tool).digest('hex').slice(0, HASH)
  return `${name.slice(0, MAX_NAME - HASH - 1)}_${hash}`
}
