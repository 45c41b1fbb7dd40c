// The log of members (docs/protocol.md, "The log of members"): who has its size and its root can
// check that somebody is on it, and that a longer log begins with this one.

import * as f from "./forms.mjs";
import * as p from "./protocol.mjs";

export const HASH = f.bytes(32, 32);
const PROOF = f.list(HASH, 64);
const LEAF = f.row(f.text(1, 128), HASH, f.whole(), f.whole(), f.bytes(0, 32));
// A member with its place in the log, and the proof of both.
export const ENTRY = f.row(LEAF, f.whole(), PROOF);
// A longer log, with the proof that it begins as the one before.
export const LONGER = f.row(f.whole(), HASH, PROOF);

export const leafHash = (leaf) => p.sha256(p.joined(Uint8Array.of(0), leaf));
const nodeHash = (left, right) => p.sha256(p.joined(Uint8Array.of(1), left, right));
const above = (isLeft, digest, other) =>
  isLeft ? nodeHash(other, digest) : nodeHash(digest, other);

// The way up to the root of a log of so many members, from leaf `index`, or from the largest node that
// ends at `edge` on the way down to it: whether each node on the other side is the left one.
function wayOf(index, size, edge = 0) {
  const way = [];
  let start = 0;
  let end = size;
  while (end - start > 1 && end !== edge) {
    let middle = 1;
    while (2 * middle < end - start) middle *= 2;
    middle += start;
    way.unshift(index >= middle);
    if (index < middle) end = middle;
    else start = middle;
  }
  return way;
}

// Whether the log of a head has a member.
export async function isListed({ size, root }, [leaf, index, proof]) {
  const way = index < size ? wayOf(index, size) : null;
  if (way?.length !== proof.length) return false;
  let digest = await leafHash(p.encode(leaf));
  for (const [at, isLeft] of way.entries()) digest = await above(isLeft, digest, proof[at]);
  return p.same(digest, root);
}

// Whether a log begins with the log before, of one member or more.
export async function begins({ size, root }, before, proof) {
  if (!(before.size > 0 && before.size <= size)) return false;
  const way = wayOf(before.size - 1, size, before.size);
  // Where the log before is one node of the tree, that is known already.
  const [known, ...others] = way.some(Boolean) ? proof : [before.root, ...proof];
  if (!known || others.length !== way.length) return false;
  let [old, now] = [known, known];
  for (const [at, isLeft] of way.entries()) {
    now = await above(isLeft, now, others[at]);
    // On the right there was nothing yet.
    if (isLeft) old = await above(isLeft, old, others[at]);
  }
  return p.same(old, before.root) && p.same(now, root);
}

// The complete nodes of a tree, [leaves under it, hash] from left to right, with one more leaf.
export async function grown(nodes, leaf) {
  const others = [...nodes];
  let [size, digest] = [1, await leafHash(leaf)];
  while (others.at(-1)?.[0] === size) {
    digest = await nodeHash(others.pop()[1], digest);
    size *= 2;
  }
  return [...others, [size, digest]];
}

export async function rootOf(nodes) {
  let [digest, ...others] = nodes.map(([, hash]) => hash).reverse();
  for (const other of others) digest = await nodeHash(other, digest);
  return digest;
}
