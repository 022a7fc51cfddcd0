//! Records out of damaged lines.
