//! The conversation in the terminal: draws a state, and never changes one.
//!
//! Everything drawn is made of [`text::Span`]s, and a span is harmless from the moment it is made.

mod block;
mod content;
mod conversation;
mod live;
mod markdown;
mod page;
mod pager;
mod palette;
mod session;
mod subagent;
mod table;
mod text;
mod tool;
mod words;

pub(crate) use block::without_tags;
pub(crate) use content::{content_text, output_text, plain};
pub(crate) use live::Live;
pub(crate) use page::Page;
pub(crate) use pager::Pager;
pub(crate) use session::{Shown, draw};
pub(crate) use table::{Align, Column, draw_table};
pub(crate) use text::{Span, cut, cut_front};
pub(crate) use tool::call_summary;
pub(crate) use words::{ago, count, number, size};
