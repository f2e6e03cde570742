import type { ChatWriter } from './chat-writer.ts'
import { createLineReader, type ReadLine } from './lines.ts'
import type { CliProcess } from './process.ts'

/**
 * Hands on the lines of a CLI to their end, no faster than they are written to the store: one write is under way while the next is
 * prepared. Rejects where one fails.
 */
export async function readOutput (cli: Pick<CliProcess, 'output' | 'drained'>, writer: Pick<ChatWriter, 'written'>, take: (lines: readonly ReadLine[]) => void): Promise<void> {
  const reader = createLineReader()
  let before: Promise<unknown> = Promise.resolve()
  for await (const piece of cli.output) {
    const lines = reader.push(piece)
    if (lines.length === 0) continue
    take(lines)
    const written = writer.written()
    await before
    before = written
    // A CLI that does not take its answers is asked for no more of its questions.
    await cli.drained()
  }
  take(reader.end())
}
