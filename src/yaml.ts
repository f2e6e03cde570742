import { createRequire } from 'node:module'
import type * as Yaml from 'yaml'

/** What the parser says of these repeats what stands there, which could be a secret. */
const REASONS: Readonly<Record<string, string>> = {
  BAD_ALIAS: 'an alias cannot be understood', BAD_DQ_ESCAPE: 'a text has an escape that does not exist', TAG_RESOLVE_FAILED: 'a tag is not known',
  UNEXPECTED_TOKEN: 'something stands where it cannot'
}

/**
 * Parses YAML; its faults are in the document's `errors`, with their place and without an excerpt. The parser is loaded when first
 * needed: most processes read no YAML.
 */
export function parseYaml (text: string): Yaml.Document.Parsed {
  const { parseDocument } = createRequire(import.meta.url)('yaml') as typeof Yaml
  const document = parseDocument(text)
  for (const error of document.errors) {
    const [said = ''] = error.message.split(' at line ', 1)
    const [{ line, col }] = error.linePos ?? [{ line: 1, col: 1 }]
    error.message = `${REASONS[error.code] ?? said} at line ${line}, column ${col}`
  }
  const read = document.toJS.bind(document) as () => unknown
  document.toJS = () => {
    try {
      return read()
    } catch (error) {
      throw new Error(/alias count/.test(String(error)) ? 'has too many aliases' : 'has an alias without its anchor', { cause: error })
    }
  }
  return document
}
