/**
 * Runs work side by side, all of it to its end, under a signal that follows `signal`. The first that fails stops the others by
 * that signal and is thrown once they have ended, so that nothing is left running. No listener stays on `signal`.
 */
export async function together (signal: AbortSignal, start: (shared: AbortSignal) => Promise<void>[]): Promise<void> {
  const controller = new AbortController()
  const follow = (): void => controller.abort(signal.reason)
  if (signal.aborted) follow()
  else signal.addEventListener('abort', follow)
  let failed: { error: unknown } | undefined
  try {
    await Promise.all(start(controller.signal).map((work) => work.catch((error: unknown) => {
      failed ??= { error }
      controller.abort(error)
    })))
  } finally {
    signal.removeEventListener('abort', follow)
  }
  if (failed) throw failed.error
}
