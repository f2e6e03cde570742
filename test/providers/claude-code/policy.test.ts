import { expect, test } from 'vitest'
import type { ToolFilter } from '../../../src/core/run.ts'
import { decide, type Permissions } from '../../../src/providers/claude-code/policy.ts'

const text = (permissions: Permissions, tool: string, filter?: ToolFilter): string => {
  const verdict = decide(permissions, filter, tool)
  return verdict.allowed ? 'allowed' : verdict.text
}

test('nothing is allowed that no rule allows (A7)', () => {
  expect(text({}, 'Bash')).toBe('tool "Bash" is not permitted: the operator\'s permissions do not allow it')
  expect(text({ allow: ['Bas', 'bash', 'Bashful'] }, 'Bash')).toBe('tool "Bash" is not permitted: the operator\'s permissions do not allow it')
  expect(text({ allow: ['Read', 'Bash'] }, 'Bash')).toBe('allowed')
})

test('a rule that ends in * allows what begins so', () => {
  expect(text({ allow: ['mcp__docs__*'] }, 'mcp__docs__search')).toBe('allowed')
  expect(text({ allow: ['mcp__docs__*'] }, 'mcp__mail__send')).toMatch(/do not allow/)
  expect(text({ allow: ['*'] }, 'Anything')).toBe('allowed')
})

test('a denial wins, and its text names tool and rule (A7)', () => {
  expect(text({ allow: ['*'], deny: ['Read', 'Ba*'] }, 'Bash')).toBe('tool "Bash" is not permitted: the operator\'s permissions deny "Ba*"')
  expect(text({ allow: ['Bash'], deny: ['Bash'] }, 'Bash')).toMatch(/deny "Bash"/)
  expect(text({ allow: ['*'], deny: ['Ba*'] }, 'Read')).toBe('allowed')
})

test('the run\'s filter narrows the permissions and never widens them', () => {
  expect(text({ allow: ['*'] }, 'Bash', { deny: ['Bash'] })).toBe('tool "Bash" is not permitted: the toolFilter of this run denies it')
  expect(text({ allow: ['*'] }, 'Bash', { allow: ['Read'] })).toBe('tool "Bash" is not permitted: the toolFilter of this run does not allow it')
  expect(text({ allow: ['*'] }, 'Read', { allow: ['Read'], deny: ['Bash'] })).toBe('allowed')
  expect(text({ allow: ['*'] }, 'Read', { allow: [] })).toMatch(/toolFilter/)
  expect(text({}, 'Read', { allow: ['Read'] })).toMatch(/operator/)
})

test('the two names of the CLI\'s agent tool are one to every rule', () => {
  for (const [named, asked] of [['Task', 'Agent'], ['Agent', 'Task']] as const) {
    expect(text({ allow: [named] }, asked)).toBe('allowed')
    expect(text({ allow: ['*'], deny: [named] }, asked)).toMatch(/deny/)
    expect(text({ allow: ['*'] }, asked, { deny: [named] })).toMatch(/denies/)
    expect(text({ allow: ['*'] }, asked, { allow: [named] })).toBe('allowed')
  }
})
