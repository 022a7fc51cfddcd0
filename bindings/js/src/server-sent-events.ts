// Server-sent events out of a response, read with `fetch`: `EventSource` cannot send a token.

/** Yields the data of each event, several at a time: as many as one chunk completed. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string[]> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + decoder.decode(value, { stream: true })).split(/\r?\n\r?\n/);
      rest = blocks.pop() ?? "";
      const events = blocks.map(dataOf).filter((data) => data !== "");
      if (events.length > 0) yield events;
    }
  } finally {
    // Ends the request, whoever stopped reading.
    await reader.cancel().catch(() => undefined);
  }
}

function dataOf(event: string): string {
  const data: string[] = [];
  for (const line of event.split(/\r?\n/)) {
    if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
  }
  return data.join("\n");
}
