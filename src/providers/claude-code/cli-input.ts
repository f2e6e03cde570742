import type { CliProcess } from './process.ts'

export interface CliInput {
  /** Sends a frame, or the text of one, after those before it, once what it follows from is durable. One for a process that is no more goes nowhere. */
  post (frame: object | string): void
  /** Ends the input after the last frame. */
  close (): void
}

/** The way to a CLI that may not have been started yet. `written` resolves once all that was logged so far is durable. */
export function createCliInput (cli: Promise<CliProcess | undefined>, written: () => Promise<unknown>): CliInput {
  let posted: Promise<unknown> = Promise.resolve()
  const after = (ready: Promise<unknown>, act: (cli: CliProcess) => void): void => {
    // Without its store the chat has failed: what is not durable is not sent.
    posted = Promise.all([posted, cli, ready]).then(([, process]) => { if (process) act(process) }, () => {})
  }
  return {
    post: (frame) => after(written(), (process) => process.write(frame)),
    close: () => after(Promise.resolve(), (process) => process.closeInput())
  }
}
