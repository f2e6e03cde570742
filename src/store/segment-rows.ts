/** A segment as its row holds it. PRIVATE and pure. */
export interface SegmentRow {
  base: number | null
  base_length: number
  completed_length: number
  turns: number
  owned: number
  /** `seq` of the last own event. */
  last: number | null
}
export type GetSegment = (id: number) => SegmentRow | undefined
export const lengthOf = (row: SegmentRow): number => row.last === null ? row.base_length : row.last + 1
