// The output of a tool: text, images and whatever else it returned.

import type { JsonValue } from "threadfold/slim";
import { fieldsOf, textOf } from "./tool.js";

export interface Picture {
  readonly source: string;
  readonly mediaType: string;
}

export type OutputPart =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "image"; readonly picture: Picture }
  | { readonly kind: "json"; readonly value: JsonValue };

/** Pictures that a browser decodes without running anything in them. */
const SHOWN = /^image\/(png|jpeg|gif|webp)$/;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** Returns a picture, if the data is one that can be shown without asking anybody for it. */
export function pictureOf(mediaType: string | undefined, data: string | undefined): Picture | undefined {
  if (mediaType === undefined || data === undefined || !SHOWN.test(mediaType)) return undefined;
  const compact = data.replace(/\s+/g, "");
  return BASE64.test(compact) ? { source: `data:${mediaType};base64,${compact}`, mediaType } : undefined;
}

export function outputParts(output: JsonValue | undefined): OutputPart[] {
  if (output === undefined || output === null || output === "") return [];
  if (typeof output === "string") return [{ kind: "text", text: output }];
  if (!Array.isArray(output)) return [partOf(output)];
  const isContent = output.length > 0 && output.every((it) => typeof fieldsOf(it as JsonValue).type === "string");
  return isContent ? output.map((it) => partOf(it as JsonValue)) : [{ kind: "json", value: output }];
}

function partOf(value: JsonValue): OutputPart {
  const fields = fieldsOf(value);
  if (fields.type === "text" && typeof fields.text === "string") return { kind: "text", text: fields.text };
  const source = fieldsOf(fields.source);
  const mediaType = textOf(fields, "mediaType", "mimeType", "media_type") ?? textOf(source, "media_type");
  const picture = pictureOf(mediaType, textOf(fields, "data") ?? textOf(source, "data"));
  return picture === undefined ? { kind: "json", value } : { kind: "image", picture };
}

/** Returns the text of an output, for copying. */
export function outputText(output: JsonValue | undefined): string {
  return outputParts(output)
    .map((part) => (part.kind === "text" ? part.text : part.kind === "json" ? JSON.stringify(part.value, undefined, 2) : ""))
    .join("\n");
}
