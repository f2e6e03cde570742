/** The part of WebAssembly that the sandbox uses; Node has it, its types do not. */
declare namespace WebAssembly {
  class Module { private constructor () }
  class Memory {
    constructor (limits: { initial: number, maximum: number })
    readonly buffer: ArrayBuffer
  }
  function compile (bytes: Uint8Array): Promise<Module>
}
