//! The functions that a host calls.
//!
//! Everything is a number: handles, lengths of parts of the input, and results. A negative result
//! is an error, and the output is its message. The attribute that exports a function by its name is
//! the only unsafe code of the project, and this file the only one that may have it.
#![allow(unsafe_code, reason = "a function that is exported by name is unsafe by definition")]

use threadfold_core::Payload;

use crate::engine::{call, with};
use crate::states;

/// The version of these functions: the host checks that its own is the same.
const VERSION: u32 = 1;

/// Declares exported functions.
macro_rules! exports {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident),*) -> $result:ty $body:block)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: u32),*) -> $result $body
    )*};
}

exports! {
    /// Returns the version of these functions.
    fn abi_version() -> u32 {
        VERSION
    }

    /// Makes room for so many bytes of input, and returns where the host writes them.
    fn input(length) -> usize {
        with(|engine| engine.prepare_input(length as usize)) as usize
    }

    /// Returns where the output is.
    fn output() -> usize {
        with(|engine| engine.output.as_ptr()) as usize
    }

    /// Returns the length of the output.
    fn output_length() -> usize {
        with(|engine| engine.output.len())
    }

    /// Writes what was odd about the events that were applied last.
    fn anomalies() -> i32 {
        with(|engine| {
            let anomalies = std::mem::take(&mut engine.anomalies);
            engine.write_json(&anomalies)
        })
    }

    /// Writes the types of the events that a conversation depends on.
    fn conversation_events() -> i32 {
        with(|engine| engine.write_json(&Payload::CONVERSATION_KINDS))
    }

    /// Returns how many states there are.
    fn state_count() -> usize {
        with(|engine| engine.states.len())
    }

    /// Returns an empty state.
    fn state_new() -> i32 {
        with(|engine| engine.states.add(Default::default()))
    }

    /// Returns a second handle of a state, which is a state of its own.
    fn state_clone(state) -> i32 {
        call(0, |engine, _| {
            let copy = engine.state(state)?.clone();
            Ok(engine.states.add(copy))
        })
    }

    /// Frees a state.
    fn state_free(state) -> i32 {
        with(|engine| engine.states.remove(state));
        0
    }

    /// Applies events: lines, or a list.
    fn state_apply(state, length) -> i32 {
        call(length as usize, |engine, input| states::apply(engine, state, input))
    }

    /// Applies the events of a list of frames.
    fn state_apply_frames(state, length) -> i32 {
        call(length as usize, |engine, input| states::apply_frames(engine, state, input))
    }

    /// Appends text to the content of a block. The input is conversation, block and text.
    fn state_append(state, length, conversation, block) -> i32 {
        let lengths = (conversation as usize, block as usize);
        call(length as usize, |engine, input| states::append_text(engine, state, input, lengths))
    }

    /// Writes a state.
    fn state_json(state) -> i32 {
        call(0, |engine, _| {
            let state = engine.state(state)?.clone();
            Ok(engine.write_json(&state))
        })
    }

    /// Writes a state, with the names of its conversations.
    fn state_named(state) -> i32 {
        call(0, |engine, _| states::read_named(engine, state))
    }

    /// Writes the names of the subagents' conversations in order.
    fn state_order(state) -> i32 {
        call(0, |engine, _| states::read_order(engine, state))
    }

    /// Writes the name of the conversation that has this name, among others.
    fn state_find_subagent(state, length) -> i32 {
        call(length as usize, |engine, input| states::find_subagent(engine, state, input))
    }

    /// Returns the position of a block. The input is conversation and block.
    fn state_find_block(state, length, conversation) -> i32 {
        let conversation = conversation as usize;
        call(length as usize, |engine, input| {
            states::find_block(engine, state, input, conversation)
        })
    }

    /// Writes a block. The input is conversation and block.
    fn state_block(state, length, conversation) -> i32 {
        let conversation = conversation as usize;
        call(length as usize, |engine, input| {
            states::read_block(engine, state, input, conversation)
        })
    }

    /// Writes the hash of a state.
    fn state_hash(state) -> i32 {
        call(0, |engine, _| {
            let hash = engine.state(state)?.hash().to_string();
            Ok(engine.write(&hash))
        })
    }

    /// Returns 1 if two states are equal.
    fn state_equals(one, other) -> i32 {
        call(0, |engine, _| {
            let other = engine.state(other)?.clone();
            Ok(i32::from(*engine.state(one)? == other))
        })
    }

    /// Writes the snapshot of a state.
    fn state_snapshot(state) -> i32 {
        call(0, |engine, _| {
            let snapshot = engine.state(state)?.snapshot();
            Ok(engine.write_json(&snapshot))
        })
    }

    /// Returns the state of a snapshot.
    fn state_restore(length) -> i32 {
        call(length as usize, states::restore)
    }
}

#[cfg(feature = "convert")]
mod convert {
    use crate::engine::{call, with};
    use crate::folds;

    exports! {
        /// Returns the fold of a session. The input is `{"agent", "session"}`.
        fn fold_new(length) -> i32 {
            call(length as usize, folds::open)
        }

        /// Frees a fold.
        fn fold_free(fold) -> i32 {
            with(|engine| engine.folds.remove(fold));
            0
        }

        /// Declares a source, and returns its number. The input is `{"kind", "name", "agentId"}`.
        fn fold_source(fold, length) -> i32 {
            call(length as usize, |engine, input| folds::add_source(engine, fold, input))
        }

        /// Pushes bytes of a source, and writes events.
        fn fold_push(fold, source, length) -> i32 {
            call(length as usize, |engine, input| folds::push_bytes(engine, fold, source, input))
        }

        /// Ends a source, and writes events.
        fn fold_finish(fold, source) -> i32 {
            call(0, |engine, _| folds::finish(engine, fold, source))
        }

        /// Returns the state of a fold.
        fn fold_state(fold) -> i32 {
            call(0, |engine, _| folds::state(engine, fold))
        }

        /// Returns the state of a fold as if every source ended here.
        fn fold_settled(fold) -> i32 {
            call(0, |engine, _| folds::settled_state(engine, fold))
        }

        /// Writes the metadata of a session.
        fn fold_metadata(fold) -> i32 {
            call(0, |engine, _| folds::read_metadata(engine, fold))
        }

        /// Writes everything that is needed to continue a fold.
        fn fold_snapshot(fold) -> i32 {
            call(0, |engine, _| folds::snapshot(engine, fold))
        }

        /// Returns the fold of a snapshot.
        fn fold_restore(length) -> i32 {
            call(length as usize, folds::restore)
        }

        /// Returns the state of a transcript. The input is the agent's name and one text.
        fn parse_text(length, agent) -> i32 {
            call(length as usize, |engine, input| folds::parse_text(engine, input, agent as usize))
        }

        /// Returns the state of a transcript. The input is the agent's name and files.
        fn parse_files(length, agent) -> i32 {
            call(length as usize, |engine, input| folds::parse_files(engine, input, agent as usize))
        }

        /// Writes the agent and the format of an input.
        fn detect_format(length) -> i32 {
            call(length as usize, folds::detect_format)
        }
    }
}
#[cfg(feature = "convert")]
pub use convert::*;

#[cfg(feature = "verify")]
mod verify {
    use crate::engine::call;

    exports! {
        /// Compares the stream of a session with its files. The input is the agent's name, the
        /// session's id, the stream and the files.
        fn verify(length, agent) -> i32 {
            call(length as usize, |engine, input| crate::verify::verify(engine, input, agent as usize))
        }
    }
}
#[cfg(feature = "verify")]
pub use verify::*;
