/**
 * An immutable map of strings: `put` and `without` give a new one and share what did not change, in O(log n) however many
 * children a stream claims to run. A hash trie, sixteen ways a level.
 */
export interface PersistentMap<V> { readonly size: number, readonly root: Node<V> | undefined }

type Entry<V> = readonly [key: string, value: V]
/** A leaf of few entries, or the branches of a level. */
type Node<V> = { readonly entries: readonly Entry<V>[] } | { readonly branches: readonly (Node<V> | undefined)[] }

const BITS = 4
const WAYS = 1 << BITS
const LEAF = 8

export const emptyMap = <V>(): PersistentMap<V> => ({ size: 0, root: undefined })

export function find<V> (map: PersistentMap<V>, key: string): V | undefined {
  let node = map.root
  for (let hash = hashOf(key); node !== undefined; hash >>>= BITS) {
    if ('entries' in node) return node.entries.find((entry) => entry[0] === key)?.[1]
    node = node.branches[hash & (WAYS - 1)]
  }
  return undefined
}

export function put<V> (map: PersistentMap<V>, key: string, value: V): PersistentMap<V> {
  const added = find(map, key) === undefined ? 1 : 0
  return { size: map.size + added, root: putInto(map.root, [key, value], hashOf(key), 0) }
}

export function without<V> (map: PersistentMap<V>, key: string): PersistentMap<V> {
  if (find(map, key) === undefined) return map
  return { size: map.size - 1, root: removeFrom(map.root, key, hashOf(key)) }
}

export function valuesOf<V> (map: PersistentMap<V>): V[] {
  const values: V[] = []
  const visit = (node: Node<V> | undefined): void => {
    if (node === undefined) return
    if ('entries' in node) for (const entry of node.entries) values.push(entry[1])
    else node.branches.forEach(visit)
  }
  visit(map.root)
  return values
}

function putInto<V> (node: Node<V> | undefined, entry: Entry<V>, hash: number, depth: number): Node<V> {
  if (node === undefined) return { entries: [entry] }
  if ('branches' in node) {
    const at = hash & (WAYS - 1)
    return { branches: node.branches.with(at, putInto(node.branches[at], entry, hash >>> BITS, depth + 1)) }
  }
  const known = node.entries.findIndex((other) => other[0] === entry[0])
  if (known !== -1) return { entries: node.entries.with(known, entry) }
  const entries = [...node.entries, entry]
  if (entries.length <= LEAF || depth * BITS >= 32) return { entries }
  let split: Node<V> = { branches: Array.from<Node<V> | undefined>({ length: WAYS }).fill(undefined) }
  for (const each of entries) split = putInto(split, each, hashOf(each[0]) >>> (depth * BITS), depth)
  return split
}

function removeFrom<V> (node: Node<V> | undefined, key: string, hash: number): Node<V> | undefined {
  if (node === undefined) return undefined
  if ('entries' in node) {
    const entries = node.entries.filter((entry) => entry[0] !== key)
    return entries.length === 0 ? undefined : { entries }
  }
  const at = hash & (WAYS - 1)
  const branches = node.branches.with(at, removeFrom(node.branches[at], key, hash >>> BITS))
  return branches.every((branch) => branch === undefined) ? undefined : { branches }
}

/** FNV-1a, its high bits mixed into the low ones that the first levels read. */
function hashOf (key: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193)
  return (hash ^ (hash >>> 15)) >>> 0
}

/** A map that remembers at most so many keys: the oldest is forgotten for a new one. */
export interface RecentMap<V> { readonly map: PersistentMap<V>, readonly order: PersistentMap<string>, readonly from: number, readonly to: number }

export const noneRecent = <V>(): RecentMap<V> => ({ map: emptyMap<V>(), order: emptyMap<string>(), from: 0, to: 0 })

/** Remembers `key`; answers what was forgotten for it. A known key keeps its place. */
export function remember<V> (recent: RecentMap<V>, key: string, value: V, most: number): [RecentMap<V>, forgotten: V | undefined] {
  if (find(recent.map, key) !== undefined) return [{ ...recent, map: put(recent.map, key, value) }, undefined]
  const grown = { map: put(recent.map, key, value), order: put(recent.order, String(recent.to), key), from: recent.from, to: recent.to + 1 }
  if (grown.map.size <= most) return [grown, undefined]
  const oldest = find(grown.order, String(grown.from)) ?? ''
  const forgotten = find(grown.map, oldest)
  return [{ map: without(grown.map, oldest), order: without(grown.order, String(grown.from)), from: grown.from + 1, to: grown.to }, forgotten]
}
