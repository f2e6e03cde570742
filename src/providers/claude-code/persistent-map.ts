/**
 * An immutable map of strings: `put` and `without` give a new one and share what did not change. A balanced tree in the order of its
 * keys (AVL), no hash: O(log n) whatever keys a stream picks.
 */
export interface PersistentMap<V> { readonly size: number, readonly root: Node<V> | undefined }

interface Node<V> {
  readonly key: string
  readonly value: V
  readonly left: Node<V> | undefined
  readonly right: Node<V> | undefined
  readonly height: number
}

export const emptyMap = <V>(): PersistentMap<V> => ({ size: 0, root: undefined })

export function find<V> (map: PersistentMap<V>, key: string): V | undefined {
  let node = map.root
  while (node !== undefined && node.key !== key) node = key < node.key ? node.left : node.right
  return node?.value
}

export function put<V> (map: PersistentMap<V>, key: string, value: V): PersistentMap<V> {
  const added = find(map, key) === undefined ? 1 : 0
  return { size: map.size + added, root: putInto(map.root, key, value) }
}

export function without<V> (map: PersistentMap<V>, key: string): PersistentMap<V> {
  if (find(map, key) === undefined) return map
  return { size: map.size - 1, root: removeFrom(map.root, key) }
}

/** In the order of their keys. */
export function valuesOf<V> (map: PersistentMap<V>): V[] {
  const values: V[] = []
  const visit = (node: Node<V> | undefined): void => {
    if (node === undefined) return
    visit(node.left)
    values.push(node.value)
    visit(node.right)
  }
  visit(map.root)
  return values
}

const heightOf = (node: Node<unknown> | undefined): number => node?.height ?? 0

const nodeOf = <V>(key: string, value: V, left: Node<V> | undefined, right: Node<V> | undefined): Node<V> =>
  ({ key, value, left, right, height: Math.max(heightOf(left), heightOf(right)) + 1 })

/** A node whose sides differ by at most two in height, as one whose sides differ by at most one. */
function balanced<V> (key: string, value: V, left: Node<V> | undefined, right: Node<V> | undefined): Node<V> {
  const lean = heightOf(left) - heightOf(right)
  if (left !== undefined && lean > 1) {
    const { right: inner } = left
    if (inner === undefined || heightOf(left.left) >= inner.height) return nodeOf(left.key, left.value, left.left, nodeOf(key, value, inner, right))
    return nodeOf(inner.key, inner.value, nodeOf(left.key, left.value, left.left, inner.left), nodeOf(key, value, inner.right, right))
  }
  if (right !== undefined && lean < -1) {
    const { left: inner } = right
    if (inner === undefined || heightOf(right.right) >= inner.height) return nodeOf(right.key, right.value, nodeOf(key, value, left, inner), right.right)
    return nodeOf(inner.key, inner.value, nodeOf(key, value, left, inner.left), nodeOf(right.key, right.value, inner.right, right.right))
  }
  return nodeOf(key, value, left, right)
}

function putInto<V> (node: Node<V> | undefined, key: string, value: V): Node<V> {
  if (node === undefined) return nodeOf(key, value, undefined, undefined)
  if (key === node.key) return { ...node, value }
  return key < node.key
    ? balanced(node.key, node.value, putInto(node.left, key, value), node.right)
    : balanced(node.key, node.value, node.left, putInto(node.right, key, value))
}

function removeFrom<V> (node: Node<V> | undefined, key: string): Node<V> | undefined {
  if (node === undefined) return undefined
  const { left, right } = node
  if (key < node.key) return balanced(node.key, node.value, removeFrom(left, key), right)
  if (key > node.key) return balanced(node.key, node.value, left, removeFrom(right, key))
  if (left === undefined || right === undefined) return left ?? right
  let next = right
  while (next.left !== undefined) next = next.left
  return balanced(next.key, next.value, left, removeFrom(right, next.key))
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
