import { refuse } from '../core/errors.ts'
import type { Model, ModelKind, Models } from '../core/model.ts'
import { createAnthropic } from './anthropic.ts'
import { createLink, FETCH_TIMEOUTS, type Endpoint, type FetchTimeouts } from './link.ts'
import { createOpenAiChat } from './openai-chat.ts'
import { createScripted, SCRIPTED } from './scripted.ts'

export interface ModelsOptions {
  endpoints: readonly Endpoint[]
  /** `<endpoint>/<model>`. Default: the first model that an endpoint lists, else `scripted/demo`. */
  defaultModel?: string
  fetchTimeouts?: Partial<FetchTimeouts>
  /** Longest text of one answer, in bytes of UTF-8. */
  maxReplyBytes?: number
  now?: () => number
}

const MAX_REPLY_BYTES = 16 * 1024 * 1024
/** The frames of a stream outweigh the text they carry; past this the connection is cut whatever it carries. */
const FRAMING = 4

interface Offer { name: string, kind: ModelKind, models?: readonly string[], create (model: string): Model }

/**
 * The models of the configured endpoints; `scripted` is always one of them. Nothing is loaded or connected before the first
 * call. Throws an `Error` for endpoints that share a name or cannot be, and `MODEL_UNKNOWN` for an unknown default.
 */
export function createModels (options: ModelsOptions): Models {
  const { maxReplyBytes = MAX_REPLY_BYTES, now = Date.now } = options
  const timeouts = { ...FETCH_TIMEOUTS, ...options.fetchTimeouts }
  const link = createLink({ timeouts, maxAnswerBytes: FRAMING * maxReplyBytes, now })
  const offers = new Map<string, Offer>()
  for (const endpoint of options.endpoints) {
    checkEndpoint(endpoint, offers)
    const create = endpoint.kind === 'anthropic' ? createAnthropic : createOpenAiChat
    offers.set(endpoint.name, { ...endpoint, create: create(endpoint, link, maxReplyBytes) })
  }
  offers.set(SCRIPTED, { name: SCRIPTED, kind: 'scripted', create: createScripted })
  const defaultModel = options.defaultModel ?? firstListed(offers) ?? `${SCRIPTED}/demo`
  const list = listOf(offers, defaultModel)
  const unknown = (model: string) => refuse('MODEL_UNKNOWN', { model, known: list.map(({ id }) => id) })
  const [defaultEndpoint] = split(defaultModel, offers) ?? []
  if (!defaultEndpoint) throw unknown(defaultModel)

  const resolve = (name: string, kind?: ModelKind): Model => {
    const full = split(name, offers)
    const [offer, model] = full ?? [ofKind(offers, kind) ?? defaultEndpoint, name]
    if (model === '' || (offer.models && !offer.models.includes(model))) throw unknown(name)
    // The scripted model never answers by chance for one that is not there.
    if (!full && offer.kind === 'scripted' && model !== 'demo') throw unknown(name)
    return offer.create(model)
  }
  resolve(defaultModel)
  return { resolve, defaultModel, list: () => list.map((entry) => ({ ...entry })), close: link.close }
}

function checkEndpoint ({ name, kind, baseUrl }: Endpoint, offers: ReadonlyMap<string, Offer>): void {
  if (name === SCRIPTED) throw new Error(`the endpoint name "${SCRIPTED}" is taken`)
  if (!/^[\w.-]+$/.test(name)) throw new Error(`the endpoint name "${name}" may hold letters, digits, "_", "." and "-" only`)
  if (offers.has(name)) throw new Error(`two endpoints are named "${name}"`)
  if (kind !== 'openai-chat' && kind !== 'anthropic') throw new Error(`endpoint "${name}" has the unknown kind "${String(kind)}"`)
  if (baseUrl !== undefined && !/^https?:$/.test(URL.parse(baseUrl)?.protocol ?? '')) {
    throw new Error(`the base URL of endpoint "${name}" is no http or https URL`)
  }
}

/** The first segment is an endpoint only if one is named so: model names may hold slashes themselves. */
function split (name: string, offers: ReadonlyMap<string, Offer>): [Offer, string] | undefined {
  const slash = name.indexOf('/')
  const offer = slash === -1 ? undefined : offers.get(name.slice(0, slash))
  return offer && [offer, name.slice(slash + 1)]
}

const ofKind = (offers: ReadonlyMap<string, Offer>, kind: ModelKind | undefined): Offer | undefined =>
  [...offers.values()].find((offer) => offer.kind === kind)

function firstListed (offers: ReadonlyMap<string, Offer>): string | undefined {
  const offer = [...offers.values()].find(({ models }) => models && models.length > 0)
  return offer && `${offer.name}/${offer.models?.[0]}`
}

function listOf (offers: ReadonlyMap<string, Offer>, defaultModel: string): ReturnType<Models['list']> {
  const list = [...offers.values()].flatMap(({ name, kind, models }) =>
    (models ?? (kind === 'scripted' ? ['demo'] : [])).map((model) => {
      const id = `${name}/${model}`
      return { id, endpoint: name, kind, default: id === defaultModel }
    }))
  if (list.some((entry) => entry.default)) return list
  const [offer] = split(defaultModel, offers) ?? []
  return offer ? [{ id: defaultModel, endpoint: offer.name, kind: offer.kind, default: true }, ...list] : list
}
