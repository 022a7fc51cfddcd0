//! What a history must satisfy so that a provider takes it: rules, repair and rendering.
//!
//! A request that breaks a rule is refused for ever, and with it the session. So a history is
//! repaired, rendered and checked before it is sent. Validators read the request as it would be
//! sent, and know nothing of how it was made.

mod anthropic;
mod chat;
mod continuation;
mod render;
mod repair;
mod request;
mod responses;
mod surrogate;
mod violation;

pub use anthropic::check_anthropic;
pub use chat::check_chat;
pub use continuation::check_anthropic_continuation;
pub use render::{Dialect, render_anthropic, render_chat, render_responses};
pub use repair::{INTERRUPTED, Repair, Repaired, repair, unbound};
pub use responses::check_responses;
pub use surrogate::without_lone_surrogates;
pub use violation::{Rule, Violation};
