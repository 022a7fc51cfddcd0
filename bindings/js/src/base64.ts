// Bytes out of base64.

declare global {
  interface Uint8ArrayConstructor {
    fromBase64?(text: string): Uint8Array<ArrayBuffer>;
  }
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  if (Uint8Array.fromBase64 !== undefined) return Uint8Array.fromBase64(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  // `Uint8Array.from` takes ten times as long, for megabytes.
  for (let at = 0; at < letters.length; at += 1) bytes[at] = letters.charCodeAt(at);
  return bytes;
}
