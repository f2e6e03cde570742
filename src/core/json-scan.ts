import { escapeAt, isDigit, lowAt, numberFault, placeIn } from './json-tokens.ts'
import { MAX_NESTING, pointerToken } from './json.ts'

export interface JsonFault { /** RFC 6901; long names are shortened. */ pointer: string, detail: string }

/** What holds at a place, as bits, and the places below it by member name, array index or `*`. */
export interface Place { flags: number, children: Map<string, Place> }
/** The source text is kept; integers past 2^53 and NUL may stand in it. */
export const VERBATIM = 1
/** Numbers are not judged. */
export const ANY_NUMBER = 2

const MAX_FAULTS = 20
const MAX_TOKEN = 100
/** What is read in one go keeps everything else waiting: so many values, and what makes a value dear. */
const MAX_VALUES = 200_000
const MAX_SPACE = 1_048_576
const MAX_NAME = 16_384
const MAX_NUMBER = 1000
/** Each new name after the same ones before it makes a kind of object that `JSON.parse` has not seen: 6 µs instead of 0.1. */
const MAX_KINDS = 20_000
/** A shorter text cannot have so many. */
const KINDS_FROM = MAX_KINDS * '"":0,'.length
const NUL = 1
const LONE = 2
const STOP = new Error('the pass ends here; see the faults')

/** Sets of member names in their order, as a tree: what may follow which names. */
type Kinds = Map<string, Kinds>

/** One pass over a JSON text: its grammar, and what the grammar allows but a JavaScript value does not hold. */
export class Scan {
  readonly faults: JsonFault[] = []
  /** From and to of each value at a verbatim place, by its pointer. */
  readonly spans = new Map<string, [number, number]>()
  readonly #text: string
  readonly #path: (string | number)[] = []
  /** Keys of the open objects, innermost last. */
  readonly #keys: string[] = []
  readonly #kinds: Kinds | undefined
  #at = 0
  #values = 0
  #kindsSeen = 0

  constructor (text: string) {
    this.#text = text
    this.#kinds = text.length < KINDS_FROM ? undefined : new Map()
  }

