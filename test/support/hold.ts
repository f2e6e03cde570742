export interface Held {
  /** Resolves once the method was called and waits. */
  readonly reached: Promise<void>
  release (): void
}

/** Holds the next call of an object's asynchronous method until it is released; later calls go through. */
export function hold<K extends string> (target: { [key in K]: (...args: never[]) => Promise<unknown> }, name: K): Held {
  const original = target[name] as (...args: unknown[]) => Promise<unknown>
  const reached = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  Object.assign(target, {
    [name]: async (...args: unknown[]) => {
      Object.assign(target, { [name]: original })
      reached.resolve()
      await released.promise
      return await original(...args)
    }
  })
  return { reached: reached.promise, release: () => released.resolve() }
}
