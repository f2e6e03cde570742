/** Collects the garbage of a process started with `--inspect=127.0.0.1:<port>`; answers the bytes its heap holds then. */
export async function collectGarbage (port: number): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${port}/json/list`)
  const [target] = await answer.json() as { webSocketDebuggerUrl: string }[]
  if (target === undefined) throw new Error('the process has no inspector')
  const socket = new WebSocket(target.webSocketDebuggerUrl)
  await new Promise<void>((resolve, reject) => {
    socket.onopen = () => resolve()
    socket.onerror = () => reject(new Error('the inspector does not answer'))
  })
  const ask = (id: number, method: string): Promise<unknown> => new Promise((resolve) => {
    socket.addEventListener('message', ({ data }) => {
      const reply = JSON.parse(String(data)) as { id?: number, result?: unknown }
      if (reply.id === id) resolve(reply.result)
    })
    socket.send(JSON.stringify({ id, method }))
  })
  await ask(1, 'HeapProfiler.collectGarbage')
  await ask(2, 'HeapProfiler.collectGarbage')
  const { usedSize } = await ask(3, 'Runtime.getHeapUsage') as { usedSize: number }
  socket.close()
  return usedSize
}
