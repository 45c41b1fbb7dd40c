// Which messages this device takes for messages of their kind, and which numbers it lets leave, as
// JSON: two lists of true and false.
//
//   node forms_cases.mjs CASES.json     {messages: [[kind, hexadecimal]], numbers: [[text, most]]}

import { readFileSync } from "node:fs";

import { FURTHER } from "./items.mjs";
import { LONGER } from "./merkle.mjs";
import { packed } from "./masked.mjs";
import { ADVERTISED, FROM_SERVER } from "./masks.mjs";
import * as p from "./protocol.mjs";

const KINDS = { ...FROM_SERVER, advert: ADVERTISED, members: LONGER, items: FURTHER };

const taken = (make) => {
  try {
    return make() !== false;
  } catch (why) {
    if (!(why instanceof p.Refused)) throw why;
    return false;
  }
};

function isMessage(kind, bytes) {
  if (kind === "head") return p.headOf(bytes);
  return p.decode(bytes, KINDS[kind]);
}

// The vector of a message with one number, with and without noise.
function leaves(number, most) {
  const weight = ["F32", [1], Float32Array.of(1)];
  const message = { weight, "dense.f": ["F32", [1, 1, 1], Float32Array.of(number)] };
  const item = ["I32", [0], new Int32Array()];
  const limit = most === null ? Infinity : most;
  for (const noiseOf of [null, () => () => 1n])
    packed({ item, ...message }, 1, false, noiseOf, [], limit);
}

const { messages, numbers } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const said = [
  messages.map(([kind, digits]) => taken(() => isMessage(kind, p.unhex(digits)))),
  numbers.map(([number, most]) => taken(() => leaves(Number(number), most))),
];
console.log(JSON.stringify(said));
