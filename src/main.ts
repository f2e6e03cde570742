import { enableCompileCache } from 'node:module'

// The compiled sources are kept between starts: a later one needs no compiler in memory.
enableCompileCache()
const { run } = await import('./process.ts')
await run(process)
