/**
 * Requests that work as they stand on a fresh service without keys. The first start makes the run that the other operations
 * name, the second one the run that waits for its host.
 */
export const EXAMPLE_RUN = '0193a7b2-6a5e-7c3d-8f10-2b4c6d8e0f12'
const WAITING_RUN = '0193a7b2-6a5e-7c3d-8f10-2b4c6d8e0f13'
const SESSION = '0193a7b2-6a5e-7c3d-8f10-2b4c6d8e0f14'
const CHAT = '0193a7b2-6a5e-7c3d-8f10-2b4c6d8e0f15'

interface Example { summary: string, description?: string, value: unknown }
interface OperationExamples {
  body?: Record<string, Example>, id?: string, query?: Record<string, unknown>, headers?: Record<string, string>
}

const transcript = {
  format: 'openai-chat',
  messages: [
    { role: 'system', content: 'You help with a code base.' },
    { role: 'user', content: 'Where is the depth checked?' },
    { role: 'assistant', content: 'In src/core/depth.ts.' },
    { role: 'user', content: 'Have somebody review it.' },
    {
      role: 'assistant', content: null,
      tool_calls: [{ id: 'call_9', type: 'function', function: { name: 'delegate', arguments: '{"task":"review"}' } }]
    }
  ]
}
const readFile = {
  name: 'read_file',
  description: 'Reads a file of the project.',
  inputSchema: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] }
}
const verdict = {
  type: 'object',
  properties: { verdict: { type: 'string', enum: ['good', 'bad'] }, reasons: { type: 'array', items: { type: 'string' } } },
  required: ['verdict', 'reasons']
}

export const EXAMPLES: Readonly<Record<string, OperationExamples>> = {
  startRun: {
    headers: { prefer: 'wait=10' },
    body: {
      spawn: {
        summary: 'A task',
        description: 'With an id of the host\'s choice, which the other examples name; leave it out to start another.',
        value: { id: EXAMPLE_RUN, task: 'Say hello.', label: 'docs' }
      },
      hostTool: {
        summary: 'A tool that the host executes',
        description: 'The scripted model calls it; the run then waits for `POST /v1/runs/{id}/tool-results`.',
        value: {
          id: WAITING_RUN, task: 'Read the README.', label: 'docs', tools: [readFile],
          agentOptions: {
            model: 'scripted/demo',
            script: [
              { call: { name: 'read_file', input: { path: 'README.md' }, id: 'call_1' } },
              { say: 'It is a service for subagents.' }
            ]
          }
        }
      },
      ingest: {
        summary: 'A Claude Code CLI that the host runs',
        description: 'The run takes its output by `POST /v1/runs/{id}/frames`.',
        value: { id: CHAT, provider: 'claude-code', ingest: true, label: 'docs' }
      },
      fork: {
        summary: 'A fork of the host\'s own conversation',
        description: 'The transcript goes in as it is, its open tool call included: the child gets the completed turns.',
        value: {
          provider: 'fork', task: 'Review src/core/depth.ts.', label: 'docs', parent: { delegationDepth: 0, transcript },
          agentOptions: { model: 'scripted/demo' }, format: 'openai-chat', toolCallId: 'call_9'
        }
      },
      structured: {
        summary: 'A structured result',
        value: {
          task: 'Judge the plan.', label: 'docs', outputSchema: verdict,
          agentOptions: {
            model: 'scripted/demo',
            script: [{ call: { name: 'structured_output', input: { verdict: 'good', reasons: ['short'] } } }]
          }
        }
      },
      blocks: {
        summary: 'Content blocks',
        value: { task: [{ type: 'text', text: 'Say hello.' }], metadata: { ticket: 'A-17' }, maxDepth: 3 }
      }
    }
  },
  listRuns: { query: { limit: 20 } },
  getRun: { id: EXAMPLE_RUN },
  getRunTree: { id: EXAMPLE_RUN },
  getResult: { id: EXAMPLE_RUN, query: { wait: 5 } },
  readEvents: { id: EXAMPLE_RUN },
  ingestFrames: { id: CHAT, query: { from: 0 } },
  readFrames: { id: CHAT, query: { from: 0 } },
  cancelRun: { id: EXAMPLE_RUN, body: { reason: { summary: 'With a reason', value: { reason: 'no longer needed' } } } },
  cancelRuns: { body: { label: { summary: 'By label', value: { label: 'docs', reason: 'no longer needed' } } } },
  deleteRun: { id: EXAMPLE_RUN },
  answerTools: {
    id: WAITING_RUN,
    headers: { prefer: 'wait=10' },
    body: { text: { summary: 'A text', value: { results: [{ toolCallId: 'call_1', content: '# subagentd' }] } } }
  },
  sendMessage: {
    id: EXAMPLE_RUN,
    headers: { prefer: 'wait=10' },
    body: { followUp: { summary: 'Go on with a settled run', value: { content: 'And in French?', mode: 'follow-up' } } }
  },
  createSession: {
    body: {
      chat: {
        summary: 'A chat', description: 'With an id of the host\'s choice, which the other examples name.',
        value: { id: SESSION, transcript, metadata: { ticket: 'A-17' } }
      },
      empty: { summary: 'An empty one', value: {} }
    }
  },
  getSession: { id: SESSION },
  appendSession: {
    id: SESSION,
    body: {
      turn: {
        summary: 'One more turn',
        value: {
          after: 5,
          messages: [
            { role: 'tool', tool_call_id: 'call_9', content: 'It is sound.' },
            { role: 'assistant', content: 'The review found nothing.' }
          ]
        }
      }
    }
  },
  deleteSession: { id: SESSION }
}

/** Lines of a CLI's output, as `ingestFrames` takes them. */
export const EXAMPLE_FRAMES = [
  { type: 'system', subtype: 'init', session_id: 'c0ffee00-0000-4000-8000-000000000001', model: 'claude-sonnet-4-5', tools: ['Read'] },
  { type: 'assistant', message: { id: 'msg_1', role: 'assistant', content: [{ type: 'text', text: 'Hello.' }], stop_reason: 'end_turn' } },
  { type: 'result', subtype: 'success', is_error: false, result: 'Hello.', num_turns: 1 }
].map((frame) => `${JSON.stringify(frame)}\n`).join('')
