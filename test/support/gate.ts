import { serviceTool, type ServiceTool } from './service-tool.ts'

/** What a run does that passes the gate: one call of it, then an answer. */
export const passes = (say: string): object => ({ task: 'pass', agentOptions: { script: [{ call: { name: 'gate' } }, { say }] } })

/** A tool in which every run stays until the gate is opened. */
export function createGate (): { tool: ServiceTool, open: () => void } {
  const { promise, resolve } = Promise.withResolvers<string>()
  return { tool: serviceTool('gate', () => promise), open: () => resolve('open') }
}
