import { isObject } from './core/json.ts'

export interface SettingFault { /** The variable, or the path in the file. */ key: string, detail: string }

/** Every bad setting at once (http-api.md §9). */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly faults: readonly SettingFault[]
  constructor (faults: readonly SettingFault[]) {
    super(`bad configuration:\n${faults.map(({ key, detail }) => `  ${key}: ${detail}`).join('\n')}`)
    this.faults = faults
  }
}

/** The longest time a timer takes, in ms; a longer one would fire at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1

/** What the names of keys, endpoints and providers look like. */
export const NAME = /^[\w.-]{1,64}$/
export const NAME_RULE = '1 to 64 letters, digits, "_", "." or "-"'

export interface Range { min?: number, max?: number }

/** Reads settings of unknown shape and collects what is wrong with them. Absent is `undefined` everywhere, and no fault. */
export class Settings {
  readonly faults: SettingFault[] = []

  fault (key: string, detail: string): undefined {
    this.faults.push({ key, detail })
    return undefined
  }

  /** Throws what was collected. */
  done (): void {
    if (this.faults.length > 0) throw new ConfigError(this.faults)
  }

  integer (key: string, value: unknown, { min = 0, max = Number.MAX_SAFE_INTEGER }: Range = {}): number | undefined {
    if (value === undefined) return undefined
    const whole = typeof value === 'number' && Number.isInteger(value) && !Object.is(value, -0)
    if (whole && value >= min && value <= max) return value
    const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`
    return this.fault(key, `must be an integer ${range}`)
  }

  /** An integer written as decimal digits and nothing else. */
  digits (key: string, value: string | undefined, range?: Range): number | undefined {
    return this.integer(key, value !== undefined && /^\d{1,16}$/.test(value) ? Number(value) : value, range)
  }

  text (key: string, value: unknown): string | undefined {
    if (value === undefined || (typeof value === 'string' && value.trim() !== '')) return value
    return this.fault(key, 'must be a text that is not empty')
  }

  matching (key: string, value: unknown, pattern: RegExp, what: string): string | undefined {
    if (value === undefined || (typeof value === 'string' && pattern.test(value))) return value
    return this.fault(key, `must be ${what}`)
  }

  oneOf<T extends string | boolean> (key: string, value: unknown, choices: readonly T[]): T | undefined {
    if (value === undefined || choices.includes(value as T)) return value as T | undefined
    return this.fault(key, `must be one of ${choices.join(', ')}`)
  }

  texts (key: string, value: unknown): string[] | undefined {
    if (value === undefined) return undefined
    if (Array.isArray(value) && value.every((item) => typeof item === 'string' && item.trim() !== '')) return value as string[]
    return this.fault(key, 'must be a list of texts')
  }

  /** The members of a map with these names only; `{}` when it is absent or no map. */
  members<K extends string> (key: string, value: unknown, known: readonly K[]): { [name in K]?: unknown } {
    const map = this.map(key, value)
    for (const name of Object.keys(map)) {
      if (!known.includes(name as K)) this.fault(below(key, name), `is not known; known here: ${known.join(', ')}`)
    }
    return map as { [name in K]?: unknown }
  }

  map (key: string, value: unknown): Record<string, unknown> {
    if (isObject(value)) return value
    if (value !== undefined) this.fault(key, 'must be a map')
    return {}
  }
}

export const below = (key: string, name: string): string => key === '' ? name : `${key}.${name}`

/** Without the members that are `undefined`. */
export const given = <T extends object>(value: T): Given<T> =>
  Object.fromEntries(Object.entries(value).filter(([, item]) => item !== undefined)) as Given<T>
type Given<T> = { [K in keyof T]?: Exclude<T[K], undefined> }

export function deepFreeze<T> (value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const item of Object.values(value)) deepFreeze(item)
  }
  return value
}
