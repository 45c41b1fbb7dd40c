// Reproduces tests/vectors/masks.json: every message of each party, and the sum of their vectors;
// and has a party see what a server that lies would send it.

import { deepStrictEqual as equal } from "node:assert";

import { sampler } from "./noise.mjs";
import { FROM_SERVER, Party, SumRefused } from "./masks.mjs";
import { floorsOf, maskOf, termsDigest } from "./masks.mjs";
import { begins, isListed } from "./merkle.mjs";
import * as p from "./protocol.mjs";

const FLOORS = { people: 3, noise: true, occupancy: 10 };
const ALL_FULL = () => 99;

// Every message of each party of a sum.
async function checkSum(made) {
  const log = { size: made.log.size, root: p.unhex(made.log.root) };
  const terms = { ...made.terms, model: p.unhex(made.terms.model) };
  equal(p.hex(await termsDigest(terms, log)), made.digest);
  // A party that draws what the vectors say it drew.
  const partyOf = async ({ name, identity, drawn }) => {
    const secrets = drawn.map(p.unhex);
    const random = () => secrets.shift();
    return new Party({
      terms,
      log,
      name,
      identity: await p.signingKey(p.unhex(identity)),
      floors: FLOORS,
      random,
    });
  };
  let sum = Array(terms.length).fill(0n);
  for (const known of made.parties) {
    const { name, vector, brought, said } = known;
    const numbers = BigInt64Array.from(vector, BigInt);
    if (name !== made.gone) {
      sum = sum.map((number, at) => BigInt.asIntN(64, number + numbers[at]));
    }
    const party = await partyOf(known);
    equal(p.hex(await party.advertise()), said.advert);
    equal(p.hex(await party.share(p.unhex(made.roster))), said.share);
    if (name === made.gone) continue;
    equal(p.hex(await party.mask(p.unhex(brought.inbox), numbers, ALL_FULL)), said.mask);
    equal(p.hex(await party.consent(p.unhex(made.survivors))), said.consent);
    equal(p.hex(await party.unmask(p.unhex(made.consents))), said.unmask);
  }
  equal(sum.map(String), made.sum);
  return partyOf;
}

export async function checkMasks(made) {
  const partyOf = await checkSum(made);
  for (const { parties, members, ...floors } of made.quorums)
    equal(floorsOf(parties, members), floors);
  const { key, words } = made.mask;
  equal(Array.from(await maskOf(p.unhex(key), words.length), String), words);
  await checkTree(made.tree);
  await checkLies(made, partyOf);
  checkNoise();
}

// The log of members, with proofs that are right and wrong.
async function checkTree({ leaves, roots, inclusion, consistency }) {
  const { length: size } = leaves;
  const heads = roots.map((root, at) => ({ size: at + 1, root: p.unhex(root) }));
  const head = heads.at(-1);
  const other = new Uint8Array(32);
  for (const [at, digits] of leaves.entries()) {
    const leaf = p.decode(p.unhex(digits), () => true);
    const proof = inclusion[at].map(p.unhex);
    equal(await isListed(head, [leaf, at, proof]), true);
    for (const wrong of [
      [["zoe", ...leaf.slice(1)], at, proof],
      [leaf, (at + 1) % size, proof],
      [leaf, at + size, proof],
      [leaf, at, proof.slice(1)],
      [leaf, at, [...proof, other]],
      [leaf, at, [other, ...proof.slice(1)]],
    ])
      equal(await isListed(head, wrong), false);
    equal(await isListed({ size, root: other }, [leaf, at, proof]), false);
    const shown = consistency[at].map(p.unhex);
    equal(await begins(head, heads[at], shown), true);
    equal(await begins(head, { size: at + 1, root: other }, shown), false);
    equal(await begins({ size, root: other }, heads[at], shown), false);
    equal(await begins(heads[at], { size: size + 1, root: head.root }, shown), false);
    equal(await begins(head, { size: 0, root: heads[at].root }, shown), false);
    equal(await begins(head, heads[at], [...shown, other]), false);
    for (const place of shown.keys())
      equal(await begins(head, heads[at], shown.with(place, other)), false);
  }
}

// The code with which a step is refused.
async function refused(step) {
  try {
    await step;
  } catch (why) {
    if (why instanceof SumRefused) return why.code;
    throw why;
  }
  return "accepted";
}

const frameOf = (digits, party) => p.opened(p.unhex(digits), p.unhex(party.public));

