import { ProtocolError, SdkError, SdkErrorCode, SdkHttpError, UnauthorizedError } from '@modelcontextprotocol/client'
import { messageOf } from '../../core/errors.ts'
import { failureReason, wasSent } from '../outbound.ts'
import { STREAM_ENDED } from './http-transport.ts'

/**
 * What a failed request means. `lost`: the connection answers nothing any more. `session`: the server does not know the session,
 * and did nothing. `silent`: no answer came in time. `sent`: the request may have been carried out.
 */
export interface Failure { reason: string, kind: 'refused' | 'lost' | 'session' | 'silent', sent: boolean }

const MAX_REASON = 1000

/** What the transport knows itself: why it ended, and whether it stands in a session. */
export interface TransportState { ended?: string | undefined, hasSession?: boolean }

export function failureOf (error: unknown, { ended, hasSession = false }: TransportState): Failure {
  const of = (kind: Failure['kind'], reason: string, sent: boolean): Failure => ({ kind, reason: short(reason), sent })
  if (error instanceof SdkHttpError) return ofStatus(error.status, error.data.text, hasSession, of)
  if (error instanceof ProtocolError) {
    if (error.code === STREAM_ENDED) return of('lost', error.message, true)
    return of('refused', `${error.message} (${error.code})`, false)
  }
  if (error instanceof UnauthorizedError) return of('refused', 'it answered HTTP 401', false)
  if (error instanceof SdkError) {
    switch (error.code) {
      case SdkErrorCode.RequestTimeout: return of('silent', 'it did not answer in time', true)
      case SdkErrorCode.ConnectionClosed:
      case SdkErrorCode.NotConnected: return of('lost', ended ?? 'the connection was closed', true)
      case SdkErrorCode.UnsupportedResultType: return of('refused', 'it asks for an answer of a user, and there is none here', false)
      default: return of('refused', error.message, true)
    }
  }
  return of('lost', ended ?? failureReason(error), wasSent(error))
}

type MakeFailure = (kind: Failure['kind'], reason: string, sent: boolean) => Failure

function ofStatus (status: number, body: unknown, hasSession: boolean, of: MakeFailure): Failure {
  const said = typeof body === 'string' && !body.trimStart().startsWith('<') && body.trim() !== '' ? `: ${body.trim()}` : ''
  // 404 is the protocol's own sign for a session that is over; some servers say 400, and why.
  if (hasSession && (status === 404 || (status === 400 && /session/i.test(said)))) return of('session', `it answered HTTP ${status}${said}`, false)
  return of('refused', `it answered HTTP ${status}${said}`, status >= 500)
}

const short = (reason: string): string => reason.length > MAX_REASON ? `${reason.slice(0, MAX_REASON)}...`.toWellFormed() : reason

/** Why a connection could not be made. */
export function connectFailure (error: unknown, ended: string | undefined): string {
  if (ended !== undefined) return ended
  if (error instanceof SdkHttpError || error instanceof SdkError) {
    const { reason, kind } = failureOf(error, {})
    if (error instanceof SdkHttpError || kind === 'silent') return reason
  }
  return short(isNetwork(error) ? failureReason(error) : messageOf(error))
}

const isNetwork = (error: unknown): boolean => error instanceof Error && error.cause instanceof Error
