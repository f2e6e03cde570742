import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')

/** The tests of everything that is offered over HTTP, as two tenants at once (support/two-tenants.ts); `npm test` runs a part of them. */
export async function soakTenants (args: readonly string[]): Promise<number> {
  const files = args.length === 0 ? ['test/runs'] : args
  const tests = spawn(process.execPath, [join(root, 'node_modules/vitest/vitest.mjs'), 'run', ...files], {
    cwd: root, stdio: 'inherit', env: { ...process.env, TEST_TENANTS: '2' }
  })
  const [code] = await once(tests, 'close') as [number | null]
  return code ?? 1
}
