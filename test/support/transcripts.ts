import type { RawTranscript, TranscriptFormat } from '../../src/core/transcript.ts'

/** A host's transcript as it stands in a request body: JSON values, not texts. */
export interface Transcript { format: TranscriptFormat, system?: unknown, tools?: unknown[], messages: unknown[] }
export interface Fixture {
  transcript: Transcript
  /** How many messages the completed turns take; the open turn follows. */
  cut: number
  /** The open delegation that the host answers with a fork. */
  toolCallId: string
}

/** The texts of a transcript, as the HTTP layer hands them to the importer. */
export const rawOf = ({ format, system, tools, messages }: Transcript): RawTranscript => ({
  format,
  ...(system === undefined ? {} : { system: JSON.stringify(system) }),
  ...(tools === undefined ? {} : { tools: tools.map((tool) => JSON.stringify(tool)) }),
  messages: messages.map((message) => JSON.stringify(message))
})

const INSTRUCTIONS = 'You look after the repository. Delegate what can be looked into on its own.'
const ASK = 'Which tests fail on main?'
const RESULT = '2 failed, 340 passed: cache.test, clock.test'
const FOUND = 'Two tests fail: cache.test and clock.test.'
const MORE = 'Find out why cache.test fails.'
const TASK = '{"description":"cache.test","prompt":"Find out why cache.test fails."}'
const RUN_TESTS = { type: 'object', properties: { branch: { type: 'string' } }, required: ['branch'] }
const DELEGATE = {
  type: 'object', properties: { description: { type: 'string' }, prompt: { type: 'string' } }, required: ['description', 'prompt']
}

const openaiChat: Fixture = {
  cut: 5,
  toolCallId: 'call_Vd2',
  transcript: {
    format: 'openai-chat',
    tools: [
      { type: 'function', function: { name: 'run_tests', description: 'Runs the tests.', parameters: RUN_TESTS } },
      { type: 'function', function: { name: 'delegate', description: 'Hands a task to a subagent.', parameters: DELEGATE } }
    ],
    messages: [
      { role: 'system', content: INSTRUCTIONS },
      { role: 'user', content: ASK },
      {
        role: 'assistant', content: null,
        tool_calls: [{ id: 'call_Qk1', type: 'function', function: { name: 'run_tests', arguments: '{ "branch": "main" }' } }]
      },
      { role: 'tool', tool_call_id: 'call_Qk1', content: RESULT },
      { role: 'assistant', content: FOUND, refusal: null, annotations: [] },
      { role: 'user', content: [{ type: 'text', text: MORE }] },
      {
        role: 'assistant', content: 'I will look into it.',
        tool_calls: [{ id: 'call_Vd2', type: 'function', function: { name: 'delegate', arguments: TASK } }]
      }
    ]
  }
}

const openaiResponses: Fixture = {
  cut: 6,
  toolCallId: 'call_Vd2',
  transcript: {
    format: 'openai-responses',
    system: INSTRUCTIONS,
    tools: [
      { type: 'function', name: 'run_tests', description: 'Runs the tests.', parameters: RUN_TESTS, strict: false },
      { type: 'function', name: 'delegate', description: 'Hands a task to a subagent.', parameters: DELEGATE, strict: false },
      { type: 'web_search' }
    ],
    messages: [
      { role: 'user', content: ASK },
      { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'gAAAAABo' },
      {
        type: 'function_call', id: 'fc_1', call_id: 'call_Qk1', name: 'run_tests', arguments: '{"branch":"main"}',
        status: 'completed'
      },
      { type: 'function_call_output', call_id: 'call_Qk1', output: RESULT },
      { type: 'reasoning', id: 'rs_2', summary: [{ type: 'summary_text', text: 'Two of them fail.' }] },
      {
        type: 'message', id: 'msg_1', role: 'assistant', status: 'completed',
        content: [{ type: 'output_text', text: FOUND, annotations: [] }]
      },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: MORE }] },
      { type: 'reasoning', id: 'rs_3', summary: [] },
      { type: 'function_call', id: 'fc_2', call_id: 'call_Vd2', name: 'delegate', arguments: TASK, status: 'completed' }
    ]
  }
}

const anthropic: Fixture = {
  cut: 4,
  toolCallId: 'toolu_02',
  transcript: {
    format: 'anthropic',
    system: [{ type: 'text', text: INSTRUCTIONS, cache_control: { type: 'ephemeral' } }],
    tools: [
      { name: 'run_tests', description: 'Runs the tests.', input_schema: RUN_TESTS },
      {
        name: 'delegate', description: 'Hands a task to a subagent.', input_schema: DELEGATE, cache_control: { type: 'ephemeral' }
      }
    ],
    messages: [
      { role: 'user', content: ASK },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Let me run them.', signature: 'EqQBCkYIBhgCKkA=' },
          { type: 'tool_use', id: 'toolu_01', name: 'run_tests', input: { branch: 'main' } }
        ]
      },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result', tool_use_id: 'toolu_01', content: [{ type: 'text', text: RESULT }],
            cache_control: { type: 'ephemeral' }
          }
        ]
      },
      { role: 'assistant', content: [{ type: 'text', text: FOUND }] },
      { role: 'user', content: MORE },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'I will look into it.' },
          { type: 'tool_use', id: 'toolu_02', name: 'delegate', input: JSON.parse(TASK) as unknown }
        ]
      }
    ]
  }
}

