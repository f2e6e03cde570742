import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createRedactor, isSecretName, looksSecret, redactJson, secretParts } from '../../src/core/secrets.ts'

test.each([
  '', 'abc1234', 'true', 'false', 'null', '4096', '1234567890123456', '2026-01-01', '-1.500000', 'object', 'application', 'PRODUCTION',
  'Authorization', 'additionalProperties', 'unevaluatedProperties'
])('%j looks like no secret: too short, a number or a plain word', (value) => {
  expect(looksSecret(value)).toBe(false)
  const text = `{"count": ${value}0, "${value}": "x${value}y", "ok": true}`
  expect(createRedactor([value])(text)).toBe(text)
})

test.each(['abcdefg1', 'hunter-2', 'p@ssword', 'kJhGfDsAqWxZ', 'correct horse', 'sk-proj-x', 'onlylettersbutverymanyofthem', 'schlüssel-geheim'])('%j looks like a secret', (value) => {
  expect(createRedactor([value])(`{"a": "x${value}y"}`)).toBe('{"a": "x[redacted]y"}')
})

test.each([
  'authorization', 'Proxy-Authorization', 'x-api-key', 'X-ApiKey', 'apikey', 'ACCESSKEY', 'API_KEY_2', 'GITHUB_TOKEN', 'x-amz-security-token', 'accessToken', 'PGPASSWORD', 'MYSQL_PWD',
  'GITHUB_PAT', 'cookie', 'Set-Cookie', 'client_secret', 'X-Auth', 'oauth', 'AWS_CREDENTIALS', 'DB_PASS'
])('%s is a name of a secret', (name) => { expect(isSecretName(name)).toBe(true) })

test.each([
  'x-max-tokens', 'accept', 'content-type', 'x-author', 'AUTHORITY', 'KEYBOARD', 'bypass', 'COMPASS', 'x-tokenizer', 'PATH', 'MONTHLY', 'x-passenger', 'secretary'
])('%s is none', (name) => { expect(isSecretName(name)).toBe(false) })

test('a part of a content counts by itself, unless it is a word or too short', () => {
  expect(secretParts('Bearer abc-12345')).toEqual(['Bearer abc-12345', 'abc-12345'])
  expect(secretParts('session=abc-12345; theme=dark; Path=/')).toEqual(['session=abc-12345; theme=dark; Path=/', 'abc-12345'])
})

test('secrets that overlap each other or themselves leave no tail; those side by side stay two', () => {
  expect(createRedactor(['abcdef-1', 'f-1ghijk'])('<abcdef-1ghijk>')).toBe('<[redacted]>')
  expect(createRedactor(['f-1ghijk', 'abcdef-1ghijklm', 'abcdef-1'])('<abcdef-1ghijklm>')).toBe('<[redacted]>')
  expect(createRedactor(['ab-ab-ab'])('<ab-ab-ab-ab-ab>')).toBe('<[redacted]>')
  expect(createRedactor(['abcdef-1'])('abcdef-1abcdef-1')).toBe('[redacted][redacted]')
})

test('a secret is found as encoders write it: in URLs of either case, strict or not, in JSON with \\/ or in ASCII, and in JSON in JSON', () => {
  const secret = 'a/b+c{d"é!(x) y'
  const redact = createRedactor([secret])
  const url = encodeURIComponent(secret)
  const json = JSON.stringify(secret).slice(1, -1)
  const forms = [
    secret, url, url.toLowerCase(), url.replaceAll('%20', '+'), url.replaceAll('%2F', '/'), url.replace('!', '%21').replace('(', '%28').replace(')', '%29'),
    new URLSearchParams({ '': secret }).toString().slice(1), json, json.replaceAll('/', '\\/'), json.replace('é', '\\u00e9'), JSON.stringify(json).slice(1, -1),
    JSON.stringify(json.replaceAll('/', '\\/')).slice(1, -1)
  ]
  for (const form of forms) expect([form, redact(`<${form}>`)]).toEqual([form, '<[redacted]>'])
})

/** Texts of few letters, so that they overlap in every way. */
const tight = (minLength: number, maxLength: number) => fc.string({ unit: fc.constantFrom('a', 'b', '1'), minLength, maxLength })
const secrets = fc.array(tight(8, 12).filter(looksSecret), { minLength: 1, maxLength: 4 })

test('whatever surrounds it, every character of a secret is gone, and no other', () => {
  fc.assert(fc.property(secrets, fc.array(tight(0, 9), { minLength: 2, maxLength: 5 }), (all, between) => {
    const text = between.flatMap((part, at) => [part, all[at % all.length] as string]).join('')
    const kept = createRedactor(all)(text)
    for (const secret of all) expect(kept).not.toContain(secret)
    const gone = new Set<number>()
    for (const secret of all) for (let at = text.indexOf(secret); at !== -1; at = text.indexOf(secret, at + 1)) for (let i = 0; i < secret.length; i++) gone.add(at + i)
    const left = kept.replaceAll('[redacted]', '').length
    expect(left).toBe(text.length - gone.size)
  }), { numRuns: 2000 })
})

test('a text without a secret is unchanged, and so is a JSON value', () => {
  fc.assert(fc.property(fc.array(fc.string({ minLength: 8 }).map((part) => `§${part}`), { maxLength: 5 }), fc.string({ unit: 'grapheme' }), (all, text) => {
    expect(createRedactor(all)(text.replaceAll('§', ''))).toBe(text.replaceAll('§', ''))
  }))
  const values = { count: 40960, ok: true, mode: 'true story', list: [null, 1.5, 'x'], application: { text: 'redacted' } }
  expect(redactJson(values, createRedactor(['true', '4096', 'text', 'redacted', 'application', 'object', 'count']))).toEqual(values)
})

test('time is linear in the text, also for secrets made to be almost found everywhere', () => {
  const timeOf = (secret: string, text: string): number => {
    const redact = createRedactor([secret])
    const start = performance.now()
    redact(text)
    return performance.now() - start
  }
  const many = 'a'.repeat(2000)
  for (const [secret, text] of [[many, 'a'], [`${many}b`, 'a'], [`b${many}`, 'a'], [`${many}b${many}`, 'a'], [`${many}b`, `${many}c`], [`${many}1`, `${many}1`]] as const) {
    expect(timeOf(secret, text.repeat(2_000_000 / text.length))).toBeLessThan(600)
  }
})
