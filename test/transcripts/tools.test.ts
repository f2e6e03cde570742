import { describe, expect, test } from 'vitest'
import type { TranscriptFormat } from '../../src/core/transcript.ts'
import { importTranscript } from '../../src/transcripts/transcripts.ts'

const schema = { type: 'object', properties: { n: { type: 'integer' } } }
const toolOf = (
  format: TranscriptFormat, tool: unknown
) => importTranscript({ format, tools: [JSON.stringify(tool, null, 1)], messages: [] }).tools[0]

describe('4.3 a tool is read in the shape of its format, and as MCP writes it in every one', () => {
  const own: [TranscriptFormat, object][] = [
    ['openai-chat', { type: 'function', function: { name: 'f', description: 'd', parameters: schema, strict: true } }],
    ['openai-responses', { type: 'function', name: 'f', description: 'd', parameters: schema, strict: true }],
    ['anthropic', { name: 'f', description: 'd', input_schema: schema, cache_control: { type: 'ephemeral' } }],
    ['anthropic', { type: 'custom', name: 'f', description: 'd', input_schema: schema }],
    ['ai-sdk', { name: 'f', description: 'd', inputSchema: schema }],
    ['ai-sdk', { type: 'function', name: 'f', description: 'd', inputSchema: { jsonSchema: schema } }],
    ['events', { name: 'f', description: 'd', inputSchema: schema }]
  ]
  test.for(own)('%s: %j', ([format, tool]) => {
    const wire = format === 'openai-chat' || format === 'anthropic' ? { wire: {
      format, json: JSON.stringify(tool, null, 1)
    } } : {}
    expect(toolOf(format, tool)).toEqual({ name: 'f', description: 'd', inputSchema: schema, ...wire })
  })

  test.for(
    ['openai-chat', 'openai-responses', 'anthropic'] as const
  )('%s takes MCP\'s shape, and keeps no text that its API would not take', (format) => {
    expect(
      toolOf(format, { name: 'f', description: 'd', inputSchema: schema })
    ).toEqual({ name: 'f', description: 'd', inputSchema: schema })
  })
})

test('a tool without parameters takes an empty object', () => {
  expect(
    toolOf('openai-responses', { type: 'function', name: 'f', parameters: null })
  ).toEqual({ name: 'f', description: '', inputSchema: { type: 'object', properties: {} } })
})

test('a tool of free text takes its text as `input`', () => {
  const free = {
    name: 'patch', description: '',
    inputSchema: { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] }
  }
  expect(toolOf('openai-responses', { type: 'custom', name: 'patch' })).toEqual(free)
  expect(toolOf('openai-chat', { type: 'custom', custom: { name: 'patch' } })).toMatchObject(free)
})

test.for([
  ['anthropic', { type: 'web_search_20260318', name: 'web_search', max_uses: 3 }, 'web_search', true],
  ['anthropic', { type: 'mcp_toolset', mcp_server_name: 'docs' }, 'docs', true],
  ['openai-responses', { type: 'web_search' }, 'web_search', true],
  ['openai-responses', { type: 'mcp', server_label: 'docs' }, 'docs', true],
  ['anthropic', { type: 'bash_20250124', name: 'bash' }, 'bash', false],
  ['anthropic', { type: 'text_editor_20250728', name: 'str_replace_based_edit_tool' }, 'str_replace_based_edit_tool', false],
  ['openai-responses', { type: 'local_shell' }, 'local_shell', false]
] as const)('%s: of the vendor\'s tools, %j is run by who runs it', ([format, tool, name, byServer]) => {
  const definition = toolOf(format, tool)
  expect(definition).toMatchObject({ name, inputSchema: { type: 'object' } })
  expect(definition?.serverTool ?? false).toBe(byServer)
  expect(definition?.wire).toEqual(format === 'anthropic' ? { format, json: JSON.stringify(tool, null, 1) } : undefined)
})
