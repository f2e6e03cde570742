const MAX_LINE = 4096

/** Takes pieces of a text and gives its lines, the long ones in parts; an unfinished last line is not given. */
export function createLineReader (onLine: (line: string) => void): (chunk: Buffer) => void {
  const decoder = new TextDecoder()
  let rest = ''
  return (chunk) => {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split(/\r?\n/)
    rest = lines.pop() ?? ''
    for (; rest.length > MAX_LINE; rest = rest.slice(MAX_LINE)) lines.push(rest.slice(0, MAX_LINE))
    for (const line of lines) {
      for (let at = 0; at < line.length; at += MAX_LINE) if (line.trim() !== '') onLine(line.slice(at, at + MAX_LINE))
    }
  }
}
