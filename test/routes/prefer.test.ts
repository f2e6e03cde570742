import fc from 'fast-check'
import { expect, test } from 'vitest'
import { asksForEvents, takesJson } from '../../routes/accepts.ts'
import { preferredWait } from '../../routes/prefer.ts'

test.for<[header: string | undefined, seconds: number | undefined]>([
  [undefined, undefined], ['', undefined], ['wait=30', 30], ['wait = 30', 30], ['WAIT=30', 30], ['wait="30"', 30], ['wait=0', 0],
  ['respond-async, wait=10', 10], ['return=minimal; x="a, wait=9", wait=10; y', 10], ['wait=5, wait=9', 5],
  ['wait', undefined], ['wait=', undefined], ['wait=-1', undefined], ['wait=1.5', undefined], ['wait=soon', undefined], [
    'wait=1e3', undefined
  ],
  ['waits=3', undefined], ['x="wait=3"', undefined], ['wait="3', undefined], ['wait=999999999', 999_999_999]
])('RFC 7240: Prefer: %s waits %s', ([header, seconds]) => { expect(preferredWait(header)).toBe(seconds) })

test('no Prefer text breaks the reader', () => {
  fc.assert(fc.property(fc.string(), (text) => {
    const seconds = preferredWait(text)
    return seconds === undefined || (seconds >= 0 && /wait/i.test(text))
  }))
})

test.for<[accept: string | undefined, json: boolean, events: boolean]>([
  [undefined, true, false], ['*/*', true, false], ['text/event-stream', false, true], [
    'text/event-stream, application/json', true, true
  ],
  ['application/json, text/event-stream;q=0.5', true, false], ['text/event-stream;q=0, */*', true, false], [
    'text/*', false, false
  ],
  ['TEXT/EVENT-STREAM', false, true], ['application/json;q=0, */*', false, false], ['application/json;q=x', false, false]
])('Accept: %s takes JSON %s, asks for events %s', ([accept, json, events]) => {
  expect([takesJson(accept), asksForEvents(accept)]).toEqual([json, events])
})
