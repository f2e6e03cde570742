import { createKeyRing, sha256, type KeyLimits } from '../../src/keys.ts'
import { startService, type Answer, type AtEnd, type Service, type ServiceOptions } from '../support/service.ts'

export const quick = { task: 'a', agentOptions: { script: [{ say: 'done' }] } }
export const hang = { task: 'stay', agentOptions: { script: [{ hang: true }] } }

export interface Tenants {
  service: Service
  /** A request of a tenant's key; the tenant `a` has the key of `a`. */
  call (tenant: string, method: string, path: string, body?: object, headers?: Record<string, string>): Promise<Answer>
  start (tenant: string, body?: object, headers?: Record<string, string>): Promise<Answer>
}

/** The real service with one key for each tenant. */
export async function startTenants (atEnd: AtEnd, tenants: Record<string, KeyLimits>, options: ServiceOptions = {}): Promise<Tenants> {
  const entries = Object.entries(tenants).map(([tenant, limits]) => ({ id: tenant, sha256: sha256(`key-of-${tenant}`).toString('hex'), tenant, limits }))
  const { now = Date.now } = options
  const keys = createKeyRing({ path: 'keys.yaml', readFile: () => JSON.stringify(entries), watch: () => () => {}, now, onFault: (error) => { throw error } })
  const service = await startService(atEnd, { ...options, keys })
  const call: Tenants['call'] = (tenant, method, path, body, headers = {}) =>
    service.call(method, path, body, { authorization: `Bearer key-of-${tenant}`, ...headers })
  return { service, call, start: (tenant, body = quick, headers) => call(tenant, 'POST', '/v1/runs', body, headers) }
}

/** How many of the answers have each status and code. */
export function tally (answers: readonly Answer[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status, body } of answers) {
    const name = [status, ...body?.code === undefined ? [] : [body.code]].join(' ')
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}