// Signatures of a party under heads that are not those of this message.
async function elsewhere(made, party, at, stage, view, message) {
  const { name, identity } = made.parties[at];
  const of = (terms) => Object.assign(Object.create(party), { terms: { ...party.terms, ...terms } });
  const good = await party.head(stage, name, view, message);
  const heads = [
    party.head((stage + 1) % 5, name, view, message),
    of({ run: "another" }).head(stage, name, view, message),
    of({ round: 9 }).head(stage, name, view, message),
    of({ attempt: 9 }).head(stage, name, view, message),
    party.head(stage, name, new Uint8Array(32), message),
    party.head(stage, name, view, p.joined(message, [0])),
    p.joined(Uint8Array.of(0x9c), good.subarray(1), p.encode(1)),
  ];
  const key = await p.signingKey(p.unhex(identity));
  return Promise.all(heads.map(async (head) => p.sign(key, p.statement(await head))));
}

async function checkLies(made, partyOf) {
  const known = made.parties.find(({ name }) => name !== made.gone);
  const numbers = BigInt64Array.from(known.vector, BigInt);
  const { inbox } = known.brought;
  const roster = p.decode(p.unhex(made.roster), FROM_SERVER.roster);
  // A roster with something changed, as the server would send it.
  const changed = (change) => p.encode(change(roster.map((entry) => [...entry])));
  const forged = (at, bytes) => (entries) => {
    entries[3][at] = bytes;
    return entries;
  };
  const rosters = {
    roster: changed((entries) => entries.reverse()),
    signature: changed(forged(1, new Uint8Array(64))),
    malformed: changed(forged(1, new Uint8Array(63))),
    // Of another one, of another place, and of one that no log has.
    unknown: changed(forged(0, [roster[3][0][0], 2, roster[3][0][2]])),
    floor: changed((entries) => entries.slice(0, 2)),
  };
  for (const [code, bytes] of Object.entries(rosters)) {
    const party = await partyOf(known);
    await party.advertise();
    equal(await refused(party.share(bytes)), code);
  }
  const party = await partyOf(known);
  equal(await refused(party.share(p.unhex(made.roster))), "stage");
  await party.advertise();
  for (const bytes of await elsewhere(made, party, 3, 0, party.views[0], roster[3][2]))
    equal(await refused(party.share(changed(forged(1, bytes)))), "signature");
  await party.share(p.unhex(made.roster));
  equal(await refused(party.share(rosters.floor)), "stage");
  // A list without this party.
  const [, boxes] = p.decode(p.unhex(inbox), FROM_SERVER.inbox);
  const without = p.encode([Uint8Array.of(0b1110), boxes]);
  equal(await refused(party.mask(without, numbers, ALL_FULL)), "sharers");
  // A box that was changed on its way costs the share in it, and nothing else.
  const changedBox = p.unhex(inbox);
  changedBox[100] ^= 1;
  equal(p.hex(await party.mask(changedBox, numbers, ALL_FULL)), known.said.mask);
  await party.consent(p.unhex(made.survivors));
  equal(await refused(party.consent(Uint8Array.of(0b1111))), "both");
  const [set, signatures] = p.decode(p.unhex(made.consents), FROM_SERVER.consents);
  const two = p.encode([Uint8Array.of(0b101), signatures.slice(0, 128)]);
  equal(await refused(party.unmask(two)), "quorum");
  for (const bytes of await elsewhere(made, party, 0, 3, party.views[3], new Uint8Array())) {
    const shown = p.encode([set, p.joined(bytes, signatures.subarray(64))]);
    equal(await refused(party.unmask(shown)), "signature");
  }
  const { body: shares } = await frameOf(known.said.unmask, known);
  const { body: revealed } = await p.opened(
    await party.unmask(p.unhex(made.consents)),
    p.unhex(known.public),
  );
  equal(revealed, shares.fill(0, 33, 66));
  equal(party.secrets, null);
}

// Noise has the spread that was asked for: 4,000 draws, within five standard errors.
function checkNoise() {
  const [sigma, count] = [12, 4000];
  const draw = sampler(sigma);
  const drawn = Array.from({ length: count }, () => Number(draw()));
  const mean = drawn.reduce((a, b) => a + b, 0) / count;
  const variance = drawn.reduce((a, b) => a + b * b, 0) / count;
  equal(Math.abs(mean) < (5 * sigma) / Math.sqrt(count), true, `mean ${mean}`);
  const error = 5 * sigma * sigma * Math.sqrt(2 / count);
  equal(Math.abs(variance - sigma * sigma) < error, true, `variance ${variance}`);
}
