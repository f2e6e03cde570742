import { EVENT_TYPES, type EventMap, type EventType, type NewEvent, type SessionEvent } from '../core/events.ts'
import { plainJsonFault } from '../core/json.ts'
import { completedLength } from '../core/prefix.ts'
import type { Steps } from '../core/transcript.ts'
import { shown, type Fail, type Fields } from './fields.ts'
import { parseObject, type Place } from './place.ts'
import { count, DATA_SHAPES, instant } from './shapes.ts'
import { mapInSteps } from './steps.ts'

/** What the service decided and what it asked its models: told of a run, not of the conversation, and no child's. */
const isConversation = (event: NewEvent): boolean => !event.type.startsWith('run/') && event.type !== 'request/header'
const TYPES = new Set<unknown>(EVENT_TYPES)

/**
 * The completed turns of this service's own log, numbered from `firstTurn` on. Throws where an event is malformed or missing,
 * or stands where no session could have logged it. Verbatim texts for an upstream are not taken over: a log that left the
 * service proves nothing.
 */
export function * readEvents (messages: readonly string[], firstTurn: number, place: Place): Steps<Completed> {
  const grammar = new Grammar(firstTurn)
  const log: SessionEvent[] = []
  const events = yield * mapInSteps(messages, (text, index) => {
    const fail = place.message(index)
    const event = readEvent(parseObject(text, fail), fail)
    const before = log.at(-1)
    if (before && event.seq !== before.seq + 1) throw fail(`"seq" must be ${before.seq + 1}: events are missing or out of order`)
    log.push(event)
    return grammar.take(event, fail)
  })
  const cut = completedLength(log)
  const kept = events.slice(0, cut)
  return { events: kept.filter(isConversation), turns: kept.filter((event) => event.type === 'turn/end').length, cut }
}

export interface Completed { events: NewEvent[], turns: number, /** How many messages they take. */ cut: number }

/** The stream and the pages call the last event `settled`. */
function readEvent (fields: Fields, fail: Fail): SessionEvent {
  const type = fields.type === 'settled' ? 'run/settled' : fields.type
  if (!TYPES.has(type)) throw fail(`unknown event type ${shown(fields.type)}`)
  const fault = envelopeFault(fields) ?? named('data', DATA_SHAPES[type as EventType](fields.data))
  if (fault !== undefined) throw fail(fault)
  const data = { ...fields.data as Record<string, unknown> }
  delete data.wire
  if (typeof data.deadline === 'string') data.deadline = Date.parse(data.deadline)
  const unplain = plainJsonFault(data)
  if (unplain) throw fail(`/data${unplain.pointer}: ${unplain.reason}`)
  return { type, seq: fields.seq, time: fields.time, data } as SessionEvent
}

const envelopeFault = ({ seq, time }: Fields): string | undefined => named('seq', count(seq)) ?? named('time', instant(time))
const named = (name: string, fault: string | undefined): string | undefined =>
  fault === undefined ? undefined : `"${name}${fault.replace(' ', '" ')}`

/** An event without its place in the log it came from. */
const logged = ({ type, data }: SessionEvent): NewEvent => ({ type, data }) as NewEvent

/** Ids of the calls that a program makes in its sandbox name the call that runs the program (driver.md §10). */
const SUB_CALL = /:code:\d+$/

/** What may follow what in a log: turns hold steps, a step one message and the results of its calls. */
class Grammar {
  #next: number
  /** The number that the log gives the open turn. */
  #turn: number | undefined
  #step: { step: number, answered: boolean, open: Map<string, number>, unanswered: number } | undefined

  constructor (firstTurn: number) { this.#next = firstTurn }

  /** Gives the event its turn number here. Throws what `fail` makes when it cannot stand where it stands. */
  take (event: SessionEvent, fail: Fail): NewEvent {
    switch (event.type) {
      case 'turn/start': return this.#startTurn(event.data, fail)
      case 'turn/end': return this.#endTurn(event.data, fail)
      case 'step/start': return this.#startStep(event.data, fail)
      case 'step/end': return this.#endStep(event.data, fail)
      case 'user/message':
        if (this.#turn === undefined) throw fail('no turn is open')
        return logged(event)
      case 'assistant/message':
        this.#answerStep(event.data, fail)
        return logged(event)
      case 'tool/call':
      case 'tool/progress': {
        const id = event.data.toolCallId
        if (!this.#step?.open.has(id) && !this.#isSubCall(id)) throw fail('the open step has no such call')
        return logged(event)
      }
      case 'tool/result':
        this.#result(event.data.toolCallId, fail)
        return logged(event)
      default: return logged(event)
    }
  }

  #startTurn (data: EventMap['turn/start'], fail: Fail): NewEvent {
    if (this.#turn !== undefined) throw fail('the turn before it is still open')
    this.#turn = data.turn
    return { type: 'turn/start', data: { ...data, turn: this.#next } }
  }

  #endTurn (data: EventMap['turn/end'], fail: Fail): NewEvent {
    this.#inTurn(data.turn, fail)
    if (this.#step) throw fail('a step is still open')
    this.#turn = undefined
    return { type: 'turn/end', data: { ...data, turn: this.#next++ } }
  }

  #startStep (data: EventMap['step/start'], fail: Fail): NewEvent {
    this.#inTurn(data.turn, fail)
    if (this.#step?.answered) throw fail('the step before it is still open')
    this.#step = { step: data.step, answered: false, open: new Map(), unanswered: 0 }
    return { type: 'step/start', data: { ...data, turn: this.#next } }
  }

  #endStep (data: EventMap['step/end'], fail: Fail): NewEvent {
    this.#inTurn(data.turn, fail)
    if (this.#step?.step !== data.step) throw fail(`step ${data.step} is not open`)
    if (this.#step.unanswered > 0) throw fail('a call of the step has no result')
    this.#step = undefined
    return { type: 'step/end', data: { ...data, turn: this.#next } }
  }

  #inTurn (turn: number, fail: Fail): void {
    if (this.#turn !== turn) throw fail(`turn ${turn} is not open`)
  }

  #answerStep ({ content }: EventMap['assistant/message'], fail: Fail): void {
    const step = this.#step
    if (!step || step.answered) throw fail(step ? 'the step has its message already' : 'no step is open')
    step.answered = true
    for (const part of content) {
      if (part.type !== 'tool-call') continue
      step.open.set(part.toolCallId, (step.open.get(part.toolCallId) ?? 0) + 1)
      step.unanswered++
    }
  }

  #result (id: string, fail: Fail): void {
    const open = this.#step?.open.get(id)
    if (this.#step && open) {
      this.#step.open.set(id, open - 1)
      this.#step.unanswered--
    } else if (!this.#isSubCall(id)) throw fail(open === 0 ? 'the call is answered already' : 'the open step has no such call')
  }

  #isSubCall (id: string): boolean {
    return SUB_CALL.test(id) && this.#step?.open.has(id.replace(SUB_CALL, '')) === true
  }
}
