import { Line, type Spot } from './line.ts'

/** A run that waits for a place. */
export interface Waiting {
  readonly tenant: string
  /** It has never had a place: a run that had one and gave it up fills no queue of starts. */
  readonly isStart: boolean
  /** Called when the place is there. */
  readonly turn: () => void
}

/** What one tenant has of the places and of the line before them. Forgotten when it has nothing. */
interface Party {
  /** Places that its runs hold. */
  held: number
  starts: number
  readonly line: Line<Waiting>
  /** Where it stands in the round; nowhere while nobody of it waits, or while it holds its share of the places. */
  spot: Spot<Party> | undefined
}

export interface PlacesOptions {
  most: number
  /** How many of them one tenant may hold. */
  share: () => number
}

/**
 * Places, and who waits for them: one run of each tenant in turn, of a tenant in the order in which they came. While a place is
 * free, nobody waits who may have it. What an operation costs does not depend on how many wait.
 */
export class Places {
  readonly #options: PlacesOptions
  readonly #parties = new Map<string, Party>()
  readonly #round = new Line<Party>()
  readonly #spots = new Map<Waiting, Spot<Waiting>>()
  #taken = 0
  #starts = 0

  constructor (options: PlacesOptions) { this.#options = options }

  get taken (): number { return this.#taken }
  /** Starts that wait. */
  get starts (): number { return this.#starts }
  startsOf (tenant: string): number { return this.#parties.get(tenant)?.starts ?? 0 }

  /** Whether a run of the tenant would have a place at once. */
  ready (tenant: string): boolean {
    const { held, line } = this.#parties.get(tenant) ?? { held: 0, line: undefined }
    return this.#taken < this.#options.most && held < this.#options.share() && line?.empty !== false
  }

  /** A place at once, or none. */
  take (tenant: string): boolean {
    const ready = this.ready(tenant)
    if (ready) this.#hold(this.#party(tenant))
    return ready
  }

  /** Its turn may come before this returns. */
  wait (waiting: Waiting): void {
    const party = this.#party(waiting.tenant)
    this.#spots.set(waiting, party.line.join(waiting))
    this.#count(party, waiting, 1)
    this.#enter(party)
    this.#next()
  }

  /** Waits no more; nothing for one whose turn came. */
  leave (waiting: Waiting): void {
    const spot = this.#spots.get(waiting)
    if (!spot) return
    const party = this.#party(waiting.tenant)
    this.#spots.delete(waiting)
    party.line.leave(spot)
    this.#count(party, waiting, -1)
    if (party.line.empty && party.spot) {
      this.#round.leave(party.spot)
      party.spot = undefined
    }
    this.#forget(waiting.tenant, party)
  }

  giveBack (tenant: string): void {
    const party = this.#party(tenant)
    this.#taken--
    party.held--
    this.#enter(party)
    this.#next()
    this.#forget(tenant, party)
  }

  #party (tenant: string): Party {
    let party = this.#parties.get(tenant)
    if (!party) {
      party = { held: 0, starts: 0, line: new Line(), spot: undefined }
      this.#parties.set(tenant, party)
    }
    return party
  }

  #forget (tenant: string, { held, line }: Party): void {
    if (held === 0 && line.empty) this.#parties.delete(tenant)
  }

  #hold (party: Party): void {
    this.#taken++
    party.held++
  }

  #count (party: Party, { isStart }: Waiting, by: 1 | -1): void {
    if (!isStart) return
    this.#starts += by
    party.starts += by
  }

  /** To the end of the round, where a run of it waits that may have a place. */
  #enter (party: Party): void {
    if (!party.spot && !party.line.empty && party.held < this.#options.share()) party.spot = this.#round.join(party)
  }

  #next (): void {
    while (this.#taken < this.#options.most) {
      const party = this.#round.next()
      if (!party) return
      party.spot = undefined
      const waiting = party.held < this.#options.share() ? party.line.next() : undefined
      if (!waiting) continue
      this.#spots.delete(waiting)
      this.#count(party, waiting, -1)
      this.#hold(party)
      this.#enter(party)
      waiting.turn()
    }
  }
}
