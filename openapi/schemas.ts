import type { TSchema } from 'typebox'
import { ANSWERS } from './answers.ts'
import { ContentBlock, Metadata, Outcome, ToolResult, Usage } from './parts.ts'
import { Problem } from './problems.ts'
import { REQUESTS } from './requests.ts'

/** Every named schema of the wire: the document's components, and what `$ref` resolves to. */
export const SCHEMAS: readonly TSchema[] = [ContentBlock, Metadata, Outcome, ToolResult, Usage, Problem, ...REQUESTS, ...ANSWERS]
