/**
 * What runs in the sandbox before the program: it makes `tools` and `console`, and keeps the host's functions to itself. It takes
 * its built-ins at once and keeps its books in objects without a prototype, so that no program can bend them by changing built-ins.
 */
export const PRELUDE = `(function (send, print, done, failed, config) {
  'use strict'
  const { names, calls, parallel, inputChars, outputChars } = JSON.parse(config)
  const { parse, stringify } = JSON
  const { Error, TypeError, Promise, Map, Set, String, ArrayBuffer } = globalThis
  const { freeze, defineProperty } = Object
  const slice = Function.prototype.call.bind(String.prototype.slice)

  const open = { __proto__: null }
  const queue = { __proto__: null }
  let made = 0, head = 0, tail = 0, running = 0

  function call (name, input) {
    const error = new Error()
    return new Promise((resolve, reject) => {
      const fail = (message) => reject(defineProperty(error, 'message', { value: message, configurable: true, writable: true }))
      if (made >= calls) return fail('a program may make at most ' + calls + ' tool calls')
      const text = input === undefined ? '{}' : stringify(input)
      if (typeof text !== 'string') return fail('the input of ' + name + ' is not JSON')
      if (text.length > inputChars) {
        return fail('the input of ' + name + ' has ' + text.length + ' characters of JSON, more than ' + inputChars)
      }
      const n = ++made
      open[n] = { resolve, fail }
      queue[tail++] = { n, name, text }
      next()
    })
  }
  function next () {
    while (running < parallel && head < tail) {
      const { n, name, text } = queue[head]
      delete queue[head++]
      running++
      send(n, name, text)
    }
  }
  function answer (n, ok, text) {
    const { resolve, fail } = open[n]
    delete open[n]
    running--
    if (ok) resolve(parse(text))
    else fail(text)
    next()
  }

  const named = { __proto__: null }
  for (let i = 0; i < names.length; i++) named[names[i]] = (input) => call(names[i], input)
  freeze(named)
  const tools = new Proxy(named, {
    get (target, key) {
      if (typeof key === 'symbol' || key in target || key === 'then' || key === 'toJSON') return target[key]
      return (input) => call(key, input)
    }
  })

  const plain = (key, value) => typeof value === 'bigint' ? value + 'n'
    : value instanceof Map || value instanceof Set ? [...value] : value instanceof Error ? value.name + ': ' + value.message : value
  function show (value) {
    if (typeof value === 'string') return value
    try {
      if (typeof value === 'function') return value.name ? '[function ' + value.name + ']' : '[function]'
      if (value instanceof Error) return value.name + ': ' + value.message
      const text = typeof value === 'bigint' ? value + 'n' : stringify(value, plain)
      return typeof text === 'string' ? text : String(value)
    } catch (error) {
      return '[a value that cannot be shown]'
    }
  }
  function log (...values) {
    let line = ''
    for (let i = 0; i < values.length; i++) line += (i === 0 ? '' : ' ') + show(values[i])
    line += '\\n'
    print(slice(line, 0, outputChars), line.length)
  }
  const console = freeze({ log, info: log, warn: log, error: log, debug: log })

  const part = (value) => typeof value === 'string' ? slice(value, 0, 4096) : ''
  function fail (kind, error) {
    let name = '', message = 'something was thrown that cannot be described', stack = ''
    try {
      if (typeof error === 'object' && error !== null && typeof error.message === 'string') {
        name = part(error.name)
        message = part(error.message)
        stack = part(error.stack)
      } else message = 'thrown: ' + part(show(error))
    } catch (ignored) {}
    failed(kind, name, message, stack)
  }
  async function run (program) {
    let value, text
    try {
      value = await program()
    } catch (error) {
      return fail('runtime', error)
    }
    if (value === undefined) return done(tail - head)
    try {
      text = stringify(value)
      if (typeof text !== 'string') throw new TypeError('a ' + typeof value + ' was returned')
    } catch (error) {
      return fail('output', error)
    }
    done(tail - head, slice(text, 0, outputChars), text.length)
  }
  const reserve = (bytes) => { new ArrayBuffer(bytes) }

  const shared = (value) => ({ value, writable: true, configurable: true, enumerable: false })
  defineProperty(globalThis, 'tools', shared(tools))
  defineProperty(globalThis, 'console', shared(console))
  return { run, answer, reserve }
})`
