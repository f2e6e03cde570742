import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

// The compiled sources are kept between starts: a later one needs no compiler in memory. Not in the system's temporary folder, which is
// Node's default: whoever made that folder first could have this process run what they like.
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/compile'))
const { run } = await import('./process.ts')
await run(process)
