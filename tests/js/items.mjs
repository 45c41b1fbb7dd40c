// Lists of items, and how they become longer (docs/protocol.md, "Items that come").

import * as p from "./protocol.mjs";

const bad = (why) => {
  throw new p.Refused("malformed", `items: ${why}`);
};
const isText = (value) => typeof value === "string";
const equal = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

// A list of items from its fields. Refuses one that says something of some items alone.
export function listOf(fields) {
  if (!isObject(fields)) bad("no object");
  const { ids, titles, places, features = {}, retired = [] } = fields;
  const told = (texts) =>
    Array.isArray(texts) && texts.length === ids.length && texts.every(isText);
  const isPlace = (place) =>
    Array.isArray(place) && place.length === 2 && place.every(Number.isFinite);
  if (!Array.isArray(ids) || !ids.length || !ids.every((id) => isText(id) && id)) bad("ids");
  if (new Set(ids).size !== ids.length) bad("an item is there twice");
  const named = titles?.length ? titles : ids.map(() => "");
  const list = { ids, titles: named, places, features, retired };
  if (!told(list.titles)) bad("titles");
  if (!isObject(features) || !Object.values(features).every(told)) bad("features");
  if (!(places === null || (places?.length === ids.length && places.every(isPlace)))) bad("places");
  const isNext = (item, at) =>
    Number.isInteger(item) && item > (retired[at - 1] ?? -1) && item < ids.length;
  if (!Array.isArray(retired) || !retired.every(isNext)) bad("retired");
  return list;
}

// The list that a server has sent, whole or as a difference. Refuses one on which a known item is
// missing, or is another one.
export async function longer(known, sent) {
  if (!isObject(sent)) bad("no object");
  let list;
  if ("after" in sent) {
    list = joined(known, sent);
    if (sent.after !== known.ids.length || (await digestOf(list)) !== sent.sha256)
      bad("not what this list lacks");
  } else list = listOf(sent);
  const first = (values) => values.slice(0, known.ids.length);
  if (!equal(first(list.ids), known.ids)) bad("an item is missing, or has another number");
  if (!known.retired.every((item) => list.retired.includes(item))) bad("a retired item is back");
  if (!equal(Object.keys(list.features).sort(), Object.keys(known.features).sort()))
    bad("other features");
  for (const [name, texts] of Object.entries(known.features))
    if (!equal(first(list.features[name]), texts)) bad("an item has other features");
  if (!equal(list.places && first(list.places), known.places)) bad("an item has another place");
  return list;
}

// A list with what it lacks at its end.
function joined(known, { ids, titles, places, features = {}, retired }) {
  if (![ids, titles].every(Array.isArray) || !isObject(features)) bad("no lists");
  const blank = ids.map(() => "");
  const more = (texts) => (Array.isArray(texts) ? texts : bad("features"));
  const whole = (name) => [...known.features[name], ...(ids.length ? more(features[name]) : [])];
  const names = Object.keys(known.features);
  if (ids.length && !equal(Object.keys(features).sort(), [...names].sort())) bad("other features");
  return listOf({
    ids: [...known.ids, ...ids],
    titles: [...known.titles, ...(titles.length ? titles : blank)],
    places: known.places && [...known.places, ...(places ?? [])],
    features: Object.fromEntries(names.map((name) => [name, whole(name)])),
    retired,
  });
}

// ---- the bytes of a list, of which parties of a sum sign the hash --------------------------------

const text = (value) =>
  JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

// A float as Python writes it: 1.0 and 1e-05, where JavaScript writes 1 and 0.00001.
export function float(number) {
  const [digits, exponent] = number.toExponential().split("e");
  const power = Number(exponent);
  if (number !== 0 && (power < -4 || power >= 16)) {
    const sign = power < 0 ? "-" : "+";
    return `${digits}e${sign}${String(Math.abs(power)).padStart(2, "0")}`;
  }
  const plain = Object.is(number, -0) ? "-0" : String(number);
  return plain.includes(".") ? plain : `${plain}.0`;
}

const row = (parts) => `[${parts.join(", ")}]`;

export function textOf({ ids, titles, places, features, retired }) {
  const parts = [
    `"ids": ${row(ids.map(text))}`,
    `"titles": ${titles.some(Boolean) ? row(titles.map(text)) : "null"}`,
    `"places": ${places ? row(places.map((place) => row(place.map(float)))) : "null"}`,
  ];
  const told = Object.entries(features).map(
    ([name, texts]) => `${text(name)}: ${row(texts.map(text))}`,
  );
  if (told.length) parts.push(`"features": {${told.join(", ")}}`);
  if (retired.length) parts.push(`"retired": ${row(retired)}`);
  return `{${parts.join(", ")}}`;
}

export const digestOf = async (list) => p.hex(await p.sha256(p.bytesOf(textOf(list))));
