import variant from '@jitl/quickjs-wasmfile-release-sync'
import { newQuickJSWASMModuleFromVariant, newVariant } from 'quickjs-emscripten-core'
import type { QuickJSContext, QuickJSSyncVariant } from 'quickjs-emscripten-core'

export interface Vm {
  context: QuickJSContext
  /** Whether the memory has grown to where it can hardly grow on; and to where the thread should not keep it. */
  isFull (): boolean
  isLarge (): boolean
}

/** Its types speak of CommonJS; as a module its default export is the variant itself. */
const base = variant as unknown as QuickJSSyncVariant

const PAGE = 65_536
/** What the library's module declares as its least. */
const INITIAL_PAGES = 256
const LARGE = 2 * INITIAL_PAGES * PAGE

/**
 * A machine of its own for one program: an own instance, so that nothing of a program is there for the next, and an own memory
 * whose maximum the engine cannot pass (the library's memory limit does not hold). It is not disposed of: dropped, it is garbage.
 */
export async function createVm (module: WebAssembly.Module, memoryBytes: number): Promise<Vm> {
  const maximum = Math.max(INITIAL_PAGES, Math.floor(memoryBytes / PAGE))
  const memory = new WebAssembly.Memory({ initial: INITIAL_PAGES, maximum })
  const own = newVariant(base, { wasmModule: () => Promise.resolve(module), wasmMemory: memory, log: () => {} })
  const quickjs = await newQuickJSWASMModuleFromVariant(own)
  const context = quickjs.newRuntime().newContext()
  return { context, isFull: () => memory.buffer.byteLength > memoryBytes * 0.8, isLarge: () => memory.buffer.byteLength > LARGE }
}
