/** Whether the store takes writes, for readiness: asked again and again once it failed, never before. */
export interface StoreHealth {
  readonly ok: boolean
  /** Told of a failure of the store. */
  onFault (): void
  close (): void
}

const PING_MS = 1000

export function createStoreHealth (ping: () => Promise<void>): StoreHealth {
  let timer: NodeJS.Timeout | undefined
  const close = (): void => {
    clearInterval(timer)
    timer = undefined
  }
  return {
    get ok () { return timer === undefined },
    onFault () {
      // A ping that fails is told as a fault of the store itself.
      timer ??= setInterval(() => { ping().then(close, () => {}) }, PING_MS).unref()
    },
    close
  }
}
