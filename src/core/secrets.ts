import { isObject, type Json } from './json.ts'

const REDACTED = '[redacted]'
/** What is shorter stands in ordinary text too often to be told from it. */
const MIN_LENGTH = 8
/** A word this long is taken for no word. */
const MIN_WORD = 24
/** `word`, `Word`, `WORD`, `wordsRunTogether`. */
const PLAIN_WORD = /^(?:\p{Lu}?\p{Ll}{2,}(?:\p{Lu}\p{Ll}{2,})*|\p{Lu}+)$/u

export type Redact = (text: string) => string

/** Whether it can be told from other text: at least 8 characters with a letter, and no plain word of less than 24. */
export const looksSecret = (value: string): boolean =>
  value.length >= MIN_LENGTH && /\p{L}/u.test(value) && (value.length >= MIN_WORD || !PLAIN_WORD.test(value))

/**
 * Takes secrets out of texts, also where they stand encoded for a URL or in JSON, and in JSON within JSON; values that do not look
 * like secrets are left alone. Secrets that overlap go as one. Takes time linear in the text.
 */
export function createRedactor (secrets: readonly string[]): Redact {
  const finders = [...new Set(secrets.filter(looksSecret).flatMap(formsOf))].map(createFinder)
  return (text) => {
    const spans = finders.flatMap((find) => find(text))
    if (spans.length === 0) return text
    const parts: string[] = []
    let end = 0
    for (const span of spans.toSorted((a, b) => a.start - b.start)) {
      if (span.start >= end) parts.push(text.slice(end, span.start), REDACTED)
      end = Math.max(end, span.end)
    }
    return [...parts, text.slice(end)].join('')
  }
}

/** How encoders write it: JSON plain, with `\/`, in ASCII, once and twice; URLs with more or less escaped, in either case. */
function formsOf (secret: string): string[] {
  const quoted = inJson(secret)
  const ascii = quoted.replaceAll(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
  const json = [quoted, ascii].flatMap((one) => [one, one.replaceAll('/', '\\/')])
  const url = encodeURIComponent(secret.toWellFormed())
  const strict = url.replaceAll(/[!'()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`)
  const urls = [url, strict].flatMap((one) => [one, one.replaceAll('%20', '+')]).flatMap((one) => [one, one.replaceAll('%2F', '/')])
  const lower = urls.map((one) => one.replaceAll(/%../g, (hex) => hex.toLowerCase()))
  return [secret, ...json, ...json.map(inJson), ...urls, ...lower]
}
const inJson = (text: string): string => JSON.stringify(text).slice(1, -1)

interface Span { start: number, end: number }

/** Finds a pattern wherever it stands, also where it overlaps with itself (Knuth, Morris and Pratt). */
function createFinder (pattern: string): (text: string) => Span[] {
  const borders = bordersOf(pattern)
  // Most texts hold none, which the engine's own search tells soonest; of a long pattern not in linear time.
  const beginning = pattern.slice(0, 32)
  return (text) => {
    const spans: Span[] = []
    const first = text.indexOf(beginning)
    if (first === -1) return spans
    for (let at = first, matched = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at)
      while (matched > 0 && unit !== pattern.charCodeAt(matched)) matched = borders[matched - 1] as number
      if (unit === pattern.charCodeAt(matched)) matched++
      if (matched < pattern.length) continue
      const start = at + 1 - matched
      const last = spans.at(-1)
      if (last && start < last.end) last.end = at + 1
      else spans.push({ start, end: at + 1 })
      matched = borders[matched - 1] as number
    }
    return spans
  }
}

/** Of each beginning of a pattern, how long the longest shorter one is that it ends in. */
function bordersOf (pattern: string): number[] {
  const borders = [0]
  for (let at = 1, matched = 0; at < pattern.length; at++) {
    const unit = pattern.charCodeAt(at)
    while (matched > 0 && unit !== pattern.charCodeAt(matched)) matched = borders[matched - 1] as number
    if (unit === pattern.charCodeAt(matched)) matched++
    borders.push(matched)
  }
  return borders
}

/** The same in every text of a JSON value, the names of members included. */
export function redactJson (value: Json, redact: Redact): Json {
  if (typeof value === 'string') return redact(value)
  if (Array.isArray(value)) return value.map((item) => redactJson(item, redact))
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [redact(name), redactJson(item as Json, redact)]))
}

/** Words that say it, and ends of words that do: `apikey`, `PGPASSWORD`. */
const WORDS = /^(?:authorization|authentication|bearer|jwt|pat|pass|passphrase|pwd|credentials?|cookies?)$/
const ENDINGS = /(?:auth|token|keys?|secrets?|passwords?|passwd)$/

/** Names of headers and variables whose content is a secret, wherever it comes from: `x-api-key`, `GITHUB_TOKEN`, not `x-max-tokens`. */
export const isSecretName = (name: string): boolean =>
  name.replaceAll(/(?<=[a-z\d])(?=[A-Z])/g, ' ').toLowerCase().split(/[^a-z]+/).some((word) => WORDS.test(word) || ENDINGS.test(word))

/** A header's or a variable's content, and each part that is one by itself: of `Bearer a-1…` and `session=a-1…` the `a-1…`. */
export const secretParts = (content: string): string[] => {
  const parts = content.split(/[\s;,]+/).map((part) => part.replace(/^[\w.-]+=(?=[^=])/, ''))
  return [...new Set([content, ...parts.filter(looksSecret)])]
}
