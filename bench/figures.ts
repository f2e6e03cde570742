import type { Row } from './bench.ts'

/** Smallest value that `share` of the values do not exceed. */
export function percentile (values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? NaN
}
export const median = (values: readonly number[]): number => percentile(values, 0.5)

export const ms = (value: number): string => `${value < 10 ? value.toFixed(2) : value.toFixed(1)} ms`
export const seconds = (value: number): string => `${(value / 1000).toFixed(2)} s`
export const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`
export const rate = (value: number, what: string): string => `${Math.round(value).toLocaleString('en')} ${what}/s`

/** A figure beside the floor of the same kind. `most` and `least` bound the ratio figure / floor. */
export function against (what: string, figure: number, floor: number, show: (value: number) => string, bar: { most: number } | { least: number }): Row {
  const ratio = figure / floor
  const met = 'most' in bar ? ratio <= bar.most : ratio >= bar.least
  const text = 'most' in bar ? `≤ ${bar.most} ×` : `≥ ${bar.least} ×`
  return { what, figure: show(figure), floor: show(floor), ratio: ratio.toFixed(2), bar: text, met }
}

/** A figure beside its floor, for the record. */
export const beside = (what: string, figure: number, floor: number, show: (value: number) => string): Row =>
  ({ what, figure: show(figure), floor: show(floor), ratio: (figure / floor).toFixed(2), bar: '–', met: null })

/** A figure with an absolute bar. */
export function within (what: string, figure: number, show: (value: number) => string, bar: { most: number } | { least: number }): Row {
  const met = 'most' in bar ? figure <= bar.most : figure >= bar.least
  const text = 'most' in bar ? `≤ ${show(bar.most)}` : `≥ ${show(bar.least)}`
  return { what, figure: show(figure), floor: '–', ratio: '–', bar: text, met }
}

/** A Markdown table, columns aligned. */
export function tableOf (rows: readonly Row[]): string {
  const cells = rows.map(({ what, figure, floor, ratio, bar, met }) => [what, figure, floor, ratio, bar, met === null ? '–' : met ? 'yes' : 'NO'])
  const all = [['what', 'figure', 'floor', 'ratio', 'bar', 'met'], ...cells]
  const widths = (all[0] ?? []).map((_, column) => Math.max(...all.map((line) => line[column]?.length ?? 0)))
  const lineOf = (line: readonly string[]): string => `| ${line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`
  const [head = [], ...rest] = all
  return [lineOf(head), `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`, ...rest.map(lineOf)].join('\n')
}