  /** Fills `faults` and `spans`. A syntax fault, too much of anything or the 20th fault ends the pass. */
  run (root: Place): void {
    try {
      const start = this.#value(root, 0)
      if ((root.flags & VERBATIM) !== 0) this.spans.set('', [start, this.#at])
      this.#space()
      if (this.#at < this.#text.length) this.#syntax('expected the end of the text')
    } catch (error) {
      if (error !== STOP) throw error
    }
  }

  /** Moves past a value; where it began. */
  #value (place: Place | undefined, inherited: number): number {
    const char = this.#space()
    const start = this.#at
    const flags = place === undefined ? inherited : inherited | place.flags
    if (++this.#values > MAX_VALUES) this.#tooMany()
    switch (char) {
      case 0x22: this.#string(flags); break
      case 0x7b: this.#object(place, flags); break
      case 0x5b: this.#array(place, flags); break
      case 0x74: this.#literal('true'); break
      case 0x66: this.#literal('false'); break
      case 0x6e: this.#literal('null'); break
      default: this.#number(char, flags)
    }
    return start
  }

  #object (place: Place | undefined, flags: number): void {
    const first = this.#keys.length
    let seen: Set<string> | undefined
    let kinds = this.#kinds
    this.#enter()
    const last = this.#path.length - 1
    if (this.#space() === 0x7d) return this.#leave(first)
    for (;;) {
      if (this.#space() !== 0x22) this.#syntax('expected a member name in double quotes')
      const key = this.#key(flags)
      this.#path[last] = key
      if (key === '__proto__') this.#fault('the name __proto__ is not allowed')
      if (seen === undefined && this.#keys.length - first === 16) seen = new Set(this.#keys.slice(first))
      if (seen === undefined ? this.#keys.includes(key, first) : seen.has(key)) this.#fault('this name is given twice')
      if (seen === undefined) this.#keys.push(key)
      else seen.add(key)
      kinds = kinds && this.#kindAfter(kinds, key)
      if (this.#space() !== 0x3a) this.#syntax('expected ":"')
      this.#at++
      const below = place && (place.children.get(key) ?? place.children.get('*'))
      const start = this.#value(below, flags)
      if (below !== undefined && (below.flags & VERBATIM) !== 0) this.spans.set(this.#pointer(), [start, this.#at])
      const char = this.#space()
      if (char !== 0x2c && char !== 0x7d) this.#syntax('expected "," or "}"')
      if (char === 0x7d) return this.#leave(first)
      this.#at++
    }
  }

  #array (place: Place | undefined, flags: number): void {
    this.#enter()
    const last = this.#path.length - 1
    const each = place?.children.get('*')
    const single = place !== undefined && place.children.size > (each ? 1 : 0)
    if (this.#space() === 0x5d) return this.#leave(this.#keys.length)
    let base: string | undefined
    for (let i = 0; ; i++) {
      this.#path[last] = i
      const below = (single && place.children.get(String(i))) || each
      const start = this.#value(below, flags)
      if (below !== undefined && (below.flags & VERBATIM) !== 0) this.spans.set(`${base ??= this.#pointer(last)}/${i}`, [start, this.#at])
      const char = this.#space()
      if (char !== 0x2c && char !== 0x5d) this.#syntax('expected "," or "]"')
      if (char === 0x5d) return this.#leave(this.#keys.length)
      this.#at++
    }
  }

  #enter (): void {
    if (this.#path.length >= MAX_NESTING) this.#tooMuch(`nests deeper than ${MAX_NESTING} levels`)
    this.#path.push('')
    this.#at++
  }

  #leave (keys: number): void {
    this.#keys.length = keys
    this.#path.pop()
    this.#at++
  }

  /** The member name at this place, decoded. */
  #key (flags: number): string {
    const start = this.#at
    const faults = this.faults.length
    const escaped = this.#string(flags, true)
    const key = this.#text.slice(start + 1, this.#at - 1)
    const name = escaped ? JSON.parse(this.#text.slice(start, this.#at)) as string : key
    // Found in the name itself, the fault belongs to the member.
    if (this.faults.length > faults) {
      this.#path[this.#path.length - 1] = name
      for (let i = faults; i < this.faults.length; i++) (this.faults[i] as JsonFault).pointer = this.#pointer().toWellFormed()
    }
    return name
  }

  #kindAfter (kinds: Kinds, name: string): Kinds {
    const known = kinds.get(name)
    if (known) return known
    if (++this.#kindsSeen > MAX_KINDS) this.#tooMuch(`the text holds more than ${MAX_KINDS} different names, or orders of names`)
    const next: Kinds = new Map()
    kinds.set(name, next)
    return next
  }

  /** Moves past a string; true when it holds escapes. */
  #string (flags: number, isName = false): boolean {
    const text = this.#text
    const length = text.length
    let at = this.#at + 1
    let escaped = false
    let found = 0
    for (; at < length; at++) {
      let unit = text.charCodeAt(at)
      if (unit === 0x22) break
      if (unit === 0x5c) {
        escaped = true
        unit = escapeAt(text, at)
        if (unit < 0) this.#badEscape(at)
        at += text.charCodeAt(at + 1) === 0x75 ? 5 : 1
        if (unit === 0) found |= NUL
      } else if (unit < 0x20) {
        this.#at = at
        this.#syntax('a control character in a string must be escaped')
      }
      if ((unit & 0xf800) === 0xd800) {
        const low = unit < 0xdc00 ? lowAt(text, at + 1) : 0
        if (low === 0) found |= LONE
        at += low
      }
    }
    if (at >= length) {
      this.#at = length
      this.#syntax('a string is not closed')
    }
    if (isName && at - this.#at > MAX_NAME) {
      this.#path[this.#path.length - 1] = text.slice(this.#at + 1, this.#at + 2 + MAX_TOKEN)
      this.#tooMuch(`a member name is longer than ${MAX_NAME} characters`)
    }
    this.#at = at + 1
    if (found !== 0) this.#judge(found, flags, isName)
    return escaped
  }

  #badEscape (at: number): never {
    this.#at = at
    return this.#syntax('not a JSON escape')
  }

  #judge (found: number, flags: number, isName: boolean): void {
    const what = isName ? 'name' : 'string'
    if ((found & NUL) !== 0 && (flags & VERBATIM) === 0) this.#fault(`the ${what} holds a NUL character (\\u0000); leave it out`)
    if ((found & LONE) !== 0) this.#fault(`the ${what} holds half of a surrogate pair; send whole Unicode characters`)
  }

  #literal (word: string): void {
    if (!this.#text.startsWith(word, this.#at)) this.#syntax('expected a JSON value')
    this.#at += word.length
  }

  #number (first: number, flags: number): void {
    const start = this.#at
    if (first === 0x2d) this.#at++
    const digits = this.#at
    const lead = this.#text.charCodeAt(digits)
    if (!isDigit(lead)) this.#syntax(digits >= this.#text.length ? 'the text ends too early' : 'expected a JSON value')
    if (lead === 0x30) this.#at++
    else this.#digits()
    const integral = this.#at
    if (this.#text.charCodeAt(this.#at) === 0x2e) {
      this.#at++
      this.#digits()
    }
    const exponent = (this.#text.charCodeAt(this.#at) | 0x20) === 0x65
    if (exponent) {
      const sign = this.#text.charCodeAt(++this.#at)
      if (sign === 0x2b || sign === 0x2d) this.#at++
      this.#digits()
    }
    if (this.#at - start > MAX_NUMBER) this.#tooLong()
    if ((flags & ANY_NUMBER) !== 0) return
    // Up to 15 digits before the point, no exponent, no minus before a zero: nothing can go wrong.
    const tame = integral - digits < 16 && !exponent && (lead !== 0x30 || first !== 0x2d)
    const fault = tame ? undefined : numberFault(this.#text.slice(start, this.#at), (flags & VERBATIM) !== 0)
    if (fault !== undefined) this.#fault(fault)
  }

  #digits (): void {
    const text = this.#text
    const start = this.#at
    let at = start
    while (at <= start + MAX_NUMBER && isDigit(text.charCodeAt(at))) at++
    this.#at = at
    if (at === start) this.#syntax('expected a digit')
    if (at > start + MAX_NUMBER) this.#tooLong()
  }

  /** Moves past white space; the next character's code, NaN at the end. */
  #space (): number {
    const text = this.#text
    const most = this.#at + MAX_SPACE
    for (let at = this.#at; at <= most; at++) {
      const char = text.charCodeAt(at)
      if (char === 0x20 || char === 0x0a || char === 0x0d || char === 0x09) continue
      this.#at = at
      return char
    }
    return this.#tooMuch(`more than ${MAX_SPACE} characters of white space follow each other`)
  }

  /** The pointer to this place, or to its ancestor at a depth. */
  #pointer (depth = this.#path.length): string {
    return this.#path.slice(0, depth).map((token) => {
      const key = String(token)
      return `/${pointerToken(key.length > MAX_TOKEN ? `${key.slice(0, MAX_TOKEN)}…` : key)}`
    }).join('')
  }

  #fault (detail: string): void {
    this.faults.push({ pointer: this.#pointer().toWellFormed(), detail })
    if (this.faults.length >= MAX_FAULTS) throw STOP
  }

  #tooMany (): never {
    const hint = 'a conversation this long is kept as a session (POST /v1/sessions) that is appended to in pieces'
    return this.#tooMuch(`the text holds more than ${MAX_VALUES} values; ${hint}`)
  }

  #tooLong (): never { return this.#tooMuch(`a number is longer than ${MAX_NUMBER} characters`) }

  #tooMuch (detail: string): never {
    this.#fault(detail)
    throw STOP
  }

  #syntax (what: string): never {
    const { line, column } = placeIn(this.#text, this.#at)
    this.faults.push({ pointer: '', detail: `not JSON: ${what} at line ${line}, column ${column} (offset ${this.#at})` })
    throw STOP
  }
}
