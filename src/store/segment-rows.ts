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
/**
 * Who stands for a segment: nobody, so that only what refers to it keeps it; a session; or a host's session that went on in a
 * longer one, for readers who still have this one.
 */
export const OWNED = { no: 0, yes: 1, earlier: 2 } as const
export type GetSegment = (id: number) => SegmentRow | undefined
export const lengthOf = (row: SegmentRow): number => row.last === null ? row.base_length : row.last + 1
