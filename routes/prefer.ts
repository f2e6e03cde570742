/** One preference: a token with a value, a token or a quoted string (RFC 7240 §2); parameters after `;` do not matter here. */
const PREFERENCE = /^\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*))\s*)?(?:;|$)/

/** Seconds of `Prefer: wait=N`, or `undefined`. The first instance counts; a value that is no count of seconds is ignored. */
export function preferredWait (header: string | string[] | undefined): number | undefined {
  if (header === undefined) return undefined
  for (const item of splitOutsideQuotes(Array.isArray(header) ? header.join(',') : header)) {
    const found = PREFERENCE.exec(item)
    if (found?.[1]?.toLowerCase() !== 'wait') continue
    const value = found[2]?.replaceAll(/\\(.)/g, '$1') ?? found[3] ?? ''
    return /^[0-9]+$/.test(value) ? Number(value) : undefined
  }
  return undefined
}

function splitOutsideQuotes (text: string): string[] {
  const items: string[] = []
  let from = 0
  let quoted = false
  for (let i = 0; i < text.length; i++) {
    const c = text[i]
    if (quoted && c === '\\') i++
    else if (c === '"') quoted = !quoted
    else if (c === ',' && !quoted) {
      items.push(text.slice(from, i))
      from = i + 1
    }
  }
  items.push(text.slice(from))
  return items
}

/** Seconds to wait, cut to the service's maximum (http-api.md 2.2). */
export const usedWait = (seconds: number, maximum: number): number => Math.min(seconds, maximum)
