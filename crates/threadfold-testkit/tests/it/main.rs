//! The testkit, tested: the scripted model on its own, and real agents that talk to it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

mod claude_control;
mod claude_scripts;
mod client;
mod model_anthropic;
mod model_faults;
mod model_openai;
mod real;
