// A device's side of rounds under masks (docs/protocol.md, "Secure sums"): its vector, its noise,
// the stages of a sum, and the trained model, which it keeps when a quorum has the same.

import * as lots from "./lots.mjs";
import { cohortOf, offers, old, timesWithNow } from "./lots.mjs";
import { FROM_SERVER, Party, STAGES, SumRefused, floorsOf, sharedHead } from "./masks.mjs";
import { LONGER, begins, isListed } from "./merkle.mjs";
import { sampler, seeded } from "./noise.mjs";
import * as p from "./protocol.mjs";

const NO_TESTS = [0, 0, 0];
// Where a sum has words of 32 bits: how far from 0 a number of a message is at most, and how many
// people's then fit.
const NARROW = [32, 16, 8, 4].map((bound) => [bound, 32768 / bound - 1]);
export const KINDS = new Set([...STAGES, "agreed", "members"]);

// The terms of a sum, as every party computes them.
function sumTerms({ terms, run, listed, length }, { round, attempt, model }) {
  const { people, parties, noise = 0, lost = 0, bits = 64 } = terms.protection;
  // Shares of noise are made for the fewest people of a sum.
  const share = noise ? noise / Math.sqrt(people * (1 - lost)) : 0;
  return {
    run,
    round,
    attempt,
    model,
    length,
    bits,
    people: Math.max(people, parties),
    noise: share,
    items: listed,
  };
}

// How far from 0 a number of a message may be. share: the standard deviation of the device's noise,
// which must fit, since noise that is cut is none.
export function boundOf(terms, settings, share) {
  const { bits = 64, groups = 1 } = terms.protection;
  if (bits !== 32) return Infinity;
  const inSum = cohortOf(settings) / groups;
  // A lot draws more or fewer people than on average.
  const spread = (most) => 5 * Math.floor(Math.sqrt(most));
  const [bound] = NARROW.find(([, most]) => inSum <= most - spread(most)) ?? [0];
  if (!bound || 8 * share > bound) throw new p.Refused("contract", "sums do not fit 32 bits");
  return bound;
}

// ---- the vector ---------------------------------------------------------------------------------

const product = (shape) => shape.reduce((whole, size) => whole * size, 1);

// 65,536 times a float32, to the nearest integer, halves to the even one.
export function fixed(number) {
  const steps = number * 65536;
  const down = Math.floor(steps);
  return BigInt(steps - down !== 0.5 ? Math.round(steps) : down + (Math.abs(down) % 2));
}

// A message as one vector: rows of all items by name, senders, dense arrays by name, weight, devices.
// noiseOf(name): draws the noise of an array, null without noise. Under noise a row leaves for every
// item, so that which rows there are says nothing. tests: the three numbers of tests of new rows, in
// steps; none where the terms ask for none. most: no number of the message is beyond it.
export function packed({ item, weight, ...arrays }, items, wide, noiseOf, tests, most) {
  const names = Object.keys(arrays).sort();
  const rows = names.filter((name) => name.startsWith("row."));
  const steps = (name, numbers) => {
    const within = (number) => fixed(p.held(Math.min(most, Math.max(-most, number))));
    if (!noiseOf) return Array.from(numbers, within);
    const noise = noiseOf(name.split(".")[1]);
    // A sum is of numbers of float32, so the noised one is rounded once more.
    return Array.from(numbers, (number) =>
      within(Math.fround(Number(fixed(number) + noise()) / 65536)),
    );
  };
  const parts = rows.map((name) => {
    const [, [, ...shape], numbers] = arrays[name];
    const width = product(shape);
    const whole = new Float32Array(items * width);
    item[2].forEach((i, at) =>
      whole.set(numbers.subarray(at * width, at * width + width), i * width),
    );
    return steps(name, whole);
  });
  const sent = new Set(item[2]);
  const senders = Array.from({ length: items }, (_, i) =>
    BigInt(rows.length > 0 && (wide || sent.has(i))),
  );
  const dense = names
    .filter((name) => !rows.includes(name))
    .map((name) => steps(name, arrays[name][2]));
  return BigInt64Array.from([
    ...parts.flat(),
    ...senders,
    ...dense.flat(),
    ...tests, // "row tests" is the last name of FCF, and the only one of FPL
    fixed(weight[2][0]),
    1n,
  ]);
}

// The tests of a device's new rows as numbers of a sum, each with its share of noise.
function testNumbers([rows, hits, ranks], noise) {
  const shares = rows ? [1, hits / rows, ranks / rows] : [0, 0, 0];
  return shares.map((share) => fixed(share) + noise());
}

