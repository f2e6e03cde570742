import { readFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { startService } from '../support/service.ts'

const ANSWERS = {
  'x-content-type-options': 'nosniff', 'content-security-policy': "default-src 'none'; frame-ancestors 'none'", 'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer', 'cross-origin-resource-policy': 'same-origin', 'cache-control': 'no-store'
}

test('every answer says what it is, in no frame, to be kept nowhere: runs, errors, health, metrics, streams', async () => {
  const service = await startService(onTestFinished)
  const { id } = await service.start({ task: 'a' }, { prefer: 'wait=10' })
  const asked: [method: string, path: string, status: number, accept?: string][] = [
    ['GET', '/v1/runs', 200], ['GET', `/v1/runs/${id}`, 200], ['GET', `/v1/runs/${id}/result`, 200], ['GET', '/v1/runs/x', 404], ['GET', '/nowhere', 404],
    ['PUT', '/v1/runs', 405], ['GET', '/healthz', 200], ['GET', '/readyz', 200], ['GET', '/metrics', 200], ['DELETE', '/v1/sessions/x', 204],
    ['GET', `/v1/runs/${id}/events`, 200], ['GET', `/v1/runs/${id}/events`, 200, 'text/event-stream'], ['GET', '/v1/runs?limit=x', 400], ['GET', '/v1/%zz', 400]
  ]
  for (const [method, path, status, accept = 'application/json'] of asked) {
    const answer = await service.call(method, path, undefined, { accept })
    expect({ method, path, status: answer.status, headers: Object.fromEntries(answer.headers) }).toMatchObject({ method, path, status, headers: ANSWERS })
  }
})

test('the page of the API may load what is served here, and nothing else; no page frames it or keeps its window', async () => {
  const service = await startService(onTestFinished)
  for (const path of ['/docs', '/docs/start.js', '/docs/swagger-ui-bundle.js', '/docs/swagger-ui.css', '/openapi.json']) {
    const { status, headers } = await service.call('GET', path)
    expect([path, status]).toEqual([path, 200])
    const policy = Object.fromEntries((headers.get('content-security-policy') ?? '').split('; ').map((part) => [part.split(' ', 1)[0], part.split(' ').slice(1)]))
    expect(policy).toMatchObject({
      'default-src': ["'none'"], 'script-src': ["'self'"], 'connect-src': ["'self'"], 'frame-ancestors': ["'none'"], 'base-uri': ["'none'"], 'form-action': ["'none'"]
    })
    expect(Object.fromEntries(headers)).toMatchObject({ 'x-content-type-options': 'nosniff', 'x-frame-options': 'DENY', 'cross-origin-opener-policy': 'same-origin', 'referrer-policy': 'no-referrer' })
    expect(headers.get('cache-control')).not.toBe('no-store')
  }
  const { text } = await service.call('GET', '/docs')
  expect(text).not.toMatch(/<script>|<style|\son\w+=|https?:\/\/|javascript:/)
})

test('no header names the software behind it', async () => {
  const service = await startService(onTestFinished)
  const { headers } = await service.call('GET', '/v1/runs')
  expect([headers.get('server'), headers.get('x-powered-by')]).toEqual([null, null])
  expect(readFileSync(new URL('../../routes/http.ts', import.meta.url), 'utf8')).not.toContain('trustProxy')
})
