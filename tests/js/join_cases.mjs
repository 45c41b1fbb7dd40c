// What a device says to links that lead nowhere, as JSON: a line for each.
//
//   node join_cases.mjs FOLDER ROWS.csv CASES.json     each with a link and what its owner insists on

import { readFileSync } from "node:fs";

import { connected, filesOf } from "./device.mjs";
import { joinByLink } from "./join.mjs";

const [folder, rows, cases] = process.argv.slice(2);
const PAUSE = 300; // milliseconds: a server answers ten questions of strangers a second

const said = [];
for (const [link, ...insisted] of JSON.parse(readFileSync(cases, "utf8"))) {
  await new Promise((resolve) => setTimeout(resolve, PAUSE));
  const given = [filesOf(folder), link, readFileSync(rows, "utf8"), insisted, connected, () => {}];
  said.push(await joinByLink(...given).then(() => "joined", (why) => why.message));
}
console.log(JSON.stringify(said));
process.exit();
