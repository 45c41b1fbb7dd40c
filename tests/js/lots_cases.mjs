// Holds the participation contract of this device against cases that the Python side has made.
//
//   node lots_cases.mjs CASES.json     the first that differs ends it with an error

import { deepEqual, throws } from "node:assert/strict";
import { readFileSync } from "node:fs";

import { refusal, ruleOf } from "./lots.mjs";
import { boundOf } from "./masked.mjs";

const cases = JSON.parse(readFileSync(process.argv[2], "utf8"));
const { refusals, bounds, crowds } = cases;

for (const { people, model, past, demands, said } of refusals)
  deepEqual(refusal(people, model, past, demands), said);

const device = { terms: { protection: { people: 250, answers: 11 } }, floors: { people: 100 } };
for (const { members, shops, people, said } of crowds) {
  const marks = new Map(Object.entries(shops));
  const held = () => ruleOf({ ...device, state: {} }, members)(people, "a model", [], marks);
  if (said) throws(held, new RegExp(`contract: ${said}`));
  else held();
}

for (const { protection, settings, share, said } of bounds) {
  const bound = () => boundOf({ protection }, settings, share);
  if (said === null) throws(bound, /contract/);
  else deepEqual(bound(), said);
}

console.log(Object.values(cases).flat().length);
