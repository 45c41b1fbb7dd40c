// The list of items, as the log that its lines are (docs/protocol.md, "The log of items").

import * as f from "./forms.mjs";
import { HASH, grown, rootOf } from "./merkle.mjs";
import * as p from "./protocol.mjs";

const LONGEST = 1 << 16; // bytes of a line, at most
const DEGREES = f.number(-Number.MAX_VALUE, Number.MAX_VALUE);
const ITEM = f.exact({
  ...{ id: f.text(1), title: f.maybe(f.text()), place: f.maybe(f.row(DEGREES, DEGREES)) },
  features: f.maybe(f.map(f.text())),
});
const RETIRED = f.exact({ retired: f.whole() });
// The size and the root of a log, and the lines of it that somebody lacks.
export const FURTHER = f.row(f.whole(), HASH, f.bytes());
const EMPTY = { ids: [], retired: [], told: null, nodes: [], size: 0, text: "" };

const bad = (why) => {
  throw new p.Refused("malformed", `items: ${why}`);
};
const jsonOf = (line) => {
  try {
    return JSON.parse(line);
  } catch {
    return bad("a line is no JSON");
  }
};

// The list of a file that begins with the list of some terms.
export async function listOf(text, terms) {
  const begun = text.split("\n").slice(0, terms.items).join("\n") + "\n";
  const first = await longer(EMPTY, begun);
  if (first.size !== terms.items || p.hex(first.root) !== terms.items_root)
    bad("not the list of the terms");
  return longer(first, text.slice(begun.length));
}

// The list that a server has sent, as its lines and its head.
export async function further(list, body) {
  const [size, root, lines] = p.decode(body, FURTHER);
  const made = await longer(list, p.text(lines));
  if (made.size !== size || !p.same(made.root, root))
    bad("not the list that is known here with more lines");
  return made;
}

// A list with some lines of text at its end.
export async function longer(list, text) {
  const lines = text.split("\n");
  if (lines.pop() !== "") bad("the last line is cut short");
  const ids = new Set(list.ids);
  const retired = new Set(list.retired);
  let { told, nodes } = list;
  for (const line of lines) {
    const change = jsonOf(line);
    const leaf = p.bytesOf(line);
    if (leaf.length > LONGEST) bad("a line is too long");
    if (RETIRED(change) && change.retired < ids.size && !retired.has(change.retired))
      retired.add(change.retired);
    else if (ITEM(change) && !ids.has(change.id)) {
      const { id, place, features = {} } = change;
      const columns = JSON.stringify([place !== undefined, Object.keys(features).sort()]);
      told ??= columns;
      if (columns !== told) bad("other columns than the first item had");
      ids.add(id);
    } else bad("a line is none, or is of an item that is known");
    nodes = await grown(nodes, leaf);
  }
  const size = list.size + lines.length;
  const made = { ids: [...ids], retired: [...retired], told, nodes, size, text: list.text + text };
  return { ...made, root: await rootOf(nodes) };
}
