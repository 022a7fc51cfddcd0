// Bytes out of base64.

declare global {
  interface Uint8ArrayConstructor {
    fromBase64?(text: string): Uint8Array<ArrayBuffer>;
  }
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (it) => it.charCodeAt(0));
}
