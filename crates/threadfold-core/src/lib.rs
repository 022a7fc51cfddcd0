//! Events, blocks, reducer, state.