// What draws the noise of a name for the device in a round: from the seed where the terms say so.
function noiseIn({ terms, user }, round) {
  if (terms.protection.noise_from === "system") return (_key, sigma) => sampler(sigma);
  const local = p.fold(p.fold(p.keyOf(terms.seed, "rounds"), round), "local");
  return (keyOf, sigma) => seeded(sigma, keyOf(local, user));
}

const keyOfTests = (local, user) => p.fold(p.fold(local, "tests"), user);
const keyOfNoise = (name) => (local, user) =>
  p.fold(p.fold(p.fold(local, "limits"), user), p.fold(p.fold(0n, "noise"), name));

// How full a message is: the share of all items that it has rows for, and the numbers that it has
// for every item in every round.
function fullness({ item, weight, ...arrays }, items, wide) {
  const named = Object.entries(arrays);
  const rows = named.some(([name]) => name.startsWith("row."));
  const widths = named
    .filter(([name, [, shape]]) => !name.startsWith("row.") && shape[1] === items)
    .map(([, [, shape]]) => product(shape.slice(2)));
  return {
    share: rows && !wide ? item[1][0] / items : 1,
    width: widths.reduce((a, b) => a + b, 0),
  };
}

// Devices that fill a row, on average, if all people of a sum send as this device does.
const occupancy = ({ share, width }, people, sums) =>
  Math.min(people * share, width ? people / (width * sums) : Infinity);

// ---- the stages ---------------------------------------------------------------------------------

export class MaskedSide {
  // log: of the members, as {size, root}.
  constructor(device, log, floors) {
    this.device = device;
    this.log = log;
    this.begin();
    const { noise, rows } = device.terms.protection;
    this.floors = { ...floors, noise: noise > 0 };
    this.wide = noise > 0 || rows === "all";
  }

  // Leaves what it takes part in: at the start, and with a longer list.
  begin() {
    this.party = null;
    this.offer = null;
  }

  async answer(head, body, about) {
    if (head.kind === "agreed") return this.agreed(head, body);
    if (head.kind === "members") return this.further(body, about);
    const { device } = this;
    if (head.about.users !== 1) throw new p.Refused("wrong-count");
    const asked = `${head.kind} ${p.hex(head.digest)}`;
    const party = await this.of(head);
    if (this.answers.has(asked)) return this.answers.get(asked);
    try {
      const answer = await this.said(party, head, body);
      if (head.kind === "mask") await this.leave();
      this.answers.set(asked, answer);
      return answer;
    } catch (why) {
      if (!(why instanceof SumRefused)) throw why;
      throw new p.Refused("withheld", why.message);
    }
  }

  // The party of this attempt: a new one for the first stage of a new attempt.
  async of(head) {
    const { device, party } = this;
    const { round, attempt, model } = head;
    if (party && party.terms.round === round && party.terms.attempt === attempt) {
      if (!p.same(party.terms.model, model)) throw new p.Refused("wrong-model");
      return party;
    }
    if (head.kind !== "advert")
      throw new p.Refused("not-asked", "this attempt began without this device");
    // Two sums of one round over different parties would tell what this device sent.
    if (round <= device.state.round || (party && party.terms.round > round))
      throw new p.Refused("past-round");
    this.checkMembers(head);
    const spent = (device.state.inputs ?? 0) - old(device) >= device.terms.protection.answers;
    if (spent) throw new p.Refused("not-drawn", "spent");
    if (!(await offers(device, round))) throw new p.Refused("not-drawn", "lot");
    const past = device.state.past ?? [];
    this.answers = new Map();
    this.party = new Party({
      terms: sumTerms(device, head),
      log: this.log,
      name: device.name,
      identity: device.key,
      floors: this.floors,
      rule: lots.ruleOf(device, this.log.size),
      past,
    });
    return this.party;
  }

  async said(party, { kind, round }, body) {
    if (kind === "advert") return party.advertise();
    if (kind === "share") return party.share(body);
    if (kind === "mask") return this.masked(party, round, body);
    if (kind === "unmask") return party.unmask(body);
    const answer = await party.consent(body);
    // On the disk before it leaves: later sums are held against this one, also after a restart.
    const past = this.device.state.past ?? [];
    if (JSON.stringify(past.at(-1)) !== JSON.stringify(party.consented))
      await this.device.keep({ past: [...past, party.consented] });
    return answer;
  }

