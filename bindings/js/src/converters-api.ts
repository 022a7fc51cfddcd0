// What the entries with converters export beside the rest.

export {
  type AgentName,
  type CombinedTranscript,
  type DetectedFormat,
  type TranscriptFile,
  detectFormat,
  parseTranscript,
} from "./transcript.js";
export {
  type Converter,
  type ConverterOptions,
  createConverter,
  foldRecords,
  restoreConverter,
} from "./converter.js";
