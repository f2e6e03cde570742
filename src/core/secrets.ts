import { isObject, type Json } from './json.ts'

const REDACTED = '[redacted]'
/** Shorter values stand in ordinary text too often to be told from it. */
const MIN_LENGTH = 4
/** Shorter parts of a value are words such as `Bearer`. */
const MIN_PART = 8

export type Redact = (text: string) => string

/** Takes secrets out of texts, also where they stand encoded for a URL or in JSON, and in JSON within JSON. */
export function createRedactor (secrets: readonly string[]): Redact {
  const inJson = (text: string): string => JSON.stringify(text).slice(1, -1)
  const forms = [...new Set(secrets.filter((secret) => secret.length >= MIN_LENGTH).flatMap((secret) => [
    secret, encodeURIComponent(secret.toWellFormed()), inJson(secret), inJson(inJson(secret))
  ]))].toSorted((a, b) => b.length - a.length)
  return (text) => forms.reduce((safe, form) => safe.replaceAll(form, REDACTED), text)
}

/** The same in every text of a JSON value, the names of members included. */
export function redactJson (value: Json, redact: Redact): Json {
  if (typeof value === 'string') return redact(value)
  if (Array.isArray(value)) return value.map((item) => redactJson(item, redact))
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [redact(name), redactJson(item as Json, redact)]))
}

/** Names of headers and variables whose content is a secret, wherever it comes from. */
export const isSecretName = (name: string): boolean => /auth|token|key|secret|pass|credential|cookie/i.test(name)

/** A header's or a variable's content, and each part of it that is one by itself: of `Bearer abc…` and `session=abc…` the `abc…`. */
export const secretParts = (content: string): string[] => [...new Set([content, ...content.split(/[\s;,]+/)
  .map((part) => part.replace(/^[\w.-]+=(?=[^=])/, ''))])].filter((part) => part === content || part.length >= MIN_PART)
