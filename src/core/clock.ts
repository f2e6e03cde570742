/** Time as something to wait for. */
export interface Clock {
  /** Milliseconds since some instant. */
  now (): number
  /** Calls once `ms` have passed. Answers what keeps it from that. */
  after (ms: number, call: () => void): () => void
}
