const REDACTED = '[redacted]'
/** Shorter values stand in ordinary text too often to be told from it. */
const MIN_LENGTH = 4

/** Takes secrets out of texts, also where they stand encoded for a URL or in JSON. */
export function createRedactor (secrets: readonly string[]): (text: string) => string {
  const forms = [...new Set(secrets.filter((secret) => secret.length >= MIN_LENGTH).flatMap((secret) => [
    secret, encodeURIComponent(secret.toWellFormed()), JSON.stringify(secret).slice(1, -1)
  ]))].toSorted((a, b) => b.length - a.length)
  return (text) => forms.reduce((safe, form) => safe.replaceAll(form, REDACTED), text)
}
