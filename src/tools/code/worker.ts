import { getPriority, setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { messageOf } from '../../core/errors.ts'
import type { FromThread, ThreadSetup, ToThread } from './messages.ts'
import { Program } from './program.ts'
import { createVm } from './vm.ts'

/** The entry of a sandbox thread: one program at a time, each in a machine of its own, which is made ready before it is needed. */
const port = parentPort
if (!port) throw new Error('this file runs as a worker')
const { module, memoryBytes, limits, control } = workerData as ThreadSetup
const shared = new Int32Array(control)
const post = (message: FromThread): void => port.postMessage(message)
const exit = (): void => process.exit()

// On Linux this is the priority of this thread alone: programs take what the service leaves.
if (process.platform === 'linux') setPriority(Math.max(10, getPriority()))

let spare = createVm(module, memoryBytes)
let program: Program | undefined
let handled: Promise<void> = Promise.resolve()

async function handle (message: ToThread): Promise<void> {
  switch (message.type) {
    case 'program': {
      program = new Program({ id: message.id, vm: await spare, limits, control: shared, post, exit })
      program.start(message.code, message.names)
      spare = createVm(module, memoryBytes)
      break
    }
    case 'answer':
      program?.answer(message.n, message.ok, message.text)
      break
    case 'stop':
      program?.stop()
      break
    default: message satisfies never
  }
  if (!program?.ended) return
  if (program.last) exit()
  program = undefined
}

port.on('message', (message: ToThread) => {
  // What breaks the thread ends it: the service learns of it by the thread's error.
  handled = handled.then(() => handle(message)).catch((error: unknown) => {
    setImmediate(() => { throw error instanceof Error ? error : new Error(messageOf(error)) })
  })
})
