import { isObject } from '../core/json.ts'

/** JSON handled as text, so that key order, big numbers and white space survive. */

/** The members of a JSON object, each as its verbatim text. `text` must be one. */
export function objectMembers (text: string): { key: string, text: string }[] {
  const members: { key: string, text: string }[] = []
  for (let start = text.indexOf('{') + 1; ;) {
    const end = endOfElement(text, start)
    const member = text.slice(start, end).trim()
    if (member !== '') members.push({ key: JSON.parse(member.slice(0, endOfString(member, 0) + 1)) as string, text: member })
    if (text[end] !== ',') return members
    start = end + 1
  }
}

export function isObjectText (text: string): boolean {
  try { return isObject(JSON.parse(text)) } catch { return false }
}

/** Comma-joined; empty texts stand for no element. */
export const joinElements = (texts: readonly string[]): string => texts.filter((text) => text !== '').join(',')

/** The elements of a JSON array as one comma-joined text. */
export const arrayElements = (text: string): string => text.slice(text.indexOf('[') + 1, text.lastIndexOf(']')).trim()

/** Where the element that starts at `from` ends: at a comma or a closing bracket of its own level. */
function endOfElement (text: string, from: number): number {
  let depth = 0
  for (let i = from; i < text.length; i++) {
    const char = text[i]
    if (char === '"') i = endOfString(text, i)
    else if (char === '{' || char === '[') depth++
    else if (char === '}' || char === ']') {
      if (depth-- === 0) return i
    } else if (char === ',' && depth === 0) return i
  }
  return text.length
}

function endOfString (text: string, from: number): number {
  let i = from + 1
  while (text[i] !== '"') i += text[i] === '\\' ? 2 : 1
  return i
}

/** At most `length` UTF-16 units, no pair cut in two. */
export const clip = (text: string, length: number): string =>
  text.length <= length ? text : text.slice(0, length).replace(/[\ud800-\udbff]$/, '')

