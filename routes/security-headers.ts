import type { FastifyReply } from 'fastify'

/**
 * What every answer says to a browser: take it for what its type says, show it in no frame, load nothing for it, keep it nowhere. A page
 * says its own policy over it with `pageHeaders`.
 */
export const ANSWER_HEADERS = {
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin'
} as const

/** The same, for an answer that no route gave. */
export const RAW_HEADERS: string = Object.entries(ANSWER_HEADERS).map(([name, value]) => `${name}: ${value}\r\n`).join('')

export const answerHeaders = (reply: FastifyReply): FastifyReply => reply.headers(ANSWER_HEADERS)

/** Nothing on a page comes from, or goes, elsewhere; no other page holds on to its window. `csp`: more of a policy. */
export const pageHeaders = (reply: FastifyReply, csp = ''): FastifyReply => reply
  .header('content-security-policy', `default-src 'none'; script-src 'self'; connect-src 'self'; font-src 'self'; ${csp}base-uri 'none'; ` +
    "form-action 'none'; frame-ancestors 'none'")
  .header('cross-origin-opener-policy', 'same-origin')
  .header('cache-control', 'no-cache')
