// A page of a test: it joins by the files that its own server has, takes part, and tells how that went.

import { Device, identity, joinFederation } from "./core.mjs";
import { takePart } from "./line.mjs";
import { connection, filesOf } from "./page.mjs";

const post = (path, said) => fetch(path, { method: "POST", body: said });
const files = filesOf("device");

try {
  await identity(files, "browser");
  await post("/request", files.read("request.json"));
  // Held until the federation is founded.
  const { invitation, rows, insisted } = await (await fetch("/invitation")).json();
  await joinFederation(files, invitation, rows, insisted);
  const device = await Device.open(files);
  await takePart(device, connection(device), (line) => post("/told", line));
  const { inputs = null, round } = device.state;
  await post("/ended", JSON.stringify({ best: device.recommended(3), inputs, round }));
} catch (why) {
  await post("/failed", `${why.name}: ${why.message}\n${why.stack}`);
}
