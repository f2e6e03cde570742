import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { expect, test } from 'vitest'

/** Holds the walls that docs/architecture.md draws. The document is the only copy of the tables. */
const root = join(import.meta.dirname, '..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const document = read('docs/architecture.md')
const sources = globSync(['src/**/*.ts', 'routes/**/*.ts', 'openapi/**/*.ts'], { cwd: root }).toSorted()

/** `a, b → c, d` lines of a fenced block: each name on the left may use each on the right. */
function table (fence: string): Map<string, string[]> {
  const block = new RegExp(`\`\`\`${fence}\\n([\\s\\S]*?)\`\`\``).exec(document)?.[1]
  if (block === undefined) throw new Error(`docs/architecture.md has no block \`${fence}\``)
  const names = (list: string): string[] => list.split(',').map((name) => name.trim()).filter((name) => name !== '')
  return new Map(block.trim().split('\n').flatMap((line) => {
    const [left = '', right = ''] = line.split('→')
    return names(left).map((name) => [name, names(right)] as const)
  }))
}

/** Everything that a file imports, re-exports, or loads later, types included. */
function importsOf (path: string): string[] {
  const code = read(path)
  const forms = [/^\s*(?:import|export)\b[^'"]*?\bfrom\s*['"]([^'"]+)['"]/gm, /^\s*import\s*['"]([^'"]+)['"]/gm, /\bimport\s*\(\s*['"]([^'"]+)['"]/g]
  return forms.flatMap((form) => [...code.matchAll(form)].map((match) => match[1] as string))
}

const walls = table('imports')

/** The room of a file: `src/core/log.ts` is in `core`, `src/app.ts` is `app`; a file the table names is its own room. */
function roomOf (path: string): string {
  const bare = path.replace(/\.ts$/, '')
  if (walls.has(bare)) return bare
  const [first = '', second = ''] = bare.split('/')
  return first === 'src' ? second : first
}

const packageOf = (specifier: string): string =>
  specifier.startsWith('@') ? specifier.split('/').slice(0, 2).join('/') : specifier.startsWith('node:') ? specifier : specifier.split('/')[0] as string

test('the reader of imports sees every form of one', () => {
  expect(importsOf('test/architecture.test.ts')).toEqual(expect.arrayContaining(['node:fs', 'node:path', 'vitest']))
  expect(sources.length).toBeGreaterThan(15)
  expect(importsOf('src/core/log.ts')).toContain('./events.ts')
})

test('a room imports only what the table lets it', () => {
  const broken = sources.flatMap((path) => importsOf(path).flatMap((specifier) => {
    if (!specifier.startsWith('.')) return []
    const [from, to] = [roomOf(path), roomOf(relative(root, join(root, dirname(path), specifier)))]
    const allowed = walls.get(from)
    if (allowed === undefined) return [`${path}: the room "${from}" is not in the table`]
    return from === to || allowed.includes('*') || allowed.includes(to) ? [] : [`${path} (${from}) imports ${specifier} (${to})`]
  }))
  expect(broken).toEqual([])
})

test('the rooms form no circle', () => {
  const open = (name: string): string[] => {
    const allowed = walls.get(name) ?? []
    return allowed.includes('*') ? [...walls.keys()].filter((other) => ![name, 'main', 'process', 'key', 'openapi/generate'].includes(other)) : allowed
  }
  const visit = (name: string, path: string[]): string[] => path.includes(name)
    ? [[...path, name].join(' → ')]
    : open(name).flatMap((next) => visit(next, [...path, name]))
  expect([...walls.keys()].flatMap((name) => visit(name, []))).toEqual([])
})

test('core does no I/O: it imports nothing but itself, randomness for ids, and the channel of fault points', () => {
  const foreign = sources.filter((path) => roomOf(path) === 'core').flatMap((path) =>
    importsOf(path).filter((specifier) => !specifier.startsWith('./')).map((specifier) => `${path}: ${specifier}`))
  expect(foreign).toEqual(['src/core/fault-point.ts: node:diagnostics_channel', 'src/core/ids.ts: node:crypto'])
})

