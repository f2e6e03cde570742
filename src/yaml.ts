import { createRequire } from 'node:module'
import type * as Yaml from 'yaml'

/** Parses YAML; its faults are in the document's `errors`. The parser is loaded when first needed: most processes read no YAML. */
export function parseYaml (text: string): Yaml.Document.Parsed {
  const { parseDocument } = createRequire(import.meta.url)('yaml') as typeof Yaml
  return parseDocument(text)
}