const aiSdk: Fixture = {
  cut: 4,
  toolCallId: 'call_Vd2',
  transcript: {
    format: 'ai-sdk',
    system: INSTRUCTIONS,
    tools: [
      { name: 'run_tests', description: 'Runs the tests.', inputSchema: RUN_TESTS },
      { name: 'delegate', description: 'Hands a task to a subagent.', inputSchema: DELEGATE }
    ],
    messages: [
      { role: 'user', content: ASK },
      {
        role: 'assistant',
        content: [
          { type: 'reasoning', text: 'Let me run them.', providerOptions: { openai: { itemId: 'rs_1' } } },
          { type: 'tool-call', toolCallId: 'call_Qk1', toolName: 'run_tests', input: { branch: 'main' } }
        ]
      },
      {
        role: 'tool',
        content: [{ type: 'tool-result', toolCallId: 'call_Qk1', toolName: 'run_tests', output: { type: 'text', value: RESULT } }]
      },
      { role: 'assistant', content: [{ type: 'text', text: FOUND }] },
      { role: 'user', content: [{ type: 'text', text: MORE }] },
      {
        role: 'assistant',
        content: [{ type: 'tool-call', toolCallId: 'call_Vd2', toolName: 'delegate', input: JSON.parse(TASK) as unknown }]
      }
    ]
  }
}

const USAGE = { inputTokens: 12, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens: 5, reasoningTokens: 0, steps: 1 }
const logged = (events: [string, object][]): unknown[] => events.map(([type, data], seq) =>
  ({ runId: '0199d2a8-1c00-7000-8000-000000000001', seq, time: new Date(1_790_000_000_000 + seq).toISOString(), type, data }))
const says = (text: string, ...calls: object[]): [string, object] => ['assistant/message', {
  content: [
    ...(text === '' ? [] : [{ type: 'text', text }]), ...calls
  ], usage: USAGE, model: 'gpt-5-mini', stop: calls.length > 0 ? 'tool-calls' : 'end'
}]
const call = (
  toolCallId: string, name: string, args: string
): object => ({ type: 'tool-call', toolCallId, name, arguments: args })
const started = (toolCallId: string, name: string, input: unknown): [string, object] =>
  ['tool/call', { toolCallId, name, input, executor: 'host', idempotent: false, deadline: '2026-09-21T12:00:00.000Z' }]

const events: Fixture = {
  cut: 12,
  toolCallId: 'call_Vd2',
  transcript: {
    format: 'events',
    system: INSTRUCTIONS,
    tools: [{ name: 'delegate', description: 'Hands a task to a subagent.', inputSchema: DELEGATE }],
    messages: logged([
      ['turn/start', { turn: 1, origin: 'task' }],
      ['user/message', { content: [{ type: 'text', text: ASK }] }],
      ['request/header', { system: [{ text: INSTRUCTIONS }], tools: [], model: 'openai/gpt-5-mini', reason: 'first' }],
      ['step/start', { turn: 1, step: 1, attempt: 1 }],
      says('', call('call_Qk1', 'run_tests', '{"branch":"main"}')),
      started('call_Qk1', 'run_tests', { branch: 'main' }),
      ['tool/result', { toolCallId: 'call_Qk1', name: 'run_tests', content: [{ type: 'text', text: RESULT }], isError: false }],
      ['step/end', { turn: 1, step: 1 }],
      ['step/start', { turn: 1, step: 2, attempt: 1 }],
      says(FOUND),
      ['step/end', { turn: 1, step: 2 }],
      ['turn/end', { turn: 1, reason: 'completed' }],
      ['turn/start', { turn: 2, origin: 'message' }],
      ['user/message', { content: [{ type: 'text', text: MORE }] }],
      ['step/start', { turn: 2, step: 1, attempt: 1 }],
      says('', call('call_Vd2', 'delegate', TASK)),
      started('call_Vd2', 'delegate', JSON.parse(TASK))
    ])
  }
}

/** One conversation in each format, as a host has it at the moment it delegates: its last tool call is still open. */
export const OPEN_DELEGATIONS: Record<TranscriptFormat, Fixture> = {
  events,
  'openai-chat': openaiChat,
  'openai-responses': openaiResponses,
  anthropic,
  'ai-sdk': aiSdk
}

/** What each of these conversations says, up to the cut. */
export const COMPLETED_TEXTS = { ask: ASK, result: RESULT, found: FOUND, instructions: INSTRUCTIONS }
