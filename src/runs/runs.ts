import { isRefusal } from '../core/errors.ts'
import { createAnswerTools } from './answers.ts'
import type { Provider } from '../core/provider.ts'
import type { Runs } from './api.ts'
import { cancel, cancelMany, dispose } from './cancel.ts'
import { mayUse, viewOf, findRun, type RunsContext } from './context.ts'
import { openFrames, readFrames } from './frames.ts'
import { createSendMessage } from './messages.ts'
import { list, relayOptions, tree, wait, waitTree } from './read.ts'
import { createSessions } from './sessions.ts'
import { createStart } from './start.ts'
import { eventPage } from './event-page.ts'
import { stream } from './stream.ts'

/** A run that is no more needs no cancellation. */
const unlessForgotten = (error: unknown): void => { if (!isRefusal(error) || error.code !== 'RUN_NOT_FOUND') throw error }

const providerView = (provider: Provider) => {
  const { name, capabilities, inheritsParentContext } = provider
  return { name, ...provider.availability?.() ?? { available: true }, capabilities, inheritsParentContext }
}

/** The application calls over one context; the same for every face. */
export function createRuns (context: RunsContext): Runs {
  return {
    start: createStart(context),
    get: async (caller, id) => await viewOf(context, await findRun(context, caller, id)),
    list: (...args) => list(context, ...args),
    tree: (...args) => tree(context, ...args),
    wait: (...args) => wait(context, ...args),
    waitTree: (...args) => waitTree(context, ...args),
    relayOptions: (...args) => relayOptions(context, ...args),
    cancel: (caller, id, reason) => cancel(context, caller, id, reason),
    cancelMany: (...args) => cancelMany(context, ...args),
    disconnected: async (caller, id) => {
      await cancel(context, caller, id, 'the client went away', 'disconnect').catch(unlessForgotten)
    },
    dispose: (...args) => dispose(context, ...args),
    answerTools: createAnswerTools(context),
    sendMessage: createSendMessage(context),
    openFrames: (...args) => openFrames(context, ...args),
    readFrames: (...args) => readFrames(context, ...args),
    eventPage: (...args) => eventPage(context, ...args),
    stream: (...args) => stream(context, ...args),
    ...createSessions(context),
    providers: () => context.providers.list().map(providerView),
    tools: async () => (await context.tools()).map((tool) => tool.definition),
    agents: () => context.agents.map(({ name, description, model }) => ({ name, description, model: model ?? null })),
    models: (caller) => context.models.list().filter((model) => mayUse(caller, model.id))
  }
}