test('a library is known to the rooms that the document names, and to no other', () => {
  const owners = table('packages')
  const strangers = sources.flatMap((path) => importsOf(path).flatMap((specifier) => {
    const allowed = owners.get(packageOf(specifier))
    return allowed === undefined || allowed.includes(roomOf(path)) ? [] : [`${path} imports ${specifier}`]
  }))
  expect(strangers).toEqual([])
})

test('what runs in production is installed there: each package that the sources import is in dependencies', () => {
  const { dependencies } = JSON.parse(read('package.json')) as { dependencies: Record<string, string> }
  const missing = sources.filter((path) => path !== 'openapi/generate.ts').flatMap((path) => importsOf(path)
    .filter((specifier) => !specifier.startsWith('.') && !specifier.startsWith('node:') && dependencies[packageOf(specifier)] === undefined)
    .map((specifier) => `${path}: ${specifier}`))
  expect(missing).toEqual([])
})

test('the environment is read by the configuration, and handed to it by the process', () => {
  const readers = sources.filter((path) => /\bprocess\s*\.\s*env\b|\benv\s*}\s*=\s*process\b/.test(read(path)))
  expect(readers.filter((path) => !['src/config.ts', 'src/process.ts', 'src/main.ts', 'src/key.ts'].includes(path))).toEqual([])
})

test('each module says what it exports by name, and imports end in .ts', () => {
  const odd = sources.flatMap((path) => [
    ...importsOf(path).filter((specifier) => specifier.startsWith('.') && !/\.(ts|json)$/.test(specifier)).map((specifier) => `${path}: ${specifier}`),
    ...(/^export\s+(default|\*)/m.test(read(path)) && path !== 'openapi/schemas.ts' ? [`${path}: export default or export *`] : [])
  ])
  expect(odd).toEqual([])
})

interface Rules { rules: Record<string, unknown>, overrides: { files: string[], rules: Record<string, unknown> }[] }

test('the size budgets are enforced by the linter, and each exception is named in the document', () => {
  const { rules, overrides } = JSON.parse(read('.oxlintrc.json')) as Rules
  expect(rules['max-lines']).toEqual(['error', expect.objectContaining({ max: 300, skipBlankLines: false, skipComments: false })])
  expect(rules['max-lines-per-function']).toEqual(['error', expect.objectContaining({ max: 60, skipBlankLines: false, skipComments: false })])
  for (const rule of ['typescript/no-explicit-any', 'typescript/no-floating-promises', 'typescript/no-misused-promises']) expect(rules[rule]).toBe('error')
  const freed = overrides.filter(({ rules }) => Object.keys(rules).some((rule) => rule.startsWith('max-lines'))).flatMap(({ files }) => files)
  for (const files of freed.filter((name) => name !== 'test/**' && name !== 'bench/**')) expect(document).toContain(`- \`${files}\``)
})

test('no file frees itself from the compiler or from a rule it does not name, and no source from a budget or from types', () => {
  const all = globSync(['{test,bench}/**/*.ts'], { cwd: root }).filter((path) => path !== 'test/architecture.test.ts')
  const unnamed = /@ts-(ignore|nocheck|expect-error)|(eslint|oxlint)-disable(?!-(next-)?line \S)/
  const budget = /(eslint|oxlint)-disable.*(max-lines|no-explicit-any|promises)/
  expect([...all, ...sources].filter((path) => unnamed.test(read(path)))).toEqual([])
  expect(sources.filter((path) => budget.test(read(path)))).toEqual([])
})

test.runIf(existsSync(join(root, 'AGENTS.md')))('AGENTS.md stays short enough to be read: at most 400 words', () => {
  expect(read('AGENTS.md').split(/\s+/).filter((word) => word !== '').length).toBeLessThanOrEqual(400)
})

test('docs/dependencies.md names each dependency with the version that is installed', () => {
  const { dependencies, devDependencies } = JSON.parse(read('package.json')) as { dependencies: Record<string, string>, devDependencies: Record<string, string> }
  const page = read('docs/dependencies.md')
  const absent = Object.entries({ ...dependencies, ...devDependencies }).filter(([name, version]) => !page.includes(`| \`${name}\` | ${version} |`))
  expect(absent.map(([name]) => name)).toEqual([])
})
