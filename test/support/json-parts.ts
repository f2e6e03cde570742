/** JSON read as text, so that a test compares bytes: apart from the project's own readers, which it checks. */

/** The verbatim text of a member of an object. */
export function memberOf (object: string, key: string): string | undefined {
  return parts(object).map(split).find(([name]) => name === key)?.[1]
}
/** The verbatim texts of the elements of an array. */
export const arrayOf = (array: string): string[] => parts(array)

function split (member: string): [string, string] {
  const end = member.indexOf('"', 1)
  return [JSON.parse(member.slice(0, end + 1)) as string, member.slice(member.indexOf(':', end) + 1).trim()]
}

function parts (container: string): string[] {
  const found: string[] = []
  let [depth, quoted, start] = [0, false, 1]
  for (let i = 1; i < container.length; i++) {
    const char = container[i]
    if (quoted) {
      if (char === '\\') i++
      else if (char === '"') quoted = false
    } else if (char === '"') quoted = true
    else if (depth === 0 && (char === ',' || char === ']' || char === '}')) {
      const part = container.slice(start, i).trim()
      if (part !== '') found.push(part)
      start = i + 1
    } else if (char === '{' || char === '[') depth++
    else if (char === '}' || char === ']') depth--
  }
  return found
}
