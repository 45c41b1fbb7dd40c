// The participation contract (docs/protocol.md, "By lot"): the device's own lot, the rule by which it
// holds lists of people, and lists of members that become longer.

import * as f from "./forms.mjs";
import { SumRefused } from "./masks.mjs";
import * as p from "./protocol.mjs";

const DAY = 86_400; // seconds
const SHARE = 0.5; // of all members that are in one sum, at most
const OF_ONE_SHOP = 10; // one of so many people of a sum may be of one shop
const CLOSE = 0.1; // of the people of a floor: two lists that differ by no more are close
const MOST = 131_072; // members
const LONGEST = 128; // bytes of a name


// The people of whom a round asks, on average by lot; all of them where the settings name none.
export const cohortOf = ({ cohort, users }) => Math.min(cohort, users) || users;

// Whether the device takes part in a round: the same however often it is asked.
export async function offers({ terms, settings, user, state }, round) {
  const rate = cohortOf(settings) / settings.users;
  if (terms.draws === "public") {
    const key = ["select", "poisson", user].reduce(
      p.fold,
      p.fold(p.keyOf(terms.seed, "rounds"), round),
    );
    return p.uniform(p.draw(key, 0)) < rate;
  }
  const drawn = await p.sha256(p.bytesOf(`${state.secret} lot ${round}`));
  return p.uniform(new DataView(drawn.buffer).getBigUint64(0)) < rate;
}

// How many of the device's answers count no more, by its own clock. One without a time counts for
// ever, and so does one that lies in the future, until its time has come: the clock was set back.
export function old({ terms, state, now }) {
  const { days = 0 } = terms.protection;
  const times = days ? (state.times ?? []) : [];
  return times.filter((time) => time + days * DAY <= now()).length;
}

// The times of its answers, ascending, with that of one more; undefined where each counts for ever.
export function timesWithNow({ terms, state, now }) {
  if (!terms.protection.days) return undefined;
  const times = state.times ?? [];
  return [...times, Math.max(now(), times.at(-1) ?? 0)];
}

// Why a device does not answer in a sum of some people; null if it does. past: the lists that it has
// consented to, each as {model, people}; floor: of people; members: of the federation; gone: how many
// answers count no more; shops: as of shopsOf.
export function refusal(people, model, past, demands) {
  const { floor, answers, members, gone = 0, shops = new Map() } = demands;
  const listed = new Set(people);
  if (members < listed.size) return "population";
  if (listed.size > SHARE * members) return "many";
  const marks = people.map((name) => shops.get(name)).filter(Boolean);
  const most = Math.max(1, Math.floor(listed.size / OF_ONE_SHOP));
  const isTooMuch = (mark) => marks.filter((other) => other === mark).length > most;
  if ([...new Set(marks)].some(isTooMuch)) return "shop";
  const away = past.map(({ people: names }) => {
    const both = names.filter((name) => listed.has(name)).length;
    return listed.size + names.length - 2 * both;
  });
  const same = past.some((before, at) => before.model === model && away[at] === 0);
  if (same) return null;
  if (past.some((before) => before.model === model)) return "again";
  if (past.length - gone >= answers) return "spent";
  return away.some((differ) => differ > 0 && differ <= CLOSE * floor) ? "close" : null;
}

// The rule as a party of a sum has it. list: of the members.
export function ruleOf(device, list) {
  const { protection } = device.terms;
  const demands = {
    floor: Math.max(protection.people, device.floors.people),
    answers: protection.answers,
    members: Object.keys(list.nodes).length,
    shops: shopsOf(list),
  };
  return (people, model, past) => {
    const why = refusal(people, model, past, { ...demands, gone: old(device) });
    if (why) throw new SumRefused("contract", why);
  };
}

// ---- longer lists -------------------------------------------------------------------------------

export const rollOf = ({ nodes, former }) => {
  const roll = Object.fromEntries(former.map(({ name, key }) => [name, key]));
  for (const [name, { key }] of Object.entries(nodes)) roll[name] = key;
  return roll;
};

// The mark of each who bears that of a shop, by name.
export function shopsOf({ nodes, former }) {
  const said = [...former.map(({ name, shop }) => [name, shop])];
  for (const [name, { shop }] of Object.entries(nodes)) said.push([name, shop]);
  return new Map(said.filter(([, shop]) => shop));
}

// The first number that nobody on a list has or had.
export function nextUser({ nodes, former }) {
  const lasts = Object.values(nodes).map(({ users }) => users.at(-1)?.[1] ?? -1);
  // One by one: a call takes no more arguments than a stack has room for.
  return 1 + [...lasts, ...former.map(({ last }) => last)].reduce((a, b) => Math.max(a, b), -1);
}

const KEY = f.like(/^[0-9a-f]{64}$/);
const MARK = f.maybe(f.like(/^([0-9a-f]{64})?$/)); // of a shop
const NUMBERS = f.list(f.row(f.whole(), f.whole())); // first and last of each stretch
const NODE = { key: KEY, users: NUMBERS, until: f.maybe(f.whole()), shop: MARK };
const ENDED = { last: f.whole(), until: f.maybe(f.whole()) };
const FORMER = { name: f.text(), key: KEY, ...ENDED, shop: MARK };
export const MEMBERS = { nodes: f.map(f.object(NODE)), former: f.list(f.exact(FORMER)) };
// What a list lacks has a field more.
export const SENT = f.object({ ...MEMBERS, after: f.maybe(f.whole()) });
const bad = (why) => {
  throw new p.Refused("malformed", `members: ${why}`);
};

// Refuses a list of members that cannot be: too long, with a name or key that is none, or with a
// number that two have, or nobody of `users`.
export function checkMembers({ nodes, former }, users) {
  const roll = Object.entries(rollOf({ nodes, former }));
  if (roll.length > MOST) bad("too many");
  for (const [name] of roll) if (!name || p.bytesOf(name).length > LONGEST) bad("a name");
  const runs = Object.values(nodes).flatMap(({ users: own }) => own);
  let next = 0;
  for (const [first, last] of runs.sort(([a], [b]) => a - b)) {
    if (first < next) bad("a number that another has");
    if (last < first || last >= users) bad("no number");
    next = last + 1;
  }
}

// The list of members that a server has sent, whole or as a difference. Refuses one on which somebody
// whom this device knows is missing, or has another key or other users. users: as of checkMembers.
export function longer(known, sent, users) {
  if (!SENT(sent)) bad("not as a list has to be");
  const { after, nodes, former } = sent;
  let list = { nodes, former };
  if (after !== undefined) {
    const gone = new Set(former.map(({ name }) => name));
    const before = Object.entries(known.nodes).filter(([name]) => !gone.has(name));
    list = { nodes: { ...Object.fromEntries(before), ...nodes }, former };
  }
  const roll = rollOf(list);
  const [shops, before] = [shopsOf(list), shopsOf(known)];
  const next = nextUser(known);
  checkMembers(list, users);
  for (const [name, key] of Object.entries(rollOf(known)))
    if (roll[name] !== key || shops.get(name) !== before.get(name))
      bad("a member is missing, or has another key or mark");
  for (const [name, { users: own }] of Object.entries(list.nodes)) {
    const node = known.nodes[name];
    if (node && JSON.stringify(node.users) !== JSON.stringify(own)) bad("other users");
    if (!node && own.flat().some((user) => user < next)) bad("a number that somebody has or had");
  }
  return list;
}
