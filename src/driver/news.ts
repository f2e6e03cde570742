/** Who watches a run's status. What others do with its news fails nothing of the run. */
export interface News {
  watch (listener: () => void): () => void
  tell (): void
  /** Runs what others brought; answers with the error it threw, which is told. */
  contain (message: string, call: () => void): unknown[]
}

export function createNews (onFault: (message: string, error: unknown) => void): News {
  const listeners = new Set<() => void>()
  const contain: News['contain'] = (message, call) => {
    try {
      call()
      return []
    } catch (error) {
      onFault(message, error)
      return [error]
    }
  }
  return {
    contain,
    watch (listener) {
      listeners.add(listener)
      return () => { listeners.delete(listener) }
    },
    tell () { for (const listener of listeners) contain('an observer of a status threw', listener) }
  }
}