  async masked(party, round, body) {
    const { device } = this;
    const { inbox, download } = await device.workOf(body, party.terms.model, {
      inbox: ["U8", [null]],
    });
    device.checkStep(download, round);
    const { items } = device.settings;
    const model = p.hex(party.terms.model);
    let { vector: kept, private: after } = device.state;
    const { forgotten, length } = device;
    let told = NO_TESTS;
    // New numbers would tell more each time that a server has a model summed.
    if (kept?.model !== model || kept.numbers.length !== length) {
      const trained = device.trained(download, round);
      const vector = this.vectorOf(trained.update, party.terms, round);
      told = device.state.tests ?? NO_TESTS;
      after = trained.private;
      kept = {
        model,
        full: fullness(trained.update, items, this.wide),
        numbers: Array.from(vector, String),
      };
    }
    const numbers = BigInt64Array.from(kept.numbers, BigInt);
    const message = await party.mask(inbox, numbers, (people, sums) =>
      occupancy(kept.full, people, sums),
    );
    const changes = {
      round,
      inputs: (device.state.inputs ?? 0) + 1,
      times: timesWithNow(device),
      private: after,
      vector: kept,
      ...device.seen(download, round),
    };
    this.leaving = { changes, told, forgotten };
    return message;
  }

  vectorOf(update, { people, noise }, round) {
    const { device } = this;
    const { accuracy } = device.terms;
    const draws = noiseIn(device, round);
    const share = noise * 65536;
    const noiseOf = share ? (name) => draws(keyOfNoise(name), share) : null;
    let tests = [];
    if (accuracy) {
      // As of the model's numbers: a sum of the fewest people has as much as was promised.
      const drawn = draws(keyOfTests, (accuracy / Math.sqrt(people)) * 65536);
      tests = testNumbers(device.state.tests ?? NO_TESTS, drawn);
    }
    const most = boundOf(device.terms, device.settings, noise);
    return packed(update, device.settings.items, this.wide, noiseOf, tests, most);
  }

  // On the disk before it leaves. What it tells of new rows is told once; others may have come.
  async leave() {
    const { device } = this;
    const { changes, told, forgotten } = this.leaving;
    const tests = (device.state.tests ?? NO_TESTS).map((number, at) => number - told[at]);
    await device.leaves({ ...changes, tests }, forgotten);
  }

  // ---- who is a member ----

  // Refuses a request about another log of members than this device knows.
  checkMembers({ about: { members } }) {
    const { size: known } = this.log;
    if ((members ?? known) === known) return;
    const why = new p.Refused("fewer-members", `${known} members are known here`);
    throw Object.assign(why, { about: { known } });
  }

  // Takes a longer log, which is on the disk before the next advert is signed under it.
  async further(body, about) {
    const [size, root, proof] = p.decode(body, LONGER);
    if (!(await begins({ size, root }, this.log, proof)))
      throw new p.Refused("malformed", "members: not the log that is known here with more members");
    await this.device.keepLog({ size, root: p.hex(root), proof: [] });
    this.log = { size, root };
    this.party = null;
    return this.device.seal("members", new Uint8Array(), about);
  }

  // ---- the trained model ----

  async offered(head, body) {
    const { device } = this;
    const download = await device.received(body, {});
    device.checkStep(download, head.round);
    const digest = await device.digestOf(download);
    const word = `${head.round} ${p.hex(digest)}`;
    const [before = -1] = (device.state.word ?? "").split(" ").filter(Boolean).map(Number);
    // A device says of one model a round that it has come: with two it could help each to a quorum.
    if (before === head.round && device.state.word !== word) throw new p.Refused("conflict");
    if (before > head.round) throw new p.Refused("past-round");
    await device.keep({ word });
    this.offer = { round: head.round, digest, newest: device.seen(download, head.round) };
    const said = await this.word(device.name, this.offer);
    return p.framed(device.key, said, new Uint8Array());
  }

  // The head of what a node says of a model that has come, as everybody builds it anew.
  word(name, { round, digest }) {
    const { run } = this.device;
    return sharedHead("taken", { run, round, attempt: 0 }, name, digest, new Uint8Array());
  }

  async agreed(requested, body) {
    const { device, offer, log } = this;
    if (!offer) throw new p.Refused("not-asked");
    this.checkMembers(requested);
    const same = new Set();
    for (const [entry, signature] of p.decode(body, FROM_SERVER.roster)) {
      const [[name, key]] = entry;
      if (!(await isListed(log, entry))) throw new p.Refused("unknown-node");
      const said = p.statement(await this.word(name, offer));
      if (!(await p.verified(key, signature, said))) throw new p.Refused("bad-signature");
      same.add(name);
    }
    const { quorum } = floorsOf(log.size, 0);
    const { rounds, protection } = device.terms;
    const least = Math.min(quorum, protection.people);
    if (same.size < least)
      throw new p.Refused("wrong-model", `${same.size} have it; at least ${least}`);
    // Models come between rounds too.
    await device.keep({ ...offer.newest, trained: offer.round >= rounds });
    return device.seal("kept", new Uint8Array(), { round: offer.round, model: offer.digest });
  }
}
