// The names of the server's types in this package.

import type { CatalogPage, CatalogRow, UnreadReport } from "./generated/types.js";

/** A session in the server's list. */
export type SessionSummary = CatalogRow;

/** A page of the server's list. */
export type SessionsPage = CatalogPage & { readonly unread?: readonly UnreadReport[] };
