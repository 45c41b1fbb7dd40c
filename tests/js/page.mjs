// The device of core.mjs in a web page: its files in localStorage, and fetch.

// A page's scripts are all that can read them, and every one of them can.
export const filesOf = (name) => ({
  read: (file) => localStorage.getItem(`${name}/${file}`),
  write: (file, content) => localStorage.setItem(`${name}/${file}`, content),
});

const CALL = 60_000; // milliseconds for an answer, of which a server holds a question for 20,000

// What carries the bytes of a device to its server and back, by the authorities of the browser.
export function connection({ server, tls }) {
  const base = `${tls ? "https" : "http"}://${server}`;
  return async (method, path, headers, body, most) => {
    const how = { method, headers, cache: "no-store", credentials: "omit", redirect: "error" };
    if (body.length) how.body = body;
    let response;
    try {
      response = await fetch(`${base}${path}`, { ...how, signal: AbortSignal.timeout(CALL) });
    } catch (why) {
      // A browser tells a page no more than that.
      throw new Error(
        `${why.name}: ${base} is away, has a certificate that the browser does not trust,` +
          ` or was not started with --origin ${location.origin}`,
      );
    }
    const later = response.headers.get("retry-after");
    return { status: response.status, later, body: await whole(response, most) };
  };
}

async function whole(response, most) {
  const parts = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true };
    if (done) break;
    size += value.length;
    if (size > most) {
      await reader.cancel();
      throw new Error("a response that is too long");
    }
    parts.push(value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}
