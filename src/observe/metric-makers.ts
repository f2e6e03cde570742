import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

const PREFIX = 'subagentd_'
/** A label takes so many values; what comes later is `other`, since hosts name models. */
const MAX_VALUES = 200
const MAX_LENGTH = 128

/** What makes metrics in one registry. `collect` is called when they are read. */
export interface Make {
  readonly counter: <L extends string>(
    name: string, help: string, labels: readonly L[], collect?: (this: Counter<L>) => void
  ) => Counter<L>
  readonly gauge: <L extends string>(
    name: string, help: string, labels: readonly L[], collect?: (this: Gauge<L>) => void
  ) => Gauge<L>
  readonly histogram: <L extends string>(name: string, help: string, labels: readonly L[], buckets: number[]) => Histogram<L>
}

export function makersIn (registry: Registry): Make {
  const options = <L extends string>(name: string, help: string, labelNames: readonly L[]) =>
    ({ name: PREFIX + name, help, labelNames, registers: [registry] })
  return {
    counter: (name, help, labels, collect) => new Counter({ ...options(name, help, labels), ...collect && { collect } }),
    gauge: (name, help, labels, collect) => new Gauge({ ...options(name, help, labels), ...collect && { collect } }),
    histogram: (name, help, labels, buckets) => new Histogram({ ...options(name, help, labels), buckets })
  }
}

/** The value while there is room for it, else `other`; so is one that is too long. */
export function bounded (): (value: string) => string {
  const known = new Set<string>()
  return (value) => {
    if (known.size < MAX_VALUES && value.length <= MAX_LENGTH) known.add(value)
    return known.has(value) ? value : 'other'
  }
}
