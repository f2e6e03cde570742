import { expect, test } from 'vitest'
import { loadAgents, type NamedAgent } from '../../src/agents/agents.ts'
import { ConfigError } from '../../src/settings.ts'

const load = (files: Record<string, string>): NamedAgent[] => loadAgents('agents', {
  readDir: () => Object.keys(files),
  readFile: (path) => files[path.replace('agents/', '')] ?? ''
})
const faultsOf = (files: Record<string, string>): string[] => {
  try {
    load(files)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.faults.map(({ key, detail }) => `${key}: ${detail}`)
  }
  return []
}
const file = (head: string, body = 'You review.'): string => `---\n${head}\n---\n${body}\n`
const one = (head: string, body?: string): NamedAgent | undefined => load({ 'a.md': file(head, body) })[0]

test('a file is an agent: its head the settings, its body the persona, word for word', () => {
  const head = 'name: reviewer\ndescription: Reviews code\ntools: [read_file, files__list]\nmodel: openai/gpt-5-mini\nmaxDepth: 2'
  expect(one(head, '\nYou are a reviewer.\n\n- Be kind.\n---\nBe brief.\n')).toEqual({
    name: 'reviewer', description: 'Reviews code', persona: 'You are a reviewer.\n\n- Be kind.\n---\nBe brief.',
    toolFilter: { allow: ['read_file', 'files__list'] }, model: 'openai/gpt-5-mini', maxDepth: 2, extra: {}
  })
})

test('a file in the convention of others is taken: commas, inherit, and fields of no meaning here', () => {
  expect(one('name: code-reviewer\ndescription: Use it after changes.\ntools: Read, Grep, Read\nmodel: inherit\ncolor: blue\nskills:\n  - x')).toEqual({
    name: 'code-reviewer', description: 'Use it after changes.', persona: 'You review.', toolFilter: { allow: ['Read', 'Grep'] }, extra: { color: 'blue', skills: ['x'] }
  })
})

test('a description with colons, as the convention has it, is a text as it stands; faults keep their lines', () => {
  const description = 'Use this agent when: it is late. Example: <example>user: "hi" # not a comment\\nassistant: ok</example>'
  expect(one(`name: a\ndescription: ${description}\ntools: Read`)).toMatchObject({ description, toolFilter: { allow: ['Read'] } })
  expect(one('name: a\ndescription: Ends with one:')?.description).toBe('Ends with one:')
  expect(faultsOf({ 'a.md': file('name: a\ndescription: b: c: "d"\nmaxDepth: x') })).toEqual(['a.md:4: maxDepth must be a whole number of at least 0'])
})

test('what is denied is denied', () => {
  expect(one('name: a\ndescription: b\ndisallowedTools: Write, Edit')?.toolFilter).toEqual({ deny: ['Write', 'Edit'] })
})

test('8.2 tools that are left out stay left out, and an empty list is no tool', () => {
  expect(one('name: a\ndescription: b')).not.toHaveProperty('toolFilter')
  expect(one('name: a\ndescription: b\ntools: []')?.toolFilter).toEqual({ allow: [] })
  for (const tools of ['tools:', 'tools: ""', 'tools: " , "']) {
    expect(faultsOf({ 'a.md': file(`name: a\ndescription: b\n${tools}`) })).toEqual(['a.md:4: tools says nothing: leave it out to change nothing, or write [] for no tool'])
  }
})

test('an empty body is no persona', () => {
  expect(one('name: a\ndescription: b', '  \n')).not.toHaveProperty('persona')
})

test('line ends and a byte order mark of other systems are read', () => {
  expect(load({ 'a.md': `\uFEFF${file('name: a\ndescription: b', 'one\ntwo').replaceAll('\n', '\r\n')}` })[0]).toMatchObject({ name: 'a', persona: 'one\ntwo' })
})

test('agents come by name; what is hidden or no Markdown is passed over', () => {
  const files = { 'z.md': file('name: alpha\ndescription: x'), 'A.MD': file('name: beta\ndescription: x'), '.hidden.md': 'x', 'notes.txt': 'x', folder: 'x' }
  expect(load(files).map(({ name }) => name)).toEqual(['alpha', 'beta'])
})

test('every fault of every file is told at once, with its line', () => {
  expect(faultsOf({
    'a.md': 'no head',
    'b.md': '---\nname: b\n',
    'c.md': file('name: c\ndescription: d\n  bad: : x'),
    'd.md': file('# a comment\nname: not a name\ndescription: ""\ntools: [Read, 3]\nmodel: 7\nmaxDepth: -1'),
    'e.md': file('description: twice\nname: same'),
    'f.md': file('name: same\ndescription: twice'),
    'g.md': file('- a\n- list'),
    'h.md': file('name: h\nname: i\ndescription: x'),
    'i.md': file('tools: Bash(git:*), Read\nname: i\ndescription: x\nmaxDepth: "2"')
  })).toEqual([
    'a.md:1: must begin with front matter: a line "---", name and description, and another line "---"',
    'b.md:1: has no second line "---" to end its front matter',
    'c.md:3: Nested mappings are not allowed in compact mappings',
    'c.md:4: Nested mappings are not allowed in compact mappings',
    'd.md:3: name must be 1 to 64 letters, digits, "_", "." or "-"',
    'd.md:4: description must be a text that is not empty',
    'd.md:5: tools must be a list of names, or names with commas between them',
    'd.md:6: model must be a text that is not empty',
    'd.md:7: maxDepth must be a whole number of at least 0',
    'f.md:2: the name "same" is taken by e.md',
    'g.md:2: its front matter must be a map',
    'h.md:3: Map keys must be unique',
    'i.md:2: tools has what is no name of a tool: "Bash(git:*)"',
    'i.md:5: maxDepth must be a whole number of at least 0'
  ])
})

test('missing fields are named', () => {
  expect(faultsOf({ 'a.md': file('color: red') })).toEqual(['a.md:1: name is missing', 'a.md:1: description is missing'])
})

test.each(['.inf', '-0.0', '1.5', 'true', 'null', '9007199254740992'])('6.3 maxDepth %s is no depth', (value) => {
  expect(faultsOf({ 'a.md': file(`name: a\ndescription: b\nmaxDepth: ${value}`) })).toHaveLength(1)
})

test('a folder or a file that cannot be read is a fault, not a crash', () => {
  const readDir = (): string[] => { throw new Error('ENOENT: no such folder') }
  expect(() => loadAgents('gone', { readDir, readFile: () => '' })).toThrow('AGENTS_DIR (gone): cannot be read: ENOENT: no such folder')
  expect(() => loadAgents('x', { readDir: () => ['a.md'], readFile: () => { throw new Error('EISDIR') } })).toThrow('a.md: cannot be read: EISDIR')
})

test('keys that are names of an object stay data', () => {
  const agent = one('name: a\ndescription: b\n__proto__: {polluted: yes}\nconstructor: 1')
  expect(agent?.extra).toHaveProperty('constructor', 1)
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
})

test('a bomb of aliases is refused', () => {
  const bomb = ['a: &a [x, x, x, x, x, x, x, x, x, x]', ...'bcdefgh'.split('').map((key, n) => `${key}: &${key} [${Array(10).fill(`*${'abcdefgh'[n]}`).join(', ')}]`)].join('\n')
  expect(faultsOf({ 'a.md': file(`name: a\ndescription: b\n${bomb}`) })).toEqual([expect.stringContaining('alias')])
})
