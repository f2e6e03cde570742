import { randomBytes } from 'node:crypto'
import { parseArgs } from 'node:util'
import { stringify } from 'yaml'
import { messageOf } from './core/errors.ts'
import { parseKeys, sha256 } from './keys.ts'
import type { KeyEntry } from './keys.ts'

/** `npm run key -- --tenant NAME [--id ID] [--scopes a,b] [--expires ISO]` (http-api.md 8.1). */

export interface NewKey {
  /** Shown once, kept nowhere. */
  key: string
  /** Its entry, as a list item of the keys file. */
  yaml: string
  entry: KeyEntry
}

/** A new random key and its entry. Throws an `Error` that names the bad argument. */
export function mintKey (args: { tenant: string, id?: string, scopes?: string[], expires?: string }): NewKey {
  const key = `sk-sub-${randomBytes(32).toString('base64url')}`
  const yaml = stringify([{
    id: args.id ?? `key-${randomBytes(4).toString('hex')}`,
    sha256: sha256(key).toString('hex'),
    tenant: args.tenant,
    ...(args.scopes && { scopes: args.scopes }),
    ...(args.expires !== undefined && { expiresAt: args.expires })
  }], { lineWidth: 0 })
  const [entry] = parseKeys(yaml, 'key')
  return { key, yaml, entry: entry as KeyEntry }
}

const USAGE = 'usage: npm run key -- --tenant NAME [--id ID] [--scopes read,write,metrics] [--expires 2030-01-31T00:00:00Z]'

/** What the command prints, and where. */
export function runKeyCommand (args: string[]): { code: number, stdout: string, stderr: string } {
  try {
    const option = { type: 'string' } as const
    const { values } = parseArgs({ args, options: { tenant: option, id: option, scopes: option, expires: option } })
    if (values.tenant === undefined) throw new Error('--tenant is missing')
    const { key, yaml } = mintKey({
      tenant: values.tenant,
      ...(values.id !== undefined && { id: values.id }),
      ...(values.scopes !== undefined && { scopes: values.scopes.split(',').map((scope) => scope.trim()) }),
      ...(values.expires !== undefined && { expires: values.expires })
    })
    return { code: 0, stdout: `# The key, shown this once:\n#   ${key}\n# Its entry for API_KEYS_FILE:\n${yaml}`, stderr: '' }
  } catch (error) {
    return { code: 1, stdout: '', stderr: `${messageOf(error)}\n${USAGE}\n` }
  }
}

if (import.meta.main) {
  const { code, stdout, stderr } = runKeyCommand(process.argv.slice(2))
  process.stdout.write(stdout)
  process.stderr.write(stderr)
  process.exitCode = code
}
