//! Provider rules: what a history must satisfy, how to repair it, and how to render it.
//!
//! A provider refuses a request that breaks a rule every time, which would make the session
//! unusable. A history is therefore repaired, rendered and checked before it is sent. Validators
//! read the request as it would be sent, and do not depend on how it was rendered.

mod anthropic;
mod chat;
mod continuation;
mod growing;
mod render;
mod repair;
mod request;
mod responses;
mod surrogate;
mod violation;

pub use anthropic::check_anthropic;
pub use chat::check_chat;
pub use continuation::check_anthropic_continuation;
pub use growing::RequestCheck;
pub use render::{Dialect, render_anthropic, render_chat, render_responses};
pub use repair::{Repair, RepairedHistory, repair, without_bound_content};
pub use responses::check_responses;
pub use surrogate::without_lone_surrogates;
pub use violation::{ProviderRule, Violation};
