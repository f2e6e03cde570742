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
/** What is read in one go keeps everything else waiting. */
const MAX_VALUES = 200_000
const STOP = new Error('the pass ends here; see the faults')

/** One pass over a JSON text: its grammar, and what the grammar allows but a JavaScript value does not hold. */
export class Scan {
  readonly faults: JsonFault[] = []
  /** From and to of each value at a verbatim place, by its pointer. */
  readonly spans = new Map<string, [number, number]>()
  readonly #text: string
  readonly #path: (string | number)[] = []
  /** Keys of the open objects, innermost last. */
  readonly #keys: string[] = []
  #at = 0
  #values = 0

  constructor (text: string) { this.#text = text }

  /** Fills `faults` and `spans`. A syntax fault, too deep nesting, too many values or the 20th fault ends the pass. */
  run (root: Place): void {
    try {
      this.#value(root, 0)
      this.#space()
      if (this.#at < this.#text.length) this.#syntax('expected the end of the text')
    } catch (error) {
      if (error !== STOP) throw error
    }
  }

  #value (place: Place | undefined, inherited: number): void {
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
    if (place !== undefined && (place.flags & VERBATIM) !== 0) this.spans.set(this.#pointer(), [start, this.#at])
  }

  #object (place: Place | undefined, flags: number): void {
    const first = this.#keys.length
    let seen: Set<string> | undefined
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
      if (this.#space() !== 0x3a) this.#syntax('expected ":"')
      this.#at++
      this.#value(place && (place.children.get(key) ?? place.children.get('*')), flags)
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
    for (let i = 0; ; i++) {
      this.#path[last] = i
      this.#value((single && place.children.get(String(i))) || each, flags)
      const char = this.#space()
      if (char !== 0x2c && char !== 0x5d) this.#syntax('expected "," or "]"')
      if (char === 0x5d) return this.#leave(this.#keys.length)
      this.#at++
    }
  }

  #enter (): void {
    if (this.#path.length >= MAX_NESTING) {
      this.#fault(`nests deeper than ${MAX_NESTING} levels`)
      throw STOP
    }
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

  /** Moves past a string; true when it holds escapes. */
  #string (flags: number, isName = false): boolean {
    const text = this.#text
    const length = text.length
    let at = this.#at + 1
    let escaped = false
    let units = 0
    for (; at < length; at++) {
      const char = text.charCodeAt(at)
      if (char === 0x22) break
      if (char === 0x5c) {
        escaped = true
        const unit = this.#escape(at)
        if (unit === 0 || (unit & 0xf800) === 0xd800) units |= unit === 0 ? 1 : 2
        at += text.charCodeAt(at + 1) === 0x75 ? 5 : 1
      } else if (char < 0x20) {
        this.#at = at
        this.#syntax('a control character in a string must be escaped')
      } else if ((char & 0xf800) === 0xd800) units |= 2
    }
    if (at >= length) {
      this.#at = length
      this.#syntax('a string is not closed')
    }
    const start = this.#at
    this.#at = at + 1
    if (units !== 0) this.#judge(start, units, flags, isName)
    return escaped
  }

  /** The code unit that an escape at `at` stands for. */
  #escape (at: number): number {
    const text = this.#text
    const char = text.charCodeAt(at + 1)
    if (char === 0x75) {
      let unit = 0
      for (let i = at + 2; i < at + 6; i++) {
        const digit = hexDigit(text.charCodeAt(i))
        if (digit < 0) return this.#badEscape(at)
        unit = unit * 16 + digit
      }
      return unit
    }
    return '"\\/bfnrt'.includes(text.charAt(at + 1) || ' ') ? 1 : this.#badEscape(at)
  }

  #badEscape (at: number): never {
    this.#at = at
    return this.#syntax('not a JSON escape')
  }

  /** A string with NUL (1) or surrogates (2) in it. */
  #judge (start: number, units: number, flags: number, isName: boolean): void {
    const what = isName ? 'name' : 'string'
    if ((units & 1) !== 0 && (flags & VERBATIM) === 0) this.#fault(`the ${what} holds a NUL character (\\u0000); leave it out`)
    if ((units & 2) === 0) return
    const string = JSON.parse(this.#text.slice(start, this.#at)) as string
    if (!string.isWellFormed()) this.#fault(`the ${what} holds half of a surrogate pair; send whole Unicode characters`)
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
    if ((flags & ANY_NUMBER) !== 0) return
    // Up to 15 digits before the point, no exponent, no minus before a zero: nothing can go wrong.
    const tame = integral - digits < 16 && !exponent && (lead !== 0x30 || first !== 0x2d)
    if (!tame) this.#judgeNumber(start, flags)
  }

  #judgeNumber (start: number, flags: number): void {
    const text = this.#text.slice(start, this.#at)
    const value = Number(text)
    const shown = text.length > 40 ? `${text.slice(0, 40)}…` : text
    if (value === 0 && Object.is(value, -0)) this.#fault(`${shown} is negative zero, which does not survive; send 0`)
    else if (!Number.isFinite(value)) this.#fault(`${shown} is too large for a number`)
    else if (Math.abs(value) > Number.MAX_SAFE_INTEGER && (flags & VERBATIM) === 0) {
      this.#fault(`${shown} is past 2^53-1 and would lose digits; send it as a string`)
    }
  }

  #digits (): void {
    const start = this.#at
    while (isDigit(this.#text.charCodeAt(this.#at))) this.#at++
    if (this.#at === start) this.#syntax('expected a digit')
  }

  /** Moves past white space; the next character's code, NaN at the end. */
  #space (): number {
    for (;; this.#at++) {
      const char = this.#text.charCodeAt(this.#at)
      if (char !== 0x20 && char !== 0x0a && char !== 0x0d && char !== 0x09) return char
    }
  }

  #pointer (): string {
    return this.#path.map((token) => {
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
    this.#fault(`the text holds more than ${MAX_VALUES} values; ${hint}`)
    throw STOP
  }

  #syntax (what: string): never {
    const before = this.#text.slice(0, this.#at).split(/\r\n|\n|\r/)
    const column = (before.at(-1) as string).length + 1
    this.faults.push({ pointer: '', detail: `not JSON: ${what} at line ${before.length}, column ${column} (offset ${this.#at})` })
    throw STOP
  }
}

const isDigit = (char: number): boolean => char >= 0x30 && char <= 0x39

function hexDigit (char: number): number {
  if (isDigit(char)) return char - 0x30
  const letter = char | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}
