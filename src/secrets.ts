import type { Config } from './config.ts'
import { isSecretName, secretParts } from './core/secrets.ts'

/** Whatever in the configuration nobody may read. */
export const secretsIn = ({ models, tools, tracing, providers }: Config): string[] => [
  ...models.endpoints.flatMap(({ apiKey }) => apiKey ?? []), ...[...tools.mcp, ...tools.http].flatMap(({ secrets }) => secrets),
  ...Object.values(tracing?.headers ?? {}).flatMap(secretParts),
  ...Object.entries(providers.claudeCode?.env ?? {}).flatMap(([name, content]) => isSecretName(name) ? secretParts(content) : [])
]
