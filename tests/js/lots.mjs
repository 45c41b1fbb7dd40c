// The participation contract (docs/protocol.md, "By lot"): the device's own lot, and the rule by which
// it holds lists of people.

import { SumRefused } from "./masks.mjs";
import * as p from "./protocol.mjs";

const DAY = 86_400; // seconds
const SHARE = 0.5; // of all members that are in one sum, at most
const OF_ONE_SHOP = 10; // one of so many people of a sum may be of one shop
const CLOSE = 0.1; // of the people of a floor: two lists that differ by no more are close

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
// answers count no more; shops: a Map of the mark of each who bears one.
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

// The rule as a party of a sum has it. members: all who are or were.
export function ruleOf(device, members) {
  const { protection } = device.terms;
  const demands = {
    floor: Math.max(protection.people, device.floors.people),
    answers: protection.answers,
    members,
  };
  return (people, model, past, shops) => {
    const why = refusal(people, model, past, { ...demands, gone: old(device), shops });
    if (why) throw new SumRefused("contract", why);
  };
}
