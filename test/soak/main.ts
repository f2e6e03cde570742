/** `npm run soak [-- SECTION [arguments]]`: what takes too long for `npm test`; every section, or one with its arguments. */
type Section = (args: readonly string[]) => Promise<number>

const SECTIONS: Readonly<Record<string, () => Promise<Section>>> = {
  crash: async () => (await import('../crash/soak.ts')).soakCrash,
  http: async () => (await import('./http.ts')).soakHttp,
  states: async () => (await import('./states.ts')).soakStates,
  tenants: async () => (await import('./tenants.ts')).soakTenants
}

const [name, ...args] = process.argv.slice(2)
const sections = name === undefined ? Object.keys(SECTIONS) : [name]
for (const section of sections) {
  const load = SECTIONS[section]
  if (!load) {
    process.stderr.write(`no section "${section}"; known: ${Object.keys(SECTIONS).join(', ')}\n`)
    process.exit(1)
  }
  const code = await (await load())(args)
  process.exitCode = Math.max(Number(process.exitCode ?? 0), code)
}
